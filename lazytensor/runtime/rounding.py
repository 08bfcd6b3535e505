"""Round float32 numbers to the 16-bit types inside compiled loops, as `lazytensor.core.dtype.round_to` does on
arrays.
"""

from typing import Any

import numpy as np

from lazytensor.runtime.intrinsics import abs_f4, bits_f4, copysign_f4, float_f4
from lazytensor.runtime.language import inline


@inline
def _rounded(x: Any, shift: Any, below_half: Any, smallest: Any, magic: Any, largest: Any) -> Any:
    """Return the nearest value of a 16-bit type as float32: ties to even, subnormals kept, overflow to infinity. NaN is
    returned unchanged.

    `shift` bits of the mantissa are dropped by integer rounding; `below_half` is half a unit of the last kept bit, less
    one. A result below `smallest`, which is subnormal, is rounded by adding and subtracting `magic`, the power of two
    whose last place is the spacing of the subnormals. `largest` is the largest finite value.
    """
    a = abs_f4(x)
    bits = bits_f4(a)
    # Adding half a unit less one, plus one if the last kept bit is odd, rounds ties to even. A carry out of the
    # mantissa correctly increases the exponent.
    odd = np.int32(np.int32(bits >> shift) & np.int32(1))
    kept = np.int32(np.int32(bits + np.int32(below_half + odd)) >> shift)
    y = float_f4(np.int32(kept << shift))
    # The last place of this sum is the spacing of the subnormals, so the processor rounds to even there.
    y = (a + magic) - magic if a < smallest else y
    # The largest float16 and cbfloat16 numbers are below those of float32: larger ones become infinite.
    y = np.float32(np.inf) if y > largest else y
    y = copysign_f4(y, x)
    return y if x == x else x


_HALF_PLACE, _SMALLEST, _MAGIC = np.int32(2**12 - 1), np.float32(2.0**-14), np.float32(0.5)
_LARGEST = np.float32((2 - 2.0**-10) * 2.0**15)
_CB_HALF_PLACE, _CB_SMALLEST, _CB_MAGIC = np.int32(2**13 - 1), np.float32(2.0**-30), np.float32(2.0**-16)
_CB_LARGEST = np.float32((2 - 2.0**-9) * 2.0**31)


@inline
def round_float16(x: Any) -> Any:
    """Return `x` rounded to float16, which has 5 bits of exponent and 10 of mantissa."""
    return _rounded(x, np.int32(13), _HALF_PLACE, _SMALLEST, _MAGIC, _LARGEST)


@inline
def round_cbfloat16(x: Any) -> Any:
    """Return `x` rounded to cbfloat16, which has 6 bits of exponent and 9 of mantissa."""
    return _rounded(x, np.int32(14), _CB_HALF_PLACE, _CB_SMALLEST, _CB_MAGIC, _CB_LARGEST)


@inline
def round_bfloat16(x: Any) -> Any:
    """Return float32 `x` rounded to bfloat16, as float32: ties to even, overflow to infinity, NaN unchanged.

    bfloat16 has the exponent bits of float32, so that its bits can be rounded in place.
    """
    bits = bits_f4(x)
    odd = np.int32(np.int32(bits >> np.int32(16)) & np.int32(1))
    y = float_f4(np.int32(np.int32(bits + np.int32(np.int32(0x7FFF) + odd)) & np.int32(-65536)))
    return y if x == x else x
