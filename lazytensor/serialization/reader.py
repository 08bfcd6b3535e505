"""Interprets the pickle that describes an object: no import, no call, nothing but the opcodes that such files need."""

import pickletools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from lazytensor import dtype as dt
from lazytensor.errors import CheckpointError
from lazytensor.lazyarray import LazyArray
from lazytensor.serialization.layout import MOST_IN_KEY, STORAGES, check_walk, refused
from lazytensor.serialization.lazy import LazyStorages
from lazytensor.serialization.storages import Storages
from lazytensor.tensor import Device, Size, Tensor

# A global is written as "module name" with a space, as pickletools gives it. The wafer's own type is no name of
# PyTorch's.
_DTYPES = {f"torch {d.name}": d for d in dt.ALL if d is not dt.cbfloat16}
# No value of a file can be this object, so a file cannot forge a mark.
_MARK = object()


class _Named:
    """A name of the table, until it is called or used."""

    def __init__(self, path: str):
        self.path = path


class Reader:
    """Interprets the opcodes of a description over a stack. Nothing is imported and nothing of the file's is called."""

    def __init__(self, storages: Storages | LazyStorages):
        self.storages = storages
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, raw: Any) -> Any:
        """The object in bytes or at the head of a stream.

        Raises CheckpointError for any opcode or name that is not on the list.
        """
        try:
            # genops only splits the bytes: it imports nothing and calls nothing. What the opcodes mean is decided
            # below, by lists of what is allowed; whatever is on no list is refused, not skipped.
            for opcode, argument, position in pickletools.genops(raw):
                action = self.action(opcode.name)
                if action is None:
                    raise refused(
                        f"the file asks for the pickle operation {opcode.name} at byte {position}: not allowed"
                    )
                action(self, argument)
            # At the end a pickle leaves one value; more or fewer are an error of the file.
            (answer,) = self.stack
        except CheckpointError:
            raise
        # Any of these can come of opcodes in an order that no writer makes.
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as e:
            raise refused(f"the description of the file is damaged: {e}") from e
        # A name is no object: without a call it stands for nothing that could be given back.
        if isinstance(answer, _Named):
            raise refused(f"the file holds nothing but the name {answer.path!r}")
        return answer

    def action(self, opcode: str) -> "Callable[[Any, Any], Any] | None":
        """What an opcode does; None if it is not allowed. What knows more types of values overrides it."""
        return _OPCODES.get(opcode)

    def since_mark(self) -> list[Any]:
        """What was pushed after the last mark, which goes too."""
        # The innermost one: marks nest.
        # By identity: what an array or a tensor is equal to is another tensor.
        mark = next((i for i in reversed(range(len(self.stack))) if self.stack[i] is _MARK), -1)
        if mark < 0:
            raise IndexError("an operation finds no mark")
        items = self.stack[mark + 1 :]
        del self.stack[mark:]
        return items

    def take(self, n: int) -> list[Any]:
        """The last n values."""
        # A slice would be content with fewer.
        if len(self.stack) < n:
            raise IndexError("an operation finds too few values")
        items = self.stack[len(self.stack) - n :]
        del self.stack[len(self.stack) - n :]
        return items

    def named(self, path: str) -> None:
        """A global, if it is one of ours."""
        if path in _DTYPES:
            self.stack.append(_DTYPES[path])
        # Kept as a text: the class or function that it names in PyTorch is never looked up, here or elsewhere.
        elif path in _CALLS or path.removeprefix("torch ") in STORAGES:
            self.stack.append(_Named(path))
        else:
            raise refused(
                f"the file asks for {path.replace(' ', '.')!r}, which is not on the list of what may be loaded",
                "Save a state_dict() of tensors and plain containers instead.",
            )

    def reduce(self, _: Any) -> None:
        """Call a name of the table."""
        name, args = self.take(2)
        if not isinstance(name, _Named) or name.path not in _CALLS or not isinstance(args, tuple):
            raise refused("the file calls something that is not on the list")
        self.stack.append(_CALLS[name.path](self, *args))

    def persistent(self, _: Any) -> None:
        """The storage that a tensor refers to."""
        (answer,) = self.take(1)
        # What PyTorch puts there: the word, the storage class, the record's key, the device it lay on, and the number
        # of elements.
        # Files from before the zip format add what part of another storage it is, which none has been for long.
        kind, name, key, location, count, *part = answer
        if kind != "storage" or not isinstance(name, _Named) or part not in ([], [None]):
            raise refused("the file refers to something that is no storage")
        dtype = STORAGES[name.path.removeprefix("torch ")]
        self.stack.append(self.storages.storage(_text(key), dtype, count, _text(location)))

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
        keys = [hashable(key) for key in items[::2]]
        self._container(dict).update(zip(keys, items[1::2], strict=True))

    def set_item(self, _: Any) -> None:
        """Add one pair to a dict."""
        key, value = self.take(2)
        self._container(dict)[hashable(key)] = value

    def build(self, _: Any) -> None:
        """Attributes of an OrderedDict, such as the versions in a state dict: dropped. Nothing else may have any."""
        # PyTorch's state dicts carry `_metadata`, the version of each module, as an attribute; BUILD would set it. On
        # another object it could call `__setstate__`, which is code.
        (_state,) = self.take(1)
        self._container(OrderedDict)

    def _container(self, kind: type) -> Any:
        # In Python's pickle these opcodes call methods of whatever is there; here only true containers are filled.
        if not isinstance(self.stack[-1], kind):
            raise refused(f"the file fills a {type(self.stack[-1]).__name__} as if it were a {kind.__name__}")
        return self.stack[-1]

    def push(self, value: Any) -> None:
        """A constant."""
        self.stack.append(value)

    def put(self, number: int) -> None:
        """Remember the last value."""
        self.memo[number] = self.stack[-1]


def _tensor(
    r: Reader,
    storage: Any,
    offset: int,
    size: tuple[Any, ...],
    stride: tuple[Any, ...],
    requires_grad: bool = False,
    *_: Any,
) -> Tensor | LazyArray:
    return r.storages.tensor(storage, offset, tuple(size), tuple(stride), requires_grad is True)


def _parameter(r: Reader, data: Any, requires_grad: bool = True, *_: Any) -> Tensor | LazyArray:
    if not isinstance(data, Tensor | LazyArray):
        raise refused("a parameter of the file is no tensor")
    return r.storages.parameter(data, requires_grad is True)  # type: ignore[arg-type]


def _ordered(r: Reader, items: Any = ()) -> OrderedDict[Any, Any]:
    return OrderedDict((hashable(k), v) for k, v in items)


def hashable(key: Any) -> Any:
    """A key of a dict or a member of a set. Raises CheckpointError if hashing it would take for ever."""
    return check_walk(key, MOST_IN_KEY, "a key of the file") if isinstance(key, tuple) else key


def _text(value: Any) -> str:
    # Of a tuple, the text could be longer than any memory.
    if not isinstance(value, str | int):
        raise refused(f"the file has a {type(value).__name__} where a name belongs")
    return str(value)


_CALLS: dict[str, Callable[..., Any]] = {
    "torch._utils _rebuild_tensor_v2": _tensor,
    "torch._utils _rebuild_parameter": _parameter,
    "collections OrderedDict": _ordered,
    # What comes as an argument is made ours by int() and str(): no object of the file's choice gets through.
    "torch Size": lambda r, extents: Size(int(e) for e in extents),
    "torch device": lambda r, kind, index=None: Device(_text(kind), index if index is None else int(index)),
}
# What other versions of PyTorch and Python write too, besides the opcodes of our own writer.
_CONSTANTS = "BININT BININT1 BININT2 LONG1 LONG INT BINFLOAT FLOAT BINUNICODE SHORT_BINUNICODE BINUNICODE8 UNICODE"
_OPCODES: dict[str, Callable[[Reader, Any], Any]] = {
    **dict.fromkeys(_CONSTANTS.split(), Reader.push),
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
    "APPEND": Reader.append,
    "APPENDS": Reader.extend,
    "SETITEM": Reader.set_item,
    "SETITEMS": Reader.set_items,
    "BUILD": lambda r, state: r.build(state),
    "REDUCE": lambda r, _: r.reduce(_),
    # The names: GLOBAL alone, with its text in the opcode. STACK_GLOBAL, INST and OBJ are missing on purpose, since
    # names that are computed cannot be read off the file; protocol 2 does without them.
    "GLOBAL": lambda r, path: r.named(path),
    "BINPERSID": Reader.persistent,
    # The memo, by which what occurs twice is one object again.
    "BINPUT": Reader.put,
    "LONG_BINPUT": Reader.put,
    "BINGET": lambda r, number: r.push(r.memo[number]),
    "LONG_BINGET": lambda r, number: r.push(r.memo[number]),
    "MEMOIZE": lambda r, _: r.put(len(r.memo)),
}
