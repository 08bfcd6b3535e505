"""Storages of a file whose tensors are read on demand."""

import math
import zipfile
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lazytensor.core.dtype import DType
from lazytensor.core.element_bytes import FILE_DTYPES
from lazytensor.core.file_array import LazyArray
from lazytensor.serialization.layout import check_view, file_error, last_element, storage_record

_READ_BLOCK_BYTES = 1 << 18  # data are copied in blocks of this size, so that an array is not in memory twice


@dataclass(frozen=True)
class _LazyStorage:
    """The record of a storage: its name in the archive, element type and number of elements."""

    name: str
    dtype: DType
    count: int


class LazyStorages:
    """The storages `data/<key>` of an archive. Each tensor reads only its part of the storage, when it is accessed."""

    def __init__(self, archive: zipfile.ZipFile, root: str, path: str):
        self._archive, self._root, self._path = archive, root, path

    def storage(self, key: str, dtype: DType, count: Any, location: str) -> _LazyStorage:
        """Return the storage `key` without reading it.

        Raises CheckpointError if it does not exist or if its size is not that of `count` elements. `location`, the
        device in the file, is ignored.
        """
        name = f"{self._root}/data/{key}"
        storage_record(self._archive, name, dtype, count)
        return _LazyStorage(name, dtype, count)

    def tensor(
        self, storage: Any, offset: Any, size: tuple[Any, ...], stride: tuple[Any, ...], requires_grad: bool
    ) -> LazyArray:
        """Return a LazyArray of the view of `storage` with this `offset`, `size` and `stride`, which count elements.

        The view is checked now, and its elements are read on demand. `requires_grad` is ignored. Raises CheckpointError
        if `storage` is no storage, a number is invalid, or the view is out of bounds.
        """
        if not isinstance(storage, _LazyStorage):
            raise file_error("a tensor in the file has no valid storage")
        check_view(storage.count, offset, size, stride)
        # Check now and read later, so that an invalid file raises its error while it is loaded.
        load = partial(self._read, storage, offset, size, stride)
        return LazyArray(
            storage.name,
            size,
            dtype=storage.dtype,
            kind=FILE_DTYPES[storage.dtype],
            is_tensor=True,
            where=self._path,
            load=load,
            is_checked=True,  # zipfile verifies the checksum when a whole record has been read
        )

    def parameter(self, data: LazyArray, requires_grad: bool) -> LazyArray:
        """Return `data`: a parameter is read as its tensor."""
        return data

    def _read(self, storage: _LazyStorage, offset: int, size: tuple[Any, ...], stride: tuple[Any, ...]) -> np.ndarray:
        """Read the elements of a view, as a new contiguous array of the type in the file.

        Only the range from the first to the last element is read.
        """
        kind = FILE_DTYPES[storage.dtype]
        # An empty view may start after the end of the storage.
        if not math.prod(size):
            return np.empty(size, kind)
        # Read only from the first to the last element of the view.
        span = np.empty(last_element(offset, size, stride) + 1 - offset, kind)
        with self._archive.open(storage.name) as stream:
            stream.seek(offset * kind.itemsize)
            read_into(stream, span)
        # Strides are in elements in the file, but in bytes in NumPy.
        strides = tuple(s * kind.itemsize for s in stride)
        # Copy the elements if the span has gaps, so that the gaps do not stay in memory. `ascontiguousarray` turns a
        # 0-d array into a vector, so set the shape again.
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(span, size, strides)).reshape(size)


def read_into(stream: Any, target: np.ndarray) -> None:
    """Fill an array in C order with the next bytes of a stream. Raises EOFError if there are too few."""
    room = target.reshape(-1).view(np.uint8)
    done = 0
    while done < room.size:
        piece = stream.read(min(room.size - done, _READ_BLOCK_BYTES))
        if not piece:
            raise EOFError(f"the data end after {done} of {room.size} bytes")
        room[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)
