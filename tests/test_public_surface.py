"""What the packages offer, and the import paths of the last release that still work."""

import importlib
import sys
import warnings
from pkgutil import resolve_name

import pytest

import cstorch_compat
import cstorch_compat.torchvision.datasets
import lazytensor as lt
import wse_sim
from lazytensor.system.moved_modules import OLD_PATHS
from tests.conftest import ROOT

SHOWN_STATEMENTS = """
    from lazytensor import abstract
    from lazytensor.capture import Capture
    from lazytensor.cirh.text import cirh_text, torch_text
    from lazytensor.dtype import float32
    from lazytensor.nn.scopes import name_scopes
    from lazytensor.runtime.store import Store
    from lazytensor.table import Column, Table
    from wse_sim.numbers.data import apply
    from wse_sim.pipeline.chain import chain_of
    from wse_sim.pipeline.price import price_step
    from wse_sim.pipeline.sites import sites_of
    from wse_sim.plan.layers import fold
    from wse_sim.plan.stages import computed_again, stages_of
    from wse_sim.plan.wiring import wire
    from wse_sim.price.cost import cost
    from cstorch_compat.torchvision.datasets import small_digits
    import lazytensor as lt; lt.cells.register, lt.cells.value_of
"""
"""What READMEs, notebooks and the changelog of the last release showed, of modules that have moved since."""


@pytest.fixture
def first_import():
    """Forget the old paths before and after a test: only the first import of a process warns."""
    forget_old_paths()
    yield
    forget_old_paths()


def forget_old_paths():
    for path in OLD_PATHS:
        parent, _, name = path.rpartition(".")
        sys.modules.pop(path, None)
        vars(sys.modules.get(parent, lt)).pop(name, None)


def run_statement(text):
    """Run a line as if it stood in this file; return its names and the warnings about it."""
    names = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(text, __file__, "exec"), names)
    return names, caught


@pytest.mark.parametrize("old_path", OLD_PATHS)
def test_old_path_gives_the_object_at_the_new_path_and_warns(old_path, first_import):
    parent, _, name = old_path.rpartition(".")
    names, (warning,) = run_statement(f"from {parent} import {name} as thing")
    assert names["thing"] is resolve_name(OLD_PATHS[old_path])
    assert warning.category is DeprecationWarning and warning.filename == __file__
    assert str(warning.message).startswith(f"{old_path} has moved to {OLD_PATHS[old_path]};")


@pytest.mark.parametrize("statement", [line.strip() for line in SHOWN_STATEMENTS.strip().splitlines()])
def test_statement_of_the_last_release_still_runs(statement, first_import):
    _, caught = run_statement(statement)
    assert [w.category for w in caught] == [DeprecationWarning]


def test_function_keeps_its_name_beside_an_old_package(first_import):
    run_statement("from wse_sim.plan.layers import fold")
    assert callable(wse_sim.plan) and wse_sim.plan.__name__ == "plan"


@pytest.mark.parametrize("path", ["lazytensor.views", "lazytensor.functions.shapes", "wse_sim.plan.routes"])
def test_internal_module_is_only_at_its_new_path(path):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(path)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'lazytensor' has no attribute 'no_such'"):
        _ = lt.no_such


@pytest.mark.parametrize("package", [lt, wse_sim, cstorch_compat], ids=lambda p: p.__name__)
def test_dir_shows_the_public_names_and_no_others(package):
    assert [name for name in dir(package) if not name.startswith("_")] == sorted(package.__all__)
    assert all(hasattr(package, name) for name in package.__all__)


SURFACE = {
    module: set(names.split())
    for module, _, names in (
        line.partition(": ") for line in (ROOT / "cstorch_compat/names/torch_surface.txt").read_text().splitlines()
    )
}
"""Public module of PyTorch -> its names, as they were recorded."""
OWN_NAMES = {"Lamb", "Lion", "NonDynamicallyQuantizableLinear", "functional", "init", "utils"}
"""The vendor's optimizers, the base class of attention's output layer, and modules."""


@pytest.mark.parametrize("name", ["linalg", "special", "nn", "optim"])
def test_public_names_of_a_module_are_names_of_pytorch(name):
    assert set(resolve_name(f"lazytensor.{name}").__all__) - SURFACE[f"torch.{name}"] - OWN_NAMES == set()


def test_every_module_of_functional_is_listed():
    functional = importlib.import_module("lazytensor.functional")
    assert all(hasattr(functional, name) for name in functional.__all__)
