"""Storages of a saved file whose tensors are read when asked for."""

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

_READ_BLOCK_BYTES = 1 << 18  # how much is copied at a time, so that an array is never held twice


@dataclass(frozen=True)
class _LazyStorage:
    name: str
    dtype: DType
    count: int


class LazyStorages:
    """The records `data/<key>` of an archive, of which a tensor reads the part that it sees."""

    def __init__(self, archive: zipfile.ZipFile, root: str, path: str):
        self._archive, self._root, self._path = archive, root, path

    # The location is not asked: an array on the host has no device to be restored to.
    def storage(self, key: str, dtype: DType, count: Any, location: str) -> _LazyStorage:
        """The storage of a key. Raises CheckpointError if its bytes are not those of `count` elements."""
        name = f"{self._root}/data/{key}"
        storage_record(self._archive, name, dtype, count)
        return _LazyStorage(name, dtype, count)

    def tensor(
        self, storage: Any, offset: Any, size: tuple[Any, ...], stride: tuple[Any, ...], requires_grad: bool
    ) -> LazyArray:
        """An array that sees a storage. Raises CheckpointError if it reaches outside."""
        if not isinstance(storage, _LazyStorage):
            raise file_error("a tensor of the file is described by something else than numbers")
        check_view(storage.count, offset, size, stride)
        # Checked now and read later: an error of the file should come while somebody loads it.
        load = partial(self._read, storage, offset, size, stride)
        return LazyArray(
            storage.name,
            size,
            dtype=storage.dtype,
            kind=FILE_DTYPES[storage.dtype],
            is_tensor=True,
            where=self._path,
            load=load,
            is_checked=True,  # by the archive, when all of a record has been read
        )

    def parameter(self, data: LazyArray, requires_grad: bool) -> LazyArray:
        """A parameter is its tensor."""
        return data

    def _read(self, storage: _LazyStorage, offset: int, size: tuple[Any, ...], stride: tuple[Any, ...]) -> np.ndarray:
        kind = FILE_DTYPES[storage.dtype]
        # Such a view may start behind the last element, where there is nothing to seek.
        if not math.prod(size):
            return np.empty(size, kind)
        # From the first to the last element that the view sees, which of a slice of rows is little of the storage.
        span = np.empty(last_element(offset, size, stride) + 1 - offset, kind)
        with self._archive.open(storage.name) as stream:
            stream.seek(offset * kind.itemsize)
            read_into(stream, span)
        # Elements in the file's terms, bytes in NumPy's.
        strides = tuple(s * kind.itemsize for s in stride)
        # Copied if the span has gaps, which would otherwise be held as long as the array. ascontiguousarray makes a
        # vector of a number, so the shape is set again.
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(span, size, strides)).reshape(size)


def read_into(stream: Any, target: np.ndarray) -> None:
    """Fill an array in C order with the next bytes of a stream. Raises EOFError when there are too few."""
    room = target.reshape(-1).view(np.uint8)
    done = 0
    while done < room.size:
        piece = stream.read(min(room.size - done, _READ_BLOCK_BYTES))
        if not piece:
            raise EOFError(f"its bytes end after {done} of {room.size}")
        room[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)
