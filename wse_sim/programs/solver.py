"""BiCGSTAB on columns of a 7-point stencil in mixed precision (Rocki et al., SC20), one column on every PE."""

from wse_sim.cost import words
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import Compute, Par, Phase, Seq, Shift
from wse_sim.programs.collective import centred_all_reduce

DOTS, UPDATES, PRODUCTS, ALL_REDUCES = 4, 6, 2, 3


def scalar_all_reduce(rect: Rect, machine: Machine) -> Phase:
    """One word from every PE: along the rows to their middle, down the middle column, and back."""
    return Seq(tuple(centred_all_reduce(rect, axis, 1, machine) for axis in ("x", "y")))


def bicgstab_iteration(rect: Rect, cells: int, machine: Machine) -> Phase:
    """Two products with the matrix, four dot products, six vector updates, and three rounds of all-reduce.

    The four neighbours' columns stream in while the six products of a cell are formed and added. Dots multiply halves
    and add in float32, of which a PE takes two a cycle by its 64-bit write port.
    """
    column = words(cells, 2, machine)
    streams = tuple(Shift(rect, axis, column, put=column) for axis in ("x", "x", "y", "y"))
    product = Par((*streams, Compute(rect, "add", 6 + 6, cells, 2)))
    local = (Compute(rect, "fma", UPDATES, cells, 2), Compute(rect, "add", DOTS, cells, 4))
    return Seq((*(product,) * PRODUCTS, *local, *(scalar_all_reduce(rect, machine),) * ALL_REDUCES))
