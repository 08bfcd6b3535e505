"""torch.save and torch.load: PyTorch's zip format, written and read without running any pickle.

A file is a zip archive: `data.pkl` describes the object, `data/<key>` holds the bytes of each storage. The description
is read by an interpreter of the few pickle opcodes that such files need; the only names that it knows stand in a table,
and all of them rebuild tensors. Files of the old format before PyTorch 1.6 are refused.
"""

import pathlib
import pickletools
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np

from lazytensor import dtype as dt
from lazytensor import source
from lazytensor.dtype import DType
from lazytensor.errors import CheckpointError
from lazytensor.nn.module import Parameter
from lazytensor.ops import OPS
from lazytensor.ops.strided import order_strides
from lazytensor.stored import Storages, bits, check_layout
from lazytensor.tensor import Device, Size, Tensor

File = str | pathlib.Path | BinaryIO
STORAGES = {
    "DoubleStorage": dt.float64,
    "FloatStorage": dt.float32,
    "HalfStorage": dt.float16,
    "BFloat16Storage": dt.bfloat16,
    "LongStorage": dt.int64,
    "IntStorage": dt.int32,
    "ShortStorage": dt.int16,
    "CharStorage": dt.int8,
    "ByteStorage": dt.uint8,
    "BoolStorage": dt.bool_,
}
_STORAGE_OF = {d: name for name, d in STORAGES.items()}
_DTYPES = {f"torch {d.name}": d for d in dt.ALL if d is not dt.cbfloat16}
LARGEST_DESCRIPTION = 1 << 28
"""Bytes of data.pkl beyond which a file is not believed."""


def _refused(what: str, todo: str = "") -> CheckpointError:
    return CheckpointError(what, where=source.where(), todo=todo)


# -- writing ----------------------------------------------------------------------------------------------------------


class _Writer:
    """Emits protocol 2; what occurs twice is written once."""

    def __init__(self) -> None:
        self.out = bytearray(b"\x80\x02")
        self.memo: dict[Any, int] = {}
        self.kept: list[Any] = []  # so that no id is given twice
        self.storages: dict[str, bytes] = {}
        self.keys: dict[int, str] = {}

    def write(self, value: Any) -> None:
        """One value. Raises CheckpointError for a type that the format has no place for."""
        if id(value) in self.memo:
            return self._get(id(value))
        for kind, method in _WRITERS:
            if isinstance(value, kind):
                return method(self, value)
        raise _refused(
            f"a {type(value).__name__} cannot be saved: only tensors, numbers, text and plain containers can",
            "Save a module's or an optimizer's state_dict() instead of the object.",
        )

    def _get(self, key: Any) -> None:
        self.out += b"j" + struct.pack("<I", self.memo[key])

    def _put(self, key: Any, value: Any = None) -> None:
        self.memo[key] = len(self.memo)
        self.kept.append(value)
        self.out += b"r" + struct.pack("<I", self.memo[key])

    def name(self, path: str) -> None:
        """A global such as "torch FloatStorage"."""
        if path in self.memo:
            return self._get(path)
        self.out += b"c" + path.replace(" ", "\n").encode() + b"\n"
        return self._put(path)

    def number(self, value: Any) -> None:
        """None, a truth value, an integer or a float."""
        if value is None or isinstance(value, bool):
            self.out += b"N" if value is None else b"\x88" if value else b"\x89"
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        elif -(1 << 31) <= value < 1 << 31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            if len(raw) > 255:
                raise _refused(f"an integer of {len(raw)} bytes cannot be saved")
            self.out += b"\x8a" + bytes([len(raw)]) + raw

    def text(self, value: str) -> None:
        """A string."""
        raw = value.encode("utf-8", "surrogatepass")
        self.out += b"X" + struct.pack("<I", len(raw)) + raw

    def some(self, value: Any) -> None:
        """A tuple, or a shape."""
        if isinstance(value, Size):
            self.name("torch Size")
            self.some((tuple(value),))
            self.out += b"R"
            return
        self.out += b"("
        self._inside(value)
        self.out += b"t"

    def listing(self, value: list) -> None:
        """A list."""
        self.out += b"]"
        self._put(id(value), value)
        self.out += b"("
        self._inside(value)
        self.out += b"e"

    def mapping(self, value: Mapping) -> None:
        """A dict or an OrderedDict, in order."""
        if isinstance(value, OrderedDict):
            self.name("collections OrderedDict")
            self.out += b")R"
        else:
            self.out += b"}"
        self._put(id(value), value)
        self.out += b"("
        self._inside([part for item in value.items() for part in item])
        self.out += b"u"

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
        if isinstance(t, Parameter):
            self.name("torch._utils _rebuild_parameter")
            self.out += b"("
            self._strided(t, False)
            self.number(t.requires_grad)
        else:
            self._strided(t, bool(t.leaf_id))
            return self._put(id(t), t)
        self.name("collections OrderedDict")
        self.out += b")RtR"
        return self._put(id(t), t)

    def _strided(self, t: Tensor, requires_grad: bool) -> None:
        if t.dtype not in _STORAGE_OF:
            raise _refused(f"a tensor of {t.dtype} has no place in the format", "Convert it first, as with .float().")
        key, size, offset, stride = self._storage(t)
        self.name("torch._utils _rebuild_tensor_v2")
        self.out += b"(("
        self.text("storage")
        self.name(f"torch {_STORAGE_OF[t.dtype]}")
        self.text(key)
        self.text("cpu")
        self.number(size)
        self.out += b"tQ"
        self.number(offset)
        self.some(tuple(t.spec.shape))
        self.some(stride)
        self.number(requires_grad)
        self.name("collections OrderedDict")
        self.out += b")RtR"

    def _storage(self, t: Tensor) -> tuple[str, int, int, tuple[int, ...]]:
        """Key and number of elements of the storage, and offset and strides of the tensor in it."""
        found = strided(t)
        base = t.cell.type if found is not None else t.spec
        owner: Any = t.cell if found is not None else t
        offset, stride = found if found is not None else (0, order_strides(t.spec.shape))
        if id(owner) not in self.keys:
            self.keys[id(owner)] = key = str(len(self.keys))
            self.kept.append(owner)
            whole = Tensor(t.cell) if found is not None else t
            self.storages[key] = bits(whole.array("torch.save()"), t.dtype)
        return self.keys[id(owner)], base.size, offset, stride


_WRITERS: tuple[tuple[Any, Callable], ...] = (
    (Tensor, _Writer.tensor),
    ((type(None), bool, int, float), _Writer.number),
    (str, _Writer.text),
    (tuple, _Writer.some),
    (list, _Writer.listing),
    (dict, _Writer.mapping),
    (DType, _Writer.dtype),
    (Device, _Writer.device),
)


def strided(t: Tensor) -> tuple[int, tuple[int, ...]] | None:
    """Offset and strides, in elements, of a tensor in its storage; None for a view that no strides describe."""
    if not t.lens:
        return 0, order_strides(t.spec.shape)
    base = seen = np.empty(t.cell.type.shape, np.uint8)
    for name, attrs in t.lens:
        seen = OPS[name].eval(seen, **dict(attrs))
    if not seen.size:
        return 0, order_strides(t.spec.shape)
    if not np.may_share_memory(base, seen):
        return None
    start = seen.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return start, seen.strides


def save(obj: Any, f: File, pickle_module: Any = None, pickle_protocol: int = 2, **_: Any) -> None:
    """Write an object of tensors, numbers, text and plain containers.

    Raises CheckpointError for anything else.
    """
    writer = _Writer()
    writer.write(obj)
    records = {"data.pkl": bytes(writer.out) + b".", "byteorder": b"little"}
    records |= {f"data/{key}": raw for key, raw in writer.storages.items()}
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[arg-type]
        for name, raw in {**records, "version": b"3\n"}.items():
            archive.writestr(zipfile.ZipInfo(f"archive/{name}"), raw)  # no date: equal objects give equal files


# -- reading ----------------------------------------------------------------------------------------------------------

_MARK = object()


class _Named:
    """A name of the table, until it is called or used."""

    def __init__(self, path: str):
        self.path = path


class _Reader:
    """Interprets the opcodes of a description over a stack. Nothing is imported and nothing of the file's is called."""

    def __init__(self, storages: Storages):
        self.storages = storages
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, raw: bytes) -> Any:
        """The object. Raises CheckpointError for any opcode or name that is not on the list."""
        try:
            for opcode, given, at in pickletools.genops(raw):
                action = _OPCODES.get(opcode.name)
                if action is None:
                    raise _refused(f"the file asks for the pickle operation {opcode.name} at byte {at}: not allowed")
                action(self, given)
            (answer,) = self.stack
        except CheckpointError:
            raise
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as e:
            raise _refused(f"the description of the file is damaged: {e}") from e
        if isinstance(answer, _Named):
            raise _refused(f"the file holds nothing but the name {answer.path!r}")
        return answer

    def since_mark(self) -> list[Any]:
        """What was pushed after the last mark, which goes too."""
        at = len(self.stack) - 1 - self.stack[::-1].index(_MARK)
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items

    def take(self, n: int) -> list[Any]:
        """The last n values."""
        if len(self.stack) < n:
            raise IndexError("an operation finds too few values")
        items = self.stack[len(self.stack) - n :]
        del self.stack[len(self.stack) - n :]
        return items

    def named(self, path: str) -> None:
        """A global, if it is one of ours."""
        if path in _DTYPES:
            self.stack.append(_DTYPES[path])
        elif path in _CALLS or path.removeprefix("torch ") in STORAGES:
            self.stack.append(_Named(path))
        else:
            raise _refused(
                f"the file asks for {path.replace(' ', '.')!r}, which is not on the list of what may be loaded",
                "Save a state_dict() of tensors and plain containers instead.",
            )

    def reduce(self, _: Any) -> None:
        """Call a name of the table."""
        name, args = self.take(2)
        if not isinstance(name, _Named) or name.path not in _CALLS or not isinstance(args, tuple):
            raise _refused("the file calls something that is not on the list")
        self.stack.append(_CALLS[name.path](self, *args))

    def persistent(self, _: Any) -> None:
        """The storage that a tensor refers to."""
        (answer,) = self.take(1)
        kind, name, key, _device, count = answer
        if kind != "storage" or not isinstance(name, _Named):
            raise _refused("the file refers to something that is no storage")
        dtype = STORAGES[name.path.removeprefix("torch ")]
        self.stack.append(self.storages.storage(str(key), dtype, count))

    def extend(self, _: Any) -> None:
        """Add to a list."""
        items = self.since_mark()
        self._container(list).extend(items)

    def append(self, _: Any) -> None:
        """Add one to a list."""
        (item,) = self.take(1)
        self._container(list).append(item)

    def set_items(self, _: Any) -> None:
        """Add pairs to a dict."""
        items = self.since_mark()
        self._container(dict).update(zip(items[::2], items[1::2], strict=True))

    def set_item(self, _: Any) -> None:
        """Add one pair to a dict."""
        key, value = self.take(2)
        self._container(dict)[key] = value

    def build(self, _: Any) -> None:
        """Attributes of an OrderedDict, such as the versions in a state dict: dropped. Nothing else may have any."""
        (_state,) = self.take(1)
        self._container(OrderedDict)

    def _container(self, kind: type) -> Any:
        if not isinstance(self.stack[-1], kind):
            raise _refused(f"the file fills a {type(self.stack[-1]).__name__} as if it were a {kind.__name__}")
        return self.stack[-1]

    def push(self, value: Any) -> None:
        """A constant."""
        self.stack.append(value)

    def put(self, number: int) -> None:
        """Remember the last value."""
        self.memo[number] = self.stack[-1]


def _tensor(
    r: _Reader, storage: Any, offset: int, size: tuple, stride: tuple, requires_grad: bool = False, *_: Any
) -> Tensor:
    return r.storages.tensor(storage, offset, tuple(size), tuple(stride), requires_grad is True)


def _parameter(r: _Reader, data: Tensor, requires_grad: bool = True, *_: Any) -> Tensor:
    if not isinstance(data, Tensor):
        raise _refused("a parameter of the file is no tensor")
    return r.storages.parameter(data, requires_grad is True)


def _ordered(r: _Reader, items: Any = ()) -> OrderedDict:
    return OrderedDict((k, v) for k, v in items)


_CALLS: dict[str, Callable[..., Any]] = {
    "torch._utils _rebuild_tensor_v2": _tensor,
    "torch._utils _rebuild_parameter": _parameter,
    "collections OrderedDict": _ordered,
    "torch Size": lambda r, extents: Size(int(e) for e in extents),
    "torch device": lambda r, kind, index=None: Device(str(kind), index),
}
_CONSTANTS = "BININT BININT1 BININT2 LONG1 LONG INT BINFLOAT FLOAT BINUNICODE SHORT_BINUNICODE BINUNICODE8 UNICODE"
_OPCODES: dict[str, Callable[[_Reader, Any], Any]] = {
    **dict.fromkeys(_CONSTANTS.split(), _Reader.push),
    **{name: (lambda r, _: None) for name in ("PROTO", "FRAME", "STOP")},
    "NONE": lambda r, _: r.push(None),
    "NEWTRUE": lambda r, _: r.push(True),
    "NEWFALSE": lambda r, _: r.push(False),
    "MARK": lambda r, _: r.push(_MARK),
    "EMPTY_TUPLE": lambda r, _: r.push(()),
    "EMPTY_LIST": lambda r, _: r.push([]),
    "EMPTY_DICT": lambda r, _: r.push({}),
    "TUPLE": lambda r, _: r.push(tuple(r.since_mark())),
    "TUPLE1": lambda r, _: r.push(tuple(r.take(1))),
    "TUPLE2": lambda r, _: r.push(tuple(r.take(2))),
    "TUPLE3": lambda r, _: r.push(tuple(r.take(3))),
    "APPEND": _Reader.append,
    "APPENDS": _Reader.extend,
    "SETITEM": _Reader.set_item,
    "SETITEMS": _Reader.set_items,
    "BUILD": _Reader.build,
    "REDUCE": _Reader.reduce,
    "GLOBAL": _Reader.named,
    "BINPERSID": _Reader.persistent,
    "BINPUT": _Reader.put,
    "LONG_BINPUT": _Reader.put,
    "BINGET": lambda r, number: r.push(r.memo[number]),
    "LONG_BINGET": lambda r, number: r.push(r.memo[number]),
    "MEMOIZE": lambda r, _: r.put(len(r.memo)),
}


def load(
    f: File,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **_: Any,
) -> Any:
    """Read what `save` or PyTorch wrote. Tensors come on the CPU; views of one storage share it again.

    Raises CheckpointError for a file that is damaged, of the old format, or asks for anything but tensors and plain
    containers. Nothing of the file is executed, whatever `weights_only` says.
    """
    if isinstance(f, str | pathlib.Path):
        with open(f, "rb") as stream:
            return load(stream)
    try:
        with zipfile.ZipFile(f) as archive:
            return _loaded(archive)
    except CheckpointError:
        raise
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError, LookupError, struct.error) as e:
        raise _refused(
            f"this is no file in PyTorch's zip format, or it is damaged: {e}",
            "Write it again with torch.save of PyTorch 1.6 or later.",
        ) from e


def _loaded(archive: zipfile.ZipFile) -> Any:
    names = [n for n in archive.namelist() if n.rpartition("/")[2] == "data.pkl" and n.count("/") == 1]
    if len(names) != 1:
        raise _refused(f"the archive has {len(names)} descriptions (data.pkl); one is expected")
    root = names[0].rpartition("/")[0]
    if archive.getinfo(names[0]).file_size > LARGEST_DESCRIPTION:
        raise _refused("the description of the file is larger than any real one")
    check_layout(archive, root)
    storages = Storages(archive, root)
    answer = _Reader(storages).run(archive.read(names[0]))
    storages.finish()
    return answer
