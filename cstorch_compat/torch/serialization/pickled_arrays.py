"""Reconstruction of pickled NumPy arrays, scalars and dtypes without NumPy's own unpickling of dtypes."""

import math
from typing import Any

import numpy as np

from lazytensor.serialization.layout import file_error

ARRAY_KINDS = "biufcSUmMVO"
"""The kinds of array elements that files may contain. Objects come from the pickle and have an allowed class."""


def _parse_dtype(text: Any, *_: Any) -> np.dtype:
    if not isinstance(text, str):
        raise file_error(f"the file has a {type(text).__name__} in place of an element type")
    dtype = np.dtype(text)
    if dtype.kind not in ARRAY_KINDS:
        raise file_error(f"the file has an array of {dtype}, which is not supported")
    return dtype


def build_dtype(dtype: np.dtype, state: Any) -> np.dtype:
    """Return a dtype like `dtype` with the byte order, fields, subarray and time unit of its pickled `state`.

    `dtype` itself does not change. Raises the errors of `_check_dtype` for dtypes inside it that are not allowed.
    """
    _, order, subarray, names, fields, itemsize, _, *more = state
    if subarray is not None:
        base, shape = subarray
        return np.dtype((_check_dtype(base), tuple(int(n) for n in shape)))
    if names is not None:
        parts = [fields[name] for name in names]
        return np.dtype(
            {
                "names": [str(name) for name in names],
                "formats": [_check_dtype(part[0]) for part in parts],
                "offsets": [int(part[1]) for part in parts],
                "itemsize": int(itemsize),
            }
        )
    if dtype.kind in "mM" and len(more) > 1:
        unit, number, *_ = more[1][1]
        unit = unit.decode() if isinstance(unit, bytes) else str(unit)
        dtype = np.dtype(f"{dtype.kind}8[{int(number)}{unit}]")
    return dtype.newbyteorder(order) if order == ">" else dtype


def _check_dtype(dtype: Any) -> np.dtype:
    if not isinstance(dtype, np.dtype):
        raise file_error("the file has an array without a type")
    return dtype


def _make_empty(*_: Any) -> np.ndarray:
    return np.empty(0)


def fill_array(array: np.ndarray, state: Any) -> None:
    """Set shape, dtype and elements of an array from its pickled state, in place.

    Raises CheckpointError or ValueError if the number of elements does not match.
    """
    _, shape, dtype, is_fortran, raw = state
    if _check_dtype(dtype).hasobject:
        if dtype.kind != "O" or not isinstance(raw, list) or math.prod(shape) != len(raw):
            raise file_error("the file has an array whose number of objects does not match its shape")
        values: Any = raw
    else:
        values = _to_bytes(raw)
        # Raise for a wrong length before the array is changed.
        np.frombuffer(values, dtype).reshape(shape)
    # In place, because other objects of the file may refer to the array.
    give: Any = array.__setstate__
    give((1, tuple(shape), dtype, bool(is_fortran), values))


def _to_bytes(raw: Any) -> bytes:
    # Pickles of Python 2 store the bytes as text.
    return raw.encode("latin-1") if isinstance(raw, str) else bytes(memoryview(raw))


def _make_scalar(dtype: Any, raw: Any) -> Any:
    if _check_dtype(dtype).hasobject:
        raise file_error("the file has a NumPy scalar that is an object")
    return np.frombuffer(_to_bytes(raw), dtype)[0]


def _make_from_buffer(raw: Any, dtype: Any, shape: Any, order: Any, *_: Any) -> np.ndarray:
    if _check_dtype(dtype).hasobject:
        raise file_error("the file stores an array of objects as bytes")
    return (
        np.frombuffer(_to_bytes(raw), dtype).reshape(tuple(shape), order="F" if order == "F" else "C").copy(order="K")
    )


_NUMPY_CORE_MODULES = ("numpy.core.", "numpy._core.")
NUMPY_FUNCTIONS: dict[str, Any] = {
    "numpy dtype": _parse_dtype,
    **{f"{core}multiarray _reconstruct": _make_empty for core in _NUMPY_CORE_MODULES},
    **{f"{core}multiarray scalar": _make_scalar for core in _NUMPY_CORE_MODULES},
    **{f"{core}numeric _frombuffer": _make_from_buffer for core in _NUMPY_CORE_MODULES},
}
"""The replacements of NumPy functions that pickles name, by "module name"."""
