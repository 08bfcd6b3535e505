"""Datasets that are made once for each kind of array and then copied.

A dataset of a checkpoint has seven attributes. To make one takes a third of a millisecond, to copy one a twentieth:
HDF5 then takes what it has in memory as it is.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np

from cstorch_compat.files.h5attributes import put_attribute
from lazytensor.system.signals import defer_signals

_h5py: Any = h5py  # its stubs do not know the lower interface in full


class DatasetTemplates:
    """One dataset without values for each kind of array, in a file that is in memory only."""

    def __init__(self, file: h5py.File):
        self._file = file
        self._names: dict[object, bytes] = {}

    def copy(self, target: h5py.File, key: str, array: np.ndarray, attributes: dict[str, Any]) -> Any:
        """A new dataset for `array` by the lower interface of h5py: with attributes, and without values or a place."""
        kind = (array.shape, array.dtype, repr(attributes))
        name = self._names.get(kind)
        if name is None:
            name = self._names[kind] = self._new(array, attributes)
        place = key.encode()
        _h5py.h5o.copy(self._file.id, name, target.id, place, lcpl=_make_link_properties(key.isascii()))
        return _h5py.h5d.open(target.id, place)

    def _new(self, array: np.ndarray, attributes: dict[str, Any]) -> bytes:
        name = str(len(self._names))
        dataset = self._file.create_dataset(name, array.shape, array.dtype, dcpl=_make_creation_properties())
        # The original keeps the descriptor twice, in the JSON and on the dataset, and reads `__NUMPY__` from the
        # dataset alone.
        for attribute, value in attributes.items():
            put_attribute(dataset, attribute, value)
        return name.encode()


@contextlib.contextmanager
def open_templates(name: str) -> Iterator[DatasetTemplates]:
    """No datasets yet. `name` is one that no other file has, and none is made of it."""
    with defer_signals():
        file = h5py.File(name, "w", libver=("v108", "latest"), driver="core", backing_store=False)
    with file:
        yield DatasetTemplates(file)


@functools.cache
def _make_creation_properties() -> Any:
    """How HDF5 makes a dataset that has no place yet, and no values before its own."""
    properties = _h5py.h5p.create(_h5py.h5p.DATASET_CREATE)
    properties.set_fill_time(_h5py.h5d.FILL_TIME_NEVER)
    return properties


@functools.cache
def _make_link_properties(is_ascii: bool) -> Any:
    """How a dataset gets its name: as in `create_dataset`, where a slash is of a path whose groups are made."""
    properties = _h5py.h5p.create(_h5py.h5p.LINK_CREATE)
    properties.set_create_intermediate_group(True)
    properties.set_char_encoding(_h5py.h5t.CSET_ASCII if is_ascii else _h5py.h5t.CSET_UTF8)
    return properties
