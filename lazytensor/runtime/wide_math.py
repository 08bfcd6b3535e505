"""Elementary functions of float32 numbers that are computed in float64: building blocks of `vecmath` and
`special_math`.

Each compiles to straight-line code that LLVM can vectorise.
"""

from typing import Any

import numpy as np

from lazytensor.runtime.intrinsics import bits_f8, float_f8, fma, round_f8
from lazytensor.runtime.language import inline

Number = Any
"""A NumPy number."""


@inline
def sine_wide(r: Number) -> Number:
    """Return sin(r) in float64 for |r| <= pi/4, with a relative error below 1e-13."""
    t = r * r
    p = 2.7557319223985893e-6 - t * 2.505210838544172e-8
    p = fma(t, p, -1.984126984126984e-4)
    p = fma(t, p, 8.333333333333333e-3)
    p = fma(t, p, -0.16666666666666666)
    return r + r * t * p


@inline
def cosine_wide(r: Number) -> Number:
    """Return cos(r) in float64 for |r| <= pi/4, with a relative error below 1e-13."""
    t = r * r
    p = 2.48015873015873e-5 - t * 2.755731922398589e-7
    p = fma(t, p, -1.3888888888888889e-3)
    p = fma(t, p, 0.041666666666666664)
    return 1.0 - 0.5 * t + t * t * p


@inline
def log2_wide(x: Number) -> Number:
    """Return log2 of a positive finite float32 in float64, with a relative error below 1e-13."""
    wide = np.float64(x)
    bits = bits_f8(wide) - np.int64(0x3FE6A09E667F3BCD)
    n = np.float64(bits >> np.int64(52))
    m = float_f8((bits & np.int64(0xFFFFFFFFFFFFF)) + np.int64(0x3FE6A09E667F3BCD))
    s = (m - 1.0) / (m + 1.0)
    t = s * s
    # log2(m) by the series of the inverse hyperbolic tangent, in s = (m - 1) / (m + 1), |s| < 0.172.
    p = 1 / 15 + t * (1 / 17)
    p = fma(t, p, 1 / 13)
    p = fma(t, p, 1 / 11)
    p = fma(t, p, 1 / 9)
    p = fma(t, p, 1 / 7)
    p = fma(t, p, 1 / 5)
    p = fma(t, p, 1 / 3)
    return n + 2.8853900817779268 * (s + s * t * p)


@inline
def exp2_wide(x: Number) -> Number:
    """Return 2**x in float64 for -1000 < x < 1000."""
    n = round_f8(x)
    r = (x - n) * 0.6931471805599453
    p = 2.755731922398589e-6 + r * (2.755731922398589e-7 + r * 2.505210838544172e-8)
    p = fma(r, p, 2.48015873015873e-5)
    p = fma(r, p, 1.984126984126984e-4)
    p = fma(r, p, 1.3888888888888889e-3)
    p = fma(r, p, 8.333333333333333e-3)
    p = fma(r, p, 0.041666666666666664)
    p = fma(r, p, 0.16666666666666666)
    y = 1.0 + r + r * r * (0.5 + r * p)
    return y * float_f8((np.int64(n) + np.int64(1023)) << np.int64(52))
