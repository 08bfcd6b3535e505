"""The import shim: `torch`, `torchvision` and `cerebras.pytorch` become modules of this package.

An alias is the same module object under a second name, so that classes are never loaded twice.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

from lazytensor.errors import NameMissing

ALIASES = {
    "torch": "cstorch_compat.torch",
    "torchvision": "cstorch_compat.torchvision",
    "cerebras": "cstorch_compat.generations",
    "cerebras.pytorch": "cstorch_compat.generations.cstorch",
}


def target_of(name: str) -> str | None:
    """The module that stands behind an imported name."""
    best = max((a for a in ALIASES if name == a or name.startswith(a + ".")), key=len, default=None)
    return None if best is None else ALIASES[best] + name[len(best) :]


class _Alias(importlib.abc.Loader):
    """Gives the real module object for an alias."""

    def __init__(self, target: str):
        self.target = target

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Import what stands behind the name."""
        try:
            module = importlib.import_module(self.target)
        except ModuleNotFoundError as e:
            if e.name != self.target:
                raise
            raise ModuleNotFoundError(
                f"No module named {spec.name!r} in this version of the project", name=spec.name
            ) from None
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module ran already; only its own spec has to be put back."""
        module.__spec__ = self._spec


class _Finder(importlib.abc.MetaPathFinder):
    """Answers for the aliased names before any installed package can."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        found = target_of(fullname)
        if found is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Alias(found), is_package=True)


_finder = _Finder()


def install() -> None:
    """Let `import torch` and `import cerebras.pytorch` find this package.

    Raises NameMissing if PyTorch itself is loaded already.
    """
    if _finder in sys.meta_path:
        return
    loaded = sys.modules.get("torch")
    if loaded is not None and not (loaded.__name__ or "").startswith("cstorch_compat"):
        raise NameMissing(
            "PyTorch itself is imported already, and one process cannot have both",
            todo="Call cstorch_compat.install() before anything imports torch.",
        )
    sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Take the shim away; modules that were imported through it leave the table of modules."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in [n for n in sys.modules if target_of(n) is not None]:
        del sys.modules[name]
