"""Old import paths: each works for one more release, with a DeprecationWarning that names the new path."""

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

REMOVAL_RELEASE = "0.3"
"""The release in which the old paths are removed."""
OLD_PATHS: dict[str, str] = {}
"""The new path of each old path of a module, or of a name in a module."""


class _MovedModuleFinder(MetaPathFinder, Loader):
    """An import hook that imports the module at the new path for an old path."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in OLD_PATHS else None

    def exec_module(self, module: ModuleType) -> None:
        """Register the module at the new path under the old path in `sys.modules`."""
        # `warnings` skips the frames of the import system, so the warning points to the script's `import`.
        sys.modules[module.__name__] = _resolve_moved(module.__name__, stacklevel=3)


def deprecate_paths(new_paths: Mapping[str, str], removed_packages: Sequence[str] = ()) -> None:
    """Make each old path of `new_paths` refer to the object at its new path, with a warning when it is used.

    `removed_packages` are packages of old paths that no longer exist. Each becomes an empty module in `sys.modules`,
    but not an attribute of its parent package: for example, `wse_sim.plan` stays the function.
    """
    if not any(isinstance(finder, _MovedModuleFinder) for finder in sys.meta_path):
        # Before Python's finder, which could find a file of the new layout in an old package.
        sys.meta_path.insert(0, _MovedModuleFinder())
    OLD_PATHS.update(new_paths)
    for name in removed_packages:
        package = ModuleType(name, "A package of an older release, which has only old paths.")
        package.__path__ = []
        sys.modules.setdefault(name, package)


def moved_attribute(module: str, name: str) -> Any:
    """Return the object at the new path of the old path `module.name`, with a DeprecationWarning.

    Use it as a module's `__getattr__`. The object becomes an attribute of the module, so that the warning is shown
    once. Raises AttributeError if the path is not an old path.
    """
    owner = sys.modules[module]
    if f"{module}.{name}" not in OLD_PATHS:
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=owner)
    value = _resolve_moved(f"{module}.{name}", stacklevel=4)
    setattr(owner, name, value)  # `from module import name` reads the attribute twice, but should warn once
    return value


def _resolve_moved(old_path: str, stacklevel: int) -> Any:
    """Return the object at the new path of an old path, importing its module, with a DeprecationWarning.

    `stacklevel` is that of `warnings.warn`. Raises KeyError if the path is not an old path.
    """
    new_path = OLD_PATHS[old_path]
    text = f"{old_path} has moved to {new_path}; release {REMOVAL_RELEASE} removes the old path"
    warnings.warn(text, DeprecationWarning, stacklevel=stacklevel)
    return resolve_name(new_path)
