"""Storages of a saved file: bytes become cells, and tensors that shared one share it again."""

import math
import zipfile
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lazytensor import dtype as dt
from lazytensor import source
from lazytensor.dtype import DType
from lazytensor.errors import CheckpointError
from lazytensor.ir.graph import leaf
from lazytensor.ir.types import Type
from lazytensor.nn.module import Parameter
from lazytensor.ops.strided import order_strides
from lazytensor.tensor import Tensor
from lazytensor.trace import Cell, adopt

Dims = tuple[int, ...]


def _refused(what: str) -> CheckpointError:
    return CheckpointError(what, where=source.where(), todo="The file is damaged or was made to deceive.")


def bits(array: np.ndarray, dtype: DType) -> bytes:
    """The bytes that stand for an array in a file: little endian, half types in two bytes."""
    if dtype is dt.float16:
        array = array.astype("<f2")
    elif dtype is dt.bfloat16:
        array = (np.ascontiguousarray(array).view(np.uint32) >> 16).astype("<u2")
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def array_of(raw: bytes, dtype: DType) -> np.ndarray:
    """The elements that bytes of a file stand for, as the host holds them."""
    if dtype is dt.float16:
        return np.frombuffer(raw, "<f2").astype(np.float32)
    if dtype is dt.bfloat16:
        return (np.frombuffer(raw, "<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype is dt.bool_:
        return np.frombuffer(raw, np.uint8) != 0
    return np.frombuffer(raw, dtype.host.newbyteorder("<")).astype(dtype.host)


@dataclass
class Storage:
    """The elements of one record, and the tensors that see them."""

    dtype: DType
    elements: np.ndarray
    users: list[tuple[Tensor, int, Dims, Dims]] = field(default_factory=list)


class Storages:
    """The records `data/<key>` of an archive, each read once."""

    def __init__(self, archive: zipfile.ZipFile, root: str):
        self._archive, self._root = archive, root
        self._known: dict[str, Storage] = {}
        self._parameters: list[tuple[Parameter, Tensor, bool]] = []
        self._requiring: list[Tensor] = []

    def storage(self, key: str, dtype: DType, count: Any) -> Storage:
        """The storage of a key. Raises CheckpointError if its bytes are not those of `count` elements."""
        found = self._known.get(key)
        if found is None:
            try:
                info = self._archive.getinfo(f"{self._root}/data/{key}")
            except KeyError:
                raise _refused(f"the file has no storage {key!r}") from None
            if isinstance(count, bool) or not isinstance(count, int) or info.file_size != count * dtype.itemsize:
                raise _refused(f"storage {key!r} has {info.file_size} bytes for {count} elements of {dtype}")
            found = self._known[key] = Storage(dtype, array_of(self._archive.read(info), dtype))
        if found.dtype is not dtype or len(found.elements) != count:
            raise _refused(f"storage {key!r} is used as two different ones")
        return found

    def tensor(self, storage: Any, offset: Any, size: Dims, stride: Dims, requires_grad: bool) -> Tensor:
        """A tensor that sees a storage; it has a value after `finish`. Raises CheckpointError if it reaches outside."""
        numbers = (offset, *size, *stride)
        if not isinstance(storage, Storage) or any(isinstance(n, bool) or not isinstance(n, int) for n in numbers):
            raise _refused("a tensor of the file is described by something else than numbers")
        if len(size) != len(stride) or min(numbers) < 0:
            raise _refused(f"a tensor of size {list(size)} has the strides {list(stride)} and the offset {offset}")
        last = offset + sum((e - 1) * s for e, s in zip(size, stride, strict=True))
        if 0 not in size and last >= len(storage.elements):
            raise _refused(f"a tensor reaches element {last} of a storage of {len(storage.elements)}")
        made = Tensor.__new__(Tensor)
        storage.users.append((made, offset, size, stride))
        if requires_grad:
            self._requiring.append(made)
        return made

    def parameter(self, data: Tensor, requires_grad: bool) -> Parameter:
        """A parameter over a tensor of the file; it has a value after `finish`."""
        made = Parameter.__new__(Parameter)
        self._parameters.append((made, data, requires_grad))
        return made

    def finish(self) -> None:
        """Give every tensor its cell."""
        for storage in self._known.values():
            _place(storage)
        for t in self._requiring:
            t.requires_grad_()
        for parameter, data, requires_grad in self._parameters:
            Tensor.__init__(parameter, data.cell, data.lens)
            if requires_grad:
                parameter.requires_grad_()


def _place(storage: Storage) -> None:
    """Build the tensors of a storage: one that is seen whole and in order keeps its shape, others get a lens."""
    shapes = {size for _, offset, size, stride in storage.users}
    size = next(iter(shapes)) if len(shapes) == 1 else ()
    whole = all(o == 0 and (st == order_strides(si) or math.prod(si) < 2) for _, o, si, st in storage.users)
    shape = size if len(shapes) == 1 and whole and math.prod(size) == storage.elements.size else storage.elements.shape
    cell = _cell(storage.elements.reshape(shape), storage.dtype)
    for made, offset, extents, strides in storage.users:
        if cell.type.shape == extents and whole:
            Tensor.__init__(made, cell)
        else:
            attrs = (("size", extents), ("stride", strides), ("offset", offset))
            Tensor.__init__(made, cell, (("as_strided", attrs),))


def _cell(array: np.ndarray, dtype: DType) -> Cell:
    return adopt(leaf(array, Type(array.shape, dtype)))


def check_layout(archive: zipfile.ZipFile, root: str) -> None:
    """Refuse what no writer makes. Raises CheckpointError for compressed records, two of one name, or big endian."""
    names = archive.namelist()
    if len(set(names)) != len(names):
        raise _refused("the archive has two records of one name")
    for info in archive.infolist():
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise _refused(f"the record {info.filename!r} is compressed, and PyTorch's never are")
    stream = archive.fp
    assert stream is not None
    if sum(info.file_size for info in archive.infolist()) > stream.seek(0, 2):
        raise _refused("the records of the archive claim more bytes than the file has")
    order = f"{root}/byteorder"
    if order in names and archive.getinfo(order).file_size < 16 and archive.read(order) != b"little":
        raise _refused("the file was written on a big-endian machine")
