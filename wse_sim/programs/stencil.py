"""Stencils: a column of cells, or a tile of a plane, on every PE, and its neighbours' borders before each step."""

from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import Broadcast, Compute, Phase, Repeat, Seq, Shift

STAR_RADIUS = 4


def acoustic_step(rect: Rect, cells: int, machine: Machine, slowdown: float = 0) -> Phase:
    """One step of the 25-point star in float32 on columns of `cells` (Jacquelin et al., arXiv:2204.03775).

    Of five PEs in a line one after the other sends its column to the four others, in each of four directions. Then 17
    multiplications, 17 additions, 8 multiply-adds and 1 subtraction for each cell, as the paper counts them. The
    multiply-adds read one column at several offsets, which lie in one bank; `slowdown` replaces what that costs.
    """
    turns = STAR_RADIUS + 1
    exchange = [Broadcast(rect, axis, cells, length // turns) for axis, length in _axes(rect)]
    sums = Compute(rect, "add", 17 + 17 + 1, cells, 4)
    fused = Compute(rect, "fma", 8, cells, 4, slowdown=slowdown or machine.conflict_slowdown)
    return Seq((*(Repeat(2 * turns, one) for one in exchange), sums, fused))


def _axes(rect: Rect) -> tuple[tuple[str, int], ...]:
    return ("x", rect.width), ("y", rect.height)


def plane_step(rect: Rect, side: int, radius: int, taps: int) -> Phase:
    """One step on tiles of side x side float32 cells: four borders of `radius` rows, one operation a tap and row."""
    borders = [Shift(rect, axis, radius * side) for axis in ("x", "x", "y", "y")]
    return Seq((*borders, Compute(rect, "fma", taps * side, side, 4)))
