"""What the docstrings of the three packages show is what comes out."""

import doctest
import importlib
import inspect
import operator
import pathlib

import pytest

import cstorch_compat
import lazytensor
import wse_sim

ROOT = pathlib.Path(__file__).parent.parent


def name_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


PACKAGES = ("lazytensor", "wse_sim", "cstorch_compat")
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
SHOWING = [name_of(path) for path in FILES if "    >>> " in path.read_text()]
DOORS = ("lazytensor.tracing", "wse_sim.plan.modes", "wse_sim.sweeps.sweep", "cstorch_compat.names.shim")
WITHOUT = {"wse_sim.to_frame": "needs pandas, which is an extra"}
"""Functions that a package names at its top and that no example shows, with the reason."""
MAIN = """
    arange cat clamp cumsum einsum eye from_numpy gather is_grad_enabled linspace manual_seed matmul no_grad softmax
    sort stack tensor topk where nn.Linear nn.Sequential nn.functional.cross_entropy
    nn.functional.scaled_dot_product_attention to_onnx trace trace_graph
""".split()
"""What the course and the READMEs use of `lazytensor`."""


def shows(thing):
    return ">>> " in (inspect.unwrap(thing).__doc__ or "")


def test_every_door_has_an_example():
    assert set(DOORS) <= set(SHOWING)
    named = {f"{p.__name__}.{n}": getattr(p, n) for p in (wse_sim, cstorch_compat) for n in p.__all__}
    named |= {f"lazytensor.{n}": operator.attrgetter(n)(lazytensor) for n in MAIN}
    functions = {name: thing for name, thing in named.items() if inspect.isfunction(thing) or name.startswith("lazy")}
    assert len(functions) > 30
    assert {name for name, thing in functions.items() if not shows(thing)} == set(WITHOUT)


@pytest.mark.parametrize("name", SHOWING)
def test_examples_of_a_module_are_true(name):
    outcome = doctest.testmod(importlib.import_module(name), raise_on_error=False)
    assert outcome.attempted and not outcome.failed
