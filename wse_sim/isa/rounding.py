"""Convert values to the bits of an element type and back, for data that is loaded or read and for constants."""

from typing import Any

import numpy as np

_NUMPY_DTYPES = {"float32": np.float32, "float16": np.float16, "uint16": np.uint16}


def to_bits(values: Any, dtype: str) -> np.ndarray:
    """Return `values` as a new array of the unsigned integers that memory holds for elements of `dtype`: uint32 or
    uint16.

    Values are rounded to nearest, ties to even; for "uint16" the fraction is dropped. Values too large for float16
    become infinities, without a warning.
    """
    if dtype == "bfloat16":
        return _bfloat16_bits(np.asarray(values, np.float32))
    # As on the cores, values too large for float16 become infinities, without a warning.
    with np.errstate(over="ignore"):
        array = np.asarray(values).astype(_NUMPY_DTYPES[dtype], order="C")
    return array.view(np.uint32 if dtype == "float32" else np.uint16)


def from_bits(bits: np.ndarray, dtype: str) -> np.ndarray:
    """Return the values of bits that `to_bits` made, in the same shape: a view of the type `dtype`.

    bfloat16, which NumPy does not have, comes as a new float32 array.
    """
    if dtype == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return bits.view(_NUMPY_DTYPES[dtype])


def _bfloat16_bits(array: np.ndarray) -> np.ndarray:
    """Return float32 values as bits of bfloat16, rounded to nearest, ties to even; NaN stays NaN."""
    bits = array.astype(np.float32, order="C").view(np.uint32)
    # Adding half of the last place carries into it; one less if its last bit is even, so that ties go to even.
    rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)) >> np.uint32(16)
    # The addition could turn a NaN into an infinity, so NaN are truncated and made quiet.
    return np.where(np.isnan(array), bits >> np.uint32(16) | np.uint32(0x40), rounded).astype(np.uint16)


def round_constant(value: float, dtype: str) -> float:
    """Return `value` rounded to the element type `dtype`."""
    return float(from_bits(to_bits(np.array([value]), dtype), dtype)[0])
