"""The walk over the graph of a step, and the stand-in values that keep it going."""

import numpy as np
import pytest

from cstorch_compat.check import checked_step, graph
from cstorch_compat.check.findings import Findings
from lazytensor.core.dtype import float32, float64
from lazytensor.core.storage import Storage
from lazytensor.ir.graph import Graph, leaf, node, topological
from lazytensor.ir.types import Type, Where
from lazytensor.ops import OPS, Op, call, full
from lazytensor.runtime.state_store import Store

HERE = Where("train.py", 7)


def batch(dtype=float32, shape=(4, 6)):
    t = Type(shape, dtype)
    return node("batch", (), {"index": 0, "name": "input_0", "type": t}, t)


def examined(*roots):
    found = Findings()
    for line, n in enumerate(roots, HERE.line):
        n.where = Where("train.py", line)
    with checked_step.FindingRecorder(found):
        inputs = tuple(n for n in topological(roots) if n.op == "batch")
        graph.examine_graph(found, Graph(inputs, {}, roots, {}, tuple(f"output_{n.where.line}" for n in roots)))
    return [(f.rule.id, f.line) for f in found.items]


@pytest.fixture
def strange(monkeypatch):
    """An operation that CIRH has no spelling for."""
    monkeypatch.setitem(OPS, "strange", Op(name="strange", infer=lambda x: x, eval=lambda x: x))
    return call("strange", batch())


def test_operation_without_lowering_is_refused_at_its_line(strange):
    assert examined(strange) == [("LW202", 7)]


def test_findings_are_counted_by_line_and_operation():
    found = Findings()
    for operation in ("F.gelu(x)", "F.gelu(x)", "F.gelu(y)"):
        found.add("read", HERE, operation)
    found.add("read", Where("train.py", 8), "F.gelu(x)")
    assert [(f.line, f.operation, f.count) for f in found.items] == [
        (7, "F.gelu(x)", 2),
        (7, "F.gelu(y)", 1),
        (8, "F.gelu(x)", 1),
    ]


def test_every_refusal_is_collected(strange):
    more = call("strange", call("neg", batch()))
    assert examined(strange, more) == [("LW202", 7), ("LW202", 8)]


def test_dtype_is_refused_once_where_it_begins():
    product = call("mul", batch(float64), batch(float64))
    assert examined(product, call("neg", product)) == [("LW203", 7)]


def test_second_step_is_compared_with_the_first():
    x = batch()
    first, second = (call("mul", x, full(v, x.type)) for v in (0.5, 0.25))
    first.where = second.where = HERE
    found = Findings()
    graph.compare_steps(found, list(Graph((), {}, (first,), {}).nodes()), Graph((), {}, (first,), {}))
    assert found.items == []
    graph.compare_steps(found, list(Graph((), {}, (first,), {}).nodes()), Graph((), {}, (second,), {}))
    assert [(f.rule.id, f.detail.endswith("0.25")) for f in found.items] == [("LW402", True)]


def test_reads_are_answered_by_the_value_or_by_zeros(monkeypatch):
    cell = Storage(leaf(np.full((3,), 2.0, np.float32), Type((3,), float32)))
    capture = checked_step.CheckCapture(Store(), readable=True)
    capture.feed(cell, 0, "input")
    with capture:
        doubled = call("add", cell.node, cell.node)
        assert capture.value_of(doubled, ".item()").tolist() == [4.0, 4.0, 4.0]
        monkeypatch.setattr(checked_step, "MAX_READABLE_FLOPS", 0)
        tripled = call("add", doubled, cell.node)
        assert capture.value_of(tripled, ".item()").tolist() == [0.0, 0.0, 0.0]
