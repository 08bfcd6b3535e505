"""Storages of a saved file: bytes become cells, and tensors that shared one share it again."""

import math
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lazytensor.autograd.shared_histories import History
from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.element_bytes import FILE_DTYPES, decode_elements
from lazytensor.core.storage import Storage as Cell
from lazytensor.core.storage import new_storage
from lazytensor.core.tensor import CPU, Device, Tensor, new_uninitialized
from lazytensor.errors import CheckpointError
from lazytensor.ir.graph import leaf
from lazytensor.ir.types import Type
from lazytensor.nn.module import Parameter
from lazytensor.ops.strided import contiguous_strides
from lazytensor.serialization.layout import check_view, file_error, storage_record

Dims = tuple[int, ...]


@dataclass
class SavedStorage:
    """The elements of one record, and the tensors that see them."""

    dtype: DType
    elements: np.ndarray
    device: Device = CPU
    users: list[tuple[Tensor, int, Dims, Dims]] = field(default_factory=list)

    # What functions given as `map_location` usually call.
    def cpu(self) -> "SavedStorage":
        """The storage, as a function that maps locations may ask for it."""
        return self

    def cuda(self, *_: Any) -> "SavedStorage":
        """Raises CheckpointError: there is none."""
        raise _no_device_error("cuda")


@dataclass(frozen=True)
class SavedStoragePart:
    """`count` elements of a storage from `offset` on, as PyTorch before 0.4 saved storages that share memory."""

    storage: SavedStorage
    offset: int
    count: int


DeviceRule = Callable[[SavedStorage, str], Device]


def device_rule(map_location: Any) -> DeviceRule:
    """The rule that gives each storage its device, from the device that the file says."""
    if map_location is None:
        return lambda storage, said: _device_of_location(said)
    if isinstance(map_location, Mapping):
        return lambda storage, said: _device_of_location(str(map_location.get(said, said)))
    if isinstance(map_location, str | Device):
        return lambda storage, said: _device_of_location(str(map_location))
    if not callable(map_location):
        raise TypeError(f"map_location is a device, a dict or a function, not {type(map_location).__name__}")
    # PyTorch's contract: the storage itself means that it stays where it was put, None that the file's device is to be
    # tried.
    return lambda storage, said: CPU if map_location(storage, said) is storage else _device_of_location(said)


def _device_of_location(location: str) -> Device:
    # "cuda:1" names the second of a kind; the kind decides.
    kind = location.partition(":")[0]
    if kind in ("cpu", "meta"):
        return CPU if kind == "cpu" else Device(kind)
    raise _no_device_error(location)


def _no_device_error(location: str) -> CheckpointError:
    if location.startswith("cuda"):
        what = "the file's tensors are to come on a CUDA device, and torch.cuda.is_available() is False"
    else:
        what = f"there is no device {location!r} to put the file's tensors on"
    return CheckpointError(what, where=source.where(), hint="Use torch.load(..., map_location='cpu').")


class SavedStorages:
    """The records `data/<key>` of an archive, each read once."""

    def __init__(self, archive: zipfile.ZipFile, root: str, place: DeviceRule):
        self._archive, self._root, self._place = archive, root, place
        # By key: the second tensor over a record finds the elements of the first, which is what makes them share.
        self._known: dict[str, SavedStorage] = {}
        self._parameters: list[tuple[Parameter, Tensor, bool]] = []
        self._requiring: list[Tensor] = []

    def storage(self, key: str, dtype: DType, count: Any, location: str) -> SavedStorage:
        """The storage of a key. Raises CheckpointError if its bytes are not those of `count` elements."""
        storage = self._known.get(key)
        if storage is None:
            info = storage_record(self._archive, f"{self._root}/data/{key}", dtype, count)
            # The bytes as they are: a big-endian file was refused when the archive was opened.
            raw = np.frombuffer(self._archive.read(info), FILE_DTYPES[dtype])
            storage = self._known[key] = SavedStorage(dtype, decode_elements(raw, dtype))
            storage.device = self._place(storage, location)
        # torch.save refuses tensors that see one storage as different types, so no file of PyTorch's has this.
        if storage.dtype is not dtype or len(storage.elements) != count:
            raise file_error(f"storage {key!r} is used as two different ones")
        return storage

    def tensor(self, storage: Any, offset: Any, size: Dims, stride: Dims, requires_grad: bool) -> Tensor:
        """A tensor that sees a storage; it has a value after `finish`. Raises CheckpointError if it reaches outside."""
        if isinstance(storage, SavedStoragePart):
            check_view(storage.count, offset, size, stride)
            check_view(len(storage.storage.elements), storage.offset, (storage.count,), (1,))
            storage, offset = storage.storage, storage.offset + offset
        if not isinstance(storage, SavedStorage):
            raise file_error("a tensor of the file is described by something else than numbers")
        check_view(len(storage.elements), offset, size, stride)
        # Without a cell yet: which shape it gets depends on all tensors that see the storage.
        tensor = new_uninitialized(Tensor)
        storage.users.append((tensor, offset, size, stride))
        if requires_grad:
            self._requiring.append(tensor)
        return tensor

    def parameter(self, data: Tensor, requires_grad: bool) -> Parameter:
        """A parameter over a tensor of the file; it has a value after `finish`."""
        # Without its constructor, which wants data that do not exist before `finish`.
        parameter = new_uninitialized(Parameter)
        self._parameters.append((parameter, data, requires_grad))
        return parameter

    def finish(self) -> None:
        """Give every tensor its cell."""
        for storage in self._known.values():
            _build_tensors(storage)
        # After the cells: what has no value yet cannot ask for a gradient.
        for t in self._requiring:
            t.requires_grad_()
        for parameter, data, requires_grad in self._parameters:
            parameter._init(data.cell, data.view_ops, data.history)
            parameter.device = data.device
            if requires_grad:
                parameter.requires_grad_()


def _build_tensors(storage: SavedStorage) -> None:
    """Build the tensors of a storage: one that is seen whole and in order keeps its shape, others get a view_ops."""
    # A tensor without a view_ops is read fastest and is what almost every file holds: one tensor, or equal ones, over
    # the whole storage. Strides of a tensor with fewer than two elements say nothing.
    shapes = {size for _, offset, size, stride in storage.users}
    size = next(iter(shapes)) if len(shapes) == 1 else ()
    whole = all(o == 0 and (st == contiguous_strides(si) or math.prod(si) < 2) for _, o, si, st in storage.users)
    shape = size if len(shapes) == 1 and whole and math.prod(size) == storage.elements.size else storage.elements.shape
    cell = _storage_over(storage.elements.reshape(shape), storage.dtype)
    is_shared = len(storage.users) > 1
    for tensor, offset, extents, strides in storage.users:
        history = History() if is_shared else None
        if cell.type.shape == extents and whole:
            tensor._init(cell, (), history)
        else:
            attrs = (("size", extents), ("stride", strides), ("offset", offset))
            tensor._init(cell, (("as_strided", attrs),), history)
        tensor.device = storage.device


def _storage_over(array: np.ndarray, dtype: DType) -> Cell:
    return new_storage(leaf(array, Type(array.shape, dtype)))
