"""Attributes by the lower interface of h5py, which writes the same bytes in a third of the time.

A tensor of a checkpoint has eight: what h5py works out anew for each (its type, its space, and whether there was one of
that name) took longer than to write the tensor.
"""

import functools
from typing import Any

import h5py
import numpy as np

_h5py: Any = h5py  # its stubs do not know the lower interface in full


def put_text(owner: Any, name: str, text: str) -> None:
    """Write a new attribute of a file or a dataset, as `owner.attrs[name] = text` does."""
    _write_array(owner, name, np.array(text, _h5py.string_dtype()))


def put_attribute(owner: Any, name: str, value: object) -> None:
    """The same for a text, a bool, or a list of texts or numbers; equal ones are worked out once."""
    array = _array_from_key(_make_hashable(value))
    if array.size:
        _write_array(owner, name, array)
    else:
        owner.attrs[name] = value  # of nothing h5py says in its own way what it is


def _write_array(owner: Any, name: str, array: np.ndarray) -> None:
    kind, memory = _hdf5_types(array.dtype)
    _h5py.h5a.create(owner.id, name.encode(), kind, _hdf5_dataspace(array.shape)).write(array, mtype=memory)


def _make_hashable(value: Any) -> Any:
    # The type too: True is equal to 1.
    return ("list", *map(_make_hashable, value)) if isinstance(value, list) else (type(value), value)


@functools.lru_cache(maxsize=1024)
def _array_from_key(key: Any) -> np.ndarray:
    value = _value_from_key(key)
    first = value
    while isinstance(first, list) and first:
        first = first[0]
    return np.array(value, _h5py.string_dtype()) if isinstance(first, str) else np.asarray(value)


def _value_from_key(key: Any) -> Any:
    return [_value_from_key(k) for k in key[1:]] if key[0] == "list" else key[1]


@functools.cache
def _hdf5_types(dtype: np.dtype) -> tuple[Any, Any]:
    """As it is stored, and as it lies in memory."""
    return _h5py.h5t.py_create(dtype, logical=True), _h5py.h5t.py_create(dtype)


@functools.lru_cache(maxsize=256)
def _hdf5_dataspace(shape: tuple[int, ...]) -> Any:
    return _h5py.h5s.create_simple(shape) if shape else _h5py.h5s.create(_h5py.h5s.SCALAR)
