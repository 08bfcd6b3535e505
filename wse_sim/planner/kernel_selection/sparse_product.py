"""Phase programs of products with sparse weights, of which only nonzero elements stream in.

Forward products, backward products and products that compute weight gradients are covered.
"""

from dataclasses import replace

from lazytensor.ir.program import Density
from wse_sim.kernels.sparse.sparse_stream import SparseProduct, sparse_phase
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import Phase
from wse_sim.planner.dataflow import Dataflow
from wse_sim.planner.kernel_selection.matmul import find_product


def make_sparse_phase(dataflow: Dataflow, i: int, rect: Rect, machine: Machine) -> Phase | None:
    """Return the phase program of a product with a sparse operand or result on `rect`; None for any other kernel.

    It streams and multiplies nonzero elements only.
    """
    product = find_sparse_product(dataflow, i)
    return sparse_phase(product, rect, machine) if product else None


def find_sparse_product(dataflow: Dataflow, i: int) -> SparseProduct | None:
    """Return the extents and density of kernel `i` as a sparse product, or None.

    It is a product with a sparse weight or, with `is_gradient`, the gradient of one. The weight has `inputs` and
    `outputs` as extents; `tokens` is the extent that it lacks. Return None if the kernel is no matmul, has no sparse
    operand or result, is batched, or is empty.
    """
    instr, sparsity = dataflow.program.instrs[i], dataflow.sparsity
    if instr.kernel != "matmul" or not (sparsity.weights or sparsity.gradients):
        return None
    whole = find_product(instr, dataflow)
    if whole.batch != 1 or whole.is_empty:
        return None
    left, right = (sparsity.weights.get(b) for b in instr.reads[:2])
    product = SparseProduct(whole.k, whole.n, tokens=whole.m, share=1.0, dtype=whole.dtype, sum_dtype=whole.sum_dtype)
    # A weight is stored as [outputs, inputs], so the inner extent is its inputs unless it is transposed.
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
    """Return the number of groups of equal count along the inner extent: its columns if `is_last`, else its rows."""
    return density.in_groups if is_last else density.out_groups
