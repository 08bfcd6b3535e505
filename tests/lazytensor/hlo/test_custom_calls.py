"""Wrapping ATen operations in custom calls and unwrapping them changes no graph."""

import pytest
from hypothesis import assume, given, settings

from lazytensor import config
from lazytensor.cirh.generic import generic_text
from lazytensor.compiler.pipeline import CSX, PASSES, Compilation, Pass, Target
from lazytensor.core import dtype as dt
from lazytensor.errors import CompileError
from lazytensor.hlo.custom_calls import unwrap, wrap_custom_calls
from lazytensor.ir.graph import Graph, distinct_uses, new_uninterned_node, node_template
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.testing import batch, graphs, state
from tests.lazytensor.ops.every_operation import graph_of_every_operation

X = batch(0, Type((2, 3), dt.float32))


@settings(max_examples=50)
@given(graphs())
def test_unwrapping_gives_back_the_nodes_that_were_wrapped(graph):
    again = unwrap(wrap_custom_calls(graph))
    # Nodes are interned: equal graphs have the very same ones.
    assert (again.key, again.state) == (graph.key, graph.state)


@pytest.mark.slow
def test_every_operation_is_one_custom_call_and_comes_back():
    graph = graph_of_every_operation()
    wrapped = wrap_custom_calls(graph)
    assert unwrap(wrapped).key == graph.key
    # No operation is broken into simpler ones.
    assert len(wrapped.nodes()) == len(graph.nodes())
    assert {n.op for n in wrapped.nodes()} == {"batch", "const", "result", "custom_call"}


def test_operations_that_were_recorded_separately_stay_separate():
    with distinct_uses():
        one = call("exp", X)
        other = new_uninterned_node(node_template(one), (X,))
    graph = Graph((X,), {}, (call("sin", one), call("sin", other)), {})
    again = unwrap(wrap_custom_calls(graph))
    assert len(again.nodes()) == len(graph.nodes()) == 5
    assert generic_text(again) == generic_text(graph)


def test_names_of_state_and_outputs_and_locations_come_back():
    w = state("model.w", X.type)
    graph = Graph((X,), {"model.w": w}, (X * w,), {"model.w": w + X}, ("loss",))
    again = unwrap(wrap_custom_calls(graph))
    assert (again.updates, again.state, again.output_names) == (graph.updates, graph.state, ("loss",))


@settings(max_examples=20)
@given(graphs())
def test_lowered_graph_is_the_same_without_the_stage(graph):
    assume(any(n.op == "batch" for n in graph.nodes()))
    direct = Target("direct", tuple(p for p in CSX.passes if p.name not in ("wrap_custom_calls", "unwrap")))
    with config.override(check=True):
        lowered = [Compilation(graph, target)["lower_to_cirh"] for target in (CSX, direct)]
    assert lowered[0].key == lowered[1].key


def spoiled(name: str, type: Type):
    """Return a pass that gives a call of the ATen operation `name` with one result of the type `type`."""
    attrs = {"call_target_name": f"aten.{name}", "backend_config": {}}
    n = new_uninterned_node(("custom_call", attrs, (), type, None, False), (X,))
    return Pass("spoil", lambda wrapped: wrapped.replace_roots(lambda root: n), ("hlo",), "hlo", 2)


@pytest.mark.parametrize(
    ("name", "type", "message"),
    [
        ("exp", Type((3, 2), dt.float32), r"exp returns float32\[2, 3\], but its node has the type float32\[3, 2\]"),
        ("nothing", X.type, "the operation nothing does not exist"),
    ],
)
def test_wrong_call_is_refused_by_the_check_of_its_pass(name, type, message):
    target = Target("spoiled", (PASSES["wrap_custom_calls"], spoiled(name, type)))
    with config.override(check=True), pytest.raises(CompileError, match=f"after pass spoil: {message}"):
        Compilation(Graph((X,), {}, (call("exp", X),), {}), target)["spoil"]
