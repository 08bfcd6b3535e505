"""The import hook by which `torch`, `torchvision` and every spelling of cstorch resolve to mirrors."""

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from multiprocessing import spawn
from types import ModuleType
from typing import Any, cast

from cstorch_compat.names import manifest, mirror_table, public_modules, releases
from cstorch_compat.names.mirror_modules import Mirror, clear_mirrors, get_mirror
from cstorch_compat.names.package_metadata import find_emulated_distributions
from cstorch_compat.names.releases import ReleaseRange
from lazytensor.core import pytorch_release
from lazytensor.errors import NameMissing

VERSIONLESS_PACKAGES = ("torch", "torchvision", "functorch")
"""Packages that are the same for every release of the Cerebras API."""


class _MirrorLoader(importlib.abc.Loader):
    """A loader for the mirror with a path in the table, showing the names of the releases `span`."""

    def __init__(self, path: str, span: ReleaseRange | None):
        self.path, self.span = path, span

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return the mirror. Raises ModuleNotFoundError if the table has no such path.

        The first module of cstorch also switches random numbers to VENDOR_TORCH_RELEASE, unless the user chose a
        release.
        """
        if mirror_table.find_entry(self.path) is None:
            raise ModuleNotFoundError(manifest.format_absent_module(spec.name, self.path), name=spec.name)
        if self.span is not None and _torch_release is None:
            pytorch_release.follow_release(VENDOR_TORCH_RELEASE)
        return get_mirror(spec.name, self.path, self.span)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing."""


class _NamespaceLoader(importlib.abc.Loader):
    """A loader for a namespace package such as `cerebras`.

    It is empty, and other distributions may add modules to it.
    """

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Return None, so that Python creates the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing."""


class _NamespacePath(Sequence[str]):
    """The folders that other distributions contribute to a namespace package, such as the one with `cerebras/modelzoo`.

    They are searched at each use, as Python does, because a script may extend sys.path after the first import.
    """

    def __init__(self, package: str, above: Sequence[str] | None):
        self._package, self._above = package, above

    def _folders(self) -> list[str]:
        spec = importlib.machinery.PathFinder.find_spec(self._package, self._above)
        return list(spec.submodule_search_locations or ()) if spec is not None else []

    def __len__(self) -> int:
        return len(self._folders())

    def __getitem__(self, index: Any) -> Any:
        return self._folders()[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._folders())

    def __repr__(self) -> str:
        return f"_NamespacePath({self._folders()})"


class _Finder(metadata.DistributionFinder):
    """The finder that resolves emulated names before installed packages. `api` is the chosen release, or None."""

    def __init__(self, api: str | None):
        self.api = api

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of the emulated module `fullname`, or None for other modules. `target` is ignored.

        `path` is only used to find other distributions' parts of a namespace package. Raises ModuleNotFoundError, with
        the releases to choose, if only other releases have the module.
        """
        loader = self._loader(fullname)
        if loader is None:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, loader, is_package=True)
        if isinstance(loader, _NamespaceLoader):
            spec.submodule_search_locations = cast("list[str]", _NamespacePath(fullname, path))
        return spec

    def find_distributions(
        self, context: metadata.DistributionFinder.Context = metadata.DistributionFinder.Context()
    ) -> Iterator[metadata.Distribution]:
        """Return the metadata of an emulated package that is requested by name."""
        return find_emulated_distributions(context)

    def _loader(self, name: str) -> importlib.abc.Loader | None:
        """Return the loader for a module name, or None if it is not emulated.

        Raises ModuleNotFoundError, with the releases to choose, if only other releases have the module.
        """
        # `import cerebras.pytorch` imports `cerebras` first, which is a namespace package.
        if releases.is_parent_package(name):
            return _NamespaceLoader()
        meaning = resolve_import(name, self.api)
        if meaning is not None:
            return _MirrorLoader(*meaning)
        # Otherwise Python would report that there is no such package, although another release has it.
        others = releases.find_spellings(name)
        if others:
            which = ", ".join(f"--api {s.span.until}" for s in others)
            raise ModuleNotFoundError(
                f"No module named {name!r} in release {self.api} of the API; it exists with {which}", name=name
            )
        return None


def resolve_import(name: str, api: str | None) -> tuple[str, ReleaseRange | None] | None:
    """Return the path in the table for a module name, and the releases to show. Return None if it is not emulated.

    `api` is the release of the script, or None. The releases are None for modules that are the same in all releases.
    """
    if name.partition(".")[0] in VERSIONLESS_PACKAGES:
        return name, None
    meaning = releases.find_spelling(name, api)
    if meaning is None:
        return None
    row, span = meaning
    is_of_cstorch = row.target.startswith(releases.CSTORCH)
    return row.target + name.removeprefix(row.name), span if is_of_cstorch else None


def find_mirror_path(name: str) -> str | None:
    """Return the dotted path in the mirror table for the module `name`, in the release of the installed shim.

    Return None if the module is not emulated in that release or is only a parent package. If no shim is installed, or
    it was installed without a release, a name has its meaning in the default releases of its spelling. For `torch` and
    `torchvision` the path is `name` itself, even if the table has no such module.
    """
    meaning = None if releases.is_parent_package(name) else resolve_import(name, _finder.api if _finder else None)
    return meaning[0] if meaning else None


class _ShimInstaller:
    """An object that installs the shim when it is unpickled.

    multiprocessing unpickles it in a spawned process before it imports the script.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return install, (_finder.api if _finder else None, _torch_release)


_original_preparation_data: Callable[[str], dict[str, Any]] = spawn.get_preparation_data
_spawn_module: Any = spawn


def _preparation_data(name: str) -> dict[str, Any]:
    """Return multiprocessing's data for a spawned process, with a _ShimInstaller. Python ignores the additional key."""
    return {**_original_preparation_data(name), "packages": _ShimInstaller()}


_finder: _Finder | None = None
_torch_release: str | None = None
"""The release of PyTorch whose random numbers the user chose, or None."""
VENDOR_TORCH_RELEASE = "2.4"
"""The PyTorch release that the vendor's releases use, as far as its random numbers are known here."""


def install(api: str | None = None, numbers: str | None = None) -> None:
    """Make `import torch` and every spelling of cstorch resolve to this package.

    `api` is the release that the script was written for, such as "1.8". It selects the meaning of ambiguous spellings
    and the names that exist. `numbers` is the release of PyTorch whose random numbers are drawn, "2.4" or "2.13". By
    default these are the numbers of 2.13 until the script imports cstorch, which uses 2.4.

    Installing again with another `api` replaces the shim; with the same one only `numbers` changes. Raises NameMissing
    if the real PyTorch is loaded already, and ValueError for an unknown release.

    >>> install()
    >>> import torch
    >>> torch.ones(2, 3).sum()
    tensor(6.)
    >>> uninstall()
    """
    global _finder, _torch_release
    if api is not None:
        releases.parse_release(api)
    pytorch_release.follow_release(numbers or pytorch_release.LATEST)
    _torch_release = numbers
    if _finder is not None:
        # A second installation with the same release keeps the modules that earlier scripts have imported.
        if _finder.api == api:
            return
        uninstall()
    # Two packages called torch in one process would exchange incompatible tensors.
    loaded = sys.modules.get("torch")
    if loaded is not None and not isinstance(loaded, Mirror):
        raise NameMissing(
            "PyTorch is already imported, and a process cannot use both packages",
            hint="Call cstorch_compat.install() before anything imports torch.",
        )
    _finder = _Finder(api)
    _spawn_module.get_preparation_data = _preparation_data
    public_modules.set_public_names()
    # First in the list, so that it takes precedence over an installed PyTorch.
    sys.meta_path.insert(0, _finder)


def is_installed() -> bool:
    """Return whether the shim is installed."""
    return _finder is not None


def uninstall() -> None:
    """Remove the shim, and remove the modules imported through it from `sys.modules`.

    Names of classes and random numbers become those without the shim. Does nothing if it is not installed.

    >>> install()
    >>> uninstall()
    >>> uninstall()  # has no effect
    """
    global _finder, _torch_release
    if _finder is None:
        return
    sys.meta_path.remove(_finder)
    _spawn_module.get_preparation_data = _original_preparation_data
    _finder, _torch_release = None, None
    pytorch_release.follow_release(pytorch_release.LATEST)
    public_modules.restore_original_names()
    # A later installation may have another release, in which the same name is another module. Test the first part of
    # the name first, because there are about a thousand modules and the other tests are slow.
    roots = {s.name.partition(".")[0] for s in releases.SPELLINGS} | set(VERSIONLESS_PACKAGES)
    for name in [n for n in sys.modules if n.partition(".")[0] in roots]:
        # Also remove modules of other distributions below these packages: they hold names of this release.
        above = name.partition(".")[0]
        if find_mirror_path(name) or releases.find_spellings(name) or releases.is_parent_package(above):
            del sys.modules[name]
    clear_mirrors()
