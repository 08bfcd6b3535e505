"""Modules that contain modules or parameters: sequences, lists and dictionaries."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import IndexInvalid
from lazytensor.nn.module import Module, Parameter


def _module_at(modules: list[Module], index: int) -> Module:
    if not -len(modules) <= index < len(modules):
        raise IndexInvalid(
            f"index {index} is out of range: there are {len(modules)} modules",
            where=source.where(),
            hint="Pass an index below the number of modules.",
        )
    return modules[index]


class Sequential(Module):
    """A module that applies its modules one after another, each to the output of the previous one.

    The arguments are modules, named by their index, or one OrderedDict from names to modules.

    >>> import lazytensor as lt
    >>> lt.nn.Sequential(lt.nn.Linear(8, 4), lt.nn.ReLU())
    Sequential(
      (0): Linear(in_features=8, out_features=4, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args: Any):
        super().__init__()
        # Only an OrderedDict gives names, as in PyTorch. Otherwise the names are indices, which state dicts contain.
        members = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else enumerate(args)
        for name, module in members:
            self.add_module(str(name), module)

    def forward(self, input: Any) -> Any:
        """Return the output of the last module."""
        for module in self:
            input = module(input)
        return input

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int | slice) -> Any:
        # A slice shares the modules and keeps their names.
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return _module_at(list(self._modules.values()), index)

    def __setitem__(self, index: int, module: Module) -> None:
        # By position, since an OrderedDict may have given names that are not numbers.
        self._modules[list(self._modules)[index]] = module

    def __delitem__(self, index: int | slice) -> None:
        _remove_modules(self, index)

    def __add__(self, other: Iterable[Module]) -> "Sequential":
        return Sequential(*self, *other)

    def __iadd__(self, other: Iterable[Module]) -> "Sequential":
        return self.extend(other)

    def __mul__(self, times: int) -> "Sequential":
        return Sequential(*list(self) * times)

    __rmul__ = __mul__

    def append(self, module: Module) -> "Sequential":
        """Add `module` at the end, and return this container."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> "Sequential":
        """Add `modules` at the end, and return this container."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> "Sequential":
        """Insert `module` before position `index`, rename all modules by their new index, and return this container."""
        _insert_module(self, index, module)
        return self

    def pop(self, index: int | slice) -> Module:
        """Remove the module at `index`, rename the others by their new index, and return it."""
        module: Module = self[index]
        del self[index]
        return module


def _renumber_modules(container: Module, modules: Iterable[Module]) -> None:
    """Replace the modules of `container` by `modules`, in order, named "0", "1" and so on."""
    # Names are indices and prefixes of the parameter names.
    container._modules.clear()
    container._modules.update({str(i): m for i, m in enumerate(modules)})


def _remove_modules(container: Module, index: int | slice) -> None:
    modules = list(container._modules.values())
    del modules[index]
    _renumber_modules(container, modules)


def _insert_module(container: Module, index: int, module: Module) -> None:
    modules = list(container._modules.values())
    modules.insert(index, module)
    _renumber_modules(container, modules)


class ModuleList(Module):
    """A list of modules that are registered as submodules, named by their index. It has no `forward`.

    >>> import lazytensor as lt
    >>> len(lt.nn.ModuleList([lt.nn.ReLU(), lt.nn.ReLU()]))
    2
    """

    def __init__(self, modules: Iterable[Module] = ()):
        super().__init__()
        self.extend(modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int | slice) -> Any:
        modules = list(self._modules.values())
        return type(self)(modules[index]) if isinstance(index, slice) else _module_at(modules, index)

    def __setitem__(self, index: int, module: Module) -> None:
        # `range` resolves negative indices and raises IndexError for others out of range.
        self._modules[str(range(len(self))[index])] = module

    def append(self, module: Module) -> "ModuleList":
        """Add `module` at the end, and return this list."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Insert `module` before position `index`, and rename all modules by their new index."""
        _insert_module(self, index, module)

    def extend(self, modules: Iterable[Module]) -> "ModuleList":
        """Add `modules` at the end, and return this list."""
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, index: int | slice) -> Module:
        """Remove the module at `index`, rename the others by their new index, and return it."""
        module: Module = self[index]
        del self[index]
        return module

    def __delitem__(self, index: int | slice) -> None:
        _remove_modules(self, index)

    def __add__(self, other: Iterable[Module]) -> "ModuleList":
        return type(self)([*self, *other])

    def __iadd__(self, other: Iterable[Module]) -> "ModuleList":
        return self.extend(other)

    def __repr__(self) -> str:
        """Return the text of the list, in which equal consecutive modules are printed once with their count."""
        lines = []
        for text, run in groupby(enumerate(map(repr, self)), key=itemgetter(1)):
            places = [i for i, _ in run]
            label = f"({places[0]}): " if len(places) == 1 else f"({places[0]}-{places[-1]}): {len(places)} x "
            lines.append((label + text).replace("\n", "\n  "))
        name = self._get_name()
        return "\n  ".join([f"{name}(", *lines]) + "\n)" if lines else f"{name}()"


class ModuleDict(Module):
    """A dictionary of modules that are registered as submodules under their keys. It has no `forward`.

    >>> import lazytensor as lt
    >>> list(lt.nn.ModuleDict({"act": lt.nn.ReLU()}))
    ['act']
    """

    def __init__(self, modules: Mapping[str, Module] | None = None):
        super().__init__()
        for name, module in (modules or {}).items():
            self.add_module(name, module)

    def __getitem__(self, key: str) -> Module:
        module: Module = self._modules[key]
        return module

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def keys(self) -> Iterable[str]:
        """Return the names of the modules, in insertion order."""
        return self._modules.keys()

    def values(self) -> Iterable[Module]:
        """Return the modules, in insertion order."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Return pairs of name and module, in insertion order."""
        return self._modules.items()

    def pop(self, key: str) -> Module:
        """Remove the module named `key` and return it. Raises KeyError if there is none."""
        module: Module = self._modules.pop(key)
        return module

    def update(self, modules: Mapping[str, Module]) -> None:
        """Add the modules of a mapping, replacing those of the same name."""
        for name, module in modules.items():
            self._modules[name] = module


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


# PyTorch prints the two containers differently: this one with legacy names of dtypes.
_TENSOR_TYPE_NAMES = {
    "float32": "FloatTensor",
    "float64": "DoubleTensor",
    "float16": "HalfTensor",
    "bfloat16": "BFloat16Tensor",
}
"""The legacy names of dtypes that a ParameterDict prints."""


def _summary(value: Any, names: Mapping[str, str] = {}) -> str:
    kind = "Parameter" if isinstance(value, Parameter) else type(value).__name__
    if not isinstance(value, Tensor):
        return f"Object of type: {kind}"
    name = names.get(value.dtype.name, value.dtype.name)
    return f"{kind} containing: [torch.{name} of size {'x'.join(map(str, value.shape))}]"


# Members are attributes named by their index, as in PyTorch's state dicts. A value that is not a tensor is a plain
# attribute and not in the state dict.
class ParameterList(Module):
    """A list of values in which tensors become parameters, named by their index. Other values are kept as they are.

    >>> import lazytensor as lt
    >>> len(lt.nn.ParameterList([lt.zeros(2), lt.ones(3)]))
    2
    """

    def __init__(self, values: Iterable[Any] = ()):
        super().__init__()
        self._size = 0
        self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self._size))

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return ParameterList([self[i] for i in range(*index.indices(self._size))])
        if not -self._size <= index < self._size:
            raise IndexInvalid(
                f"index {index} is out of range: there are {self._size} parameters",
                where=source.where(),
                hint="Pass an index below the number of parameters.",
            )
        return getattr(self, str(index % self._size))

    def __setitem__(self, index: int, value: Any) -> None:
        if not -self._size <= index < self._size:
            raise IndexInvalid(
                f"index {index} is out of range: there are {self._size} parameters",
                where=source.where(),
                hint="Pass an index below the number of parameters.",
            )
        setattr(self, str(index % self._size), _as_parameter(value))

    def append(self, value: Any) -> "ParameterList":
        """Add `value` at the end, and return this list. A tensor becomes a parameter."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> "ParameterList":
        """Add `values` at the end, and return this list."""
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"    ({i}): {_summary(v)}" for i, v in enumerate(self))

    def __repr__(self) -> str:
        return f"ParameterList(\n{self.extra_repr()}\n)" if self._size else "ParameterList()"


class ParameterDict(Module):
    """A dictionary in which tensors become parameters, named by their key. Other values are kept as they are.

    `parameters` is a mapping or an iterable of pairs.

    >>> import lazytensor as lt
    >>> list(lt.nn.ParameterDict({"scale": lt.ones(2)}))
    ['scale']
    """

    def __init__(self, parameters: Any = None):
        super().__init__()
        # An ordered set of keys: `_parameters` contains only tensors, in the order of their first assignment.
        self._keys: dict[str, None] = {}
        self.update(parameters or {})

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def keys(self) -> Iterable[str]:
        """Return the keys, in insertion order."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """Return the values, in insertion order."""
        return (self[k] for k in self._keys)

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return pairs of key and value, in insertion order."""
        return ((k, self[k]) for k in self._keys)

    def update(self, parameters: Any) -> None:
        """Add values from a mapping or an iterable of pairs, replacing those of the same key."""
        pairs = parameters.items() if isinstance(parameters, Mapping | ParameterDict) else parameters
        for key, value in pairs:
            self[key] = value

    def pop(self, key: str) -> Any:
        """Remove the value of `key` and return it. Raises KeyError if there is none."""
        value = self[key]
        del self[key]
        return value

    def extra_repr(self) -> str:
        return "\n".join(f"    ({k}): {_summary(v, _TENSOR_TYPE_NAMES)}" for k, v in self.items())

    def __repr__(self) -> str:
        return f"ParameterDict(\n{self.extra_repr()}\n)" if self._keys else "ParameterDict()"
