"""The public modules as scripts see them, made from the table of names when somebody imports them.

A mirror holds nothing itself. A name is looked up when it is first asked for: in the rows of the release that the
script was written for, then in the table. So nothing is loaded that nobody uses, and a class is the same object under
every spelling of its module.
"""

import contextlib
import functools
import importlib.machinery
import pathlib
from types import ModuleType
from typing import Any

from cstorch_compat.names import manifest, mirror_table, releases
from cstorch_compat.names.builtin_errors import reraise_as_builtin
from cstorch_compat.names.releases import CSTORCH, LATEST_ONLY, ReleaseRange

EXPLAINED_CLASSES = {"torch": "Tensor", "torch.utils.tensorboard": "SummaryWriter"}
"""Classes whose instances answer for the attributes that they do not have, by the module that has them."""
CALLABLE_MODULE = "cerebras.models.common.pytorch.optim.AdamW"
"""The one module that scripts call: `import ...optim.AdamW as AdamW`, then `AdamW(parameters)`."""
MIRROR_CODE_PREFIX = ("cstorch_compat.cerebras.", "cstorch_compat.generations.")
"""Classes that were written for one public module say that they live there; those of other rooms keep their place."""


MIRROR_FILE = str(pathlib.Path(__file__).with_name("__init__.py"))
"""The file of all of them. Whoever looks for the source of a public class reads it, and sees Python without one."""
_DICT_SLOT: Any = vars(ModuleType)["__dict__"]


def _module_dict(module: ModuleType) -> dict[str, Any]:
    """What a module has so far, without looking for more."""
    own: dict[str, Any] = _DICT_SLOT.__get__(module)
    return own


class Mirror(ModuleType):
    """A public module. `path` is its place in the table; its name may be another spelling.

    `span` is the release as which it shows itself, or several that can be told apart by their names; None where all
    releases are alike.
    """

    _path: str
    _span: ReleaseRange | None
    _is_whole = False

    def __init__(self, name: str, path: str, span: ReleaseRange | None):
        super().__init__(name, mirror_table.entries()[path].doc)
        # Written to the dict, as Python's own import does: setattr is what scripts do.
        own = _module_dict(self)
        own["_path"], own["_span"], own["__path__"], own["__file__"] = path, span, [], MIRROR_FILE
        own["__spec__"] = importlib.machinery.ModuleSpec(name, None, origin=own["__file__"], is_package=True)
        if path == CSTORCH and span is not None:
            own["__version__"] = f"{span.until}.0"

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [n for n in list_visible_names(self._path, self._span) if not n.startswith("_")]
        origin = mirror_table.find_origin(self._path, name)
        # Python and pickle ask every module for such names; an explanation would cost them a search for similar ones.
        if name.startswith("__") and origin is None and name not in mirror_table.find_submodules(self._path):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        inner, older = _package_path(f"{self._path}.{name}"), None
        if self._span is not None:
            absent = releases.explain_absence(inner, self._span)
            if absent is not None:
                with reraise_as_builtin():
                    return manifest.refuse_absent_name(self.__name__, name, inner, *absent)
            # An older release wins over the table, which is the latest one's.
            older = releases.find_target(inner, self._span)
        # Configuration tools ask a class for those below it, which the original has all loaded with the package.
        if self._path.startswith(f"{CSTORCH}.") and not self._is_whole:
            _module_dict(self)["_is_whole"] = True
            mirror_table.import_sources(self._path)
        if older is not None:
            value = resolve_target(older)
        elif origin is not None:
            value = _resolve_with_public_module(origin)
        elif name in mirror_table.find_submodules(self._path):
            value = get_mirror(f"{self.__name__}.{name}", f"{self._path}.{name}", self._span)
        else:
            with reraise_as_builtin():
                return manifest.refuse_name(
                    self.__name__, name, list_visible_names(self._path, self._span), f"{self._path}.{name}"
                )
        # Kept, so that Python finds it by itself from now on. A refusal is not: it names the line that asked.
        _module_dict(self)[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Python puts an imported module into the one above. A name that is spelled alike stays, as in a package whose
        # __init__ imports the module first and then the name: `cstorch.backend` is a function and a module.
        is_below = isinstance(value, Mirror) and value.__name__ == f"{self.__name__}.{name}"
        if is_below and mirror_table.find_origin(self._path, name) is not None:
            return
        super().__setattr__(name, value)

    # Scripts look up what a module offers by `models.__dict__[name]` and `vars(optim)`, before anything was used.
    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        own = _module_dict(self)
        for name in list_visible_names(own["_path"], own["_span"]):
            if name not in own:
                with contextlib.suppress(AttributeError, ImportError):
                    getattr(self, name)
        return own

    def __dir__(self) -> list[str]:
        return sorted({*list_visible_names(self._path, self._span), *_module_dict(self)})


class _CallableMirror(Mirror):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, self._path.rpartition(".")[2])(*args, **kwargs)


def list_visible_names(path: str, span: ReleaseRange | None) -> list[str]:
    """The names that a module offers in its release, the modules below it included."""
    latest = {*mirror_table.list_names(path), *mirror_table.find_submodules(path)}
    if span is None:
        return sorted(latest)
    present = {n for n in latest if releases.explain_absence(_package_path(f"{path}.{n}"), span) is None}
    return sorted({*present, *releases.find_older_names(_package_path(path), span)})


def _package_path(path: str) -> str:
    """A path of the table as the rows of the releases have it: inside of the package."""
    return path.removeprefix(CSTORCH).removeprefix(".")


def resolve_target(target: str) -> Any:
    """What the target of a row of the releases, "module:name" in this package, stands for."""
    module, _, name = target.partition(":")
    return mirror_table.NameOrigin(f"cstorch_compat.{module}", name).value()


def _resolve_with_public_module(origin: mirror_table.NameOrigin) -> Any:
    """What a name stands for; a class that was written for a mirror takes its public place, by which it is pickled."""
    value = origin.value()
    if isinstance(value, type) and value.__module__.startswith(MIRROR_CODE_PREFIX):
        value.__module__ = mirror_table.public_module_by_source().get(value.__module__, value.__module__)
    return value


def get_mirror(name: str, path: str | None = None, span: ReleaseRange | None = None) -> Mirror:
    """The public module of a name, the same object until `clear_mirrors`; without a path the one that usually has the
    name.

    Raises KeyError if the table has no such path.
    """
    path = path or name
    return _make_mirror(name, path, span or default_release_range(path))


def default_release_range(path: str) -> ReleaseRange | None:
    """The latest release for what differs between releases, None for other modules."""
    return LATEST_ONLY if path == CSTORCH or path.startswith(f"{CSTORCH}.") else None


def clear_mirrors() -> None:
    """Let the next import make every module anew, without what scripts have written into the present ones."""
    _make_mirror.cache_clear()


@functools.cache
def _make_mirror(name: str, path: str, span: ReleaseRange | None) -> Mirror:
    module = (_CallableMirror if path == CALLABLE_MODULE else Mirror)(name, path, span)
    # Tensors answer from the import on, not from the first use of torch.Tensor: most scripts never name it.
    if path in EXPLAINED_CLASSES:
        kind = EXPLAINED_CLASSES[path]
        manifest.explain_missing_attributes(f"{path}.{kind}", getattr(module, kind))
    return module
