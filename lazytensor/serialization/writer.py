"""Writes the description of an object as a pickle, and names the storages that go with it."""

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
    """Emits protocol 2; what occurs twice is written once. `is_legacy` is the format from before the zip archives."""

    def __init__(self, is_legacy: bool = False) -> None:
        self.is_legacy = is_legacy
        self.out = bytearray(b"\x80\x02")
        self.memo: dict[Any, int] = {}
        self.kept: list[Any] = []  # so that no id is given twice
        self.storages: dict[str, Callable[[], np.ndarray]] = {}
        self.keys: dict[int, str] = {}

    def write(self, value: Any) -> None:
        """One value. Raises CheckpointError for a type that the format has no place for."""
        # By identity, as pickle does: a tensor that stands twice in the object is one tensor after loading. Numbers,
        # texts and tuples of such are not entered, and are written each time.
        if id(value) in self.memo:
            return self._get(id(value))
        # In the table's order: a truth value is an integer too, and a Parameter is a Tensor.
        for kind, method in _WRITERS:
            if isinstance(value, kind):
                method(self, value)
                # Tuples of tuples that share parts would be written 2^n times otherwise.
                if type(value) is tuple and any(type(part) is tuple for part in value):
                    self._put(id(value), value)
                return None
        return self.other(value)

    def other(self, value: Any) -> None:
        """A value of another type: refused. What knows more types overrides it."""
        raise file_error(
            f"a {type(value).__name__} cannot be saved: only tensors, numbers, text and plain containers can",
            "Save a module's or an optimizer's state_dict() instead of the object.",
        )

    def _get(self, key: Any) -> None:
        self.out += b"j" + struct.pack("<I", self.memo[key])

    def _put(self, key: Any, value: Any = None) -> None:
        # LONG_BINPUT: the object on top of the stack gets the next number, by which `_get` (LONG_BINGET) finds it.
        self.memo[key] = len(self.memo)
        self.kept.append(value)
        self.out += b"r" + struct.pack("<I", self.memo[key])

    def name(self, path: str) -> None:
        """A global such as "torch FloatStorage"."""
        if path in self.memo:
            return self._get(path)
        # GLOBAL: the module and the name, each ended by a line feed.
        self.out += b"c" + path.replace(" ", "\n").encode() + b"\n"
        return self._put(path)

    def number(self, value: Any) -> None:
        """None, a truth value, an integer or a float."""
        # NONE, NEWTRUE, NEWFALSE, then BINFLOAT, the only big-endian number of a pickle, and BININT.
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
        """A string."""
        # Half a surrogate pair is text in Python and no UTF-8; pickle passes it through as well.
        raw = value.encode("utf-8", "surrogatepass")
        self.out += b"X" + struct.pack("<I", len(raw)) + raw

    def some(self, value: Any) -> None:
        """A tuple, or a shape."""
        if isinstance(value, Size):
            # Calls the name with a tuple of one argument, REDUCE.
            self.name("torch Size")
            self.some((tuple(value),))
            self.out += b"R"
            return
        self.out += b"("
        self._inside(value)
        self.out += b"t"

    def listing(self, value: list[Any]) -> None:
        """A list."""
        self.out += b"]"
        # Known by number before its members are written: a list may hold itself.
        self._put(id(value), value)
        self.out += b"("
        self._inside(value)
        self.out += b"e"

    def mapping(self, value: Mapping[Any, Any]) -> None:
        """A dict or an OrderedDict, in order."""
        # State dicts are OrderedDicts, and come back as such.
        if isinstance(value, OrderedDict):
            self.name("collections OrderedDict")
            self.out += b")R"
        else:
            self.out += b"}"
        self._put(id(value), value)
        self.out += b"("
        self._inside([part for item in value.items() for part in item])
        self.out += b"u"
        # Attributes, such as the versions of modules in `_metadata` of a state dict.
        if isinstance(value, OrderedDict) and vars(value):
            self.write(vars(value))
            self.out += b"b"

    def _inside(self, parts: Any) -> None:
        for part in parts:
            self.write(part)

    def dtype(self, value: DType) -> None:
        """An element type."""
        self.name(f"torch {value.name}")

    def device(self, value: Device) -> None:
        """A device."""
        self.name("torch device")
        self.some((value.type,) if value.index is None else (value.type, value.index))
        self.out += b"R"

    def tensor(self, t: Tensor) -> None:
        """A tensor or parameter: its storage once, and how it is seen."""
        # A parameter is a tensor without a gradient inside, and the flag outside of it, as PyTorch writes it.
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
        """An array of another file: read when its storage is written."""
        if a.dtype is None:
            raise file_error(f"{a.key!r} holds numbers for which there is no tensor type", "Leave it out.")
        # Each array its own storage: what other files share is not known of lazy arrays.
        key = str(len(self.storages))
        self.storages[key] = a.stored
        self._write_rebuild(a.dtype, key, math.prod(a.shape), 0, a.shape, contiguous_strides(a.shape), False)
        self._put(id(a), a)

    def _strided(self, t: Tensor, requires_grad: bool) -> None:
        if t.device.type == "meta":
            # It has a shape and no values.
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
        if dtype is uint16 and not self.is_legacy:
            self._write_untyped_rebuild(dtype, key, size, offset, shape, stride)
            return
        if dtype not in _STORAGE_NAMES:
            raise file_error(f"a tensor of {dtype} has no place in the format", "Convert it first, as with .float().")
        # A call of `_rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)`, whose storage is a
        # persistent id (`Q`): PyTorch's reader looks its bytes up in the archive.
        self.name("torch._utils _rebuild_tensor_v2")
        self.out += b"(("
        self.text("storage")
        self.name(f"torch {_STORAGE_NAMES[dtype]}")
        self.text(key)
        # Whatever the device: there is one memory, and such a file loads everywhere.
        self.text("cpu")
        # The elements of the storage, not of the view.
        self.number(size)
        # Older files have the part of the storage here: all of it.
        self.out += b"NtQ" if self.is_legacy else b"tQ"
        self.number(offset)
        self.some(shape)
        self.some(stride)
        # Then the backward hooks, of which nothing is saved: an empty OrderedDict.
        self.number(requires_grad)
        self.name("collections OrderedDict")
        self.out += b")RtR"

    def _write_untyped_rebuild(self, dtype: DType, key: str, size: int, offset: int, shape: Dims, stride: Dims) -> None:
        # Types without a storage class of their own: bytes, and the type as the last argument.
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
        """Key and number of elements of the storage, and offset and strides of the tensor in it."""
        # Tensors of one cell share a storage in the file as here. What no strides describe is saved as a copy.
        layout = offset_and_strides(t)
        base = t.cell.type if layout is not None else t.spec
        # The cell stands for the storage: views of it give the same owner and so the same key.
        owner: Any = t.cell if layout is not None else t
        offset, stride = layout if layout is not None else (0, contiguous_strides(t.spec.shape))
        if id(owner) not in self.keys:
            self.keys[id(owner)] = key = str(len(self.storages))
            self.kept.append(owner)
            whole = tensor_from_storage(t.cell) if layout is not None else t
            # Computed when its record is written, so that a large model is in memory once.
            self.storages[key] = partial(_encode_tensor, whole)
        return self.keys[id(owner)], base.size, offset, stride


def _encode_tensor(t: Tensor) -> np.ndarray:
    return encode_elements(t.array("torch.save()"), t.dtype)


_WRITERS: tuple[tuple[Any, Callable[[Any, Any], None]], ...] = (
    # Only types that the reader has on its lists: what is saved here can be loaded here.
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
    """Offset and strides, in elements, of a tensor in its storage; None for a view that no strides describe."""
    if not t.view_ops:
        return 0, contiguous_strides(t.spec.shape)
    # NumPy does the arithmetic: the views are replayed on an array of bytes, so that addresses count elements.
    base = seen = np.empty(t.cell.type.shape, np.uint8)
    for name, attrs in t.view_ops:
        seen = OPS[name].eval(seen, **dict(attrs))
    if not seen.size:
        return 0, contiguous_strides(t.spec.shape)
    if not np.may_share_memory(base, seen):
        return None
    start = seen.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return start, seen.strides
