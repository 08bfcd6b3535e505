"""The modules of one release: those of the latest one, with the names that the release had.

A facade holds nothing itself. Each name is looked up when it is asked for, in the rows of the release and then in the
module behind it.
"""

import importlib
from types import ModuleType
from typing import Any

from cstorch_compat.names import manifest, releases
from cstorch_compat.names.builtin_errors import as_builtin
from cstorch_compat.names.releases import Span


class Facade(ModuleType):
    """A module of the API as a release, or several that can be told apart by their names, had it."""

    def __init__(self, name: str, behind: ModuleType, path: str, span: Span):
        super().__init__(name, behind.__doc__)
        own = self.__dict__
        own["_behind"], own["_path"], own["_span"] = behind, path, span
        own["__file__"] = getattr(behind, "__file__", None)
        if not path:
            own["__version__"] = f"{span.until}.0"

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [n for n in dir(self) if not n.startswith("_")]
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        path = f"{self._path}.{name}" if self._path else name
        absent = releases.absence(path, self._span)
        if absent is not None:
            with as_builtin():
                return manifest.refuse_absent(self.__name__, name, path, *absent)
        row = releases.row_for(path, self._span)
        found = implementation(row.target) if row is not None and row.target else self._inner(name, path)
        if isinstance(found, ModuleType) and found.__name__.startswith(self._behind.__name__ + "."):
            return importlib.import_module(f"{self.__name__}.{name}")
        return found

    def _inner(self, name: str, path: str) -> Any:
        if any(s.name == f"{self.__name__}.{name}" for s in releases.SPELLINGS):
            return importlib.import_module(f"{self.__name__}.{name}")
        found = getattr(self._behind, name, manifest.ABSENT)
        if found is manifest.ABSENT:
            have = [n for n in dir(self) if not n.startswith("_")]
            with as_builtin():
                return manifest.refuse(self.__name__, name, have, f"cerebras.pytorch.{path}")
        return found

    def __dir__(self) -> list[str]:
        latest = [n for n, value in vars(self._behind).items() if not n.startswith("_") and _is_public(value)]
        shown = [n for n in latest if releases.absence(f"{self._path}.{n}".lstrip("."), self._span) is None]
        return sorted({*shown, *releases.names_below(self._path, self._span), *self.__dict__})


def _is_public(value: Any) -> bool:
    """Whether a name is more than what a module of ours imported for its own use."""
    if isinstance(value, ModuleType):
        return value.__name__.startswith(releases.GENERATIONS)
    return str(getattr(value, "__module__", "")).startswith(("cstorch_compat.", "lazytensor.", "cerebras."))


def implementation(target: str) -> Any:
    """What a row's target, "module:name", stands for; without a name the module itself."""
    module, _, name = target.partition(":")
    found = importlib.import_module(f"cstorch_compat.{module}")
    return getattr(found, name) if name else found
