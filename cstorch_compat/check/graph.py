"""Examines the captured graph of a step: dtypes, operations that CIRH lacks, and what changes in the second step."""

from collections.abc import Sequence
from typing import Any

from cstorch_compat.check.findings import Findings
from cstorch_compat.check.operations import is_known_good
from lazytensor.compiler.pipeline import CSX, Compilation
from lazytensor.errors import LazyError
from lazytensor.ir.graph import Graph, Node, node
from lazytensor.ir.operation import OPS
from lazytensor.ir.types import Type, Where
from lazytensor.tensor import Tensor

SUPPORTED = frozenset("bfloat16 float16 float32 int16 int32 int64 bool cbfloat16".split())
"""Element types that CIRH computes in."""
NUMBERS = ("full", "const", "arange")

Calls = dict[tuple[str, int], set[str]]
"""Short names of the public functions that were called, by file and line."""


def examine_batch(findings: Findings, place: Where, batch: list[tuple[str, Tensor]]) -> None:
    """Note what the wafer cannot take in."""
    for path, t in batch:
        if t.dtype.name not in SUPPORTED:
            findings.add("batch dtype", place, f"input{path} is {t.spec}")


def examine(findings: Findings, graph: Graph, calls: Calls) -> None:
    """Note the operations of a step that CIRH does not have, each with the line that called it."""
    errors: dict[tuple[Any, ...], str] = {}
    for n in graph.nodes():
        # What has no line of the script was made by the house.
        if n.where is None or OPS[n.op].is_leaf:
            continue
        if _is_foreign(n):
            if not any(f.rule.key == "dtype" for f in findings.at(n.where)):
                _note(findings, "dtype", n, f"{n.op} gives {n.type}")
            continue
        # One question for each kind of node, since asking compiles a small graph; a transformer repeats its layers.
        question = (n.op, tuple(i.type for i in n.inputs), tuple((k, repr(v)) for k, v in sorted(n.attrs.items())))
        if question not in errors:
            errors[question] = lowering_error(n)
        # What the original was seen to lower is no fault of the script, whatever our lowering has to say.
        if (
            errors[question]
            and not findings.at(n.where)
            and not is_known_good(calls.get((n.where.file, n.where.line), set()))
        ):
            _note(findings, "lowering here", n, errors[question])


def _note(findings: Findings, rule: str, n: Node, detail: str) -> None:
    assert n.where is not None
    inputs = ", ".join(str(i.type) for i in n.inputs)
    findings.add(rule, n.where, f"aten::{n.op}({inputs})", detail)


def _is_foreign(n: Node) -> bool:
    """Whether a node is the first one of its line of operations in a dtype that CIRH does not have."""
    types = n.type if isinstance(n.type, tuple) else (n.type,)
    # Only the first: everything computed from a float64 tensor is float64 too, and one finding says it.
    came_so = any(not OPS[i.op].is_leaf and _is_outside(i.type) for i in n.inputs)
    return not came_so and any(_is_outside(t) for t in types)


def _is_outside(t: Type | tuple[Type, ...]) -> bool:
    return isinstance(t, Type) and t.dtype.name not in SUPPORTED


def lowering_error(n: Node) -> str:
    """Why CIRH cannot express one operation, looked at alone; "" if it can."""
    # Constants stay constants, for some operations are lowered only with numbers in their place.
    inputs = tuple(i if i.op in NUMBERS else _input(k, i.type) for k, i in enumerate(n.inputs))
    # Its neighbours are cut off, so that the answer is about this operation and no other.
    alone = node(n.op, inputs, n.attrs, n.type)
    if alone.op in ("const",):
        return ""
    root = alone if not isinstance(n.type, tuple) else node("result", (alone,), {"index": 0}, n.type[0])
    leaves = tuple(i for i in inputs if i.op == "batch")
    try:
        # Asked for its text, and no further: what the host does with the graph is no matter of CIRH.
        Compilation(Graph(leaves, {}, (root,), {}), CSX)["print_cirh"]
    except LazyError as e:
        return e.what
    return ""


def _input(k: int, t: Type) -> Node:
    return node("batch", (), {"index": k, "name": f"input_{k}", "type": t}, t)


def compare(findings: Findings, first: Sequence[Node], second: Graph) -> None:
    """Note where the second step leaves the first one: once, at the operation that is not computed any more.

    Where all lines of the first are still there, at the operations that are new although their inputs are not.
    """
    lines = {_line(n) for n in second.nodes()}
    # What follows from a lost operation is new too, in every update; only the loss itself has a cause in the script.
    lost = next((n for n in first if n.where is not None and n.inputs and _line(n) not in lines), None)
    if lost is not None:
        findings.add("step changes", lost.where, f"aten::{lost.op}", "the second step does not compute this any more")
        return
    before, seen = set(first), set[tuple[str, int] | None]()
    for n in second.nodes():
        if _parts(n, before) and _line(n) not in seen:
            seen.add(_line(n))
            numbers = [i for i in n.inputs if i not in before]
            detail = f"in the second step it takes another constant: {_value(numbers[0])}" if numbers else ""
            findings.add("step changes", n.where, f"aten::{n.op}", detail)


def _line(n: Node) -> tuple[str, int] | None:
    return None if n.where is None else (n.where.file, n.where.line)


def _parts(n: Node, first: set[Node]) -> bool:
    """Whether the steps part at a node: it is new and its inputs are old, or a new constant is among them."""
    if n in first or n.where is None or not n.inputs:
        return False
    return all(i in first for i in n.inputs if i.op not in NUMBERS)


def _value(n: Node) -> str:
    return str(n.attrs["value"]) if n.op == "full" else f"a constant {n.type}"
