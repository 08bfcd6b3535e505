"""Examine the captured graph of a step: its lowering, the dtypes of its batch, and what changes in the second step."""

from collections.abc import Sequence

from cstorch_compat.check.findings import Findings
from lazytensor.cirh.printer import SUPPORTED_DTYPES
from lazytensor.compiler.pipeline import CSX, Compilation
from lazytensor.core.tensor import Tensor
from lazytensor.errors import LazyError
from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.types import Where

CONSTANT_OPS = ("full", "const", "arange")


def examine_batch(findings: Findings, place: Where, batch: list[tuple[str, Tensor]]) -> None:
    """Note what the wafer cannot take in."""
    for path, t in batch:
        if t.dtype.name not in SUPPORTED_DTYPES:
            findings.add("batch dtype", place, f"input{path} is {t.spec}")


def examine_graph(findings: Findings, graph: Graph) -> None:
    """Lower a step to CIRH as `run` does. The check's reporter notes each refusal; an error that ends it is added."""
    try:
        Compilation(graph, CSX)["print_cirh"]
    except LazyError as e:
        findings.add("no lowering", e.where if isinstance(e.where, Where) else None, detail=e.what, way_out=e.hint)


def compare_steps(findings: Findings, first: Sequence[Node], second: Graph) -> None:
    """Note where the second step leaves the first one: once, at the operation that is not computed any more.

    Where all lines of the first are still there, at the operations that are new although their inputs are not.
    """
    lines = {_source_line(n) for n in second.nodes()}
    # What follows from a lost operation is new too, in every update; only the loss itself has a cause in the script.
    lost = next((n for n in first if n.where is not None and n.inputs and _source_line(n) not in lines), None)
    if lost is not None:
        findings.add("step changes", lost.where, f"aten::{lost.op}", "the second step does not compute this any more")
        return
    before, seen = set(first), set[tuple[str, int] | None]()
    for n in second.nodes():
        if _is_divergence(n, before) and _source_line(n) not in seen:
            seen.add(_source_line(n))
            numbers = [i for i in n.inputs if i not in before]
            detail = f"in the second step it takes another constant: {_describe_value(numbers[0])}" if numbers else ""
            findings.add("step changes", n.where, f"aten::{n.op}", detail)


def _source_line(n: Node) -> tuple[str, int] | None:
    return None if n.where is None else (n.where.file, n.where.line)


def _is_divergence(n: Node, first: set[Node]) -> bool:
    """Whether the steps part at a node: it is new and its inputs are old, or a new constant is among them."""
    if n in first or n.where is None or not n.inputs:
        return False
    return all(i in first for i in n.inputs if i.op not in CONSTANT_OPS)


def _describe_value(n: Node) -> str:
    return str(n.attrs["value"]) if n.op == "full" else f"a constant {n.type}"
