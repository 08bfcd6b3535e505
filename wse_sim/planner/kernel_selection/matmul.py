"""Matrix products: what a compiled matmul multiplies, and which of its operands lies on the wafer."""

from math import prod

from lazytensor.ir.program import Instr
from wse_sim.kernels.kernel import MeshKernel
from wse_sim.kernels.matmul.matrix_product import Product, product_kernel
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.planner.dataflow import Dataflow
from wse_sim.planner.kernel_selection.generic import core_dtype_name


def make_matmul_kernel(instr: Instr, dataflow: Dataflow, rect: Rect, machine: Machine) -> MeshKernel:
    """The fastest arrangement of `instr` on `rect`; reads a, b (attrs transpose_a, transpose_b), writes out.

    An operand that is resident stays where it is.
    """
    return product_kernel(find_product(instr, dataflow), rect, machine)


def find_product(instr: Instr, dataflow: Dataflow) -> Product:
    """The extents of a matmul. A second operand without leading axes serves all rows of the first."""
    # Batches are folded into rows or columns wherever one operand serves them all: one product is cut better than many.
    a, b = (dataflow.type(i).shape for i in instr.reads[:2])
    lead_a, m, k = _split_matrix_extents(a, bool(instr.attrs.get("transpose_a")), is_left=True)
    lead_b, _, n = _split_matrix_extents(b, bool(instr.attrs.get("transpose_b")), is_left=False)
    names = "".join(name for name, i in zip("ab", instr.reads, strict=False) if i in dataflow.resident)
    dtype = core_dtype_name(instr, dataflow)
    # Wide sums take twice the words on their way, and the rate of the wider type.
    sums = "float32" if dataflow.precision_level == 0 else ""
    # Rows of all products follow one another: one product of a taller matrix, and no rounds.
    if not lead_b and not instr.attrs.get("transpose_a"):
        return Product(batch=1, m=prod(lead_a) * m, n=n, k=k, dtype=dtype, resident=names, sum_dtype=sums)
    # The same with the columns of the second operand.
    if not lead_a and not instr.attrs.get("transpose_b"):
        return Product(batch=1, m=m, n=prod(lead_b) * n, k=k, dtype=dtype, resident=names, sum_dtype=sums)
    return Product(batch=max(prod(lead_a), prod(lead_b)), m=m, n=n, k=k, dtype=dtype, resident=names, sum_dtype=sums)


def _split_matrix_extents(
    shape: tuple[int, ...], is_transposed: bool, is_left: bool
) -> tuple[tuple[int, ...], int, int]:
    """Leading axes, rows and columns; a vector is a row on the left and a column on the right."""
    # As in PyTorch: a vector is a row on the left and a column on the right, and the axis is dropped again afterwards.
    if len(shape) < 2:
        extent = prod(shape)
        return (), *((1, extent) if is_left else (extent, 1))
    rows, columns = shape[-2:]
    return shape[:-2], *((columns, rows) if is_transposed else (rows, columns))
