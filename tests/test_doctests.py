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
from cstorch_compat.names import shim
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run.process import RUN
from lazytensor import nn, optim

ROOT = pathlib.Path(__file__).parent.parent


def name_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


PACKAGES = ("lazytensor", "wse_sim", "cstorch_compat")
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
SHOWING = [name_of(path) for path in FILES if "    >>> " in path.read_text()]
DOORS = ("lazytensor.core.tracing", "wse_sim.planner.modes", "wse_sim.sweeps.sweep", "cstorch_compat.names.shim")
MAIN = """
    arange cat clamp cumsum einsum eye from_numpy gather is_grad_enabled linspace manual_seed matmul no_grad softmax
    sort stack tensor topk where nn.Linear nn.Sequential nn.functional.cross_entropy
    nn.functional.scaled_dot_product_attention to_onnx trace trace_graph
""".split()
"""What the course and the READMEs use of `lazytensor`."""
OFFERED = {
    "lazytensor": vars(lazytensor),
    "nn.functional": {name: vars(nn.functional)[name] for name in nn.functional.FUNCTION_NAMES},
    "nn": {name: getattr(nn, name) for name in nn.__all__},
    "optim": {name: getattr(optim, name) for name in optim.__all__},
}
NOT_SHOWN = {
    "optim.Muon": "cerebras_pytorch 2.10.0 does not run it on a CPU, and PyTorch's is another",
    "cerebras.pytorch.optim.Muon": "the same",
    "cerebras.pytorch.set_debug_scope": "it does nothing here",
    "wse_sim.PipelineBackend": "it takes a training step with its weights: notebook 05",
    "wse_sim.PipelineExecutable": "the same",
    "wse_sim.LayerRow": "`Report` shows one",
    "wse_sim.ModeReport": "`Report` shows one",
    "wse_sim.ResourceShare": "`resource_shares` shows one",
    "wse_sim.to_frame": "needs pandas, which is an extra",
    "cstorch_compat.CheckReport": "`check` shows one",
}
"""Functions and classes that show no example, with the reason."""


def shows(thing):
    return ">>> " in (inspect.getdoc(thing) or "")


def not_shown(things):
    return {name for name, thing in things.items() if not shows(thing)}


def offered_by(module):
    """Functions and classes of a module that a reader may look up, each under its first name."""
    things = ((n, t) for n, t in OFFERED[module].items() if callable(t) and not n.startswith("_") and n != "public")
    return {n: t for n, t in things if getattr(t, "__module__", "").startswith("lazytensor")}


def test_every_door_has_an_example():
    assert set(DOORS) <= set(SHOWING)
    named = {f"{p.__name__}.{n}": getattr(p, n) for p in (wse_sim, cstorch_compat) for n in p.__all__}
    named |= {f"lazytensor.{n}": operator.attrgetter(n)(lazytensor) for n in MAIN}
    # Machines and other records that a package names show nothing of their own.
    things = {n: t for n, t in named.items() if inspect.isroutine(t) or inspect.isclass(t) or n.startswith("lazy")}
    assert len(things) > 45
    assert not_shown(things) == {n for n in NOT_SHOWN if n.startswith(("wse_sim", "cstorch_compat"))}


@pytest.mark.parametrize("module", OFFERED)
def test_all_that_a_module_offers_shows_an_example(module):
    offered = {f"{module}.{name}": thing for name, thing in offered_by(module).items()}
    assert not_shown(offered) == {name for name in NOT_SHOWN if name in offered}


def examples_in(module):
    """Return the doctests of a module, with those of classes that it defines and that name a module of the mirror."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = finder.find(module)
    for name, thing in vars(module).items():
        is_renamed = inspect.isclass(thing) and thing.__module__ != module.__name__
        if is_renamed and f"\nclass {name}" in inspect.getsource(module):
            found += finder.find(thing, name, module=False)
    return [test for test in found if test.examples]


@pytest.fixture
def scripts_modules(name):
    """Let `import torch` find this package, as in a script, for the examples of `cstorch_compat`."""
    if name.startswith("cstorch_compat"):
        cstorch_compat.install()
    yield
    shim.uninstall()
    RUN.reset()


@pytest.mark.parametrize("name", SHOWING)
def test_examples_of_a_module_are_true(name, scripts_modules):
    run = doctest.DocTestRunner(verbose=False)
    for example in examples_in(importlib.import_module(name)):
        RUN.reset()  # each is a script of its own
        run.run(example, out=print)
    outcome = run.summarize()
    assert outcome.attempted and not outcome.failed


@pytest.mark.parametrize("name", [name for name in lazytensor.special.__all__ if shows(vars(lazytensor.special)[name])])
def test_example_of_a_special_function_is_true(name):
    """A factory in another module makes these functions, so the examples of their own module do not include them."""
    run = doctest.DocTestRunner(verbose=False)
    for example in doctest.DocTestFinder().find(vars(lazytensor.special)[name], name, module=False, globs={}):
        run.run(example, out=print)
    outcome = run.summarize()
    assert outcome.attempted and not outcome.failed


def test_the_heart_of_the_vendors_api_shows_examples():
    offered = {
        f"{path}.{name}": getattr(get_mirror(path), name)
        for path in ("cerebras.pytorch", "cerebras.pytorch.metrics", "cerebras.pytorch.optim")
        for name in get_mirror(path).__all__
    }
    callables = {name: thing for name, thing in offered.items() if callable(thing)}
    assert not_shown(callables) == {name for name in NOT_SHOWN if name.startswith("cerebras.pytorch.")}
