"""The part of a mesh on which a kernel is fastest: on more PEs it works less, and on fewer its ways are shorter.

A few parts are priced: those as wide or as high as the mesh, those with the `LONG_SIDES` longest widths and heights,
and one for each step from the whole mesh to a single PE. Sides are powers of two, those of the wafers, and those of the
mesh; more of them on a small mesh. A step on a larger mesh may be slower by a few percent.
"""

from itertools import product, zip_longest
from math import ceil, inf, prod

from wse_sim.machine import MACHINES
from wse_sim.planner.dataflow import Dataflow
from wse_sim.planner.prices import Prices

MAX_PES_PER_ELEMENT = 4
"""With more PEs for each element there is a smaller part that has one PE for each."""
LONG_SIDES = 2
"""All pairs of sides would need more than twice as many prices, for steps of published runs that are 0.01 % shorter."""

MAX_FINER_SIDE = 32
"""On a short side each PE more or less changes the price of a kernel by percents."""

TileSize = tuple[int, int]

_WAFER_SIDES = [(m.usable_width, m.usable_height) for m in MACHINES.values()]
_SIDES = [sorted({*sides, *(1 << n for n in range(32))}) for sides in zip(*_WAFER_SIDES, strict=True)]


def find_best_tile(
    prices: Prices, dataflow: Dataflow, i: int, mesh: TileSize, share: float = 1.0
) -> tuple[int, TileSize]:
    """Return the least cycles of kernel `i` on a part of the mesh, and the width and height of that part.

    With a `share` of the batch the kernel takes that share of its cycles; its latency does not shrink with it.
    """
    work, most = share * prices.least_work(dataflow, i), MAX_PES_PER_ELEMENT * prices.longest(dataflow, i)
    best, part = inf, (1, 1)
    # From the most PEs on: when too few are left for the work, all further parts have too few.
    for size in sorted(_sizes(*prices.part(dataflow, i, *mesh)), key=lambda size: (-prod(size), size)):
        if ceil(work / prod(size)) >= best:
            break
        if prod(size) > most:
            continue
        cost = prices.kernel(dataflow, i, *size)
        cycles = cost.latency_cycles + ceil(share * (cost.cycles - cost.latency_cycles))
        if cycles < best:
            best, part = cycles, size
    return int(best), part


def _sizes(width: int, height: int) -> set[TileSize]:
    """Return the sizes of the parts to price, a single PE among them."""
    across, down = (
        [side, *(s for s in reversed(known) if s < side)] for side, known in zip((width, height), _SIDES, strict=True)
    )
    long = set(product(across[:LONG_SIDES], down[:LONG_SIDES]))
    steps = set(zip_longest(across, down, fillvalue=1))
    return long | steps | {(x, height) for x in _finer(width, across)} | {(width, y) for y in _finer(height, down)}


def _finer(side: int, sides: list[int]) -> list[int]:
    """Return the sides, with all between the half of a short `side` and the whole of it."""
    return [*sides, *range(side // 2 + 1, side)] if side <= MAX_FINER_SIDE else sides
