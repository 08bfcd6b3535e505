"""Mesh kernels of matrix products."""

from math import prod

from lazytensor.ir.program import Instr
from wse_sim.kernels.kernel import MeshKernel
from wse_sim.kernels.matmul.matrix_product import Product, product_kernel
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.planner.dataflow import Dataflow
from wse_sim.planner.kernel_selection.generic import core_dtype_name


def make_matmul_kernel(instr: Instr, dataflow: Dataflow, rect: Rect, machine: Machine) -> MeshKernel:
    """Return the kernel with the fastest arrangement of the matmul `instr` on `rect`. Resident operands are not moved.

    The instruction reads a and b and has the attributes `transpose_a` and `transpose_b`.
    """
    return product_kernel(find_product(instr, dataflow), rect, machine)


def find_product(instr: Instr, dataflow: Dataflow) -> Product:
    """Return the extents of a matmul as a `Product` of [m, k] and [k, n].

    Batch axes of a are folded into rows if b has none and a is not transposed. Batch axes of b are folded into columns
    if a has none and b is not transposed. Otherwise `batch` is the larger number of batches. `resident` has the names
    "a" and "b" of operands that stay in memory. At precision level 0 sums are float32.
    """
    # Fold batches if one operand serves them all: one large product is cut better than many small ones.
    a, b = (dataflow.type(i).shape for i in instr.reads[:2])
    lead_a, m, k = _split_matrix_extents(a, bool(instr.attrs.get("transpose_a")), is_left=True)
    lead_b, _, n = _split_matrix_extents(b, bool(instr.attrs.get("transpose_b")), is_left=False)
    names = "".join(name for name, i in zip("ab", instr.reads, strict=False) if i in dataflow.resident)
    dtype = core_dtype_name(instr, dataflow)
    # Float32 sums of 16-bit products are twice as many words and use the rate of the wider type.
    sums = "float32" if dataflow.precision_level == 0 else ""
    # The rows of all products form one taller matrix.
    if not lead_b and not instr.attrs.get("transpose_a"):
        return Product(batch=1, m=prod(lead_a) * m, n=n, k=k, dtype=dtype, resident=names, sum_dtype=sums)
    # The columns of all products form one wider matrix.
    if not lead_a and not instr.attrs.get("transpose_b"):
        return Product(batch=1, m=m, n=prod(lead_b) * n, k=k, dtype=dtype, resident=names, sum_dtype=sums)
    return Product(batch=max(prod(lead_a), prod(lead_b)), m=m, n=n, k=k, dtype=dtype, resident=names, sum_dtype=sums)


def _split_matrix_extents(
    shape: tuple[int, ...], is_transposed: bool, is_left: bool
) -> tuple[tuple[int, ...], int, int]:
    """Return the leading axes, rows and columns of an operand, after its transpose.

    A vector is one row if `is_left`, else one column, and is never transposed.
    """
    # PyTorch drops the axis added to a vector again from the result.
    if len(shape) < 2:
        extent = prod(shape)
        return (), *((1, extent) if is_left else (extent, 1))
    rows, columns = shape[-2:]
    return shape[:-2], *((columns, rows) if is_transposed else (rows, columns))
