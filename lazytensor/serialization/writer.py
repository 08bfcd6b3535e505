"""Write the pickle that describes an object, and collect the storages that belong to it."""

import math
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from lazytensor.core.dtype import DType, uint16
from lazytensor.core.element_bytes import encode_elements
from lazytensor.core.file_array import LazyArray
from lazytensor.core.tensor import Device, Size, Tensor, tensor_from_storage
from lazytensor.nn.module import Parameter
from lazytensor.ops import OPS
from lazytensor.ops.strided import contiguous_strides
from lazytensor.serialization.layout import STORAGE_DTYPES, file_error

Dims = tuple[int, ...]
_STORAGE_NAMES = {d: name for name, d in STORAGE_DTYPES.items()}


class Writer:
    """Writes pickle protocol 2. An object that occurs several times is written once.

    `is_legacy` selects the format before the zip archives. Results are `out`, the pickle without the final STOP opcode,
    and `storages`, a function that returns the elements of each storage, by key.
    """

    def __init__(self, is_legacy: bool = False) -> None:
        self.is_legacy = is_legacy
        self.out = bytearray(b"\x80\x02")
        self.memo: dict[Any, int] = {}
        self.kept: list[Any] = []  # keeps objects alive, so that their ids stay unique
        self.storages: dict[str, Callable[[], np.ndarray]] = {}
        self.keys: dict[int, str] = {}

    def write(self, value: Any) -> None:
        """Write a value of any supported type. Raises CheckpointError for other types (see `other`).

        An object that was written before is written as a reference to it, except numbers, strings, and tuples without
        tuples.
        """
        # By identity, as in pickle: a tensor that occurs twice is one tensor after loading. Numbers, strings and tuples
        # of them are not in the memo and are written each time.
        if id(value) in self.memo:
            return self._get(id(value))
        # The order of the table matters, because a bool is an int and a Parameter is a Tensor.
        for kind, method in _WRITERS:
            if isinstance(value, kind):
                method(self, value)
                # Without the memo, nested tuples that share parts would be written up to 2^n times.
                if type(value) is tuple and any(type(part) is tuple for part in value):
                    self._put(id(value), value)
                return None
        return self.other(value)

    def other(self, value: Any) -> None:
        """Raise CheckpointError for a value of an unsupported type.

        A subclass can override it to support more types.
        """
        raise file_error(
            f"a {type(value).__name__} cannot be saved: only tensors, numbers, text and plain containers can",
            "Save a module's or an optimizer's state_dict() instead of the object.",
        )

    def _get(self, key: Any) -> None:
        """Write an opcode that pushes the object in the memo under `key`."""
        self.out += b"j" + struct.pack("<I", self.memo[key])

    def _put(self, key: Any, value: Any = None) -> None:
        """Write LONG_BINPUT, which stores the top of the stack under the next memo number, and remember it under `key`.

        If `key` is the id of an object, pass the object as `value`: it is kept alive, so that no other object gets its
        id.
        """
        self.memo[key] = len(self.memo)
        self.kept.append(value)
        self.out += b"r" + struct.pack("<I", self.memo[key])

    def name(self, path: str) -> None:
        """Write a global name "module name", such as "torch FloatStorage"; at a second time, a reference to it."""
        if path in self.memo:
            return self._get(path)
        # GLOBAL: module and name, each followed by a newline.
        self.out += b"c" + path.replace(" ", "\n").encode() + b"\n"
        return self._put(path)

    def number(self, value: Any) -> None:
        """Write None, a bool, an integer or a float. An instance of a subclass, such as IntEnum, becomes a number."""
        # Opcodes NONE, NEWTRUE, NEWFALSE, BINFLOAT (big endian) and BININT.
        if value is None or isinstance(value, bool):
            self.out += b"N" if value is None else b"\x88" if value else b"\x89"
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        elif -(1 << 31) <= value < 1 << 31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            # LONG1 or LONG4: the number of bytes, then two's complement, one byte more than needed for the sign.
            raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            self.out += b"\x8a" + bytes([len(raw)]) if len(raw) < 256 else b"\x8b" + struct.pack("<i", len(raw))
            self.out += raw

    def text(self, value: str) -> None:
        """Write a string as UTF-8; lone surrogates are kept."""
        # Like pickle, encode lone surrogates, which are valid in Python strings but not in UTF-8.
        raw = value.encode("utf-8", "surrogatepass")
        self.out += b"X" + struct.pack("<I", len(raw)) + raw

    def some(self, value: Any) -> None:
        """Write a tuple, or a Size as a call of `torch.Size`. An instance of another subclass becomes a tuple."""
        if isinstance(value, Size):
            # REDUCE calls the name with a tuple of one argument.
            self.name("torch Size")
            self.some((tuple(value),))
            self.out += b"R"
            return
        self.out += b"("
        self._inside(value)
        self.out += b"t"

    def listing(self, value: list[Any]) -> None:
        """Write a list, which may contain itself. An instance of a subclass becomes a list."""
        self.out += b"]"
        # Store it in the memo before its members, because a list may contain itself.
        self._put(id(value), value)
        self.out += b"("
        self._inside(value)
        self.out += b"e"

    def mapping(self, value: Mapping[Any, Any]) -> None:
        """Write a dict or an OrderedDict, in order; of an OrderedDict, also its attributes.

        Other subclasses become a dict.
        """
        if isinstance(value, OrderedDict):
            self.name("collections OrderedDict")
            self.out += b")R"
        else:
            self.out += b"}"
        self._put(id(value), value)
        self.out += b"("
        self._inside([part for item in value.items() for part in item])
        self.out += b"u"
        # Attributes, such as `_metadata` of a state dict with the versions of modules.
        if isinstance(value, OrderedDict) and vars(value):
            self.write(vars(value))
            self.out += b"b"

    def _inside(self, parts: Any) -> None:
        for part in parts:
            self.write(part)

    def dtype(self, value: DType) -> None:
        """Write an element type."""
        self.name(f"torch {value.name}")

    def device(self, value: Device) -> None:
        """Write a device."""
        self.name("torch device")
        self.some((value.type,) if value.index is None else (value.type, value.index))
        self.out += b"R"

    def tensor(self, t: Tensor) -> None:
        """Write a tensor or parameter as a view of its storage, which is registered in `storages`.

        Tensors that share a storage share it in the file. On "meta", only the shape, the type and `requires_grad` are
        written. Raises CheckpointError for an element type that the format lacks.
        """
        # As in PyTorch, a parameter is a tensor without requires_grad, followed by the parameter's flag.
        if isinstance(t, Parameter):
            self.name("torch._utils _rebuild_parameter")
            self.out += b"("
            self._strided(t, False)
            self.number(t.requires_grad)
        else:
            self._strided(t, t.requires_grad)
            return self._put(id(t), t)
        self.name("collections OrderedDict")
        self.out += b")RtR"
        return self._put(id(t), t)

    def lazy(self, a: LazyArray) -> None:
        """Write an array of another file as a tensor. Its data are read when the storage is written.

        Raises CheckpointError if no tensor type corresponds to its type.
        """
        if a.dtype is None:
            raise file_error(
                f"{a.key!r} has elements of a type that no tensor can have", "Remove it, or convert its elements first."
            )
        # Each array has a separate storage, because sharing in other files is unknown.
        key = str(len(self.storages))
        self.storages[key] = a.stored
        self._write_rebuild(a.dtype, key, math.prod(a.shape), 0, a.shape, contiguous_strides(a.shape), False)
        self._put(id(a), a)

    def _strided(self, t: Tensor, requires_grad: bool) -> None:
        """Write a tensor as a view of its storage, with the flag `requires_grad`.

        On "meta" it is a tensor without values.
        """
        if t.device.type == "meta":
            self.name("torch._utils _rebuild_meta_tensor_no_storage")
            shape = tuple(t.spec.shape)
            self.some((t.dtype, shape, contiguous_strides(shape), requires_grad))
            self.out += b"R"
            return
        key, size, offset, stride = self._storage(t)
        self._write_rebuild(t.dtype, key, size, offset, tuple(t.spec.shape), stride, requires_grad)

    def _write_rebuild(
        self, dtype: DType, key: str, size: int, offset: int, shape: Dims, stride: Dims, requires_grad: bool
    ) -> None:
        """Write a call that creates a view of the storage `key`, which has `size` elements and is on the CPU.

        Outside of the legacy format, uint16 is written as untyped bytes. Raises CheckpointError for other types that
        the format does not have.
        """
        if dtype is uint16 and not self.is_legacy:
            self._write_untyped_rebuild(dtype, key, size, offset, shape, stride)
            return
        if dtype not in _STORAGE_NAMES:
            raise file_error(
                f"the file format has no tensors of type {dtype}", "Convert it first, for example with .float()."
            )
        # A call of `_rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)`. The storage is a
        # persistent id (opcode `Q`), from which PyTorch's reader finds the record in the archive.
        self.name("torch._utils _rebuild_tensor_v2")
        self.out += b"(("
        self.text("storage")
        self.name(f"torch {_STORAGE_NAMES[dtype]}")
        self.text(key)
        # Always "cpu", so that the file can be loaded on every machine.
        self.text("cpu")
        # The number of elements of the storage, not of the view.
        self.number(size)
        # The legacy format has the part of another storage here; None means that it is a whole storage.
        self.out += b"NtQ" if self.is_legacy else b"tQ"
        self.number(offset)
        self.some(shape)
        self.some(stride)
        # The backward hooks are not saved: an empty OrderedDict.
        self.number(requires_grad)
        self.name("collections OrderedDict")
        self.out += b")RtR"

    def _write_untyped_rebuild(self, dtype: DType, key: str, size: int, offset: int, shape: Dims, stride: Dims) -> None:
        """Write a call that creates a view of the untyped storage `key`, for types without a storage class.

        `size`, the elements of the storage, `offset` and `stride` count elements of `dtype`. `shape` is that of the
        view. The tensor requires no gradient.
        """
        # For types without a storage class: an untyped storage, and the type as last argument.
        self.name("torch._utils _rebuild_tensor_v3")
        self.out += b"(("
        self.text("storage")
        self.name("torch.storage UntypedStorage")
        self.text(key)
        self.text("cpu")
        self.number(size * dtype.itemsize)
        self.out += b"tQ"
        self.number(offset)
        self.some(shape)
        self.some(stride)
        self.number(False)
        self.name("collections OrderedDict")
        self.out += b")R"
        self.dtype(dtype)
        self.out += b"tR"

    def _storage(self, t: Tensor) -> tuple[str, int, int, Dims]:
        """Return (key of the storage, number of its elements, offset of the tensor, strides of the tensor).

        All numbers count elements. The storage is registered in `storages` at the first call, and encoded when its
        record is written. A view without strides gets a separate storage with a copy of its elements.
        """
        # Tensors that share a storage share it in the file too. A view without strides is saved as a copy.
        layout = offset_and_strides(t)
        base = t.cell.type if layout is not None else t.spec
        # Views of one storage have the same owner and therefore the same key.
        owner: Any = t.cell if layout is not None else t
        offset, stride = layout if layout is not None else (0, contiguous_strides(t.spec.shape))
        if id(owner) not in self.keys:
            self.keys[id(owner)] = key = str(len(self.storages))
            self.kept.append(owner)
            whole = tensor_from_storage(t.cell) if layout is not None else t
            # Encoded when its record is written, so that a large model is in memory only once.
            self.storages[key] = partial(_encode_tensor, whole)
        return self.keys[id(owner)], base.size, offset, stride


def _encode_tensor(t: Tensor) -> np.ndarray:
    return encode_elements(t.array("torch.save()"), t.dtype)


_WRITERS: tuple[tuple[Any, Callable[[Any, Any], None]], ...] = (
    # Only types that the reader supports.
    (Tensor, Writer.tensor),
    (LazyArray, Writer.lazy),
    ((type(None), bool, int, float), Writer.number),
    (str, Writer.text),
    (tuple, Writer.some),
    (list, Writer.listing),
    (dict, Writer.mapping),
    (DType, Writer.dtype),
    (Device, Writer.device),
)


def offset_and_strides(t: Tensor) -> tuple[int, tuple[int, ...]] | None:
    """Return the offset and strides of a tensor in its storage, in elements.

    For an empty view they are 0 and those of a contiguous tensor. Return None for a view that NumPy cannot describe by
    strides.
    """
    if not t.view_ops:
        return 0, contiguous_strides(t.spec.shape)
    # Apply the view operations to an array of bytes; its addresses and strides are in elements.
    base = seen = np.empty(t.cell.type.shape, np.uint8)
    for name, attrs in t.view_ops:
        seen = OPS[name].eval(seen, **dict(attrs))
    if not seen.size:
        return 0, contiguous_strides(t.spec.shape)
    if not np.may_share_memory(base, seen):
        return None
    start = seen.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return start, seen.strides
