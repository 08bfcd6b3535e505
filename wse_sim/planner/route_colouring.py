"""Colours for routes that do not all get one when they are laid one after the other.

A route can go two ways, and has one colour on all routers that it passes; two that pass one router need different ones.
That is the colouring of a graph whose vertices are ways, of which one of each pair has to have a colour. The search is
a tabu search over partial colourings (Bloechliger and Zufferey, "A graph coloring heuristic using partial solutions and
a reactive tabu scheme", 2008): a route without a colour takes the way and the colour that take theirs from the fewest
others, and these may not have them back for a while.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WAYS_PER_ROUTE = 2
"""Ways that a route can go."""
PATIENCE_STEPS_PER_ROUTE = 15
"""So many steps for each route without one more that has a colour end the search."""
MIN_PATIENCE_STEPS = 500
"""Steps that are taken however few routes there are."""
_FORBIDDEN_COST = 1 << 20


class ColouredWay(NamedTuple):
    """The way of a route, 0 or 1, and its colour."""

    way: int
    colour: int


@dataclass(frozen=True)
class RowSpans:
    """What part of a way passes in the rows from `row` on: of each the columns from `first` to `last`, if any.

    A row that it does not pass has its last column before the first.
    """

    row: int
    first: NDArray[np.int64]
    last: NDArray[np.int64]


def find_clashes(ways: Sequence[tuple[RowSpans, RowSpans]], height: int) -> NDArray[np.bool_]:
    """[way, way]: which of the ways, on a mesh so high, pass a common core."""
    # Narrow numbers: each row compares every two ways that pass it.
    first, last = (np.full((height, 2, len(ways)), end, np.int16) for end in (np.iinfo(np.int16).max, -1))
    for n, spans in enumerate(ways):
        for part, span in enumerate(spans):
            rows = slice(span.row, span.row + len(span.first))
            first[rows, part, n], last[rows, part, n] = span.first, span.last
    clashes = np.zeros((len(ways), len(ways)), np.bool_)
    for left, right in zip(first, last, strict=True):
        here = np.flatnonzero((left <= right).any(axis=0))
        begins_before = left[:, here].reshape(-1, 1) <= right[:, here].reshape(-1)
        meets = (begins_before & begins_before.T).reshape(2, len(here), 2, len(here)).any(axis=(0, 2))
        clashes[np.ix_(here, here)] |= meets
    return clashes


class RouteColouring:
    """Routes with and without a colour. Ways 2 n and 2 n + 1 are those of route n.

    `limits` says how many colours each way can have, from 0 on. Of ways that take theirs from as many, one that
    `is_heavy` comes last. `start` is what routes have at first.
    """

    def __init__(
        self,
        clashes: NDArray[np.bool_],
        limits: Sequence[int],
        is_heavy: Sequence[bool],
        start: Sequence[ColouredWay | None],
    ):
        self.clashes = clashes
        self.choices: list[ColouredWay | None] = [None] * len(start)
        extents = len(limits), max(limits, default=0)
        self._is_there = np.arange(extents[1]) < np.asarray(limits).reshape(-1, 1)
        self._is_heavy = np.asarray(is_heavy, np.int64).reshape(-1, 1)
        # Routes whose colour a way would take, by way and colour, and until when no way may have it.
        self._taken, self._tabu = np.zeros(extents, np.int64), np.zeros(extents, np.int64)
        self._steps = 0
        self.without = [n for n, choice in enumerate(start) if choice is None]
        for n, choice in enumerate(start):
            if choice is not None:
                self._put(n, choice)

    def search(self) -> list[ColouredWay | None]:
        """What routes have in the end: all a colour, or as many as ever had one at once."""
        best, draw, since = list(self.choices), random.Random(0), 0
        fewest, most = len(self.without), max(MIN_PATIENCE_STEPS, PATIENCE_STEPS_PER_ROUTE * len(best))
        # Where kernels leave a route nothing on either way, no search helps.
        if self._is_there.reshape(len(best), -1).any(axis=1).all():
            while self.without and since < most:
                # Heavy ways come last only as long as that leads somewhere: it may be what a search goes round.
                self._step(draw, are_heavy_last=2 * since < most)
                since += 1
                if len(self.without) < fewest:
                    best, fewest, since = list(self.choices), len(self.without), 0
        return best

    def _step(self, draw: random.Random, are_heavy_last: bool) -> None:
        self._steps += 1
        ways = [WAYS_PER_ROUTE * n + way for n in self.without for way in range(WAYS_PER_ROUTE)]
        may = self._is_there[ways] & (self._tabu[ways] <= self._steps)
        costs = np.where(may, 2 * self._taken[ways] + are_heavy_last * self._is_heavy[ways], _FORBIDDEN_COST)
        least = int(costs.min())
        if least == _FORBIDDEN_COST:
            # Not for long: nothing is forbidden for ever.
            return
        at, colour = divmod(int(draw.choice(np.flatnonzero(costs == least).tolist())), costs.shape[1])
        n, way = divmod(ways[at], WAYS_PER_ROUTE)
        for other, choice in enumerate(self.choices):
            if choice and choice.colour == colour and self.clashes[ways[at], WAYS_PER_ROUTE * other + choice.way]:
                self._take_back(other, choice)
                until = self._steps + draw.randrange(10) + len(self.without) * 3 // 5
                self._tabu[WAYS_PER_ROUTE * other : WAYS_PER_ROUTE * (other + 1), colour] = until
        self.without.remove(n)
        self._put(n, ColouredWay(way, colour))

    def _put(self, n: int, choice: ColouredWay) -> None:
        self.choices[n] = choice
        self._taken[:, choice.colour] += self.clashes[WAYS_PER_ROUTE * n + choice.way]

    def _take_back(self, n: int, choice: ColouredWay) -> None:
        self.choices[n] = None
        self.without.append(n)
        self._taken[:, choice.colour] -= self.clashes[WAYS_PER_ROUTE * n + choice.way]
