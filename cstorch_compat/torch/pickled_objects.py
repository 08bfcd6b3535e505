"""Objects of classes in PyTorch's files: written as pickle writes them, and read without running any pickle.

A class is made from a file only if it is on a list: PyTorch's layers, what `add_safe_globals` was given, and, where a
script says `weights_only=False`, plain classes of modules that the script has imported already. Nothing is imported.
"""

import copyreg
import functools
import pickle
import sys
from collections import OrderedDict
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from cstorch_compat.names import table
from cstorch_compat.run.process import Slot
from lazytensor import source
from lazytensor.errors import CheckpointError
from lazytensor.nn.module import Module
from lazytensor.nn.rnn import RNNBase
from lazytensor.serialization.layout import refused
from lazytensor.serialization.reader import Reader, hashable
from lazytensor.serialization.writer import Writer

safe: Slot[dict[str, Any]] = Slot(dict)
"""What a script has allowed, by "module name"."""
KNOWN = ("torch.nn.modules.", "torch.nn.functional", "torch.nn.parallel.", "torch.optim.")
"""Modules of ours whose classes and functions files may name."""
# Modules keep their hooks and settings under other names than PyTorch's.
_OF_PYTORCH = """_non_persistent_buffers_set _backward_pre_hooks _backward_hooks _is_full_backward_hook _forward_hooks
    _forward_hooks_with_kwargs _forward_hooks_always_called _forward_pre_hooks _forward_pre_hooks_with_kwargs
    _state_dict_hooks _state_dict_pre_hooks _load_state_dict_pre_hooks _load_state_dict_post_hooks""".split()
_OURS = frozenset("_transient _scope _load_pre_hooks _load_post_hooks".split())
_OF_FILES_ALONE = frozenset("_flat_weight_refs _flat_weights_names _all_weights _flat_weights".split())
ARRAY_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")
ARRAY_KINDS = "biufcSUmMV"
"""Kinds of elements that arrays of files may have: no objects."""


class UnsafeGlobal(CheckpointError, pickle.UnpicklingError):
    """A file asks for a class that is on no list."""


@functools.cache
def public_names() -> dict[int, str]:
    """The name in PyTorch of each of our layers, functions and optimizers, by identity."""
    names: dict[int, str] = {}
    for path in table.entries():
        if path.startswith(KNOWN):
            for name in table.names(path):
                origin = table.origin(path, name)
                if origin is not None:
                    names.setdefault(id(origin.value()), f"{path} {name}")
    return names


def known(path: str) -> Any:
    """What a name of a file stands for here; None if it is not one of PyTorch's that are here."""
    module, _, name = path.partition(" ")
    # Functions that PyTorch has from its core stand in files under that name.
    module = "torch.nn.functional" if module == "torch._C._nn" else module
    if module.startswith(KNOWN) and module in table.entries():
        origin = table.origin(module, name)
        return None if origin is None else origin.value()
    return None


class ObjectWriter(Writer):
    """Writes instances of any class as pickle does, and names our layers as PyTorch's."""

    def other(self, value: Any) -> None:
        """An array, a class, a function, a module, or another object."""
        if isinstance(value, Module):
            return self._instance(type(value), (), pytorch_state(value), value)
        if isinstance(value, bytes):
            return self._call("_codecs encode", (value.decode("latin-1"), "latin-1"), value)
        if isinstance(value, set):
            return self._call("__builtin__ set", (list(value),), value)
        if isinstance(value, type | FunctionType | BuiltinFunctionType):
            return self.name(self.path_of(value))
        return self._reduced(value)

    def path_of(self, thing: Any) -> str:
        """The name of a class or function. Raises CheckpointError for one that nobody could find again."""
        # By identity: a subclass of a layer has a name of its own.
        public = public_names().get(id(thing))
        if public is not None:
            return public
        module, name = getattr(thing, "__module__", None) or "builtins", thing.__qualname__
        if "<" in name:
            raise refused(f"{name} has no name by which it could be found again", "Define it at the top of a module.")
        return f"{'__builtin__' if module == 'builtins' else module} {name}"

    def _reduced(self, value: Any) -> None:
        # Python's own description of the object: a function, its arguments, then state, members and pairs.
        try:
            answer = value.__reduce_ex__(2)
        except TypeError as e:
            raise refused(f"a {type(value).__name__} cannot be saved: {e}", "Save what it was made of.") from e
        if isinstance(answer, str):
            return self.name(self.path_of(value))
        function, args, state, members, pairs = (*answer, None, None, None)[:5]
        if function is copyreg.__newobj__:  # type: ignore[attr-defined]
            self._instance(args[0], args[1:], None, value)
        else:
            self._call(self.path_of(function), args, value)
        for items, opcode in ((members, b"e"), ([p for pair in pairs or () for p in pair], b"u")):
            parts = list(items or ())
            if parts:
                self.out += b"("
                self._inside(parts)
                self.out += opcode
        if state is not None:
            self.write(state)
            self.out += b"b"
        return None

    def _instance(self, kind: type, args: tuple[Any, ...], state: Any, value: Any) -> None:
        # NEWOBJ makes it from its class, BUILD gives it its state.
        self.name(self.path_of(kind))
        self.some(args)
        # Known by number before its state is written, in which it may stand itself.
        self.out += b"\x81"
        self._put(id(value), value)
        if state is not None:
            self.write(state)
            self.out += b"b"

    def _call(self, path: str, args: tuple[Any, ...], value: Any) -> None:
        self.name(path)
        self.some(args)
        self.out += b"R"
        self._put(id(value), value)


def pytorch_state(module: Module) -> dict[str, Any]:
    """The attributes of a module under the names that PyTorch gives them."""
    own = vars(module)
    state: dict[str, Any] = {"training": own["training"]}
    for name in ("_parameters", "_buffers"):
        state[name] = own[name]
    # PyTorch looks for all of its tables, empty ones too.
    for name in _OF_PYTORCH:
        state[name] = OrderedDict()
    # Hooks that a script has registered are functions, and are written with the names of those.
    for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks"):
        state[name] = OrderedDict(own[name])
    state |= {"_non_persistent_buffers_set": set(own["_transient"]), "_is_full_backward_hook": None}
    state["_modules"] = own["_modules"]
    if isinstance(module, RNNBase):
        # PyTorch's recurrent layers name their weights a second time, layer by layer.
        names = [name for name, value in own["_parameters"].items() if value is not None]
        each = 4 if module.bias else 2
        state["_all_weights"] = [names[i : i + each] for i in range(0, len(names), each)]
        state["_flat_weights_names"], state["_flat_weight_refs"] = names, []
        state["_flat_weights"] = [own["_parameters"][name] for name in names]
    return state | {k: v for k, v in own.items() if k not in state and k not in _OURS}


def restore(module: Module, state: dict[str, Any]) -> None:
    """Give a module that was made without its constructor the attributes of a file."""
    Module.__init__(module)
    own = vars(module)
    own["_transient"] = set(state.get("_non_persistent_buffers_set", ()))
    for name, value in state.items():
        # Hooks of files are not called: they are functions that a file has chosen.
        if name in _OF_PYTORCH or name in _OF_FILES_ALONE:
            continue
        own[name] = dict(value) if name in ("_parameters", "_buffers", "_modules") else value


class ObjectReader(Reader):
    """Reads objects of allowed classes, and arrays. `is_trusting` allows plain classes that are imported already."""

    def __init__(self, storages: Any, is_trusting: bool = False):
        super().__init__(storages)
        self.is_trusting = is_trusting

    def action(self, opcode: str) -> Any:
        """What an opcode does; None if it is not allowed."""
        return _MORE.get(opcode) or super().action(opcode)

    def named(self, path: str) -> None:
        """A class or function of the lists, else a name of PyTorch's rebuilders."""
        if path in _CALLED or path in safe.value or path in _PLAIN:
            self.stack.append(safe.value[path] if path in safe.value else _PLAIN.get(path, _Call(path)))
            return
        # Ours before anybody else's: the file means PyTorch's own layer.
        thing = known(path)
        if thing is None and self.is_trusting:
            thing = imported(path)
        if thing is not None:
            self.stack.append(thing)
            return
        try:
            super().named(path)
        except CheckpointError:
            raise _unsafe(path, self.is_trusting) from None

    def reduce(self, _: Any) -> None:
        """Call a function of the lists."""
        function, args = self.stack[-2:]
        if isinstance(function, _Call):
            self.take(2)
            called: Any = _CALLED[function.path]
            self.stack.append(called(*args))
        elif function in _PLAIN.values() or any(function is allowed for allowed in safe.value.values()):
            # The script has allowed it by name, which allows its constructor too.
            self.take(2)
            self.stack.append(function(*args))
        else:
            super().reduce(_)

    def new(self, _: Any) -> None:
        """An object of a class of the lists, without its constructor."""
        kind, args = self.take(2)
        if not isinstance(kind, type):
            raise refused("the file makes an object of something that is no class")
        self.stack.append(object.__new__(kind) if issubclass(kind, Module) else kind.__new__(kind, *args))

    def build(self, _: Any) -> None:
        """The state of an object."""
        thing = self.stack[-2]
        if isinstance(thing, OrderedDict):
            super().build(_)
            return
        (state,) = self.take(1)
        if isinstance(thing, np.dtype):
            _check_order(state)
        elif isinstance(thing, np.ndarray):
            _fill(thing, state)
        elif isinstance(thing, Module) and not hasattr(type(thing), "__setstate__"):
            restore(thing, state)
        else:
            _give(thing, state)


def _give(thing: Any, state: Any) -> None:
    if hasattr(thing, "__setstate__"):
        thing.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    vars(thing).update(attributes or {})
    for name, value in (slots or {}).items():
        object.__setattr__(thing, name, value)


def imported(path: str) -> Any:
    """A class or function of a module that is imported already, if reading it from a file runs nothing of its own."""
    module, _, name = path.partition(" ")
    thing = getattr(sys.modules.get(module), name, None)
    if isinstance(thing, FunctionType):
        return thing  # named, and not called
    if not isinstance(thing, type) or thing.__module__ in ("builtins", "os", "subprocess", "sys"):
        return None
    # Constructors and setters of state are code that a file could set off; a plain class has none that run here.
    runs = ("__setstate__", "__reduce__", "__del__", "__call__")
    has_code = any(n in vars(kind) for kind in thing.__mro__[:-1] for n in runs)
    return thing if issubclass(thing, Module) or (not has_code and thing.__new__ is object.__new__) else None


def _unsafe(path: str, is_trusting: bool) -> UnsafeGlobal:
    name = path.replace(" ", ".")
    plain = name.rpartition(".")[2]
    hint = f"Allow it with torch.serialization.add_safe_globals([{plain}])"
    hint += ", after importing it." if is_trusting else ", or save a state_dict()."
    return UnsafeGlobal(
        f"Weights only load failed. Unsupported global: GLOBAL {name} was not an allowed global by default",
        where=source.where(),
        hint=hint,
    )


class _Call:
    """A function of the table below, until it is called."""

    def __init__(self, path: str):
        self.path = path


def _encoded(text: str, coding: str = "latin-1") -> bytes:
    if not isinstance(coding, str) or coding not in ("latin-1", "latin1"):
        raise refused(f"the file has bytes in the coding {coding!r:.20}" if isinstance(coding, str) else "no coding")
    return text.encode("latin-1")


def _empty_array(*_: Any) -> np.ndarray:
    return np.empty(0)


def _dtype(text: Any, *_: Any) -> np.dtype:
    if not isinstance(text, str):
        raise refused(f"the file has a {type(text).__name__} where a type of numbers belongs")
    dtype = np.dtype(text)
    if dtype.kind not in ARRAY_KINDS or dtype.hasobject:
        raise refused(f"the file has an array of {dtype}")
    return dtype


def _check_order(state: Any) -> None:
    # Elements of several bytes the other way round: no machine that runs this writes such.
    if not isinstance(state, tuple) or len(state) < 2 or state[1] == ">":
        raise refused("the file has an array of big-endian numbers")


def _fill(array: np.ndarray, state: Any) -> None:
    _, shape, dtype, is_fortran, raw = state
    if not isinstance(dtype, np.dtype):
        raise refused("the file has an array without a type")
    # Files of Python 2 have the bytes as a text.
    data = raw.encode("latin-1") if isinstance(raw, str) else raw
    # A wrong length is an error here, before anything is kept.
    values = np.frombuffer(data, dtype).reshape(shape, order="F" if is_fortran else "C")
    # In place: what the file has named before must become it.
    give: Any = array.__setstate__
    give((1, values.shape, dtype, bool(is_fortran), data))


def _scalar(dtype: Any, raw: Any) -> Any:
    data = raw.encode("latin-1") if isinstance(raw, str) else raw
    return np.frombuffer(data, _dtype(dtype.str))[0]


_CALLED = {
    "_codecs encode": _encoded,
    "numpy dtype": _dtype,
    "__builtin__ set": lambda items=(): set(map(hashable, items)),
    "builtins set": lambda items=(): set(map(hashable, items)),
    **{f"{m} _reconstruct": _empty_array for m in ARRAY_MODULES},
    **{f"{m} scalar": _scalar for m in ARRAY_MODULES},
}
_PLAIN = {"numpy ndarray": np.ndarray, "__builtin__ object": object, "__builtin__ bytearray": bytearray}


def _binary(reader: Reader, value: Any) -> None:
    reader.stack.append(value)


_MORE: dict[str, Any] = {
    "NEWOBJ": ObjectReader.new,
    **dict.fromkeys(("SHORT_BINBYTES", "BINBYTES", "SHORT_BINSTRING", "BINSTRING", "STRING"), _binary),
    "DUP": lambda r, _: r.stack.append(r.stack[-1]),
    "EMPTY_SET": lambda r, _: r.stack.append(set()),
}
