"""BiCGSTAB on columns of a 7-point stencil in mixed precision (Rocki et al., SC20), one column on every PE."""

from wse_sim.kernels.collective import centred_all_reduce
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import Broadcast, Compute, Par, Phase, Repeat, Seq
from wse_sim.price.cost import words

DOTS, UPDATES, PRODUCTS, ALL_REDUCES = 4, 6, 2, 3


def scalar_all_reduce(rect: Rect, machine: Machine) -> Phase:
    """One word from every PE: along the rows to their middle, down the middle column, and back."""
    return Seq(tuple(centred_all_reduce(rect, axis, 1, machine) for axis in ("x", "y")))


def bicgstab_iteration(rect: Rect, cells: int, machine: Machine) -> Phase:
    """Two products with the matrix, four dot products, six vector updates, and three rounds of all-reduce.

    The four neighbours' columns are multiplied as they come in, two elements a cycle. Of three PEs in a line one after
    the other sends its column to both sides (the authors' send it once, in all four directions). Beside that stand two
    products of each cell and six additions. Dots multiply halves and add in float32, of which a PE takes two a cycle by
    its 64-bit write port.
    """
    column = words(cells, 2, machine)
    streams = (_to_both_sides(rect, "x", rect.width, column), _to_both_sides(rect, "y", rect.height, column))
    product = Par((*streams, Compute(rect, op="add", vectors=2 + 6, length=cells, itemsize=2)))
    local = (
        Compute(rect, op="fma", vectors=UPDATES, length=cells, itemsize=2),
        Compute(rect, op="add", vectors=DOTS, length=cells, itemsize=4),
    )
    return Seq((*(product,) * PRODUCTS, *local, *(scalar_all_reduce(rect, machine),) * ALL_REDUCES))


def _to_both_sides(rect: Rect, axis: str, length: int, count: int) -> Phase:
    """In three turns, so that all columns have been sent."""
    turns = min(3, length)
    return Repeat(turns, Broadcast(rect, axis=axis, words=count, groups=length // turns, source=turns // 2))
