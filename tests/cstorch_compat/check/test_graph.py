"""The walk over the graph of a step, and the stand-in values that keep it going."""

import numpy as np
import pytest

from cstorch_compat.check import graph, operations, step
from cstorch_compat.check.findings import Findings
from lazytensor.cells import Cell
from lazytensor.dtype import float32, float64
from lazytensor.ir.graph import Graph, leaf, node
from lazytensor.ir.types import Type, Where
from lazytensor.ops import OPS, Op, call, full
from lazytensor.runtime.store import Store

HERE = Where("train.py", 7)


def batch(dtype=float32, shape=(4, 6)):
    t = Type(shape, dtype)
    return node("batch", (), {"index": 0, "name": "input_0", "type": t}, t)


def examined(*roots, calls=None):
    found = Findings()
    for n in roots:
        n.where = HERE
    graph.examine(found, Graph((), {}, roots, {}), calls or {})
    return [(f.rule.id, f.line) for f in found.items]


@pytest.fixture
def strange(monkeypatch):
    """An operation that CIRH has no spelling for."""
    monkeypatch.setitem(OPS, "strange", Op(name="strange", infer=lambda x: x, eval=lambda x: x))
    return call("strange", batch())


def test_operation_without_lowering_is_a_risk_at_its_line(strange):
    assert examined(strange) == [("LW311", 7)]


def test_operation_that_the_original_lowers_is_none(strange):
    assert examined(strange, calls={("train.py", 7): {"linear"}}) == []


def test_a_line_that_has_a_finding_needs_no_doubt_about_the_lowering(strange):
    found = Findings()
    found.add("read", HERE)
    strange.where = HERE
    graph.examine(found, Graph((), {}, (strange,), {}), {})
    assert [f.rule.key for f in found.items] == ["read"]


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


def test_every_failure_is_collected(strange):
    assert len(examined(strange, call("strange", call("strange", batch())))) == 1
    assert examined(strange, call("mul", batch(float64), batch(float64))) == [("LW311", 7), ("LW203", 7)]


def test_second_step_is_compared_with_the_first():
    x = batch()
    first, second = (call("mul", x, full(v, x.type)) for v in (0.5, 0.25))
    second.where = HERE
    found = Findings()
    graph.compare(found, list(Graph((), {}, (first,), {}).nodes()), Graph((), {}, (first,), {}))
    assert found.items == []
    graph.compare(found, list(Graph((), {}, (first,), {}).nodes()), Graph((), {}, (second,), {}))
    assert [(f.rule.id, f.detail.endswith("0.25")) for f in found.items] == [("LW402", True)]


def test_reads_are_answered_by_the_value_or_by_zeros(monkeypatch):
    cell = Cell(leaf(np.full((3,), 2.0, np.float32), Type((3,), float32)))
    capture = step.CheckedCapture(Store(), readable=True)
    capture.feed(cell, 0, "input")
    with capture:
        doubled = call("add", cell.node, cell.node)
        assert capture.value_of(doubled, ".item()").tolist() == [4.0, 4.0, 4.0]
        monkeypatch.setattr(step, "BUDGET_FLOPS", 0)
        tripled = call("add", doubled, cell.node)
        assert capture.value_of(tripled, ".item()").tolist() == [0.0, 0.0, 0.0]


def test_table_names_rules_that_exist():
    rows = [row for rows in operations.table().values() for row in rows]
    assert {row.rule for row in rows} <= {"no kernel", "no lowering", "no gradient", "dtype"}
    assert all(row.says for row in rows)
    assert len(rows) > 150


@pytest.mark.parametrize(
    ("name", "public"), [("add_", "add"), ("__radd__", "add"), ("__ior__", "bitwise_or"), ("__getitem__", "getitem")]
)
def test_operators_and_in_place_forms_have_the_row_of_their_function(name, public):
    assert operations.public_name(name) == public
