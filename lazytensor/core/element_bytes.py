"""The binary format of tensor elements in files: little endian, C order, two bytes for half types."""

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core.dtype import DType

FILE_DTYPES = {d: d.host.newbyteorder("<") for d in dt.ALL if not d.is_half} | {
    dt.float16: np.dtype("<f2"),
    dt.bfloat16: np.dtype("<u2"),  # NumPy has no bfloat16, so its bits are stored
}
"""The NumPy type of each tensor type in files; bfloat16 is stored as uint16, and cbfloat16 is not supported."""
DTYPES_BY_FILE_DTYPE = {kind: d for d, kind in FILE_DTYPES.items() if d is not dt.bfloat16}
"""The tensor type of each NumPy type in files; uint16 is taken as uint16, not as bfloat16."""


def encode_elements(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Return the elements of a host array in the type of a file, little endian and in C order.

    A bfloat16 element becomes its upper 16 bits, as uint16. It is truncated, so round it first with `round_to`; NaN
    stays NaN. The result may be `array` itself. Raises KeyError for cbfloat16, which has no file format.
    """
    if dtype is not dt.bfloat16:
        with np.errstate(over="ignore"):
            return np.asarray(array, FILE_DTYPES[dtype], order="C")
    words = np.ascontiguousarray(array).view(np.uint32).reshape(array.shape)
    # Truncating a NaN whose payload is only in the lower half would give infinity, so make such a NaN quiet first.
    words = np.where(np.isnan(array) & (words & 0x7F0000 == 0), words | 0x400000, words)
    return np.asarray(words >> np.uint32(16), FILE_DTYPES[dtype], order="C")


def decode_elements(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Return an array of elements in the type of a file as an array in the host type of `dtype`.

    This is the inverse of `encode_elements`. bfloat16, whose bits are in an array of uint16, becomes float32. Any
    non-zero byte becomes True for bool. For other types the result is `array` itself if it has the host type already;
    otherwise signalling NaNs may become quiet.
    """
    if dtype is dt.bfloat16:
        return np.asarray(array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype is dt.bool_:
        # NumPy expects only bytes 0 and 1; a foreign file may contain others.
        return np.asarray(array.view(np.uint8) != 0)
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return array.astype(dtype.host, copy=False)
