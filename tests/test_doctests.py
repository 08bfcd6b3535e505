"""What the docstrings of the three packages show is what comes out."""

import doctest
import importlib
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent


def name_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


PACKAGES = ("lazytensor", "wse_sim", "cstorch_compat")
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
SHOWING = [name_of(path) for path in FILES if "    >>> " in path.read_text()]
DOORS = ("lazytensor.tracing", "wse_sim.plan.modes", "wse_sim.sweeps.sweep", "cstorch_compat.names.shim")


def test_every_door_has_an_example():
    assert set(DOORS) <= set(SHOWING)


@pytest.mark.parametrize("name", SHOWING)
def test_examples_of_a_module_are_true(name):
    outcome = doctest.testmod(importlib.import_module(name), raise_on_error=False)
    assert outcome.attempted and not outcome.failed
