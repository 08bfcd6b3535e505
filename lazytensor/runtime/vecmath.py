"""Branch-free elementary functions for compiled loops: each compiles to straight-line code that LLVM can vectorise.

Names end in the element type: `exp_f4` for float32, `exp_f8` for float64 (which calls the C library). Overflow,
infinities and NaN are handled by selects. Error bounds, in units of the last place of float32, as measured by
tests/lazytensor/runtime/test_vecmath.py over all exponents: exp, log, sin, cos, tan, pow 1; expm1, log1p, log2, rsqrt
2; erf, sigmoid, tanh 3.

Constants are typed, because a bare Python float would make the loop compute in float64. Arithmetic is strict: a
function gives the same bits in every loop.

Sources: argument reduction after W. J. Cody and W. Waite, Software Manual for the Elementary Functions (1980); sine of
large arguments after M. Payne and R. Hanek (1983), with a table of the fractions of 2**k * 2/pi. The coefficients are
our least-squares fits with Lawson weights, with a relative error below 5e-9 before rounding.
"""

import math
from typing import Any

import numpy as np

from lazytensor.runtime.intrinsics import (
    abs_f4,
    bits_f4,
    copysign_f4,
    float_f4,
    floor_f4,
    fma,
    round_f4,
    round_f8,
    sqrt_f4,
    trunc_f8,
)
from lazytensor.runtime.language import inline
from lazytensor.runtime.special_math import atan2_f4 as atan2_f4
from lazytensor.runtime.special_math import digamma_f4 as digamma_f4
from lazytensor.runtime.special_math import erfc_f4 as erfc_f4
from lazytensor.runtime.special_math import erfinv_f4 as erfinv_f4
from lazytensor.runtime.special_math import hypot_f4 as hypot_f4
from lazytensor.runtime.special_math import i0_f4 as i0_f4
from lazytensor.runtime.special_math import i0e_f4 as i0e_f4
from lazytensor.runtime.special_math import i1_f4 as i1_f4
from lazytensor.runtime.special_math import i1e_f4 as i1e_f4
from lazytensor.runtime.special_math import lgamma_f4 as lgamma_f4
from lazytensor.runtime.special_math import trigamma_f4 as trigamma_f4
from lazytensor.runtime.wide_math import cosine_wide, exp2_wide, log2_wide, sine_wide

_ONE, _HALF, _ZERO = np.float32(1), np.float32(0.5), np.float32(0)
_INF, _NAN = np.float32(np.inf), np.float32(np.nan)
_LOG2E = np.float32(1.44269504)
_LN2 = np.float32(0.693147181)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)

Number = Any
"""A NumPy number. The suffix of the function's name gives its type."""


_SHIFT, _SHIFT_ONCE = np.float32(3 * 2.0**22 + 254), np.float32(3 * 2.0**22 + 127)
"""Adding one of these to a number of at most 2**21 leaves the nearest integer in the lowest bits of the sum.

The integer is increased by 254 or by 127, the exponent bias of two float32 numbers or of one.
"""


@inline
def _reduced_exp(x: Number, shift: Number) -> tuple[Number, Number]:
    """Split x = n * ln 2 + r with |r| <= ln 2 / 2; return the bits of n + `shift` as a float32, and r."""
    shifted = fma(x, _LOG2E, shift)
    n = shifted - shift
    # ln 2 in two parts: the first has few bits, so that n times it is exact and r loses no accuracy (Cody and Waite).
    r = fma(-n, _LN2_HIGH, x)
    return bits_f4(shifted), fma(-n, _LN2_LOW, r)


@inline
def _exp_slope(r: Number) -> Number:
    """Return (exp(r) - 1 - r) / r**2 for |r| <= ln 2 / 2."""
    # Horner from the highest power; fused, each step rounds once.
    p = fma(r, np.float32(1.381432e-3), np.float32(8.368851e-3))
    p = fma(r, p, np.float32(0.0416684))
    p = fma(r, p, np.float32(0.1666652))
    return fma(r, p, np.float32(0.49999994))


@inline
def _exp_within(x: Number) -> Number:
    """Return exp(x) for -104 <= x <= 89, and NaN for NaN."""
    bits, r = _reduced_exp(x, _SHIFT)
    y = fma(r, fma(r, _exp_slope(r), _ONE), _ONE)
    # 2**n is not representable for the largest and for subnormal results, so it is split into two factors whose
    # biased exponents add up to n + 254.
    both = np.int32(bits << np.int32(22))
    first = np.int32(both & np.int32(0x7F800000))
    second = np.int32(np.int32(both + both) - first)
    return y * float_f4(first) * float_f4(second)


@inline
def exp_f4(x: Number) -> Number:
    """Return e**x. Infinite above about 88.7, 0 below about -104."""
    low = np.float32(-104) if x < np.float32(-104) else x
    return _exp_within(np.float32(89) if low > np.float32(89) else low)


@inline
def exp_below_f4(x: Number) -> Number:
    """Return exp(x) for x <= 0, and NaN for NaN. The result is 0 where exp(x) is below 2**-126.5.

    It is `exp_f4` without the code for large and subnormal results.
    """
    # For x = -88, n is -127: the biased exponent is 0, and the factor is 0.
    bits, r = _reduced_exp(np.float32(-88) if x < np.float32(-88) else x, _SHIFT_ONCE)
    return fma(r, fma(r, _exp_slope(r), _ONE), _ONE) * float_f4(np.int32(bits << np.int32(23)))


@inline
def expm1_f4(x: Number) -> Number:
    """Return e**x - 1, accurate near 0; infinity above 88.72."""
    low = np.float32(-30) if x < np.float32(-30) else x
    safe = np.float32(89) if low > np.float32(89) else low
    bits, r = _reduced_exp(safe, _SHIFT)
    # Half of 2**n, because 2**128 is not a float32: the biased exponent of 2**(n - 1) is n + 126.
    half = float_f4(np.int32(np.int32(bits - np.int32(128)) << np.int32(23)))
    y = half * fma(r * r, _exp_slope(r), r) + (half - _HALF)
    y = x if abs_f4(x) < np.float32(1e-8) else y + y
    return _INF if x > np.float32(88.7228394) else y


@inline
def _split(x: Number) -> tuple[Number, Number]:
    """Return n and f with x = 2**n * (1 + f) and sqrt(1/2) <= 1 + f < sqrt(2), for positive finite x."""
    is_tiny = x < np.float32(1.17549435e-38)
    grown = x * np.float32(8388608) if is_tiny else x
    # Counting from the bits of sqrt(1/2) centres the mantissa on 1, where the polynomial is best.
    bits = np.int32(bits_f4(grown) - np.int32(0x3F3504F3))
    n = np.int32(bits >> np.int32(23))
    m = float_f4(np.int32(np.int32(bits & np.int32(0x7FFFFF)) + np.int32(0x3F3504F3)))
    return np.int32(n - np.int32(23)) if is_tiny else n, m - _ONE


@inline
def _log1p_tail(f: Number) -> Number:
    """Return log(1 + f) - f for sqrt(1/2) <= 1 + f < sqrt(2)."""
    p = fma(f, np.float32(0.0691541508), np.float32(-0.117898308))
    p = fma(f, p, np.float32(0.118729673))
    p = fma(f, p, np.float32(-0.123843439))
    p = fma(f, p, np.float32(0.142186582))
    p = fma(f, p, np.float32(-0.16669251))
    p = fma(f, p, np.float32(0.200022265))
    p = fma(f, p, np.float32(-0.249999866))
    p = fma(f, p, np.float32(0.333333105))
    square = f * f
    return f * square * p - _HALF * square


@inline
def _log_edges(x: Number, y: Number) -> Number:
    """Return `y`, the logarithm of a finite x > 0; for other `x` infinity (of infinity), -infinity (of 0) or NaN."""
    y = x if x == _INF else y
    y = -_INF if x == _ZERO else y
    return y if x >= _ZERO else _NAN


@inline
def log_f4(x: Number) -> Number:
    """Return the natural logarithm of x; -infinity for 0, NaN for x < 0."""
    n, f = _split(x)
    k = np.float32(n)
    return _log_edges(x, k * _LN2_HIGH + (f + (_log1p_tail(f) + k * _LN2_LOW)))


@inline
def log2_f4(x: Number) -> Number:
    """Return the logarithm of x to base 2; -infinity for 0, NaN for x < 0."""
    n, f = _split(x)
    tail = _log1p_tail(f)
    # log2(e) = 1 + 0.4427: the two parts keep the sum exact to the last place.
    y = f + (tail + np.float32(0.44269504) * (f + tail))
    return _log_edges(x, np.float32(n) + y)


@inline
def log1p_f4(x: Number) -> Number:
    """Return the natural logarithm of 1 + x, accurate near 0; -infinity for -1, NaN for x < -1 and for NaN."""
    u = _ONE + x
    # The rounding error of 1 + x, computed in the order in which the differences are exact.
    lost_near, lost_far = x - (u - _ONE), _ONE - (u - x)
    ratio = (lost_near if abs_f4(x) < _ONE else lost_far) / u
    ratio = ratio if abs_f4(ratio) < _ONE else _ZERO
    far = log_f4(u) + ratio
    near = x + _log1p_tail(x)
    near = near if x > np.float32(-0.29) else far
    return near if x < np.float32(0.41) else far


@inline
def tanh_f4(x: Number) -> Number:
    """Return the hyperbolic tangent of x."""
    a = abs_f4(x)
    # tanh(9.02) is 1 in float32.
    a = np.float32(9.02) if a > np.float32(9.02) else a
    # With m = exp(2a) - 1, tanh(a) = m / (m + 2), which is accurate near zero and never above 1. One part of ln 2 is
    # enough, because its error matters only for large n, where the result is close to 1.
    double = a + a
    shifted = fma(double, _LOG2E, _SHIFT)
    r = fma(_SHIFT - shifted, _LN2, double)
    power = float_f4(np.int32(np.int32(bits_f4(shifted) - np.int32(127)) << np.int32(23)))
    m = fma(power, fma(r * r, _exp_slope(r), r), power - _ONE)
    return copysign_f4(m / (m + np.float32(2)), x)


@inline
def sigmoid_f4(x: Number) -> Number:
    """Return 1 / (1 + e**-x)."""
    a = abs_f4(x)
    e = _exp_within(np.float32(-104) if a > np.float32(104) else -a)
    # For negative x, e / (1 + e) stays accurate where 1 / (1 + exp(-x)) would be 1 / inf.
    return (e if x < _ZERO else _ONE) / (_ONE + e)


@inline
def _erf_near(a: Number) -> Number:
    """Return erf(a) for 0 <= a <= 1."""
    t = a * a
    p = fma(t, np.float32(-9.68013501e-6), np.float32(1.12705435e-4))
    p = fma(t, p, np.float32(-8.48471129e-4))
    p = fma(t, p, np.float32(5.22107491e-3))
    p = fma(t, p, np.float32(-0.0268654451))
    p = fma(t, p, np.float32(0.112837829))
    p = fma(t, p, np.float32(-0.376126379))
    return a * (np.float32(0.12837923) + t * p) + a


@inline
def _erfc_far(a: Number) -> Number:
    """Return erfc(a) for 1 <= a <= 4, with an absolute error below 1e-9."""
    p = fma(a, np.float32(-2.16867666e-5), np.float32(4.41335316e-4))
    p = fma(a, p, np.float32(-4.20455635e-3))
    p = fma(a, p, np.float32(0.0252082404))
    p = fma(a, p, np.float32(-0.108418554))
    p = fma(a, p, np.float32(-0.633219898))
    p = fma(a, p, np.float32(-1.12957835))
    return exp_f4(np.float32(1.88036924e-4) + a * p)


@inline
def erf_f4(x: Number) -> Number:
    """Return the error function of x."""
    a = abs_f4(x)
    # erf(4) is 1 in float32.
    a = np.float32(4) if a > np.float32(4) else a
    far, near = _ONE - _erfc_far(a), _erf_near(a)
    y = copysign_f4(far if a > _ONE else near, x)
    return y if x == x else x


_SQRT_HALF = np.float32(math.sqrt(0.5))
_GELU_SCALE, _GELU_CUBE = np.float32(math.sqrt(2 / math.pi)), np.float32(0.044715 * math.sqrt(2 / math.pi))


@inline
def gelu_none_f4(x: Number) -> Number:
    """Return GELU: x times the standard normal distribution function of x."""
    return _HALF * x * (_ONE + erf_f4(x * _SQRT_HALF))


@inline
def gelu_tanh_f4(x: Number) -> Number:
    """Return GELU in PyTorch's approximation by the hyperbolic tangent."""
    half = _HALF * x
    return fma(half, tanh_f4(x * fma(x * x, _GELU_CUBE, _GELU_SCALE)), half)


@inline
def rsqrt_f4(x: Number) -> Number:
    """Return 1 / sqrt(x)."""
    return _ONE / sqrt_f4(x)


def _two_over_pi_bits(count: int) -> int:
    """Return floor(2**count * 2 / pi), by Machin's formula in integers."""
    guard = 32
    unit = 1 << (count + guard)

    def arctan_inverse(n: int) -> int:
        total, term, k = 0, unit // n, 0
        while term:
            total += term // (2 * k + 1) * (1 if k % 2 == 0 else -1)
            term //= n * n
            k += 1
        return total

    # Machin 1706: pi / 4 = 4 arctan(1/5) - arctan(1/239).
    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    return (2 * unit << count) // pi


def _quadrant_table() -> np.ndarray:
    """Return the table of 2**(e - 150) * 2/pi modulo 4, one row for each exponent e of a float32, of shape (256, 3).

    The columns are parts of the value with 28, 28 and 53 bits. Their sum is the value.
    """
    count = 320
    fraction = _two_over_pi_bits(count)
    rows = np.zeros((256, 3))
    for e in range(256):
        power = e - 150
        scaled = fraction << power if power >= 0 else fraction
        shift = count if power >= 0 else count - power  # value is scaled / 2**shift
        scaled &= (4 << shift) - 1
        bits = max(scaled.bit_length() - shift, -200)
        for column, width in enumerate((28, 28, 53)):
            drop = shift + bits - width
            part = scaled >> drop if drop >= 0 else scaled
            drop = max(drop, 0)
            rows[e, column] = math.ldexp(part, drop - shift)
            scaled -= part << drop
            bits -= width
    return rows


_TABLE = _quadrant_table()
_TABLE_HIGH, _TABLE_MIDDLE, _TABLE_LOW = (np.ascontiguousarray(_TABLE[:, k]) for k in range(3))
_QUARTER_TURN = math.pi / 2


@inline
def _reduced_angle(x: Number) -> tuple[Number, Number]:
    """Return the quadrant of |x| (0 to 3) and the remaining angle in -pi/4 to pi/4, in float64."""
    bits = np.int32(bits_f4(x) & np.int32(0x7FFFFFFF))
    e = np.int32(bits >> np.int32(23))
    m = np.float64(np.int32(np.int32(bits & np.int32(0x7FFFFF)) | np.int32(0x800000)))
    high = m * _TABLE_HIGH[e]
    # Multiples of four quadrants are full turns. Each part has so few bits that its product with m is exact.
    high = high - 4.0 * round_f8(high * 0.25)
    middle = m * _TABLE_MIDDLE[e]
    middle = middle - 4.0 * round_f8(middle * 0.25)
    total = high + middle
    low = (middle - (total - high)) + m * _TABLE_LOW[e]
    quadrant = round_f8(total + low)
    return np.int32(quadrant) & np.int32(3), ((total - quadrant) + low) * _QUARTER_TURN


@inline
def _turned(x: Number, shift: Number) -> Number:
    """Return sin(|x| + shift * pi/2) in float64."""
    quadrant, r = _reduced_angle(x)
    quadrant = (quadrant + shift) & np.int32(3)
    c, s = cosine_wide(r), sine_wide(r)
    y = c if (quadrant & np.int32(1)) == np.int32(1) else s
    return -y if quadrant >= np.int32(2) else y


@inline
def sin_f4(x: Number) -> Number:
    """Return the sine of x in radians; NaN for infinities."""
    y = np.float32(_turned(x, np.int32(0)))
    y = -y if x < _ZERO else y
    y = x if abs_f4(x) < np.float32(1e-5) else y
    return y if abs_f4(x) < _INF else _NAN


@inline
def cos_f4(x: Number) -> Number:
    """Return the cosine of x in radians; NaN for infinities."""
    y = np.float32(_turned(x, np.int32(1)))
    y = _ONE if abs_f4(x) < np.float32(1e-5) else y
    return y if abs_f4(x) < _INF else _NAN


@inline
def tan_f4(x: Number) -> Number:
    """Return the tangent of x in radians; NaN for infinities."""
    quadrant, r = _reduced_angle(x)
    s, c = sine_wide(r), cosine_wide(r)
    is_odd = (quadrant & np.int32(1)) == np.int32(1)
    turned, plain = -c / s, s / c
    y = np.float32(turned if is_odd else plain)
    y = -y if x < _ZERO else y
    y = x if abs_f4(x) < np.float32(1e-5) else y
    return y if abs_f4(x) < _INF else _NAN


@inline
def pow_f4(a: Number, b: Number) -> Number:
    """Return a**b, with the special values of C's pow."""
    size = abs_f4(a)
    is_plain = size > _ZERO and size < _INF
    e = np.float64(b) * log2_wide(size if is_plain else _ONE)
    e = e if e == e else 0.0
    e = 200.0 if e > 200.0 else e
    e = -200.0 if e < -200.0 else e
    y = np.float32(exp2_wide(e))
    # 0**b and inf**b depend on the sign of b.
    grows = _INF if b > _ZERO else _ZERO
    shrinks = _ZERO if b > _ZERO else _INF
    y = y if is_plain else (shrinks if size == _ZERO else grows)
    half = b * _HALF
    # A power of a negative base is defined only for integer exponents, and is negative for odd ones.
    is_integer = round_f4(b) == b or abs_f4(b) == _INF
    is_odd = is_integer and round_f4(half) != half
    is_negative = copysign_f4(_ONE, a) < _ZERO
    y = -y if is_negative and is_odd else y
    y = _NAN if is_negative and not is_integer and size > _ZERO and size < _INF else y
    y = _NAN if a != a or b != b else y
    return _ONE if b == _ZERO or a == _ONE or (size == _ONE and abs_f4(b) == _INF) else y


@inline
def relu_f4(x: Number) -> Number:
    """Return x for x >= 0 and NaN, and 0 for x < 0."""
    return _ZERO if x < _ZERO else x


@inline
def relu_f8(x: Number) -> Number:
    """Return x for x >= 0 and NaN, and 0 for x < 0."""
    return 0.0 if x < 0.0 else x


@inline
def sign_f4(x: Number) -> Number:
    """Return the sign of x: 1, -1 or 0; 0 for NaN."""
    return _ONE if x > _ZERO else (-_ONE if x < _ZERO else _ZERO)


@inline
def sign_f8(x: Number) -> Number:
    """Return the sign of x: 1, -1 or 0; 0 for NaN."""
    return 1.0 if x > 0.0 else (-1.0 if x < 0.0 else 0.0)


@inline
def sign_i(x: Number) -> Number:
    """Return the sign of an integer: 1, -1 or 0, as int64."""
    return np.int64(x > 0) - np.int64(x < 0)


@inline
def _shorter(x: Number, y: Number, inverse: Number) -> Number:
    """Return `x` less a multiple of `y`, in float64: at most 2**-52 of |x|, or between -y and 2 * y.

    The result is exact. `inverse` is 1 / y.
    """
    return fma(-trunc_f8(x * inverse), y, x)


@inline
def fmod_f4(a: Number, b: Number) -> Number:
    """Return the remainder of a / b with the sign of a, as C's fmod: exact for all float32 numbers.

    Without a fused multiply-add in the processor it is exact for quotients below 2**29.
    """
    x, y = np.float64(abs_f4(a)), np.float64(abs_f4(b))
    inverse = 1.0 / y
    # A quotient of float32 numbers has at most 277 bits, and each step removes 52.
    r = _shorter(_shorter(_shorter(x, y, inverse), y, inverse), y, inverse)
    r = _shorter(_shorter(_shorter(r, y, inverse), y, inverse), y, inverse)
    r = r + y if r < 0.0 else r
    r = r - y if r >= y else r
    return copysign_f4(np.float32(x if x < y else r), a)


@inline
def remainder_f4(a: Number, b: Number) -> Number:
    """Return the remainder of a / b with the sign of b, as PyTorch computes it: a zero has the sign of a."""
    rest = fmod_f4(a, b)
    return rest + b if rest != _ZERO and (b < _ZERO) != (rest < _ZERO) else rest


@inline
def floor_divide_f4(a: Number, b: Number) -> Number:
    """Return a / b rounded down, computed from the exact remainder as in PyTorch and NumPy; a / b if b is 0."""
    rest, quotient = fmod_f4(a, b), a / b
    y = (a - rest) / b
    y = y - _ONE if rest != _ZERO and (b < _ZERO) != (rest < _ZERO) else y
    whole = floor_f4(y)
    whole = whole + _ONE if y - whole > _HALF else whole
    whole = copysign_f4(_ZERO, quotient) if y == _ZERO else whole
    return quotient if b == _ZERO else whole


@inline
def logaddexp_f4(a: Number, b: Number) -> Number:
    """Return log(exp(a) + exp(b))."""
    high = b if a < b else a
    # Equal infinities have no difference.
    gap = _ZERO if a == b else -abs_f4(a - b)
    return high + log1p_f4(exp_f4(gap))


@inline
def logaddexp2_f4(a: Number, b: Number) -> Number:
    """Return log2(2**a + 2**b)."""
    high = b if a < b else a
    gap = _ZERO if a == b else -abs_f4(a - b)
    return high + _LOG2E * log1p_f4(exp_f4(gap * _LN2))


fmod_f8 = inline(lambda a, b: np.fmod(a, b))
atan2_f8 = inline(lambda a, b: math.atan2(a, b))
exp_f8 = inline(lambda x: math.exp(x))
expm1_f8 = inline(lambda x: math.expm1(x))
log_f8 = inline(lambda x: np.log(x))
log2_f8 = inline(lambda x: np.log2(x))
log1p_f8 = inline(lambda x: np.log1p(x))
tanh_f8 = inline(lambda x: math.tanh(x))
sigmoid_f8 = inline(lambda x: 1.0 / (1.0 + math.exp(-x)))
erf_f8 = inline(lambda x: math.erf(x))
sin_f8 = inline(lambda x: np.sin(x))
cos_f8 = inline(lambda x: np.cos(x))
tan_f8 = inline(lambda x: np.tan(x))
rsqrt_f8 = inline(lambda x: 1.0 / np.sqrt(x))
pow_f8 = inline(lambda a, b: np.power(a, b))
gelu_none_f8 = inline(lambda x: 0.5 * x * (1.0 + math.erf(x * math.sqrt(0.5))))
gelu_tanh_f8 = inline(lambda x: 0.5 * x * (1.0 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))))
