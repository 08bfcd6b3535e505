"""The import shim: `torch`, `torchvision` and every spelling of the cstorch package become modules of this one.

An alias is the same module object under a second name, so that classes are never loaded twice. Older releases of
cstorch are facades over the same modules.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

from cstorch_compat.names import releases
from cstorch_compat.names.facade import Facade
from cstorch_compat.names.releases import CSTORCH, LATEST, Span
from lazytensor.errors import NameMissing

ALIASES = {"torch": "cstorch_compat.torch", "torchvision": "cstorch_compat.torchvision"}


class _Alias(importlib.abc.Loader):
    """Gives the real module object for an alias, or a facade of it."""

    def __init__(self, target: str, span: Span | None = None):
        self.target, self.span = target, span

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
        if self.span is not None:
            path = self.target.removeprefix(CSTORCH).lstrip(".")
            module = Facade(spec.name, module, path, self.span)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module ran already; only its own spec has to be put back."""
        module.__spec__ = self._spec


class _Empty(importlib.abc.Loader):
    """Makes a package that is only the way to others."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Python's own."""

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is in it."""


class _Finder(importlib.abc.MetaPathFinder):
    """Answers for the aliased names before any installed package can. `api` is the release that was chosen."""

    def __init__(self, api: str | None):
        self.api = api

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        loader = self._loader(fullname)
        return None if loader is None else importlib.machinery.ModuleSpec(fullname, loader, is_package=True)

    def _loader(self, name: str) -> importlib.abc.Loader | None:
        if releases.is_package_above(name):
            return _Empty()
        found = behind(name, self.api)
        if found is not None:
            return _Alias(*found)
        known = releases.spellings_of(name)
        if known:
            which = ", ".join(f"--api {s.span.until}" for s in known)
            raise ModuleNotFoundError(
                f"No module named {name!r} in release {self.api} of the API; it is found with {which}", name=name
            )
        return None


def behind(name: str, api: str | None) -> tuple[str, Span | None] | None:
    """The module that stands behind an imported name, and the releases as which a facade is to show it."""
    root = name.partition(".")[0]
    if root in ALIASES:
        return ALIASES[root] + name.removeprefix(root), None
    found = releases.spelling(name, api)
    if found is None:
        return None
    row, span = found
    is_older = row.target.startswith(CSTORCH) and span != Span(LATEST, LATEST)
    return row.target + name.removeprefix(row.name), span if is_older else None


def target_of(name: str) -> str | None:
    """The module that stands behind an imported name, if the shim answers for it."""
    found = None if releases.is_package_above(name) else behind(name, _finder.api if _finder else None)
    return found[0] if found else None


_finder: _Finder | None = None


def install(api: str | None = None) -> None:
    """Let `import torch` and every spelling of cstorch find this package.

    `api` is the release that the script was written for, such as "1.8"; it decides where one spelling has meant two
    things, and which names there are. Raises NameMissing if PyTorch itself is loaded already, ValueError for an unknown
    release.
    """
    global _finder
    if api is not None:
        releases.number(api)
    if _finder is not None:
        if _finder.api == api:
            return
        uninstall()
    loaded = sys.modules.get("torch")
    if loaded is not None and not (loaded.__name__ or "").startswith("cstorch_compat"):
        raise NameMissing(
            "PyTorch itself is imported already, and one process cannot have both",
            hint="Call cstorch_compat.install() before anything imports torch.",
        )
    _finder = _Finder(api)
    sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Take the shim away; modules that were imported through it leave the table of modules."""
    global _finder
    if _finder is None:
        return
    sys.meta_path.remove(_finder)
    _finder = None
    for name in list(sys.modules):
        if target_of(name) or releases.spellings_of(name) or releases.is_package_above(name):
            del sys.modules[name]
