"""Products with sparse weights, of which only what is not zero streams in: forward, backward and of their gradients."""

from dataclasses import replace

from lazytensor.ir.program import Density
from wse_sim.kernels.sparse.sparse_stream import SparseProduct, sparse_phase
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import Phase
from wse_sim.planner.dataflow import Dataflow
from wse_sim.planner.kernel_selection.matmul import find_product


def make_sparse_phase(dataflow: Dataflow, i: int, rect: Rect, machine: Machine) -> Phase | None:
    """The phase program of a product that takes or makes something sparse; None for any other kernel."""
    product = find_sparse_product(dataflow, i)
    return sparse_phase(product, rect, machine) if product else None


def find_sparse_product(dataflow: Dataflow, i: int) -> SparseProduct | None:
    """The extents of a sparse product; None for other kernels, and for products of which each sample has its own."""
    instr, sparsity = dataflow.program.instrs[i], dataflow.sparsity
    if instr.kernel != "matmul" or not (sparsity.weights or sparsity.gradients):
        return None
    whole = find_product(instr, dataflow)
    if whole.batch != 1 or whole.is_empty:
        return None
    left, right = (sparsity.weights.get(b) for b in instr.reads[:2])
    product = SparseProduct(whole.k, whole.n, tokens=whole.m, share=1.0, dtype=whole.dtype, sum_dtype=whole.sum_dtype)
    # The inner extent is the inputs' of a weight that is kept [outputs, inputs], unless that is transposed.
    if right:
        return replace(product, share=right.share, groups=_group_count(right, bool(instr.attrs.get("transpose_b"))))
    if left:
        groups = _group_count(left, not instr.attrs.get("transpose_a"))
        return replace(product, outputs=whole.m, tokens=whole.n, share=left.share, groups=groups)
    if own := sparsity.gradients.get(i):
        turned = replace(product, inputs=whole.m, tokens=whole.k, is_gradient=True)
        return replace(turned, share=own.share, groups=own.out_groups)
    return None


def _group_count(density: Density, is_last: bool) -> int:
    """The parts of equal counts along the inner extent, which is that of the columns or of the rows."""
    return density.in_groups if is_last else density.out_groups
