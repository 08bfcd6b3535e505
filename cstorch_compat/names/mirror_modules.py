"""The public modules that scripts import, such as `torch.nn`. They are created from a table when they are imported.

A mirror looks up a name at its first use: in the rows of the script's release, then in the table. Unused code is
therefore not loaded, and a class is the same object under every spelling of its module.
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
"""Classes whose instances explain missing attributes, by their module."""
CALLABLE_MODULE = "cerebras.models.common.pytorch.optim.AdamW"
"""The only module that scripts call: `import ...optim.AdamW as AdamW`, then `AdamW(parameters)`."""
MIRROR_CODE_PREFIX = ("cstorch_compat.cerebras.", "cstorch_compat.generations.")
"""Packages whose classes get the public module as their `__module__`."""


MIRROR_FILE = str(pathlib.Path(__file__).with_name("__init__.py"))
"""The `__file__` of all mirrors. `inspect` then finds Python source in which the class does not occur."""
_DICT_SLOT: Any = vars(ModuleType)["__dict__"]
"""The descriptor of a module's real `__dict__`, which Mirror overrides."""


def _module_dict(module: ModuleType) -> dict[str, Any]:
    """Return the real `__dict__` of a module: the names that were looked up so far."""
    own: dict[str, Any] = _DICT_SLOT.__get__(module)
    return own


class Mirror(ModuleType):
    """A public module that looks up its names in the table.

    `path` is its row in the table; `name` may be another spelling. `span` is the range of releases whose names it
    shows, or None for modules that are the same in all releases.
    """

    _path: str
    _span: ReleaseRange | None
    _is_whole = False

    def __init__(self, name: str, path: str, span: ReleaseRange | None):
        super().__init__(name, mirror_table.get_entry(path).doc)
        # Write to the dict, as Python's import does, to bypass Mirror.__setattr__.
        own = _module_dict(self)
        own["_path"], own["_span"], own["__path__"], own["__file__"] = path, span, [], MIRROR_FILE
        own["__spec__"] = importlib.machinery.ModuleSpec(name, None, origin=own["__file__"], is_package=True)
        if path == CSTORCH and span is not None:
            own["__version__"] = f"{span.until}.0"

    def __getattr__(self, name: str) -> Any:
        """Return the value of a public name or submodule, and cache it in the module.

        A row of an older release takes precedence over the table. The first name taken from a package below `cstorch`
        imports all sources of that package. A name that the release does not have raises AttributeError with an
        explanation; `lazywafer check` returns a StandIn, a placeholder, instead. An unknown name that begins with "__"
        always raises a plain AttributeError.

        `__all__` gives the names that the release has and that do not begin with an underscore. `__all__` and
        placeholders are not cached.
        """
        if name == "__all__":
            return [n for n in list_visible_names(self._path, self._span) if not n.startswith("_")]
        if name == self._path == "torch":
            # PyTorch's package imports itself, and libraries write torch.torch.Tensor.
            return self
        origin = mirror_table.find_origin(self._path, name)
        # Python and pickle test every module for special names. Skip the costly search for similar names.
        is_submodule = origin is None and mirror_table.has_submodule(self._path, name)
        if name.startswith("__") and origin is None and not is_submodule:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        inner, older = _package_path(f"{self._path}.{name}"), None
        if self._span is not None:
            absent = releases.explain_absence(inner, self._span)
            if absent is not None:
                with reraise_as_builtin():
                    return manifest.refuse_absent_name(self.__name__, name, inner, *absent)
            # The rows of an older release take precedence over the table, which has the latest release.
            older = releases.find_target(inner, self._span)
        # Import all sources: configuration tools list the subclasses of a class, and the original loads them with the
        # package.
        if self._path.startswith(f"{CSTORCH}.") and not self._is_whole:
            _module_dict(self)["_is_whole"] = True
            mirror_table.import_sources(self._path)
        if older is not None:
            value = resolve_target(older)
        elif origin is not None:
            value = _resolve_with_public_module(origin)
        elif is_submodule:
            value = get_mirror(f"{self.__name__}.{name}", f"{self._path}.{name}", self._span)
        else:
            with reraise_as_builtin():
                return manifest.refuse_name(
                    self.__name__, name, list_visible_names(self._path, self._span), f"{self._path}.{name}"
                )
        # Cache the value. A refusal is not cached, because it names the line of the use.
        _module_dict(self)[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, unless `value` is a submodule of this module and `name` is also a public name of it.

        Then nothing is set, so that the public name, such as the function `cstorch.backend`, stays.
        """
        # Python sets an imported submodule as an attribute of its parent. Keep a public name of the same spelling, such
        # as the function `cstorch.backend`.
        is_below = isinstance(value, Mirror) and value.__name__ == f"{self.__name__}.{name}"
        if is_below and mirror_table.find_origin(self._path, name) is not None:
            return
        super().__setattr__(name, value)

    # Scripts read `models.__dict__[name]` and `vars(optim)`, so the dict must contain all names.
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
    """A mirror that can be called like the class of the same name in it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, self._path.rpartition(".")[2])(*args, **kwargs)


def list_visible_names(path: str, span: ReleaseRange | None) -> list[str]:
    """Return the sorted names of the module `path` in the releases `span`, including its submodules.

    If `span` is None, return all names of the table. Otherwise names that only other releases have are left out, and
    names that older releases of `span` have and the latest one lacks are included.
    """
    latest = {*mirror_table.list_names(path), *mirror_table.find_submodules(path)}
    if span is None:
        return sorted(latest)
    present = {n for n in latest if releases.explain_absence(_package_path(f"{path}.{n}"), span) is None}
    return sorted({*present, *releases.find_older_names(_package_path(path), span)})


def _package_path(path: str) -> str:
    """Return a path of the table relative to the package `cerebras.pytorch`, as the rows of the releases have it."""
    return path.removeprefix(CSTORCH).removeprefix(".")


def resolve_target(target: str) -> Any:
    """Return the object for the target of a release row: "module:name", relative to this package."""
    module, _, name = target.partition(":")
    return mirror_table.NameOrigin(f"cstorch_compat.{module}", name).value()


def _resolve_with_public_module(origin: mirror_table.NameOrigin) -> Any:
    """Return the value at `origin`.

    If it is a class of this package, its `__module__` is set to its public module, by which it is pickled.
    """
    value = origin.value()
    if isinstance(value, type) and value.__module__.startswith(MIRROR_CODE_PREFIX):
        value.__module__ = mirror_table.public_module_by_source().get(value.__module__, value.__module__)
    return value


def get_mirror(name: str, path: str | None = None, span: ReleaseRange | None = None) -> Mirror:
    """Return the public module `name`. The same arguments give the same object until `clear_mirrors`.

    `path` is its row in the table (default: `name`). `span` is the range of releases (default: the latest release for
    cerebras.pytorch, None for other packages). Raises KeyError if the table has no such row.
    """
    path = path or name
    return _make_mirror(name, path, span or default_release_range(path))


def default_release_range(path: str) -> ReleaseRange | None:
    """Return the latest release for modules of cerebras.pytorch, and None for other modules."""
    return LATEST_ONLY if path == CSTORCH or path.startswith(f"{CSTORCH}.") else None


def clear_mirrors() -> None:
    """Forget all mirrors. The next import creates new ones without the attributes that scripts have set."""
    _make_mirror.cache_clear()


@functools.cache
def _make_mirror(name: str, path: str, span: ReleaseRange | None) -> Mirror:
    """Return the mirror for the arguments, which is created at the first call and cached.

    Instances of its class in EXPLAINED_CLASSES, if it has one, then explain missing attributes.
    """
    module = (_CallableMirror if path == CALLABLE_MODULE else Mirror)(name, path, span)
    # Set this up at the import, because most scripts never use the name torch.Tensor.
    if path in EXPLAINED_CLASSES:
        kind = EXPLAINED_CLASSES[path]
        manifest.explain_missing_attributes(f"{path}.{kind}", getattr(module, kind))
    return module
