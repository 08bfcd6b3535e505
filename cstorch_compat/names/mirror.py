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

from cstorch_compat.names import manifest, releases, table
from cstorch_compat.names.builtin_errors import as_builtin
from cstorch_compat.names.releases import CSTORCH, LATEST_ONLY, Span

EXPLAINED = {"torch": "Tensor", "torch.utils.tensorboard": "SummaryWriter"}
"""Classes whose instances answer for the attributes that they do not have, by the module that has them."""
CALLED = "cerebras.models.common.pytorch.optim.AdamW"
"""The one module that scripts call: `import ...optim.AdamW as AdamW`, then `AdamW(parameters)`."""
CODE_OF_MIRRORS = "cstorch_compat.generations."
"""Classes that were written for one public module say that they live there; those of other rooms keep their place."""


FILE = str(pathlib.Path(__file__).with_name("__init__.py"))
"""The file of all of them. Whoever looks for the source of a public class reads it, and sees Python without one."""
_SLOT: Any = vars(ModuleType)["__dict__"]


def _own(module: ModuleType) -> dict[str, Any]:
    """What a module has so far, without looking for more."""
    own: dict[str, Any] = _SLOT.__get__(module)
    return own


class Mirror(ModuleType):
    """A public module. `path` is its place in the table; its name may be another spelling.

    `span` is the release as which it shows itself, or several that can be told apart by their names; None where all
    releases are alike.
    """

    _path: str
    _span: Span | None
    _is_whole = False

    def __init__(self, name: str, path: str, span: Span | None):
        super().__init__(name, table.entries()[path].doc)
        # Written to the dict, as Python's own import does: setattr is what scripts do.
        own = _own(self)
        own["_path"], own["_span"], own["__path__"], own["__file__"] = path, span, [], FILE
        own["__spec__"] = importlib.machinery.ModuleSpec(name, None, origin=own["__file__"], is_package=True)
        if path == CSTORCH and span is not None:
            own["__version__"] = f"{span.until}.0"

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [n for n in shown(self._path, self._span) if not n.startswith("_")]
        origin = table.origin(self._path, name)
        # Python and pickle ask every module for such names; an explanation would cost them a search for similar ones.
        if name.startswith("__") and origin is None and name not in table.children(self._path):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        inner, older = _inner(f"{self._path}.{name}"), None
        if self._span is not None:
            absent = releases.absence(inner, self._span)
            if absent is not None:
                with as_builtin():
                    return manifest.refuse_absent(self.__name__, name, inner, *absent)
            # An older release wins over the table, which is the latest one's.
            older = releases.target_of(inner, self._span)
        # Configuration tools ask a class for those below it, which the original has all loaded with the package.
        if self._path.startswith(f"{CSTORCH}.") and not self._is_whole:
            _own(self)["_is_whole"] = True
            table.load(self._path)
        if older is not None:
            value = implementation(older)
        elif origin is not None:
            value = _at_home(origin)
        elif name in table.children(self._path):
            value = mirror(f"{self.__name__}.{name}", f"{self._path}.{name}", self._span)
        else:
            with as_builtin():
                return manifest.refuse(self.__name__, name, shown(self._path, self._span), f"{self._path}.{name}")
        # Kept, so that Python finds it by itself from now on. A refusal is not: it names the line that asked.
        _own(self)[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Python puts an imported module into the one above. A name that is spelled alike stays, as in a package whose
        # __init__ imports the module first and then the name: `cstorch.backend` is a function and a module.
        is_below = isinstance(value, Mirror) and value.__name__ == f"{self.__name__}.{name}"
        if is_below and table.origin(self._path, name) is not None:
            return
        super().__setattr__(name, value)

    # Scripts look up what a module offers by `models.__dict__[name]` and `vars(optim)`, before anything was used.
    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        own = _own(self)
        for name in shown(own["_path"], own["_span"]):
            if name not in own:
                with contextlib.suppress(AttributeError, ImportError):
                    getattr(self, name)
        return own

    def __dir__(self) -> list[str]:
        return sorted({*shown(self._path, self._span), *_own(self)})


class _CalledMirror(Mirror):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, self._path.rpartition(".")[2])(*args, **kwargs)


def shown(path: str, span: Span | None) -> list[str]:
    """The names that a module offers in its release, the modules below it included."""
    latest = {*table.names(path), *table.children(path)}
    if span is None:
        return sorted(latest)
    present = {n for n in latest if releases.absence(_inner(f"{path}.{n}"), span) is None}
    return sorted({*present, *releases.names_below(_inner(path), span)})


def _inner(path: str) -> str:
    """A path of the table as the rows of the releases have it: inside of the package."""
    return path.removeprefix(CSTORCH).removeprefix(".")


def implementation(target: str) -> Any:
    """What the target of a row of the releases, "module:name" in this package, stands for."""
    module, _, name = target.partition(":")
    return table.Origin(f"cstorch_compat.{module}", name).value()


def _at_home(origin: table.Origin) -> Any:
    """What a name stands for; a class that was written for a mirror takes its public place, by which it is pickled."""
    value = origin.value()
    if isinstance(value, type) and value.__module__.startswith(CODE_OF_MIRRORS):
        value.__module__ = table.homes().get(value.__module__, value.__module__)
    return value


def mirror(name: str, path: str | None = None, span: Span | None = None) -> Mirror:
    """The public module of a name, the same object until `forget`; without a path the one that usually has the name.

    Raises KeyError if the table has no such path.
    """
    path = path or name
    return _only_one(name, path, span or usual_span(path))


def usual_span(path: str) -> Span | None:
    """The latest release for what differs between releases, None for other modules."""
    return LATEST_ONLY if path == CSTORCH or path.startswith(f"{CSTORCH}.") else None


def forget() -> None:
    """Let the next import make every module anew, without what scripts have written into the present ones."""
    _only_one.cache_clear()


@functools.cache
def _only_one(name: str, path: str, span: Span | None) -> Mirror:
    module = (_CalledMirror if path == CALLED else Mirror)(name, path, span)
    # Tensors answer from the import on, not from the first use of torch.Tensor: most scripts never name it.
    if path in EXPLAINED:
        kind = EXPLAINED[path]
        manifest.explain_class(f"{path}.{kind}", getattr(module, kind))
    return module
