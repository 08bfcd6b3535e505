"""Every public function, class and member has a docstring, or inherits one."""

import importlib
import inspect
import pathlib
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("lazytensor", "wse_sim", "cstorch_compat")


def modules() -> Iterator[ModuleType]:
    """Import every module of the packages but `__main__`, whose import is its run."""
    paths = (p for package in PACKAGES for p in (ROOT / package).rglob("*.py") if p.stem != "__main__")
    for path in sorted(paths):
        yield importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))


def undocumented(module: ModuleType) -> Iterator[str]:
    """Return the names of public functions and classes of a module, and of their members, that have no docstring."""
    for name, thing in vars(module).items():
        is_callable = inspect.isclass(thing) or inspect.isfunction(thing)
        if not is_callable or thing.__module__ != module.__name__ or thing.__name__ != name or name.startswith("_"):
            continue
        named = {name: thing}
        if inspect.isclass(thing):
            named |= {f"{name}.{n}": getattr(thing, n) for n in members(thing)}
        yield from (f"{module.__name__}.{full}" for full, t in named.items() if not inspect.getdoc(t))


def members(kind: type[Any]) -> Iterator[str]:
    """Return the names of the public methods and properties that a class defines."""
    for name, member in vars(kind).items():
        # A function that another class or module defines is the default of a field.
        is_own = not isinstance(member, FunctionType) or member.__qualname__.startswith(kind.__qualname__ + ".")
        is_callable = isinstance(member, FunctionType | property | classmethod | staticmethod)
        if is_own and is_callable and not name.startswith("_"):
            yield name


@pytest.mark.slow
def test_every_public_name_has_a_docstring():
    assert [name for module in modules() for name in undocumented(module)] == []


def test_missing_docstrings_are_seen():
    module = ModuleType("novelty")
    exec("def f(): pass\nclass A:\n    'A class.'\n    def g(self): pass\n    def _h(self): pass", vars(module))
    for thing in (module.f, module.A):
        thing.__module__ = "novelty"
    assert list(undocumented(module)) == ["novelty.f", "novelty.A.g"]
