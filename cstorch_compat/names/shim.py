"""The import shim: `torch`, `torchvision` and every spelling of the cstorch package are found as mirrors."""

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

VERSIONLESS_PACKAGES = ("torch", "torchvision")
"""Packages that every release of the API finds as they are."""


class _MirrorLoader(importlib.abc.Loader):
    """Gives the mirror for a name: a path in the table of names, and the releases that it is to show."""

    def __init__(self, path: str, span: ReleaseRange | None):
        self.path, self.span = path, span

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The mirror. Raises ModuleNotFoundError for a path that the table has not."""
        if self.path not in mirror_table.entries():
            raise ModuleNotFoundError(manifest.format_absent_module(spec.name, self.path), name=spec.name)
        if self.span is not None and _torch_release is None:
            pytorch_release.follow_release(VENDOR_TORCH_RELEASE)
        return get_mirror(spec.name, self.path, self.span)

    def exec_module(self, module: ModuleType) -> None:
        """A mirror has nothing to run."""


class _NamespaceLoader(importlib.abc.Loader):
    """Makes a namespace package, such as `cerebras`: nothing is in it, and other distributions may add to it."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Python's own."""

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is in it."""


class _NamespacePath(Sequence[str]):
    """The folders that other distributions give to a namespace package, such as the one with `cerebras/modelzoo`.

    They are looked up at each use, as Python does it: a script may add to sys.path after the first import.
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
        return f"_Portions({self._folders()})"


class _Finder(metadata.DistributionFinder):
    """Answers for the aliased names before any installed package can. `api` is the release that was chosen."""

    def __init__(self, api: str | None):
        self.api = api

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
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
        """The metadata of an emulated package, for who asks by its name."""
        return find_emulated_distributions(context)

    def _loader(self, name: str) -> importlib.abc.Loader | None:
        # `import cerebras.pytorch` imports `cerebras` first, which is no module of any release.
        if releases.is_parent_package(name):
            return _NamespaceLoader()
        meaning = resolve_import(name, self.api)
        if meaning is not None:
            return _MirrorLoader(*meaning)
        # Silence would let Python say that there is no such package, although another release has it.
        others = releases.find_spellings(name)
        if others:
            which = ", ".join(f"--api {s.span.until}" for s in others)
            raise ModuleNotFoundError(
                f"No module named {name!r} in release {self.api} of the API; it is found with {which}", name=name
            )
        return None


def resolve_import(name: str, api: str | None) -> tuple[str, ReleaseRange | None] | None:
    """The path in the table of names that an imported name means, and the releases that the mirror is to show."""
    if name.partition(".")[0] in VERSIONLESS_PACKAGES:
        return name, None
    meaning = releases.find_spelling(name, api)
    if meaning is None:
        return None
    row, span = meaning
    is_of_cstorch = row.target.startswith(releases.CSTORCH)
    return row.target + name.removeprefix(row.name), span if is_of_cstorch else None


def find_mirror_path(name: str) -> str | None:
    """The path in the table of names that an imported name means, if the shim answers for it."""
    meaning = None if releases.is_parent_package(name) else resolve_import(name, _finder.api if _finder else None)
    return meaning[0] if meaning else None


class _ShimInstaller:
    """Installs the shim in a process that is started anew: unpickled there, before the script is imported."""

    def __reduce__(self) -> tuple[Any, ...]:
        return install, (_finder.api if _finder else None, _torch_release)


_original_preparation_data: Callable[[str], dict[str, Any]] = spawn.get_preparation_data
_spawn_module: Any = spawn


def _preparation_data(name: str) -> dict[str, Any]:
    """What Python tells such a process, and our part; Python passes over what it does not know."""
    return {**_original_preparation_data(name), "packages": _ShimInstaller()}


_finder: _Finder | None = None
_torch_release: str | None = None
"""The release of PyTorch whose random numbers were asked for."""
VENDOR_TORCH_RELEASE = "2.4"
"""The PyTorch that releases of the vendor stand on, as far as its numbers are known here."""


def install(api: str | None = None, numbers: str | None = None) -> None:
    """Let `import torch` and every spelling of cstorch find this package.

    `api` is the release that the script was written for, such as "1.8"; it decides where one spelling has meant two
    things, and which names there are. `numbers` is the release of PyTorch whose random numbers are drawn, "2.4" or
    "2.13"; by default those of 2.13 until the script imports cstorch, which stands on 2.4.
    Raises NameMissing if PyTorch itself is loaded already, ValueError for an unknown release.

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
        # Installed twice, scripts must not get modules that those before them do not share.
        if _finder.api == api:
            return
        uninstall()
    # Two packages called torch in one process would exchange tensors that neither understands.
    loaded = sys.modules.get("torch")
    if loaded is not None and not isinstance(loaded, Mirror):
        raise NameMissing(
            "PyTorch itself is imported already, and one process cannot have both",
            hint="Call cstorch_compat.install() before anything imports torch.",
        )
    _finder = _Finder(api)
    _spawn_module.get_preparation_data = _preparation_data
    public_modules.set_public_names()
    # First, so that an installed PyTorch is not found instead.
    sys.meta_path.insert(0, _finder)


def is_installed() -> bool:
    """Whether scripts find this package now."""
    return _finder is not None


def uninstall() -> None:
    """Take the shim away; modules that were imported through it leave the table of modules.

    >>> install()
    >>> uninstall()
    >>> uninstall()  # nothing is left to take away
    """
    global _finder
    if _finder is None:
        return
    sys.meta_path.remove(_finder)
    _spawn_module.get_preparation_data = _original_preparation_data
    _finder, _numbers = None, None
    pytorch_release.follow_release(pytorch_release.LATEST)
    public_modules.restore_original_names()
    # The next installation may be of another release, where the same name is another module.
    # A process has some thousand modules and the answers below take long, so the first part of a name is asked first.
    roots = {s.name.partition(".")[0] for s in releases.SPELLINGS} | set(VERSIONLESS_PACKAGES)
    for name in [n for n in sys.modules if n.partition(".")[0] in roots]:
        # What others have put below a package of ours goes with it: those modules hold names of this release.
        above = name.partition(".")[0]
        if find_mirror_path(name) or releases.find_spellings(name) or releases.is_parent_package(above):
            del sys.modules[name]
    clear_mirrors()
