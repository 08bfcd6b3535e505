"""Choose the part of the mesh on which a kernel is fastest.

More PEs do less work each, and fewer PEs have shorter paths. The candidates are: parts as wide or as high as the mesh,
all pairs of the `LONG_SIDES` longest widths and heights, and one part for each step from the whole mesh to a single PE.
Sides are powers of two, sides of the wafers, and sides of the mesh, and on a small mesh also those between. A step on a
larger mesh may be slower by a few percent.
"""

from itertools import product, zip_longest
from math import ceil, inf, prod

from wse_sim.machine import MACHINES
from wse_sim.planner.dataflow import Dataflow
from wse_sim.planner.prices import Prices

MAX_PES_PER_ELEMENT = 4
"""Parts with more PEs than this for each element are skipped, because a smaller part has one PE for each."""
LONG_SIDES = 2
"""Number of longest sides that are combined freely.

All pairs of sides would need more than twice as many prices, and steps of published runs would be 0.01 % shorter.
"""

MAX_FINER_SIDE = 32
"""Up to this length of a mesh side, all sides from its half on are tried: each PE changes the price by percents."""

TileSize = tuple[int, int]

_WAFER_SIDES = [(m.usable_width, m.usable_height) for m in MACHINES.values()]
_SIDES = [sorted({*sides, *(1 << n for n in range(32))}) for sides in zip(*_WAFER_SIDES, strict=True)]


def find_best_tile(
    prices: Prices, dataflow: Dataflow, i: int, mesh: TileSize, share: float = 1.0
) -> tuple[int, TileSize]:
    """Return the least cycles of kernel `i` on a part of the mesh, and the width and height of that part.

    `share` is the share of the batch. Cycles are scaled by it, except the latency. Parts with more than
    `MAX_PES_PER_ELEMENT` PEs for each element are skipped. Of equally fast parts, the largest is returned.
    """
    work, most = share * prices.least_work(dataflow, i), MAX_PES_PER_ELEMENT * prices.longest(dataflow, i)
    best, part = inf, (1, 1)
    # Try large parts first: once a part has too few PEs for the work, all later ones have too.
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
    """Return the sizes (width, height) of the parts to price on a mesh; see the module.

    Among them are the whole mesh and a single PE.
    """
    across, down = (
        [side, *(s for s in reversed(known) if s < side)] for side, known in zip((width, height), _SIDES, strict=True)
    )
    long = set(product(across[:LONG_SIDES], down[:LONG_SIDES]))
    steps = set(zip_longest(across, down, fillvalue=1))
    return long | steps | {(x, height) for x in _finer(width, across)} | {(width, y) for y in _finer(height, down)}


def _finer(side: int, sides: list[int]) -> list[int]:
    """Return the sides, and all lengths from half of `side` to `side` if it is at most `MAX_FINER_SIDE`."""
    return [*sides, *range(side // 2 + 1, side)] if side <= MAX_FINER_SIDE else sides
