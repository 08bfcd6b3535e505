"""Functions of a graph: calls that are written out are the nodes that would have been recorded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.core import abstract_step
from lazytensor.core.dtype import float32
from lazytensor.errors import TraceError
from lazytensor.ir.graph import Graph, Node, node_template, topological
from lazytensor.ir.graph_function import CALL_OP, RESULT_OP, GraphFunction, inline_calls
from lazytensor.ir.types import Type
from lazytensor.ops.op import call, full
from lazytensor.testing import batch

TYPE = Type((3,), float32)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[int, list[tuple[str, list[int]]], list[int]]:
    """The number of values, operations with the places of their operands, and the places of results."""
    count = draw(st.integers(1, 3))
    operations = []
    # The place behind the values is a constant.
    for place in range(count + 1, count + 1 + draw(st.integers(1, 6))):
        name, operands = draw(st.sampled_from([("neg", 1), ("add", 2), ("mul", 2), ("maximum", 2)]))
        operations.append((name, draw(st.lists(st.integers(0, place - 1), min_size=operands, max_size=operands))))
    last = count + len(operations)
    return count, operations, draw(st.lists(st.integers(0, last), min_size=1, max_size=4))


def recorded(body: tuple[int, list[tuple[str, list[int]]], list[int]], values: list[Node]) -> list[Node]:
    count, operations, results = body
    nodes = [*values[:count], full(2.0, TYPE)]
    for name, operands in operations:
        nodes.append(call(name, *(nodes[k] for k in operands)))
    return [nodes[k] for k in results]


def function_of(values: list[Node], results: list[Node]) -> GraphFunction:
    inner = [n for n in topological(results, values.__contains__) if n not in values]
    constants, nodes = [n for n in inner if not n.inputs], [n for n in inner if n.inputs]
    places = {n: k for k, n in enumerate([*values, *constants, *nodes])}
    models = tuple((node_template(n), tuple(places[i] for i in n.inputs)) for n in nodes)
    return GraphFunction(len(values), tuple(constants), models, tuple(places[n] for n in results))


@given(body=bodies())
def test_calls_that_are_written_out_are_what_was_recorded(body):
    first, second = [batch(k, TYPE) for k in range(3)], [batch(k, TYPE) for k in range(3, 6)]
    function = function_of(first[: body[0]], recorded(body, first))
    once = function.call(first[: body[0]], 0)
    # Of what the first call gives and of other values.
    mixed = [*once, *second][: body[0]]
    twice = function.call(mixed, 0)
    whole = inline_calls(Graph((), {}, (*once, *twice), {"a": twice[0]}))
    expected = recorded(body, first)
    again = recorded(body, [*expected, *second])
    assert whole.outputs == (*expected, *again) and whole.updates == {"a": again[0]}
    assert not {CALL_OP, RESULT_OP} & {n.op for n in whole.nodes()}


def test_a_graph_without_calls_stays_as_it_is():
    graph = Graph((), {}, (call("neg", batch(0, TYPE)),), {})
    assert inline_calls(graph) is graph


def trained(count: int) -> tuple[lt.nn.Module, lt.optim.Optimizer]:
    with abstract_step.mode():
        model = lt.nn.Sequential(*(lt.nn.Linear(4, 4) for _ in range(count)))
        return model, lt.optim.AdamW(model.parameters(), lr=0.1)


def test_updates_of_an_abstract_step_are_calls_of_one_function_for_each_kind_of_parameter():
    model, rule = trained(3)
    x = abstract_step.tensor((2, 4))

    def step():
        model(x).sum().backward()
        rule.step()

    calls = [n for n in abstract_step.graph_of_step(step, {"x": x}).nodes() if n.op == CALL_OP]
    assert len(calls) == 6
    assert len({n.attrs["function"] for n in calls}) == 2


def test_what_is_made_of_an_updated_parameter_is_recorded_behind_the_call():
    model, rule = trained(1)
    x = abstract_step.tensor((2, 4))

    def step():
        loss = model(x).sum()
        loss.backward()
        rule.step()
        rule.zero_grad()
        again = model(x).square().sum()
        again.backward()
        return loss, again, model[0].weight.grad

    graph = inline_calls(abstract_step.graph_of_step(step, {"x": x}))
    assert len(graph.outputs) == 3
    assert not {CALL_OP, RESULT_OP} & {n.op for n in graph.nodes()}
    # The second pass reads the weight behind its update, by way of the mark that gradients find.
    [weight] = [n for state, n in graph.updates.items() if n.type.shape == (4, 4) and "exp_avg" not in state]
    assert [n.op for n in graph.nodes() if weight in n.inputs] == ["variable"]


def test_a_value_behind_an_update_is_refused_as_before():
    model, rule = trained(1)
    x = abstract_step.tensor((2, 4))

    def step():
        model(x).sum().backward()
        rule.step()
        return float(model[0].weight.sum())

    with pytest.raises(TraceError, match="needs the value"):
        abstract_step.graph_of_step(step, {"x": x})
