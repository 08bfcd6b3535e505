"""The public modules of strategies draw what they say, and say what is missing without Hypothesis."""

import importlib
import sys

import pytest
from hypothesis import given

from lazytensor.compiler.pipeline import compile_graph
from lazytensor.ir.program import Program
from lazytensor.testing import graphs
from wse_sim.cost_model.cost import cost
from wse_sim.machine import WSE2
from wse_sim.testing import meshes, programs


@given(graphs())
def test_every_graph_compiles(graph):
    assert isinstance(compile_graph(graph), Program)


@given(programs(4))
def test_every_phase_program_has_a_price(phase):
    assert cost(phase, WSE2).cycles >= 0


@given(meshes(even=True))
def test_every_mesh_is_built(mesh):
    built = mesh.mesh()
    assert (built.width, built.height) == (mesh.width, mesh.height)


@pytest.mark.parametrize("name", ["lazytensor.testing", "wse_sim.testing"])
def test_without_hypothesis_the_extra_is_named(name, monkeypatch):
    kept = {n: m for n, m in sys.modules.items() if n.startswith(("lazytensor.testing", "wse_sim.testing"))}
    for n in kept:
        monkeypatch.delitem(sys.modules, n)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(ModuleNotFoundError, match=r"lazywafer\[testing\]"):
        importlib.import_module(name)
