"""How the elements of a tensor stand in files: little endian, in C order, half types in two bytes."""

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core.dtype import DType

FILE_DTYPES = {d: d.host.newbyteorder("<") for d in dt.ALL if not d.is_half} | {
    dt.float16: np.dtype("<f2"),
    dt.bfloat16: np.dtype("<u2"),  # NumPy has no such type: the bits
}
"""The NumPy type of each tensor type in a file; cbfloat16 has none."""
DTYPES_BY_FILE_DTYPE = {kind: d for d, kind in FILE_DTYPES.items() if d is not dt.bfloat16}
"""The tensor type of each NumPy type in a file, where nothing says that the words are bits of bfloat16."""


def encode_elements(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The elements of a host array as a file holds them. A half type is cut, not rounded: round it before."""
    if dtype is not dt.bfloat16:
        with np.errstate(over="ignore"):
            return np.asarray(array, FILE_DTYPES[dtype], order="C")
    words = np.ascontiguousarray(array).view(np.uint32).reshape(array.shape)
    # Cutting a NaN whose payload is all in the lower half would leave an infinity: make that one quiet.
    words = np.where(np.isnan(array) & (words & 0x7F0000 == 0), words | 0x400000, words)
    return np.asarray(words >> np.uint32(16), FILE_DTYPES[dtype], order="C")


def decode_elements(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The elements that `encode_elements` gave, in the host type of `dtype`; not a copy where none is needed."""
    if dtype is dt.bfloat16:
        return np.asarray(array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype is dt.bool_:
        # Only 0 and 1 are truth values to NumPy; a foreign file may hold other bytes.
        return np.asarray(array.view(np.uint8) != 0)
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return array.astype(dtype.host, copy=False)
