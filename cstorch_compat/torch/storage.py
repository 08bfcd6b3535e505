"""The API of tensor storages: `UntypedStorage`, `TypedStorage` and `data_ptr`.

Tensors are lazy and may share equal values. Their bytes are therefore copied when a script requests them. There is one
copy for each storage, whose address does not change while the storage exists.
"""

import mmap
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from lazytensor import from_numpy, tensor
from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core import storage as cells
from lazytensor.core.dtype import DType
from lazytensor.core.element_bytes import decode_elements, encode_elements
from lazytensor.core.storage import Storage
from lazytensor.core.tensor import Device, Tensor, tensor_from_storage
from lazytensor.errors import StateError
from lazytensor.ir.graph import Node

TYPED_STORAGE_WARNING = (
    "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. "
    "This should only matter to you if you are using storages directly.  To access UntypedStorage directly, use "
    "tensor.untyped_storage() instead of tensor.storage()"
)
_cell_bytes: "weakref.WeakKeyDictionary[Storage, tuple[Node, np.ndarray]]" = weakref.WeakKeyDictionary()
"""The copy of each storage's bytes, with the node whose value it holds."""


def get_cell_bytes(cell: Storage) -> np.ndarray:
    """Return the bytes of a storage as a uint8 array, at the same address for each call.

    The array is updated if the value has changed. Raises StateError inside a traced step.
    """
    if cells.thread_state.current is not None:
        raise StateError(
            "the memory of a tensor was read inside a traced step, where tensors have no memory",
            where=source.where(),
            hint="Access it outside the step.",
        )
    whole = tensor_from_storage(cell)
    before = _cell_bytes.get(cell)
    if before is not None and before[0] is whole.node:
        return before[1]
    # Keep the address when the values change, because a script may have stored it.
    value = np.ascontiguousarray(encode_elements(whole.array("its memory"), whole.dtype)).reshape(-1).view(np.uint8)
    place = np.empty_like(value) if before is None or before[1].size != value.size else before[1]
    place[...] = value
    _cell_bytes[cell] = whole.node, place
    return place


def data_address(x: Tensor) -> int:
    """Return the address of the first element of `x`, or 0 for an empty tensor or one on the meta device.

    Inside a traced step, return a number that only identifies the storage.
    """
    if not x.numel() or x.device.type == "meta":
        return 0
    begin = x.storage_offset() * x.dtype.itemsize
    return (id(x.cell) if cells.thread_state.current is not None else int(get_cell_bytes(x.cell).ctypes.data)) + begin


class UntypedStorage:
    """A storage of bytes. `source_` is a tensor, a number of bytes (zeros), or a sequence of bytes."""

    def __init__(self, source_: Any = 0, *, device: Any = None):
        self._cell = source_.cell if isinstance(source_, Tensor) else None
        self._bytes = np.zeros(source_, np.uint8) if isinstance(source_, int) else None
        if self._cell is None and self._bytes is None:
            self._bytes = np.array(source_, np.uint8)

    @staticmethod
    def over(array: np.ndarray) -> "UntypedStorage":
        """Return a storage that shares the bytes of `array`."""
        storage = UntypedStorage(0)
        storage._bytes = array
        return storage

    @staticmethod
    def from_file(filename: str, shared: bool = False, nbytes: int = 0, size: int = 0) -> "UntypedStorage":
        """Return a storage of a file, which is memory-mapped for reading.

        It has the first `nbytes` bytes, or `size` if that is 0, or the whole file if both are 0. `shared` has no
        effect.
        """
        # Map the file, because often only a part of it is used.
        with open(filename, "rb") as f:
            mapped = mmap.mmap(f.fileno(), nbytes or size, access=mmap.ACCESS_READ)
        return UntypedStorage.over(np.frombuffer(mapped, np.uint8))

    @property
    def array(self) -> np.ndarray:
        """Return the bytes as a uint8 array. It is not a copy.

        Inside a traced step the bytes of a tensor raise StateError.
        """
        if self._bytes is not None:
            return self._bytes
        assert self._cell is not None
        return get_cell_bytes(self._cell)

    @property
    def device(self) -> Device:
        """Return the CPU device."""
        return Device("cpu")

    @property
    def is_cuda(self) -> bool:
        """Return False."""
        return False

    def nbytes(self) -> int:
        """Return the number of bytes."""
        if self._cell is not None:
            return int(self._cell.type.size * self._cell.type.dtype.itemsize)
        return int(self.array.size)

    size = __len__ = nbytes

    def element_size(self) -> int:
        """Return 1."""
        return 1

    def data_ptr(self) -> int:
        """Return the address of the bytes, or 0 if there are none.

        Inside a traced step it only identifies the storage.
        """
        if self._cell is not None and cells.thread_state.current is not None:
            return id(self._cell)
        return int(self.array.ctypes.data) if self.nbytes() else 0

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return UntypedStorage.over(self.array[index])
        return int(self.array[index])

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self.data_ptr() == other.data_ptr()

    __hash__ = object.__hash__

    def tolist(self) -> list[int]:
        """Return the bytes as ints."""
        return [int(b) for b in self.array]

    def untyped(self) -> "UntypedStorage":
        """Return the storage itself."""
        return self

    def cpu(self) -> "UntypedStorage":
        """Return the storage itself."""
        return self

    def clone(self) -> "UntypedStorage":
        """Return a copy."""
        return UntypedStorage.over(self.array.copy())

    def is_shared(self) -> bool:
        """Return False: processes receive copies."""
        return False

    def share_memory_(self) -> "UntypedStorage":
        """Return the storage itself."""
        return self

    def as_tensor(self, dtype: DType) -> Tensor:
        """Return a vector of the bytes, interpreted as elements of `dtype`. It is a copy."""
        # NumPy has no bfloat16, so its bits are read as integers and widened.
        if dtype.is_half:
            values = decode_elements(
                np.ascontiguousarray(self.array).view("<u2" if dtype is dt.bfloat16 else "<f2"), dtype
            )
            return tensor(values, dtype=dtype)
        return from_numpy(decode_elements(np.array(self.array).view(dtype.host), dtype))


class TypedStorage:
    """The deprecated storage class with an element dtype."""

    def __init__(self, *, wrap_storage: UntypedStorage, dtype: DType, _internal: bool = False):
        self._untyped_storage, self.dtype = wrap_storage, dtype

    @property
    def device(self) -> Device:
        """Return the CPU device."""
        return self._untyped_storage.device

    def untyped(self) -> UntypedStorage:
        """Return the storage of the bytes."""
        return self._untyped_storage

    def data_ptr(self) -> int:
        """Return the address of the elements."""
        return self._untyped_storage.data_ptr()

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Return the number of bytes of an element."""
        return self.dtype.itemsize

    def size(self) -> int:
        """Return the number of elements."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    def tolist(self) -> list[Any]:
        """Return the elements as a list."""
        values: list[Any] = self._untyped_storage.as_tensor(self.dtype).tolist()
        return values

    def __getitem__(self, index: Any) -> Any:
        return self.tolist()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())


def is_storage(obj: Any) -> bool:
    """Return whether `obj` is a storage."""
    return isinstance(obj, UntypedStorage | TypedStorage)


def untyped_storage(self: Tensor) -> UntypedStorage:
    """Return the storage of the bytes that this tensor and its views share."""
    return UntypedStorage(self)


def storage(self: Tensor) -> TypedStorage:
    """Return the storage of the elements that this tensor and its views share.

    It issues PyTorch's deprecation warning.
    """
    warnings.warn(TYPED_STORAGE_WARNING, UserWarning, stacklevel=2)
    return TypedStorage(wrap_storage=UntypedStorage(self), dtype=self.dtype)
