"""Instructions of the processor as functions of the kernel language, with their meaning in Python.

The compiler replaces a call by the instruction that `lazytensor.llvm.float_instructions` lists for its name. Names end
in the element type: f4 for float32, f8 for float64.
"""

from typing import Any

import numpy as np

Number = Any
"""A NumPy number. The suffix of the function's name gives its type."""


def bits_f4(x: Number) -> Number:
    """Return the bits of a float32 as int32."""
    return np.float32(x).view(np.int32)


def float_f4(x: Number) -> Number:
    """Return the float32 with the bits of an int32."""
    return np.int32(x).view(np.float32)


def bits_f8(x: Number) -> Number:
    """Return the bits of a float64 as int64."""
    return np.float64(x).view(np.int64)


def float_f8(x: Number) -> Number:
    """Return the float64 with the bits of an int64."""
    return np.int64(x).view(np.float64)


def fma(x: Number, y: Number, z: Number) -> Number:
    """Return x * y + z, rounded once if the processor has a fused multiply-add.

    In Python a float32 result is computed in float64 and then rounded, and a float64 result is rounded twice.
    """
    return type(x)(np.float64(x) * np.float64(y) + np.float64(z))


def sum_f4(x: Number, y: Number) -> Number:
    """Return x + y. The compiler may reorder such sums, so use it only for sums that detect NaN."""
    return x + y


def largest_f4(x: Number, y: Number) -> Number:
    """Return the larger number. The result is undefined if one of them is NaN."""
    return np.fmax(x, y)


def copysign_f4(x: Number, y: Number) -> Number:
    """Return the magnitude of `x` with the sign of `y`."""
    return np.copysign(x, y)


copysign_f8 = copysign_f4
# Return the larger or the smaller number; NaN if one of them is NaN.
max_f4 = max_f8 = maximum_f4 = maximum_f8 = np.maximum
min_f4 = min_f8 = minimum_f4 = minimum_f8 = np.minimum
sqrt_f4 = sqrt_f8 = np.sqrt
abs_f4 = abs_f8 = np.abs
floor_f4 = floor_f8 = np.floor
ceil_f4 = ceil_f8 = np.ceil
trunc_f4 = trunc_f8 = np.trunc
round_f4 = round_f8 = np.rint
