"""Modules that hold modules."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from lazytensor.nn.module import Module


def _at(modules: list[Module], index: int) -> Module:
    if not -len(modules) <= index < len(modules):
        raise IndexError(f"index {index} is out of range")
    return modules[index]


class Sequential(Module):
    """Calls its modules one after the other."""

    def __init__(self, *args: Any):
        super().__init__()
        given = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else enumerate(args)
        for name, module in given:
            self.add_module(str(name), module)

    def forward(self, input: Any) -> Any:
        """The output of the last module."""
        for module in self:
            input = module(input)
        return input

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int | slice) -> Any:
        modules = list(self._modules.values())
        return Sequential(*modules[index]) if isinstance(index, slice) else _at(modules, index)

    def append(self, module: Module) -> "Sequential":
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self


class ModuleList(Module):
    """A list whose modules are registered."""

    def __init__(self, modules: Iterable[Module] = ()):
        super().__init__()
        self.extend(modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int | slice) -> Any:
        modules = list(self._modules.values())
        return ModuleList(modules[index]) if isinstance(index, slice) else _at(modules, index)

    def __setitem__(self, index: int, module: Module) -> None:
        self._modules[str(range(len(self))[index])] = module

    def append(self, module: Module) -> "ModuleList":
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> "ModuleList":
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def __repr__(self) -> str:
        """Neighbours that print alike are printed once, with their number."""
        lines = []
        for text, run in groupby(enumerate(map(repr, self)), key=itemgetter(1)):
            places = [i for i, _ in run]
            label = f"({places[0]}): " if len(places) == 1 else f"({places[0]}-{places[-1]}): {len(places)} x "
            lines.append((label + text).replace("\n", "\n  "))
        return "\n  ".join(["ModuleList(", *lines]) + "\n)" if lines else "ModuleList()"


class ModuleDict(Module):
    """A dictionary whose modules are registered."""

    def __init__(self, modules: Mapping[str, Module] | None = None):
        super().__init__()
        for name, module in (modules or {}).items():
            self.add_module(name, module)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> Iterable[Module]:
        """The modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Names and modules."""
        return self._modules.items()
