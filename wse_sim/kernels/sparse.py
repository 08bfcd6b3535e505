"""Sparse matrix times dense matrix in float32: one vector multiply-add for each stored element of a PE's tile.

Source: the public SpMM_Cerebras repository. A is cut in tiles over the PEs, the rows of B are local, and the counters
that were published stop before the partial results are combined. The scalar code around an operation is not published;
four constants stand for it, fitted on four of the rows (`wse_sim.validation` marks them). `spmm.py` runs the loop.
"""

from wse_sim.kernels.collective import scalar
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import Compute, Phase, Seq

# Fitted on COO 64x8 with 5 and 10 % (68 columns), COO 128x16 with 20 % (132 columns) and CSC 64x8 with 5 %.
ELEMENT_SCALAR_CYCLES = 33  # reads an index and a value, finds two rows, closes the loop
PADDED_SLOWDOWN = 1.19  # rows of B padded against bank conflicts still meet some
LINE_SCALAR_CYCLES = 45  # turns to the next compressed row or column
LAUNCH_CYCLES = 1640  # from the first time stamp to the first element, and from the last to the second stamp


def spmm(rect: Rect, elements: float, lines: int, columns: int) -> Phase:
    """`elements` stored elements on a PE in `lines` compressed rows or columns, times `columns` of B."""
    work = Compute(
        rect,
        "fma",
        vectors=round(elements),
        length=columns,
        itemsize=4,
        scalar_cycles=ELEMENT_SCALAR_CYCLES,
        slowdown=PADDED_SLOWDOWN,
    )
    return Seq((scalar(rect, 1, LAUNCH_CYCLES), scalar(rect, lines, LINE_SCALAR_CYCLES), work))


def dense(rect: Rect, elements: int, columns: int, machine: Machine) -> Phase:
    """The same loop over a tile without zeros and without indices; its rows are not padded, so they conflict."""
    return Compute(
        rect,
        "fma",
        vectors=elements,
        length=columns,
        itemsize=4,
        scalar_cycles=machine.loop_cycles,
        slowdown=machine.conflict_slowdown,
    )
