"""Stand-ins for names and modules that are not here, so that a script goes on and the rest of it is seen."""

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
    """Answers for something that is missing: as function, decorator, context manager, base class or namespace."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> "StandIn":
        # A stand-in does not pretend to the protocols that Python asks for by such names.
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The first tensor that was given, or the function that is decorated; otherwise this again."""
        if self._name.endswith(".step") and args and hasattr(args[0], "step"):
            # It goes on with the optimizer's own step, by which the check knows the end of a plain step.
            return args[0].step()  # a gradient scaler's
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
    """Whether the user's line asks by hasattr() or getattr() if a name exists, which is no use of it."""
    frame = source.user_frame()
    # An attribute of the line's own is loaded by LOAD_ATTR; hasattr and getattr are called.
    now = next((i.opname for i in dis.get_instructions(frame.f_code) if i.offset == frame.f_lasti), "")
    return now.startswith(("CALL", "PRECALL"))


class MissingModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of the emulated packages that are not here, notes them, and gives empty ones."""

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
        """A spec for a name that the shim takes on and has nothing for."""
        # Names of the emulated packages only: another missing package is the script's own trouble.
        path = shim.find_mirror_path(fullname)
        if path is None or path in mirror_table.entries():
            return None
        self.findings.add("missing here", source.where(), fullname, f"there is no module {fullname} in lazywafer")
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """A module whose every name is a stand-in."""
        module = ModuleType(spec.name)
        module.__dict__["__path__"] = []
        module.__dict__["__getattr__"] = _make_stand_in_getter(spec.name)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def _make_stand_in_getter(module: str) -> Callable[[str], StandIn]:
    def find(name: str) -> StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{module}.{name}")

    return find
