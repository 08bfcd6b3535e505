"""Old import paths: each keeps working for one release, with a DeprecationWarning that names the new path."""

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

REMOVAL_RELEASE = "0.3"
"""The release that has the new paths only."""
OLD_PATHS: dict[str, str] = {}
"""Old path -> new path of modules, and of names in modules."""


class _MovedModuleFinder(MetaPathFinder, Loader):
    """Imports the module at the new path when a script imports the old one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in OLD_PATHS else None

    def exec_module(self, module: ModuleType) -> None:
        """Let the old path be another key of the same module; the import system reads the key again."""
        # Warnings skip the frames of the import system: the second level is the script's `import`.
        sys.modules[module.__name__] = _resolve_moved(module.__name__, stacklevel=3)


def deprecate_paths(new_paths: Mapping[str, str], removed_packages: Sequence[str] = ()) -> None:
    """Let each old path of `new_paths` give what is at the new path, with a warning.

    `removed_packages` are packages of old paths that no longer exist. Each is an empty module from now on, which is no
    attribute of the package above it: `wse_sim.plan` stays the function.
    """
    if not any(isinstance(finder, _MovedModuleFinder) for finder in sys.meta_path):
        # Before Python's own finder, which finds a file of the new layout below an old package.
        sys.meta_path.insert(0, _MovedModuleFinder())
    OLD_PATHS.update(new_paths)
    for name in removed_packages:
        package = ModuleType(name, "A package of an older release, which holds old paths only.")
        package.__path__ = []
        sys.modules.setdefault(name, package)


def moved_attribute(module: str, name: str) -> Any:
    """Return what the old path `module.name` means, with a warning: the `__getattr__` of a module.

    Raises AttributeError if this is no old path.
    """
    owner = sys.modules[module]
    if f"{module}.{name}" not in OLD_PATHS:
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=owner)
    value = _resolve_moved(f"{module}.{name}", stacklevel=4)
    setattr(owner, name, value)  # `from module import name` reads the attribute twice, and is to warn once
    return value


def _resolve_moved(old_path: str, stacklevel: int) -> Any:
    new_path = OLD_PATHS[old_path]
    text = f"{old_path} is {new_path} now, and the old path goes with release {REMOVAL_RELEASE}"
    warnings.warn(text, DeprecationWarning, stacklevel=stacklevel)
    return resolve_name(new_path)
