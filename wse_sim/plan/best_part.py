"""The part of a mesh on which a kernel is fastest: on more PEs it works less, and on fewer its ways are shorter.

A larger mesh is never slower: parts are of one set for all meshes, and a mesh takes the fastest of those that fit.
Coarse sides are powers of two, those of the wafers that there are, and as many PEs as the kernel has elements; between
two of them lie finer ones. A finer part is for a mesh that it just fits, and counts as no faster than the fastest of
the coarser ones around it, so that none has to be priced where all of these fit. Nor does any part count as doing more
than its share of the least work that a kernel is, so that parts which are too small need no price. Both bounds are of a
kernel and a part, whatever the mesh: what the search leaves out is no faster than what it takes.
"""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise, product
from math import ceil, inf, prod

from wse_sim.machine import MACHINES
from wse_sim.plan.prices import Prices
from wse_sim.plan.wiring import Wiring

ROOM = 4
"""PEs for an element on parts that are looked at, at most: with more there is a smaller part with a PE for each."""
FINEST = 32
"""Two sides of which none lies between differ by a part of so many of the larger one, or by one PE."""

Size = tuple[int, int]
Span = tuple[int, int]

_WAFERS = [(m.usable_width, m.usable_height) for m in MACHINES.values()]
_COARSE = [sorted({*sides, *(1 << n for n in range(32))}) for sides in zip(*_WAFERS, strict=True)]


def best_part(prices: Prices, wiring: Wiring, i: int, mesh: Size, share: float = 1.0) -> tuple[int, Size]:
    """The least cycles of kernel `i` on a part of the mesh, and the width and height of that part.

    Of a `share` of the batch: what even a single wavelet needs does not shrink with it.
    """
    search = _Search(prices, wiring, i, prices.part(wiring, i, *mesh), share)
    return int(search.best), search.size


class _Search:
    """The fastest part that was looked at."""

    def __init__(self, prices: Prices, wiring: Wiring, i: int, mesh: Size, share: float):
        self._own, self._mesh, self._share = (prices, wiring, i), mesh, share
        self._longest = prices.longest(wiring, i)
        self._work = share * prices.least_work(wiring, i)
        self._counted: dict[Size, float] = {}
        self._coarser: dict[Size, set[Size]] = {}
        self.size: Size = (1, 1)
        self.best = self._priced(self.size)
        across, down = (_coarse(axis, side, self._longest) for axis, side in enumerate(mesh))
        self._look(product(across, down))
        for x, y in product(_spans(across), _spans(down)):
            self._look_into(x, y)

    def _look(self, sizes: Iterable[Size]) -> None:
        """Take the fastest of these that fits."""
        fitting = (size for size in sizes if size[0] <= self._mesh[0] and size[1] <= self._mesh[1])
        # From the most PEs on: as soon as too few are left for the work, all further ones have too few.
        for size in sorted(fitting, key=lambda size: (-prod(size), size)):
            if self._least(size) >= self.best:
                return
            if (cycles := self._cycles(size)) < self.best:
                self.best, self.size = cycles, size

    def _look_into(self, x: Span, y: Span) -> None:
        """Look at finer parts between four coarser ones of which some do not fit, and are faster than the best."""
        largest = min(x[1], self._mesh[0]), min(y[1], self._mesh[1])
        begins_outside = largest[0] <= x[0] < x[1] or largest[1] <= y[0] < y[1]
        if begins_outside or largest == (x[1], y[1]) or self._least(largest) >= self.best:
            return
        corners = set(product(x, y))
        if min(map(self._cycles, corners)) >= self.best:
            return
        across, down = _halved(*x), _halved(*y)
        finer = [size for size in product(across, down) if size not in corners]
        # On the rim of a cell there are two coarser ones around, which both cells at that rim have.
        for width, height in finer:
            ends = (width,) if width in x else x, (height,) if height in y else y
            self._coarser[width, height] = set(product(*ends))
        self._look(finer)
        for inner in product(_spans(across), _spans(down)) if finer else ():
            self._look_into(*inner)

    def _least(self, size: Size) -> int:
        """Cycles below which a part does not count."""
        return ceil(self._work / prod(size))

    def _cycles(self, size: Size) -> float:
        """What a part counts as; if that is not less than the best, maybe something else that is not."""
        if size not in self._counted:
            least = self._least(size)
            if least >= self.best:
                return least
            coarser = min(map(self._cycles, self._coarser.get(size, ())), default=0)
            self._counted[size] = coarser if coarser >= self.best else max(least, coarser, self._priced(size))
        return self._counted[size]

    def _priced(self, size: Size) -> float:
        if prod(size) > ROOM * self._longest:
            return inf
        prices, wiring, i = self._own
        cost = prices.kernel(wiring, i, *size)
        return cost.latency_cycles + ceil(self._share * (cost.cycles - cost.latency_cycles))


def _coarse(axis: int, side: int, longest: int) -> list[int]:
    """Coarse sides up to the first one that is no less than `side`."""
    sides = [*(s for s in _COARSE[axis] if s < longest), longest]
    return sides[: bisect_left(sides, side) + 1]


def _spans(sides: Iterable[int]) -> list[Span]:
    """From each side to the next."""
    sides = list(sides)
    return list(pairwise(sides)) or [(sides[0], sides[0])]


def _halved(low: int, high: int) -> list[int]:
    """Both ends of a span, and its middle if that is far enough from them."""
    middle = [(low + high) // 2] if high - low > max(1, high // FINEST) else []
    return sorted({low, *middle, high})
