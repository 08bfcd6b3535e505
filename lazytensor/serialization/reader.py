"""Interpreter for the pickle that describes a saved object.

It imports nothing and calls only functions of this package.
"""

import _compat_pickle
import pickletools
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lazytensor.core import dtype as dt
from lazytensor.core.dtype import DType
from lazytensor.core.file_array import LazyArray
from lazytensor.core.tensor import Device, Size, Tensor
from lazytensor.errors import CheckpointError
from lazytensor.functional.creation import empty
from lazytensor.serialization.containers import CLASSES, CONSTRUCTORS, encode_text
from lazytensor.serialization.layout import STORAGE_DTYPES, UNSUPPORTED_GLOBALS, check_hashable, file_error
from lazytensor.serialization.lazy_storages import LazyStorages
from lazytensor.serialization.storages import SavedStorage, SavedStoragePart, SavedStorages

# Names are written as "module name" with a space, as `pickletools` gives them. cbfloat16 is not a PyTorch type.
_DTYPES = {f"torch {d.name}": d for d in dt.ALL if d is not dt.cbfloat16}
# A file cannot create this object, so it cannot forge a mark.
_MARK = object()


class NamedGlobal:
    """A PyTorch name in the file that is used in a call or as an argument."""

    def __init__(self, path: str):
        self.path = path


@dataclass(frozen=True)
class _UntypedBytes:
    """A storage without an element type; the tensors that use it have the type."""

    key: str
    count: Any
    location: str


def python3_path(path: str) -> str:
    """Return the "module name" in Python 3 of a Python 2 name, which pickle protocols 0 to 2 contain.

    `torch.cuda` becomes `torch`, because CUDA tensors have the same types. Other names are returned unchanged.
    """
    module, _, name = path.partition(" ")
    renamed = _compat_pickle.NAME_MAPPING.get((module, name))
    module, name = renamed or (_compat_pickle.IMPORT_MAPPING.get(module, module), name)
    # CUDA storages and tensors have the same types; the device is stored separately.
    return f"{'torch' if module == 'torch.cuda' else module} {name}"


class Reader:
    """A stack machine that interprets the pickle opcodes of a description.

    It imports nothing and calls no function of the file. `storages` creates storages and tensors. `encoding` is the
    encoding of strings that Python 2 wrote; with "bytes" they stay bytes.
    """

    def __init__(self, storages: SavedStorages | LazyStorages, encoding: str = "latin-1"):
        self.storages, self.encoding = storages, encoding
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, raw: Any) -> Any:
        """Return the object in `raw`: bytes, or a stream, which is read up to the end of the object.

        Raises CheckpointError for an opcode or name that is not in the tables, for damaged data, and if the object is
        only a name. Nothing of the file is executed.
        """
        try:
            # `genops` only splits the bytes into opcodes. `_OPCODES` has the allowed opcodes; others are refused.
            for opcode, argument, position in pickletools.genops(raw):
                self.action(opcode, position)(self, argument)
            # A valid pickle leaves exactly one value.
            (answer,) = self.stack
        except CheckpointError:
            raise
        # These errors occur if opcodes are in an invalid order.
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as e:
            raise file_error(f"the description of the file is damaged: {e}") from e
        # A name without a call is not an object that can be returned.
        if isinstance(answer, NamedGlobal):
            raise file_error(f"the file contains only the name {answer.path!r}, but no object")
        return answer

    def action(self, opcode: Any, position: int | None) -> "Callable[[Any, Any], Any]":
        """Return the function for an opcode, which takes the reader and the opcode's argument.

        Raises CheckpointError if the opcode is not allowed; `position` is its byte for the message.
        """
        action = _OPCODES.get(opcode.name)
        if action is None:
            raise file_error(
                f"the file uses the pickle operation {opcode.name} at byte {position}, which is not allowed",
                "Save a state_dict() of tensors and plain containers instead.",
            )
        return action

    def pop_to_mark(self) -> list[Any]:
        """Pop and return the values above the topmost mark, and pop the mark. Raises IndexError if there is no mark."""
        # Search from the top, because marks can be nested. Compare by identity, because `==` of tensors is elementwise.
        mark = next((i for i in reversed(range(len(self.stack))) if self.stack[i] is _MARK), -1)
        if mark < 0:
            raise IndexError("an operation needs a mark, but the stack has no mark")
        items = self.stack[mark + 1 :]
        del self.stack[mark:]
        return items

    def take(self, n: int) -> list[Any]:
        """Pop and return the last n values. Raises IndexError if there are fewer."""
        # Slicing would silently return fewer values.
        if len(self.stack) < n:
            raise IndexError("an operation needs more values than the stack has")
        items = self.stack[len(self.stack) - n :]
        del self.stack[len(self.stack) - n :]
        return items

    def named(self, path: str) -> None:
        """Push the object for a name "module name". Raises CheckpointError if the name is not in the tables."""
        thing = self.listed(path)
        if thing is None:
            raise self.unlisted(path)
        self.stack.append(thing)

    def listed(self, path: str) -> Any:
        """Return the object for a name "module name"; None if it is not in the tables.

        It is a DType, a class of a plain container, or a NamedGlobal for functions and types of PyTorch, which are
        never looked up. Raises CheckpointError for names of unsupported tensors.
        """
        if path in _DTYPES:
            return _DTYPES[path]
        if path in CLASSES:
            return CLASSES[path]
        # Represented by its name: the class or function in PyTorch is never looked up.
        if path in _CALLS or path.removeprefix("torch ") in STORAGE_DTYPES or path in _TYPES:
            return NamedGlobal(path)
        if path in UNSUPPORTED_GLOBALS:
            raise file_error(
                f"the file is valid, but contains {UNSUPPORTED_GLOBALS[path]} ({path.replace(' ', '.')}), "
                "which this package does not support",
                "Save it again in PyTorch as dense tensors of floating-point numbers, integers or bools.",
            )
        return None

    def unlisted(self, path: str) -> CheckpointError:
        """Return the error for a name that is not in the tables."""
        return file_error(
            f"the file uses {path.replace(' ', '.')!r}, which is not on the list of allowed names",
            "Save a state_dict() of tensors and plain containers instead.",
        )

    def stack_named(self, _: Any) -> None:
        """Pop a module and a name, and push the object for the name.

        Names of Python 2 are first converted to those of Python 3. Raises CheckpointError if either is not a string,
        the module contains a space, or the name is in no table or is one of unsupported tensors.
        """
        module, name = self.take(2)
        if not isinstance(module, str) or not isinstance(name, str) or " " in module:
            raise file_error("the file has a name that is not a string")
        self.named(python3_path(f"{module} {name}"))

    def reduce(self, _: Any) -> None:
        """Pop a function and its arguments, and push the result of the call.

        Raises CheckpointError if the function is not in the tables, the arguments are no tuple, or one of them is
        invalid.
        """
        function, args = self.take(2)
        self.stack.append(self.called(function, args))

    def new(self, _: Any) -> None:
        """Pop a class and its arguments, and push a new object (see `called`)."""
        self.reduce(_)

    def called(self, function: Any, args: Any) -> Any:
        """Return the result of a call in the file, computed by this package's function for it.

        Raises CheckpointError if the function is not in the tables or `args` is no tuple.
        """
        if not isinstance(args, tuple):
            raise file_error("the file calls a function with arguments that are not a tuple")
        if isinstance(function, NamedGlobal) and function.path in _CALLS:
            return _CALLS[function.path](self, *args)
        if isinstance(function, type) and function in CONSTRUCTORS:
            return CONSTRUCTORS[function](*args)
        raise file_error("the file calls an object that is not on the list of allowed functions")

    def persistent(self, _: Any) -> None:
        """Pop a persistent id and push the storage that it refers to.

        Raises CheckpointError if the id has another form than `referred` describes, or the file has no such storage.
        """
        (answer,) = self.take(1)
        self.stack.append(self.referred(answer))

    def referred(self, answer: Any) -> Any:
        """Return what a persistent id refers to: a storage, a part of one (in legacy files only), or untyped bytes.

        `answer` is the tuple ("storage", class, key, device, number of elements), in legacy files with a sixth member.
        Raises CheckpointError if the id has another form, or if it is a part of a storage in an archive.
        """
        # PyTorch's form: ("storage", storage class, key of the record, device, number of elements). Files from before
        # the zip format add the part of another storage, which is mostly None.
        if not isinstance(answer, tuple) or len(answer) not in (5, 6) or answer[0] != "storage":
            raise file_error("the file refers to an object that is not a storage")
        _, kind, key, location, count, *part = answer
        if not isinstance(kind, NamedGlobal):
            raise file_error("the file refers to an object that is not a storage")
        if kind.path == _UNTYPED_STORAGE:
            return _UntypedBytes(_check_text(key), count, _check_text(location))
        dtype = STORAGE_DTYPES[kind.path.removeprefix("torch ")]
        storage = self.storages.storage(_check_text(key), dtype, count, _check_text(location))
        if part in ([], [None]):
            return storage
        _, offset, length = part[0]
        if not isinstance(storage, SavedStorage):
            raise file_error("the file has a part of a storage, which is not allowed in an archive")
        return SavedStoragePart(storage, offset, length)

    def extend(self, _: Any) -> None:
        """Pop the values above the mark and add them to the list or deque below.

        Raises CheckpointError for another object.
        """
        items = self.pop_to_mark()
        target = self._container(list | deque)
        # Call the base class's method, so that a file cannot run code of a subclass.
        (list.extend if isinstance(target, list) else deque.extend)(target, items)

    def append(self, _: Any) -> None:
        """Pop a value and append it to the list or deque below. Raises CheckpointError for another object."""
        (item,) = self.take(1)
        target = self._container(list | deque)
        (list.append if isinstance(target, list) else deque.append)(target, item)

    def add_members(self, _: Any) -> None:
        """Pop the values above the mark and add them to the set below.

        Raises CheckpointError for another object and for members whose hash is unsafe.
        """
        items = self.pop_to_mark()
        set.update(self._container(set), map(check_hashable, items))

    def set_items(self, _: Any) -> None:
        """Pop the items above the mark, which are keys and values in turn, and store them in the dict below.

        Raises CheckpointError if there is no dict below or a key is unsafe to hash, TypeError for an unhashable key,
        and ValueError if the last key has no value.
        """
        items = self.pop_to_mark()
        self._fill(items[::2], items[1::2])

    def set_item(self, _: Any) -> None:
        """Pop a key and a value and store them in the dict below.

        Raises CheckpointError if there is no dict below or the key is unsafe to hash, and TypeError for an unhashable
        key.
        """
        key, value = self.take(2)
        self._fill([key], [value])

    def _fill(self, keys: list[Any], values: list[Any]) -> None:
        """Store keys and values in the dict at the top of the stack.

        Raises CheckpointError if there is no dict or a key is unsafe to hash (see `check_hashable`), TypeError for an
        unhashable key, and ValueError for different numbers of keys and values.
        """
        # Call the base class's method, so that a file cannot run code of a subclass.
        target = self._container(dict)
        store = OrderedDict.__setitem__ if isinstance(target, OrderedDict) else dict.__setitem__
        for key, value in zip(keys, values, strict=True):
            store(target, check_hashable(key), value)

    def dictionary(self, _: Any) -> None:
        """Pop the items above the mark, which are keys and values in turn, and push a new dict of them.

        Raises CheckpointError if a key is unsafe to hash, TypeError for an unhashable key, and ValueError if the last
        key has no value.
        """
        items = self.pop_to_mark()
        self.push({})
        self._fill(items[::2], items[1::2])

    def build(self, _: Any) -> None:
        """Pop a dict and set it as attributes of the OrderedDict below, such as the `_metadata` of a state dict.

        None sets nothing. Names that the class OrderedDict has are skipped. Raises CheckpointError if the object below
        has another class, the popped object is neither a dict nor None, or an attribute's name is neither a string nor
        an integer.
        """
        (state,) = self.take(1)
        target = self._container(OrderedDict)
        # Skip names of the class, so that a file cannot replace methods.
        attributes = _check_attributes(state)
        vars(target).update({name: v for name, v in attributes.items() if not hasattr(OrderedDict, name)})

    def _container(self, kind: Any) -> Any:
        """Return the top of the stack. Raises CheckpointError if it is not an instance of `kind`."""
        # Python's pickle calls the methods of any object here; this reader accepts only real containers.
        if not isinstance(self.stack[-1], kind):
            name = getattr(kind, "__name__", "list")
            raise file_error(f"the file adds items to a {type(self.stack[-1]).__name__} as if it were a {name}")
        return self.stack[-1]

    def push(self, value: Any) -> None:
        """Push a value."""
        self.stack.append(value)

    def push_old_text(self, value: Any) -> None:
        """Push a string that Python 2 wrote, decoded with `encoding`, or its bytes if that is "bytes".

        Raises CheckpointError if decoding fails.
        """
        raw = value.encode("latin-1") if isinstance(value, str) else value
        try:
            self.stack.append(raw if self.encoding == "bytes" else raw.decode(self.encoding))
        except UnicodeDecodeError as e:
            raise file_error(
                f"the file has a string of Python 2 that cannot be decoded as {self.encoding}: {e}",
                "Pass encoding='latin1' or encoding='bytes' to torch.load.",
            ) from e

    def put(self, number: int) -> None:
        """Store the top of the stack in the memo under `number`."""
        self.memo[number] = self.stack[-1]


def _rebuild_tensor(
    r: Reader,
    storage: Any,
    offset: int,
    size: tuple[Any, ...],
    stride: tuple[Any, ...],
    requires_grad: bool = False,
    *_: Any,
) -> Tensor | LazyArray:
    """Return a view of `storage`, for `torch._utils._rebuild_tensor` and `_rebuild_tensor_v2`.

    `offset`, `size` and `stride` count elements. The tensor requires a gradient only if `requires_grad` is True itself.
    Further arguments, such as hooks, are ignored. Raises CheckpointError if `storage` is no storage or the view is out
    of bounds.
    """
    return r.storages.tensor(storage, offset, tuple(size), tuple(stride), requires_grad is True)


def _rebuild_typed_tensor(
    r: Reader, storage: Any, offset: int, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any, *_: Any
) -> Tensor | LazyArray:
    """Return a view of the untyped `storage` as elements of `dtype`, for `torch._utils._rebuild_tensor_v3`.

    `offset`, `size` and `stride` count elements of `dtype`. `hooks` and further arguments are ignored. Raises
    CheckpointError if `storage` has a type already, `dtype` is no DType, or the view is out of bounds.
    """
    if not isinstance(storage, _UntypedBytes) or not isinstance(dtype, DType) or not isinstance(storage.count, int):
        raise file_error("a tensor in the file has no valid storage or dtype")
    typed = r.storages.storage(storage.key, dtype, storage.count // dtype.itemsize, storage.location)
    return _rebuild_tensor(r, typed, offset, size, stride, requires_grad)


def _rebuild_meta_tensor(r: Reader, dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    if not isinstance(dtype, DType):
        raise file_error("a tensor in the file has no valid dtype")
    return empty(*size, dtype=dtype, device="meta", requires_grad=requires_grad is True)


def _rebuild_from_type(r: Reader, function: Any, kind: Any, args: Any, state: Any) -> Any:
    """Return `function(*args)`, a plain tensor, with the attributes in `state`.

    `state` is a dict of attributes, None, or a tuple of these. Names that the class of the new tensor defines are
    skipped. The class `kind` in the file is ignored. A LazyArray, the result for a lazy reader, gets no attributes.
    Raises CheckpointError if `state` has another type or an attribute's name is neither a string nor an integer.

    PyTorch's name of the function is `torch._tensor._rebuild_from_type_v2`.
    """
    tensor = r.called(function, args)
    # Attributes that a script set on the tensor; slots are in a second dict.
    for part in state if isinstance(state, tuple) else (state,):
        for name, value in _check_attributes(part).items():
            if not hasattr(type(tensor), name) and not isinstance(tensor, LazyArray):
                setattr(tensor, name, value)
    return tensor


def _rebuild_parameter(r: Reader, data: Any, requires_grad: bool = True, *_: Any) -> Tensor | LazyArray:
    if not isinstance(data, Tensor | LazyArray):
        raise file_error("a parameter in the file is not a tensor")
    return r.storages.parameter(data, requires_grad is True)  # type: ignore[arg-type]


def _rebuild_parameter_with_state(r: Reader, data: Any, requires_grad: bool, hooks: Any, state: Any) -> Any:
    return _rebuild_from_type(
        r, NamedGlobal("torch._utils _rebuild_parameter"), None, (data, requires_grad, hooks), state
    )


def _check_attributes(state: Any) -> dict[str, Any]:
    """Return the attributes `state` of an object in the file, with their names as strings. None has no attributes.

    Raises CheckpointError if `state` is neither a dict nor None, or a name is neither a string nor an integer.
    """
    if not isinstance(state, dict | None):
        raise file_error(f"the file has a {type(state).__name__} where a dict of attributes is expected")
    return {_check_text(name): value for name, value in (state or {}).items()}


def _check_text(value: Any) -> str:
    """Return a name as a string. Raises CheckpointError for anything but a string or an integer."""
    # The text of a nested tuple could be larger than the memory.
    if not isinstance(value, str | int):
        raise file_error(f"the file has a {type(value).__name__} where a name is expected")
    return str(value)


_UNTYPED_STORAGE = "torch.storage UntypedStorage"
_TYPES = {_UNTYPED_STORAGE, "torch Tensor", "torch.nn.parameter Buffer"} | {
    f"torch {name.replace('Storage', 'Tensor')}" for name in STORAGE_DTYPES
}
"""Names that occur only as arguments."""
_CALLS: dict[str, Callable[..., Any]] = {
    "torch._utils _rebuild_tensor": _rebuild_tensor,
    "torch._utils _rebuild_tensor_v2": _rebuild_tensor,
    "torch._utils _rebuild_tensor_v3": _rebuild_typed_tensor,
    "torch._utils _rebuild_meta_tensor_no_storage": _rebuild_meta_tensor,
    "torch._utils _rebuild_parameter": _rebuild_parameter,
    "torch._utils _rebuild_parameter_with_state": _rebuild_parameter_with_state,
    "torch.nn.parameter Parameter": _rebuild_parameter,
    "torch._tensor _rebuild_from_type_v2": _rebuild_from_type,
    # Arguments are converted with int() and str(), so that no other objects pass.
    "torch Size": lambda r, extents: Size(int(e) for e in extents),
    "torch device": lambda r, kind, index=None: Device(_check_text(kind), index if index is None else int(index)),
    "_codecs encode": lambda r, text, coding="latin-1": encode_text(text, coding),
}
# Includes opcodes that other versions of PyTorch and Python write.
_CONSTANTS = """BININT BININT1 BININT2 LONG1 LONG4 LONG INT BINFLOAT FLOAT BINUNICODE SHORT_BINUNICODE BINUNICODE8
    UNICODE BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8"""
_OPCODES: dict[str, Callable[[Reader, Any], Any]] = {
    **dict.fromkeys(_CONSTANTS.split(), Reader.push),
    **dict.fromkeys(("SHORT_BINSTRING", "BINSTRING", "STRING"), Reader.push_old_text),
    **{name: (lambda r, _: None) for name in ("PROTO", "FRAME", "STOP")},
    "NONE": lambda r, _: r.push(None),
    "NEWTRUE": lambda r, _: r.push(True),
    "NEWFALSE": lambda r, _: r.push(False),
    "MARK": lambda r, _: r.push(_MARK),
    "EMPTY_TUPLE": lambda r, _: r.push(()),
    "EMPTY_LIST": lambda r, _: r.push([]),
    "EMPTY_DICT": lambda r, _: r.push({}),
    "EMPTY_SET": lambda r, _: r.push(set()),
    "TUPLE": lambda r, _: r.push(tuple(r.pop_to_mark())),
    "TUPLE1": lambda r, _: r.push(tuple(r.take(1))),
    "TUPLE2": lambda r, _: r.push(tuple(r.take(2))),
    "TUPLE3": lambda r, _: r.push(tuple(r.take(3))),
    "LIST": lambda r, _: r.push(r.pop_to_mark()),
    "DICT": Reader.dictionary,
    "FROZENSET": lambda r, _: r.push(frozenset(map(check_hashable, r.pop_to_mark()))),
    "APPEND": Reader.append,
    "APPENDS": Reader.extend,
    "ADDITEMS": Reader.add_members,
    "SETITEM": Reader.set_item,
    "SETITEMS": Reader.set_items,
    "BUILD": lambda r, state: r.build(state),
    "REDUCE": lambda r, _: r.reduce(_),
    "NEWOBJ": lambda r, _: r.new(_),
    "DUP": lambda r, _: r.push(r.stack[-1]),
    "POP": lambda r, _: r.take(1),
    "POP_MARK": lambda r, _: r.pop_to_mark(),
    # Names, which must be in the tables. INST, OBJ and NEWOBJ_EX are excluded because no writer of tensors needs them.
    # EXT1 to EXT4 refer to names that only a program can register.
    "GLOBAL": lambda r, path: r.named(python3_path(path)),
    "STACK_GLOBAL": Reader.stack_named,
    "BINPERSID": Reader.persistent,
    "PERSID": lambda r, text: r.push(r.referred(text)),
    # The memo, through which an object can occur several times.
    "PUT": Reader.put,
    "BINPUT": Reader.put,
    "LONG_BINPUT": Reader.put,
    "GET": lambda r, number: r.push(r.memo[number]),
    "BINGET": lambda r, number: r.push(r.memo[number]),
    "LONG_BINGET": lambda r, number: r.push(r.memo[number]),
    "MEMOIZE": lambda r, _: r.put(len(r.memo)),
}
