"""Writing and reading of objects in PyTorch files. Objects are pickled, and are read without executing a pickle.

An object is created from a file only if its class is allowed. With `weights_only=True` these are PyTorch's list and the
classes given to `add_safe_globals`. With `weights_only=False` they are also PyTorch's layers and optimizers, NumPy
arrays, values of the standard library, and plain classes of imported modules.
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
"""The classes and functions that the script has allowed, by "module name"."""
KNOWN_MODULES = ("torch.nn.modules.", "torch.nn.functional", "torch.nn.parallel.", "torch.optim.")
"""Modules whose emulated classes and functions files may name."""
# Modules store hooks and settings under other attribute names than PyTorch's.
_PYTORCH_ONLY_ATTRIBUTES = """_non_persistent_buffers_set _backward_pre_hooks _backward_hooks _is_full_backward_hook
_forward_hooks
    _forward_hooks_with_kwargs _forward_hooks_always_called _forward_pre_hooks _forward_pre_hooks_with_kwargs
    _state_dict_hooks _state_dict_pre_hooks _load_state_dict_pre_hooks _load_state_dict_post_hooks""".split()
_LAZYTENSOR_ONLY_ATTRIBUTES = frozenset("_transient _scope _load_pre_hooks _load_post_hooks".split())
_FILE_ONLY_ATTRIBUTES = frozenset("_flat_weight_refs _flat_weights_names _all_weights _flat_weights".split())


class WeightsOnlyError(CheckpointError, pickle.UnpicklingError):
    """The error for a file that needs more than `weights_only=True` allows."""


class UnsafeGlobal(WeightsOnlyError):
    """The error for a file that names a class that is not allowed."""


@functools.cache
def pytorch_names_by_id() -> dict[int, str]:
    """Return PyTorch's "module name" of each emulated layer, function and optimizer, by the id of the object."""
    names: dict[int, str] = {}
    for path in mirror_table.entries():
        if path.startswith(KNOWN_MODULES):
            for name in mirror_table.list_names(path):
                origin = mirror_table.find_origin(path, name)
                if origin is not None and origin.module != mirror_table.REFUSED_MODULE:
                    names.setdefault(id(origin.value()), f"{path} {name}")
    return names


def find_known_class(path: str) -> Any:
    """Return the emulated object for a PyTorch path "module name", or None if there is none."""
    module, _, name = path.partition(" ")
    # Files name some functions by the module of PyTorch's core.
    module = "torch.nn.functional" if module == "torch._C._nn" else module
    if module.startswith(KNOWN_MODULES) and module in mirror_table.entries():
        origin = mirror_table.find_origin(module, name)
        if origin is not None and origin.module != mirror_table.REFUSED_MODULE:
            return origin.value()
    return None


_PLAIN_TYPES = (int, float, str, tuple, list, dict)
_EXACT_TYPES = (bool, *_PLAIN_TYPES, Size, OrderedDict)


class ObjectWriter(Writer):
    """A pickle writer for objects of any class, which writes emulated layers under their PyTorch names."""

    def write(self, value: Any) -> None:
        """Write a value. An instance of a subclass of a plain type keeps its class."""
        if isinstance(value, _PLAIN_TYPES) and type(value) not in _EXACT_TYPES and id(value) not in self.memo:
            return self.other(value)
        return super().write(value)

    def other(self, value: Any) -> None:
        """Write a module, bytes, a set, a class, a function, or another object by its reduction.

        A module is written with PyTorch's class name and attributes.
        """
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
        """Return the "module name" of a class or function.

        Raises CheckpointError for a local one, which cannot be found again.
        """
        # Compare by identity, because a subclass of a layer has another name.
        public = pytorch_names_by_id().get(id(thing))
        if public is not None:
            return public
        module, name = getattr(thing, "__module__", None) or "builtins", thing.__qualname__
        if "<" in name:
            raise file_error(
                f"{name} cannot be saved, because it is not at the top level of a module",
                "Define it at the top level of a module.",
            )
        return f"{'__builtin__' if module == 'builtins' else module} {name}"

    def _write_reduced(self, value: Any) -> None:
        """Write an object by its `__reduce_ex__` description. Raises CheckpointError if it has none."""
        # Python's reduction of the object: function, arguments, state, list items and dict items.
        try:
            answer = value.__reduce_ex__(2)
        except TypeError as e:
            raise file_error(
                f"a {type(value).__name__} cannot be saved: {e}", "Save the data from which it was created."
            ) from e
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
        # NEWOBJ creates the object, and BUILD sets its state.
        self.name(self.global_path(kind))
        self.some(args)
        # Memoize the object before its state, which may refer to it.
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
    """Return the attributes of a module under PyTorch's names, as PyTorch's pickle of a module has them.

    Parameters, buffers and submodules are not copied. Attributes that PyTorch does not have are left out, and tables
    that only PyTorch has are added empty.
    """
    own = vars(module)
    state: dict[str, Any] = {"training": own["training"]}
    for name in ("_parameters", "_buffers"):
        state[name] = own[name]
    # PyTorch requires all of its tables, including empty ones.
    for name in _PYTORCH_ONLY_ATTRIBUTES:
        state[name] = OrderedDict()
    # Registered hooks are functions and are written by name.
    for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks"):
        state[name] = OrderedDict(own[name])
    state |= {"_non_persistent_buffers_set": set(own["_transient"]), "_is_full_backward_hook": None}
    state["_modules"] = own["_modules"]
    if isinstance(module, RNNBase):
        # PyTorch's recurrent layers list their weights a second time, by layer.
        names = [name for name, value in own["_parameters"].items() if value is not None]
        each = 4 if module.bias else 2
        state["_all_weights"] = [names[i : i + each] for i in range(0, len(names), each)]
        state["_flat_weights_names"], state["_flat_weight_refs"] = names, []
        state["_flat_weights"] = [own["_parameters"][name] for name in names]
    return state | {k: v for k, v in own.items() if k not in state and k not in _LAZYTENSOR_ONLY_ATTRIBUTES}


def restore_module(module: Module, state: dict[str, Any]) -> None:
    """Set the attributes of a module that was created without its constructor, from PyTorch's `state`.

    Hooks of the file, and attributes that only PyTorch has, are dropped.
    """
    Module.__init__(module)
    own = vars(module)
    own["_transient"] = set(state.get("_non_persistent_buffers_set", ()))
    for name, value in state.items():
        # Hooks are dropped, because a file could name any function.
        if name in _PYTORCH_ONLY_ATTRIBUTES or name in _FILE_ONLY_ATTRIBUTES:
            continue
        own[name] = dict(value) if name in ("_parameters", "_buffers", "_modules") else value


class ObjectReader(Reader):
    """A pickle reader for objects of allowed classes.

    `weights_only` allows only what PyTorch allows under that name.
    """

    def __init__(self, storages: Any, weights_only: bool = True, encoding: str = "latin-1"):
        super().__init__(storages, encoding)
        self.weights_only = weights_only
        # The objects that a file of PyTorch 0.1 refers to by number.
        self.objects: dict[str, Any] = {}

    def action(self, opcode: Any, position: int | None) -> Any:
        """Return the function for an opcode.

        Raises WeightsOnlyError for one that PyTorch's weights-only reader does not support.
        """
        if self.weights_only and opcode.name not in WEIGHTS_ONLY_OPCODES:
            raise WeightsOnlyError(
                "Weights only load failed. The file is a pickle of a protocol that weights_only=True does not read "
                f"(Unsupported operand {ord(opcode.code)}, {opcode.name})",
                where=source.where(),
                hint="Pass weights_only=False, or save it again with the default pickle_protocol=2.",
            )
        return super().action(opcode, position)

    def listed(self, path: str) -> Any:
        """Return the object for a global name of the file, or None if there is none or it is not allowed.

        Globals that the user allowed always count. With `weights_only` only listed names outside of NOT_WEIGHTS_ONLY
        are added. Without it also NumPy's functions, known and standard classes, and what the process has imported, in
        this order.
        """
        if path in allowed_globals.value:
            return pickled_arrays.NUMPY_FUNCTIONS.get(path, allowed_globals.value[path])
        if self.weights_only:
            return None if path in NOT_WEIGHTS_ONLY else super().listed(path)
        # Emulated classes come before those of the script, because the file means PyTorch's layer.
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
        """Return the error, an UnsafeGlobal, for a global name ("module name") that is not allowed.

        Its hint describes how to allow it.
        """
        name = path.replace(" ", ".")
        if self.weights_only:
            what = f"Weights only load failed. Unsupported global: GLOBAL {name} was not an allowed global by default"
            hint = "Pass weights_only=False if you trust the file, or "
        else:
            module = path.partition(" ")[0]
            is_imported = module in sys.modules
            reason = "which runs code when it is read" if is_imported else f"and {module} is not imported"
            what = f"the file is intact but uses {name}, {reason}; files are read without running code"
            hint = "If you trust the file, " if is_imported else f"Import {module} first, or "
        hint += f"allow it with torch.serialization.add_safe_globals([{name.rpartition('.')[2]}])."
        return UnsafeGlobal(what, where=source.where(), hint=hint)

    def referred(self, answer: Any) -> Any:
        """Return the object for a persistent id of the file: a storage, or the class of a module.

        Files before the zip format give a module class with its source code, which is ignored.
        """
        # Files before the zip format also contain the source code of a module's class, which is not needed.
        if isinstance(answer, tuple) and len(answer) == 4 and answer[0] == "module":
            return answer[1]
        if isinstance(answer, str | int) and str(answer) in self.objects:
            return self.objects[str(answer)]
        return super().referred(answer)

    def called(self, function: Any, args: Any) -> Any:
        """Return the result of a call that the file requests.

        NumPy's functions, value classes and objects that the user allowed are called with `args`. Python's
        reconstruction function, `getattr`, and the look-up of an enumeration member are emulated. Other functions are
        those of the base class, which raises CheckpointError for any that is not allowed. Objects of pickle protocol 0
        or 1 raise it too.
        """
        # Objects allowed by the script are called, which runs their constructors.
        if _is_one_of(
            function, (*pickled_arrays.NUMPY_FUNCTIONS.values(), *VALUE_CLASSES, *allowed_globals.value.values())
        ):
            return function(*args)
        if function is copyreg._reconstructor:  # type: ignore[attr-defined]
            kind, base, _ = args
            if base is not object:
                raise file_error(
                    f"the file creates a {kind} with pickle protocol 0 or 1", "Save it with pickle_protocol=2."
                )
            return self._made(kind, ())
        if function is getattr:
            return self._member(*args)
        if isinstance(function, type) and issubclass(function, enum.Enum) and len(args) == 1:
            if not isinstance(args[0], int | float | str | bytes | bool | tuple | None):
                raise file_error(f"the file looks up a member of {function.__name__} by a {type(args[0]).__name__}")
            return function(check_hashable(args[0]))
        return super().called(function, args)

    def _member(self, owner: Any, name: Any) -> Any:
        # The only allowed member is a nested class.
        member = vars(owner).get(name) if isinstance(owner, type) and isinstance(name, str) else None
        if not isinstance(member, type) or find_imported(f"{member.__module__} {member.__qualname__}") is None:
            raise file_error("the file uses an attribute that is not a class")
        return member

    def new(self, _: Any) -> None:
        """Execute NEWOBJ: create an object of an allowed class without calling its constructor."""
        kind, args = self.take(2)
        self.stack.append(self._made(kind, args))

    def _made(self, kind: Any, args: Any) -> Any:
        """Return a new object of an allowed class.

        Its constructor is called only for value classes and listed constructors. Raises CheckpointError if `kind` is no
        class or is an array, and for a plain Python class, such as list, with arguments.
        """
        if not isinstance(kind, type) or kind is np.ndarray:
            raise file_error("the file creates an object of something that is not a class")
        if kind in CONSTRUCTORS or _is_one_of(kind, VALUE_CLASSES):
            return self.called(kind, args)
        if kind in CLASSES.values() and args:
            raise file_error(f"the file creates a {kind.__name__} with constructor arguments")
        return object.__new__(kind) if issubclass(kind, Module) else kind.__new__(kind, *args)

    def build(self, _: Any) -> None:
        """Execute the opcode BUILD: take a state from the stack, and set it on the object below.

        Modules, arrays and dtypes are set by their own functions. Raises CheckpointError for a class, tensor, function
        or NumPy scalar.
        """
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
            raise file_error(f"the file changes the state of a {type(thing).__name__}")
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
"""The pickle opcodes that PyTorch 2.13 reads with `weights_only=True`."""
NOT_WEIGHTS_ONLY = (
    CLASSES.keys()
    - {f"builtins {name}" for name in ("bytearray", "complex", "set")}
    - {
        "collections Counter",
        "collections OrderedDict",
    }
)
"""The Python classes that PyTorch 2.13 does not read with `weights_only=True`."""
