"""Matrix times vector: tiles of the matrix stay, the vector lies along one axis, sums leave along the other."""

from collections.abc import Callable

from wse_sim.cost import words
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import Compute, Phase, Seq
from wse_sim.programs.collective import centred_all_reduce

Sum = Callable[[Rect, str, int, Machine], Phase]
"""An all-reduce: rectangle, axis, words, machine."""


def gemv(
    rect: Rect, inner: int, outer: int, itemsize: int, machine: Machine, all_reduce: Sum = centred_all_reduce
) -> Phase:
    """A vector of `inner` along y gives one of `outer` along x, on all PEs of its column.

    A tile takes one vector operation for each element of its shorter side.
    """
    rows, columns = ceil_div(inner, rect.height), ceil_div(outer, rect.width)
    short, long = sorted((rows, columns))
    local = Compute(rect, "fma", short, long, itemsize, machine.loop_cycles)
    return Seq((local, all_reduce(rect, "y", words(columns, itemsize, machine), machine)))
