"""The part of a mesh on which a kernel is fastest: on more PEs it works less, and on fewer its ways are shorter.

Parts with sides of powers of two are looked at, and the mesh; near the fastest of them sides in finer steps. None of
these depends on the mesh but its own sides, so that nearly all that a smaller mesh may use a larger one may use too.
"""

from collections.abc import Iterable, Iterator
from itertools import product
from math import prod

from wse_sim.plan.prices import Prices
from wse_sim.plan.wiring import Wiring
from wse_sim.price.cost import Cost

ROOM = 4
"""PEs for an element on parts that are looked at, at most: with more there is a smaller part with a PE for each."""
STEPS = 8
"""Sides from one power of two to the next are the wholes of so many parts of the larger one."""

Size = tuple[int, int]


def best_part(prices: Prices, wiring: Wiring, i: int, mesh: Size) -> tuple[Cost, Size]:
    """The least price of kernel `i` on a part of the mesh, and the width and height of that part."""
    width, height = mesh = prices.part(wiring, i, *mesh)
    search = _Search(prices, wiring, i)
    search.look(product(_powers(width), _powers(height)))
    before: Size | None = None
    # One side after the other, until both stay: a kernel's own extents may lie anywhere between powers of two.
    while search.size != before:
        before = search.size
        search.look((side, before[1]) for side in _near(before[0], width))
        search.look((search.size[0], side) for side in _near(before[1], height))
    return search.best, search.size


class _Search:
    """The fastest part that was looked at."""

    def __init__(self, prices: Prices, wiring: Wiring, i: int):
        self._own = prices, wiring, i
        self._work = prices.least_work(wiring, i)
        self._most = ROOM * prices.longest(wiring, i)
        self.size: Size = (1, 1)
        self.best: Cost = prices.kernel(wiring, i, 1, 1)

    def look(self, sizes: Iterable[Size]) -> None:
        """Price all sizes that may be faster."""
        prices, wiring, i = self._own
        # From the most PEs on: as soon as too few are left for the work, all further ones have too few.
        for size in sorted(set(sizes), key=lambda size: (-prod(size), size)):
            if self._work >= self.best.cycles * prod(size):
                return
            if prod(size) <= self._most and (priced := prices.kernel(wiring, i, *size)).cycles < self.best.cycles:
                self.best, self.size = priced, size


def _powers(side: int) -> list[int]:
    """Powers of two, as most extents of layers are, and the whole side."""
    return [*(1 << n for n in range((side - 1).bit_length())), side]


def _near(side: int, most: int) -> Iterator[int]:
    """Sides from half of one to twice as long, in steps that are the same on every mesh."""
    step = max(1, (1 << (side - 1).bit_length()) // STEPS)
    first = -(-side // 2 // step) * step
    yield from (s for s in range(max(1, first), min(most, 2 * side) + 1, step))
    yield most
