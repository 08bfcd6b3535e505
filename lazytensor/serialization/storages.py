"""Storages of a loaded file. Each record becomes one storage, shared by the tensors that shared it when saved."""

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
from lazytensor.errors import ArgumentInvalid, CheckpointError
from lazytensor.ir.graph import leaf
from lazytensor.ir.types import Type
from lazytensor.nn.module import Parameter
from lazytensor.ops.strided import contiguous_strides
from lazytensor.serialization.layout import check_view, file_error, storage_record

Dims = tuple[int, ...]


@dataclass
class SavedStorage:
    """The elements of one record, and the tensors that use them as (tensor, offset, size, stride)."""

    dtype: DType
    elements: np.ndarray
    device: Device = CPU
    users: list[tuple[Tensor, int, Dims, Dims]] = field(default_factory=list)

    def cpu(self) -> "SavedStorage":
        """Return the storage itself, for functions passed as `map_location`."""
        return self

    def cuda(self, *_: Any) -> "SavedStorage":
        """Raise CheckpointError: there is no CUDA device."""
        raise _no_device_error("cuda")


@dataclass(frozen=True)
class SavedStoragePart:
    """`count` elements of a storage from `offset` on.

    PyTorch before 0.4 saved storages that share memory in this form.
    """

    storage: SavedStorage
    offset: int
    count: int


DeviceRule = Callable[[SavedStorage, str], Device]


def device_rule(map_location: Any) -> DeviceRule:
    """Return a function that chooses the device of a storage, given the storage and its device in the file.

    `map_location` is as in `load`. If it is a function that returns the storage itself, the device is the CPU; for any
    other result it is the device in the file. Raises TypeError for a value of another type. The returned function
    raises CheckpointError for a device that is not available.
    """
    if map_location is None:
        return lambda storage, said: _device_of_location(said)
    if isinstance(map_location, Mapping):
        return lambda storage, said: _device_of_location(str(map_location.get(said, said)))
    if isinstance(map_location, str | Device):
        return lambda storage, said: _device_of_location(str(map_location))
    if not callable(map_location):
        raise ArgumentInvalid(
            f"map_location must be a device, a dict or a function, not {type(map_location).__name__}",
            where=source.where(),
            hint="Pass a device, a dict or a function.",
        )
    # As in PyTorch, if the function returns the storage itself, it stays on the CPU; None means the device in the file.
    return lambda storage, said: CPU if map_location(storage, said) is storage else _device_of_location(said)


def _device_of_location(location: str) -> Device:
    """Return the device for a location such as "cuda:1". Raises CheckpointError unless it is the CPU or "meta"."""
    # Ignore the index of "cuda:1".
    kind = location.partition(":")[0]
    if kind in ("cpu", "meta"):
        return CPU if kind == "cpu" else Device(kind)
    raise _no_device_error(location)


def _no_device_error(location: str) -> CheckpointError:
    if location.startswith("cuda"):
        what = "the file's tensors are for a CUDA device, but torch.cuda.is_available() is False"
    else:
        what = f"the file's tensors are for the device {location!r}, which is not available"
    return CheckpointError(what, where=source.where(), hint="Use torch.load(..., map_location='cpu').")


class SavedStorages:
    """The storages `data/<key>` of an archive, each of which is read once."""

    def __init__(self, archive: zipfile.ZipFile, root: str, place: DeviceRule):
        self._archive, self._root, self._place = archive, root, place
        # Storages by key, so that tensors with the same record share it.
        self._known: dict[str, SavedStorage] = {}
        self._parameters: list[tuple[Parameter, Tensor, bool]] = []
        self._requiring: list[Tensor] = []

    def storage(self, key: str, dtype: DType, count: Any, location: str) -> SavedStorage:
        """Return the storage `key`.

        The first call reads it, and chooses its device by `location`, the device in the file. Raises CheckpointError if
        the file has no such storage, its size is not that of `count` elements, it was used with another type or count,
        or its device is not available.
        """
        storage = self._known.get(key)
        if storage is None:
            info = storage_record(self._archive, f"{self._root}/data/{key}", dtype, count)
            # The bytes are little endian: a big-endian file was refused when the archive was opened.
            raw = np.frombuffer(self._archive.read(info), FILE_DTYPES[dtype])
            storage = self._known[key] = SavedStorage(dtype, decode_elements(raw, dtype))
            storage.device = self._place(storage, location)
        # No file of PyTorch has this, because `torch.save` refuses tensors that view one storage as different types.
        if storage.dtype is not dtype or len(storage.elements) != count:
            raise file_error(f"storage {key!r} is used with two different types or sizes")
        return storage

    def tensor(self, storage: Any, offset: Any, size: Dims, stride: Dims, requires_grad: bool) -> Tensor:
        """Return a tensor that is a view of `storage`. It has no value until `finish` is called.

        `offset`, `size` and `stride` count elements. If `requires_grad`, `finish` also makes the tensor require a
        gradient. Raises CheckpointError if `storage` is neither a storage nor a part of one, a number is invalid, or
        the view is out of bounds of either.
        """
        if isinstance(storage, SavedStoragePart):
            check_view(storage.count, offset, size, stride)
            check_view(len(storage.storage.elements), storage.offset, (storage.count,), (1,))
            storage, offset = storage.storage, storage.offset + offset
        if not isinstance(storage, SavedStorage):
            raise file_error("a tensor in the file has no valid storage")
        check_view(len(storage.elements), offset, size, stride)
        # Uninitialised: the shape of the storage depends on all tensors that use it.
        tensor = new_uninitialized(Tensor)
        storage.users.append((tensor, offset, size, stride))
        if requires_grad:
            self._requiring.append(tensor)
        return tensor

    def parameter(self, data: Tensor, requires_grad: bool) -> Parameter:
        """Return a parameter that shares the storage of `data`, a tensor of the file.

        It has no value until `finish` is called, which also makes it require a gradient if `requires_grad`.
        """
        # Bypass the constructor, which needs data that do not exist before `finish`.
        parameter = new_uninitialized(Parameter)
        self._parameters.append((parameter, data, requires_grad))
        return parameter

    def finish(self) -> None:
        """Give every tensor and parameter its storage, device and `requires_grad`.

        Call it once, after the whole description was read.
        """
        for storage in self._known.values():
            _build_tensors(storage)
        # A tensor needs its storage before it can require a gradient.
        for t in self._requiring:
            t.requires_grad_()
        for parameter, data, requires_grad in self._parameters:
            parameter._init(data.cell, data.view_ops, data.history)
            parameter.device = data.device
            if requires_grad:
                parameter.requires_grad_()


def _build_tensors(storage: SavedStorage) -> None:
    """Initialise the tensors of a storage, and set their device.

    If all tensors show the whole storage contiguously in one shape, the storage gets that shape. Otherwise the storage
    is flat and the tensors are strided views. Several tensors get separate gradient histories.
    """
    # The usual case is one tensor, or several equal ones, over the whole storage; tensors without view operations are
    # read fastest. Strides of a tensor with fewer than two elements are irrelevant.
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
