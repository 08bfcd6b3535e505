"""Template datasets that are created once for each kind of array and then copied.

A dataset of a checkpoint has seven attributes. Creating one takes 1/3 ms and copying one 1/20 ms, because HDF5 copies
its data structures in memory.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np

from cstorch_compat.files.h5attributes import put_attribute
from lazytensor.system.signals import defer_signals

_h5py: Any = h5py  # its stubs do not describe the low-level interface completely


class DatasetTemplates:
    """Datasets without values, one for each shape, dtype and set of attributes, in an HDF5 file in memory."""

    def __init__(self, file: h5py.File):
        self._file = file
        self._names: dict[object, bytes] = {}

    def copy(self, target: h5py.File, key: str, array: np.ndarray, attributes: dict[str, Any]) -> Any:
        """Create the dataset `key` for `array` in `target` and return it as an h5py low-level dataset.

        It has the attributes, but no values and no offset in the file.
        """
        kind = (array.shape, array.dtype, repr(attributes))
        name = self._names.get(kind)
        if name is None:
            name = self._names[kind] = self._new(array, attributes)
        place = key.encode()
        _h5py.h5o.copy(self._file.id, name, target.id, place, lcpl=_make_link_properties(key.isascii()))
        return _h5py.h5d.open(target.id, place)

    def _new(self, array: np.ndarray, attributes: dict[str, Any]) -> bytes:
        """Create a template and return its name."""
        name = str(len(self._names))
        dataset = self._file.create_dataset(name, array.shape, array.dtype, dcpl=_make_creation_properties())
        # The original stores the descriptor in the JSON and on the dataset, and reads `__NUMPY__` only from the
        # dataset.
        for attribute, value in attributes.items():
            put_attribute(dataset, attribute, value)
        return name.encode()


@contextlib.contextmanager
def open_templates(name: str) -> Iterator[DatasetTemplates]:
    """Yield a DatasetTemplates without templates. `name` must be unused by open HDF5 files; no file is created."""
    with defer_signals():
        file = h5py.File(name, "w", libver=("v108", "latest"), driver="core", backing_store=False)
    with file:
        yield DatasetTemplates(file)


@functools.cache
def _make_creation_properties() -> Any:
    """Return HDF5 properties for a dataset without space in the file and without fill values."""
    properties = _h5py.h5p.create(_h5py.h5p.DATASET_CREATE)
    properties.set_fill_time(_h5py.h5d.FILL_TIME_NEVER)
    return properties


@functools.cache
def _make_link_properties(is_ascii: bool) -> Any:
    """Return HDF5 properties for linking a dataset under a name, as `create_dataset` does. Slashes create groups."""
    properties = _h5py.h5p.create(_h5py.h5p.LINK_CREATE)
    properties.set_create_intermediate_group(True)
    properties.set_char_encoding(_h5py.h5t.CSET_ASCII if is_ascii else _h5py.h5t.CSET_UTF8)
    return properties
