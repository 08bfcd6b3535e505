"""Check the captured graph of a step: its lowering, the dtypes of its batch, and changes in the second step."""

from collections.abc import Sequence

from cstorch_compat.check.findings import Findings
from lazytensor.cirh.printer import SUPPORTED_DTYPES
from lazytensor.compiler.pipeline import CSX, Compilation
from lazytensor.core.tensor import Tensor
from lazytensor.errors import LazyError
from lazytensor.ir.graph import Graph, Node
from lazytensor.ir.types import Where

CONSTANT_OPS = ("full", "const", "arange")
"""Operations whose result is a constant."""


def examine_batch(findings: Findings, place: Where, batch: list[tuple[str, Tensor]]) -> None:
    """Add a finding for each tensor of the batch whose dtype the system does not support.

    `batch` has paths and tensors.
    """
    for path, t in batch:
        if t.dtype.name not in SUPPORTED_DTYPES:
            findings.add("batch dtype", place, f"input{path} is {t.spec}")


def examine_graph(findings: Findings, graph: Graph) -> None:
    """Lower a step to CIRH like `lazywafer run`.

    Refusals are recorded as findings, and so is an error that ends the lowering.
    """
    try:
        Compilation(graph, CSX)["print_cirh"]
    except LazyError as e:
        findings.add("no lowering", e.where if isinstance(e.where, Where) else None, detail=e.what, way_out=e.hint)


def compare_steps(findings: Findings, first: Sequence[Node], second: Graph) -> None:
    """Add findings where the graph `second` differs from the nodes of the first step.

    If a source line of the first step has no operation in the second, only the first such operation is reported.
    Otherwise each line is reported that has a new operation on old inputs or on a new constant.
    """
    lines = {_source_line(n) for n in second.nodes()}
    # Everything that depends on a lost operation changes too. Only the lost operation has a cause in the script.
    lost = next((n for n in first if n.where is not None and n.inputs and _source_line(n) not in lines), None)
    if lost is not None:
        findings.add("step changes", lost.where, f"aten::{lost.op}", "the second step does not compute this operation")
        return
    before, seen = set(first), set[tuple[str, int] | None]()
    for n in second.nodes():
        if _is_divergence(n, before) and _source_line(n) not in seen:
            seen.add(_source_line(n))
            numbers = [i for i in n.inputs if i not in before]
            detail = f"the second step uses another constant: {_describe_value(numbers[0])}" if numbers else ""
            findings.add("step changes", n.where, f"aten::{n.op}", detail)


def _source_line(n: Node) -> tuple[str, int] | None:
    """Return file and line of a node, or None if it has none."""
    return None if n.where is None else (n.where.file, n.where.line)


def _is_divergence(n: Node, first: set[Node]) -> bool:
    """Return whether node `n` is not in `first` while all its inputs, other than constants, are.

    Sums with zero are left out: `zero_grad(set_to_none=False)` adds to zeros from the second step on.
    """
    if n in first or n.where is None or not n.inputs:
        return False
    if n.op == "add" and any(i.op == "full" and i.attrs["value"] == 0 for i in n.inputs):
        return False
    return all(i in first for i in n.inputs if i.op not in CONSTANT_OPS)


def _describe_value(n: Node) -> str:
    """Return a constant node as text: the value of a filled tensor, or dtype and shape."""
    return str(n.attrs["value"]) if n.op == "full" else f"a constant {n.type}"
