"""Placeholders for missing names and modules, so that a checked script runs on and the rest of it is checked too."""

import dis
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from cstorch_compat.check.findings import Findings
from cstorch_compat.names import mirror_table, shim
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.nn import Module


class StandIn:
    """A placeholder for something missing. It can be a function, decorator, context manager, base class or namespace.

    It is false in a condition. As a base class it is replaced by `Module`.
    """

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> "StandIn":
        # Do not pretend to implement Python's protocols.
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the first tensor argument, or the function if the only argument is a callable, else this object.

        A call of `....step(optimizer)`, as of a gradient scaler, calls the optimizer's `step`, which ends a plain step.
        """
        if self._name.endswith(".step") and args and hasattr(args[0], "step"):
            # Call the optimizer's step, by which the check detects the end of a plain step.
            return args[0].step()  # called as scaler.step(optimizer)
        tensor = next((a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)), None)
        if tensor is None and len(args) == 1 and callable(args[0]):
            return args[0]
        return self if tensor is None else tensor

    def __enter__(self) -> "StandIn":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __mro_entries__(self, bases: tuple[type, ...]) -> tuple[type, ...]:
        return (Module,)

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<stand-in for {self._name}>"


def is_existence_test() -> bool:
    """Return whether the user's running line tests a name by `hasattr()` or `getattr()` instead of using it."""
    frame = source.user_frame()
    # A plain use is a LOAD_ATTR instruction; hasattr and getattr are calls.
    now = next((i.opname for i in dis.get_instructions(frame.f_code) if i.offset == frame.f_lasti), "")
    return now.startswith(("CALL", "PRECALL"))


class MissingModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """An import hook that reports missing modules of the emulated packages and replaces them by placeholders."""

    def __init__(self, findings: Findings):
        self.findings = findings

    def __enter__(self) -> "MissingModules":
        sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a module spec if the shim serves this name and no such module exists, and add a finding.

        Otherwise return None.
        """
        # Other missing packages are errors of the script.
        path = shim.find_mirror_path(fullname)
        if path is None or mirror_table.find_entry(path) is not None:
            return None
        self.findings.add("missing here", source.where(), fullname, f"lazywafer has no module {fullname}")
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return a module each of whose attributes is a StandIn."""
        module = ModuleType(spec.name)
        module.__dict__["__path__"] = []
        module.__dict__["__getattr__"] = _make_stand_in_getter(spec.name)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module is complete."""


def _make_stand_in_getter(module: str) -> Callable[[str], StandIn]:
    """Return a module-level `__getattr__` that gives StandIns for all but dunder names."""

    def find(name: str) -> StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{module}.{name}")

    return find
