"""Rounding of float32 to the 16-bit types inside generated loops; the meaning is `lazytensor.dtype.round_to`."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from lazytensor.runtime.intrinsics import abs_f4, bits_f4, copysign_f4, float_f4

Helper = Callable[[Any], Any]
_strict: Callable[[Helper], Helper] = njit(error_model="numpy", forceinline=True)


def _rounding(mantissa: int, exponent: int) -> Helper:
    """A function that rounds float32 to the nearest value of a 16-bit type, ties to even; subnormals are kept.

    Normal results are rounded in the bits; a subnormal result by adding and subtracting the power of two whose last
    place is the spacing of the subnormals.
    """
    bias = 2 ** (exponent - 1) - 1
    shift = np.int32(23 - mantissa)
    below_half = np.int32((1 << (23 - mantissa - 1)) - 1)
    mask = np.int32(-(1 << (23 - mantissa)))
    smallest = np.float32(2.0 ** (1 - bias))
    magic = np.float32(2.0 ** (1 - bias - mantissa + 23))
    largest = np.float32((2 - 2.0**-mantissa) * 2.0**bias)

    @_strict
    def rounded(x: Any) -> Any:
        a = abs_f4(x)
        bits = bits_f4(a)
        # Adding just less than half a place, and one more where the last bit kept is odd, rounds ties to even; a carry
        # out of the mantissa grows the exponent, as it should.
        odd = np.int32(np.int32(bits >> shift) & np.int32(1))
        y = float_f4(np.int32(np.int32(bits + np.int32(below_half + odd)) & mask))
        # The sum has its last place where subnormals end, so that the processor itself rounds to even there.
        y = (a + magic) - magic if a < smallest else y
        # float16 and cbfloat16 end long before float32 does.
        y = np.float32(np.inf) if y > largest else y
        y = copysign_f4(y, x)
        return y if x == x else x

    return rounded


round_float16 = _rounding(10, 5)
round_cbfloat16 = _rounding(9, 6)


@_strict
def round_bfloat16(x: Any) -> Any:
    """bfloat16 has the exponents of float32, so that its bits can be rounded in place."""
    bits = bits_f4(x)
    odd = np.int32(np.int32(bits >> np.int32(16)) & np.int32(1))
    y = float_f4(np.int32(np.int32(bits + np.int32(np.int32(0x7FFF) + odd)) & np.int32(-65536)))
    return y if x == x else x
