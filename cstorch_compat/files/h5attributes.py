"""Attributes of HDF5 objects, written by h5py's low-level interface in a third of the time.

A tensor of a checkpoint has eight attributes. h5py's high-level interface determines type and dataspace of each, and
whether it exists, which took longer than writing the tensor.
"""

import functools
from typing import Any

import h5py
import numpy as np

_h5py: Any = h5py  # its stubs do not describe the low-level interface completely


def put_text(owner: Any, name: str, text: str) -> None:
    """Write a new text attribute of a file or dataset, like `owner.attrs[name] = text`."""
    _write_array(owner, name, np.array(text, _h5py.string_dtype()))


def put_attribute(owner: Any, name: str, value: object) -> None:
    """Write the new attribute `name` of the file or dataset `owner`, like `owner.attrs[name] = value`.

    `value` is a text, bool or number, or a list of texts or numbers. The conversion of equal values is cached. An empty
    list is written by h5py, which has a special encoding for it.
    """
    array = _array_from_key(_make_hashable(value))
    if array.size:
        _write_array(owner, name, array)
    else:
        owner.attrs[name] = value  # h5py has a special encoding for empty arrays


def _write_array(owner: Any, name: str, array: np.ndarray) -> None:
    """Write a new attribute from a NumPy array."""
    kind, memory = _hdf5_types(array.dtype)
    _h5py.h5a.create(owner.id, name.encode(), kind, _hdf5_dataspace(array.shape)).write(array, mtype=memory)


def _make_hashable(value: Any) -> Any:
    """Return a hashable key for a value. It contains the types, because True equals 1."""
    # Include the type, because True equals 1.
    return ("list", *map(_make_hashable, value)) if isinstance(value, list) else (type(value), value)


@functools.lru_cache(maxsize=1024)
def _array_from_key(key: Any) -> np.ndarray:
    """Return the NumPy array for a key of `_make_hashable`."""
    value = _value_from_key(key)
    first = value
    while isinstance(first, list) and first:
        first = first[0]
    return np.array(value, _h5py.string_dtype()) if isinstance(first, str) else np.asarray(value)


def _value_from_key(key: Any) -> Any:
    """Return the value for a key of `_make_hashable`."""
    return [_value_from_key(k) for k in key[1:]] if key[0] == "list" else key[1]


@functools.cache
def _hdf5_types(dtype: np.dtype) -> tuple[Any, Any]:
    """Return the HDF5 types of a dtype in the file and in memory."""
    return _h5py.h5t.py_create(dtype, logical=True), _h5py.h5t.py_create(dtype)


@functools.lru_cache(maxsize=256)
def _hdf5_dataspace(shape: tuple[int, ...]) -> Any:
    """Return the HDF5 dataspace for a shape."""
    return _h5py.h5s.create_simple(shape) if shape else _h5py.h5s.create(_h5py.h5s.SCALAR)
