"""Objects of classes in PyTorch's files: written as pickle writes them, and read without running any pickle.

A class is made from a file only if it is on a list: what PyTorch allows with `weights_only=True`, what
`add_safe_globals` was given, and with `weights_only=False` also PyTorch's layers and optimizers, NumPy's arrays, values
of the standard library, and plain classes of modules that the script has imported already.
"""

import copyreg
import enum
import functools
import pickle
import sys
from collections import OrderedDict
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from cstorch_compat.names import mirror_table
from cstorch_compat.run.process import RunLocal
from cstorch_compat.torch.serialization import pickled_arrays
from cstorch_compat.torch.serialization.pickled_classes import VALUE_CLASSES, find_imported, find_standard_class
from lazytensor.core import source
from lazytensor.core.tensor import Size, Tensor
from lazytensor.errors import CheckpointError
from lazytensor.nn.module import Module
from lazytensor.nn.rnn import RNNBase
from lazytensor.serialization.containers import CLASSES, CONSTRUCTORS
from lazytensor.serialization.layout import check_hashable, file_error
from lazytensor.serialization.reader import Reader
from lazytensor.serialization.writer import Writer

allowed_globals: RunLocal[dict[str, Any]] = RunLocal(dict)
"""What a script has allowed, by "module name"."""
KNOWN_MODULES = ("torch.nn.modules.", "torch.nn.functional", "torch.nn.parallel.", "torch.optim.")
"""Modules of ours whose classes and functions files may name."""
# Modules keep their hooks and settings under other names than PyTorch's.
_PYTORCH_ONLY_ATTRIBUTES = """_non_persistent_buffers_set _backward_pre_hooks _backward_hooks _is_full_backward_hook
_forward_hooks
    _forward_hooks_with_kwargs _forward_hooks_always_called _forward_pre_hooks _forward_pre_hooks_with_kwargs
    _state_dict_hooks _state_dict_pre_hooks _load_state_dict_pre_hooks _load_state_dict_post_hooks""".split()
_LAZYTENSOR_ONLY_ATTRIBUTES = frozenset("_transient _scope _load_pre_hooks _load_post_hooks".split())
_FILE_ONLY_ATTRIBUTES = frozenset("_flat_weight_refs _flat_weights_names _all_weights _flat_weights".split())


class WeightsOnlyError(CheckpointError, pickle.UnpicklingError):
    """A file needs more than `weights_only=True` allows."""


class UnsafeGlobal(WeightsOnlyError):
    """A file asks for a class that is on no list."""


@functools.cache
def pytorch_names_by_id() -> dict[int, str]:
    """The name in PyTorch of each of our layers, functions and optimizers, by identity."""
    names: dict[int, str] = {}
    for path in mirror_table.entries():
        if path.startswith(KNOWN_MODULES):
            for name in mirror_table.list_names(path):
                origin = mirror_table.find_origin(path, name)
                if origin is not None:
                    names.setdefault(id(origin.value()), f"{path} {name}")
    return names


def find_known_class(path: str) -> Any:
    """What a name of a file stands for here; None if it is not one of PyTorch's that are here."""
    module, _, name = path.partition(" ")
    # Functions that PyTorch has from its core stand in files under that name.
    module = "torch.nn.functional" if module == "torch._C._nn" else module
    if module.startswith(KNOWN_MODULES) and module in mirror_table.entries():
        origin = mirror_table.find_origin(module, name)
        return None if origin is None else origin.value()
    return None


_PLAIN_TYPES = (int, float, str, tuple, list, dict)
_EXACT_TYPES = (bool, *_PLAIN_TYPES, Size, OrderedDict)


class ObjectWriter(Writer):
    """Writes instances of any class as pickle does, and names our layers as PyTorch's."""

    def write(self, value: Any) -> None:
        """One value. A value of a subclass of a plain type keeps its class."""
        if isinstance(value, _PLAIN_TYPES) and type(value) not in _EXACT_TYPES and id(value) not in self.memo:
            return self.other(value)
        return super().write(value)

    def other(self, value: Any) -> None:
        """An array, a class, a function, a module, or another object."""
        if isinstance(value, Module):
            return self._write_instance(type(value), (), make_pytorch_state(value), value)
        if isinstance(value, bytes):
            return self._call("_codecs encode", (value.decode("latin-1"), "latin-1"), value)
        if isinstance(value, set):
            return self._call("__builtin__ set", (list(value),), value)
        if isinstance(value, type | FunctionType | BuiltinFunctionType):
            return self.name(self.global_path(value))
        return self._write_reduced(value)

    def global_path(self, thing: Any) -> str:
        """The name of a class or function. Raises CheckpointError for one that nobody could find again."""
        # By identity: a subclass of a layer has a name of its own.
        public = pytorch_names_by_id().get(id(thing))
        if public is not None:
            return public
        module, name = getattr(thing, "__module__", None) or "builtins", thing.__qualname__
        if "<" in name:
            raise file_error(
                f"{name} has no name by which it could be found again", "Define it at the top of a module."
            )
        return f"{'__builtin__' if module == 'builtins' else module} {name}"

    def _write_reduced(self, value: Any) -> None:
        # Python's own description of the object: a function, its arguments, then state, members and pairs.
        try:
            answer = value.__reduce_ex__(2)
        except TypeError as e:
            raise file_error(f"a {type(value).__name__} cannot be saved: {e}", "Save what it was made of.") from e
        if isinstance(answer, str):
            is_constant = value is ... or value is NotImplemented
            return self.name(f"__builtin__ {answer}" if is_constant else self.global_path(value))
        function, args, state, members, pairs = (*answer, None, None, None)[:5]
        if function is copyreg.__newobj__:  # type: ignore[attr-defined]
            self._write_instance(args[0], args[1:], None, value)
        else:
            self._call(self.global_path(function), args, value)
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

    def _write_instance(self, kind: type, args: tuple[Any, ...], state: Any, value: Any) -> None:
        # NEWOBJ makes it from its class, BUILD gives it its state.
        self.name(self.global_path(kind))
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


def make_pytorch_state(module: Module) -> dict[str, Any]:
    """The attributes of a module under the names that PyTorch gives them."""
    own = vars(module)
    state: dict[str, Any] = {"training": own["training"]}
    for name in ("_parameters", "_buffers"):
        state[name] = own[name]
    # PyTorch looks for all of its tables, empty ones too.
    for name in _PYTORCH_ONLY_ATTRIBUTES:
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
    return state | {k: v for k, v in own.items() if k not in state and k not in _LAZYTENSOR_ONLY_ATTRIBUTES}


def restore_module(module: Module, state: dict[str, Any]) -> None:
    """Give a module that was made without its constructor the attributes of a file."""
    Module.__init__(module)
    own = vars(module)
    own["_transient"] = set(state.get("_non_persistent_buffers_set", ()))
    for name, value in state.items():
        # Hooks of files are not called: they are functions that a file has chosen.
        if name in _PYTORCH_ONLY_ATTRIBUTES or name in _FILE_ONLY_ATTRIBUTES:
            continue
        own[name] = dict(value) if name in ("_parameters", "_buffers", "_modules") else value


class ObjectReader(Reader):
    """Reads objects of allowed classes. `weights_only` allows what PyTorch allows under that name, and no more."""

    def __init__(self, storages: Any, weights_only: bool = True, encoding: str = "latin-1"):
        super().__init__(storages, encoding)
        self.weights_only = weights_only
        # What a file of PyTorch 0.1 refers to by number.
        self.objects: dict[str, Any] = {}

    def action(self, opcode: Any, position: int | None) -> Any:
        """Return what an opcode does. Raises WeightsOnlyError for one that PyTorch's weights-only reader lacks."""
        if self.weights_only and opcode.name not in WEIGHTS_ONLY_OPCODES:
            raise WeightsOnlyError(
                "Weights only load failed. The file is a pickle of a protocol that weights_only=True does not read "
                f"(Unsupported operand {ord(opcode.code)}, {opcode.name})",
                where=source.where(),
                hint="Pass weights_only=False, or save it again with the default pickle_protocol=2.",
            )
        return super().action(opcode, position)

    def listed(self, path: str) -> Any:
        """Return what a name of the file stands for, or None if it is on no list."""
        if path in allowed_globals.value:
            return pickled_arrays.NUMPY_FUNCTIONS.get(path, allowed_globals.value[path])
        if self.weights_only:
            return None if path in NOT_WEIGHTS_ONLY else super().listed(path)
        # Ours before the script's: the file means PyTorch's own layer.
        for find in (
            super().listed,
            pickled_arrays.NUMPY_FUNCTIONS.get,
            find_known_class,
            find_standard_class,
            find_imported,
        ):
            thing = find(path)
            if thing is not None:
                return thing
        return None

    def unlisted(self, path: str) -> CheckpointError:
        """Return the error for a global that is on no list."""
        name = path.replace(" ", ".")
        if self.weights_only:
            what = f"Weights only load failed. Unsupported global: GLOBAL {name} was not an allowed global by default"
            hint = "Pass weights_only=False if you trust the file, or "
        else:
            module = path.partition(" ")[0]
            is_imported = module in sys.modules
            reason = "whose reading runs code of its own" if is_imported else f"and {module} is not imported"
            what = f"the file is whole and asks for {name}, {reason}; files are read without running code"
            hint = "If you trust the file, " if is_imported else f"Import {module} first, or "
        hint += f"allow it with torch.serialization.add_safe_globals([{name.rpartition('.')[2]}])."
        return UnsafeGlobal(what, where=source.where(), hint=hint)

    def referred(self, answer: Any) -> Any:
        """Return the storage or the module class with a persistent id."""
        # Files from before the zip format add the source text of a module's class, which is not needed.
        if isinstance(answer, tuple) and len(answer) == 4 and answer[0] == "module":
            return answer[1]
        if isinstance(answer, str | int) and str(answer) in self.objects:
            return self.objects[str(answer)]
        return super().referred(answer)

    def called(self, function: Any, args: Any) -> Any:
        """Return the result of calling a function that the allow-lists name. Raise CheckpointError for any other."""
        # What the script has allowed by name is called, which runs its constructor.
        if _is_one_of(
            function, (*pickled_arrays.NUMPY_FUNCTIONS.values(), *VALUE_CLASSES, *allowed_globals.value.values())
        ):
            return function(*args)
        if function is copyreg._reconstructor:  # type: ignore[attr-defined]
            kind, base, _ = args
            if base is not object:
                raise file_error(
                    f"the file makes a {kind} by pickle protocol 0 or 1", "Save it with pickle_protocol=2."
                )
            return self._made(kind, ())
        if function is getattr:
            return self._member(*args)
        if isinstance(function, type) and issubclass(function, enum.Enum) and len(args) == 1:
            if not isinstance(args[0], int | float | str | bytes | bool | tuple | None):
                raise file_error(f"the file asks for a member of {function.__name__} by a {type(args[0]).__name__}")
            return function(check_hashable(args[0]))
        return super().called(function, args)

    def _member(self, owner: Any, name: Any) -> Any:
        # A class inside of a class.
        member = vars(owner).get(name) if isinstance(owner, type) and isinstance(name, str) else None
        if not isinstance(member, type) or find_imported(f"{member.__module__} {member.__qualname__}") is None:
            raise file_error("the file asks for an attribute that is no class")
        return member

    def new(self, _: Any) -> None:
        """An object of a class of the lists, without its constructor."""
        kind, args = self.take(2)
        self.stack.append(self._made(kind, args))

    def _made(self, kind: Any, args: Any) -> Any:
        if not isinstance(kind, type) or kind is np.ndarray:
            raise file_error("the file makes an object of something that is no class")
        if kind in CONSTRUCTORS or _is_one_of(kind, VALUE_CLASSES):
            return self.called(kind, args)
        if kind in CLASSES.values() and args:
            raise file_error(f"the file makes a {kind.__name__} by a call")
        return object.__new__(kind) if issubclass(kind, Module) else kind.__new__(kind, *args)

    def build(self, _: Any) -> None:
        """The state of an object."""
        thing = self.stack[-2]
        if isinstance(thing, OrderedDict) and type(thing) is OrderedDict:
            super().build(_)
            return
        (state,) = self.take(1)
        if isinstance(thing, np.dtype):
            self._replace(thing, pickled_arrays.build_dtype(thing, state))
        elif isinstance(thing, np.ndarray):
            pickled_arrays.fill_array(thing, state)
        elif isinstance(thing, Module) and not hasattr(type(thing), "__setstate__"):
            restore_module(thing, state)
        elif isinstance(thing, type | Tensor | np.generic | FunctionType | BuiltinFunctionType):
            raise file_error(f"the file changes a {type(thing).__name__} after it was made")
        else:
            _set_state(thing, state)

    def _replace(self, before: Any, after: Any) -> None:
        self.stack[-1] = after
        for number, value in self.memo.items():
            if value is before:
                self.memo[number] = after


def _is_one_of(thing: Any, allowed: Any) -> bool:
    return any(thing is one for one in allowed)


def _set_state(thing: Any, state: Any) -> None:
    if hasattr(type(thing), "__setstate__"):
        thing.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    vars(thing).update(attributes or {})
    for name, value in (slots or {}).items():
        object.__setattr__(thing, name, value)


WEIGHTS_ONLY_OPCODES = frozenset(
    """NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINSTRING EMPTY_TUPLE EMPTY_LIST
    EMPTY_DICT EMPTY_SET MARK TUPLE TUPLE1 TUPLE2 TUPLE3 APPEND APPENDS SETITEM SETITEMS BUILD REDUCE NEWOBJ GLOBAL
    BINPERSID BINPUT LONG_BINPUT BINGET LONG_BINGET PROTO STOP""".split()
)
"""Pickle operations that PyTorch 2.13 reads with `weights_only=True`."""
NOT_WEIGHTS_ONLY = (
    CLASSES.keys()
    - {f"builtins {name}" for name in ("bytearray", "complex", "set")}
    - {
        "collections Counter",
        "collections OrderedDict",
    }
)
"""Classes of Python that PyTorch 2.13 does not read with `weights_only=True`."""
