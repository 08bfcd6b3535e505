"""Assign colours to routes if laying them one after the other leaves some without a colour.

A route can take one of two ways and uses one colour on all its routers. Two routes that pass a common router need
different colours. This is a graph colouring whose vertices are ways; one of each pair needs a colour. The search is a
tabu search over partial colourings (Bloechliger and Zufferey, "A graph coloring heuristic using partial solutions and a
reactive tabu scheme", 2008). A route without a colour takes the way and colour that conflict with the fewest others.
These lose that colour and may not take it back for some steps.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WAYS_PER_ROUTE = 2
"""Number of ways of a route: row first or column first."""
PATIENCE_STEPS_PER_ROUTE = 15
"""The search ends after this number of steps per route without an improvement."""
MIN_PATIENCE_STEPS = 500
"""Minimum number of steps without an improvement, for few routes."""
_FORBIDDEN_COST = 1 << 20


class ColouredWay(NamedTuple):
    """The way of a route, 0 or 1, and its colour."""

    way: int
    colour: int


@dataclass(frozen=True)
class RowSpans:
    """The cores of a part of a way, by rows.

    `first` and `last` are the first and last column in each row from `row` on. In a row that is not passed, `last` is
    less than `first`.
    """

    row: int
    first: NDArray[np.int64]
    last: NDArray[np.int64]


def find_clashes(ways: Sequence[tuple[RowSpans, RowSpans]], height: int) -> NDArray[np.bool_]:
    """Return a symmetric boolean matrix [way, way]: True for ways that share a core, also on the diagonal.

    Each way has two parts, the cores before and after its turn. `height` is the height of the mesh.
    """
    # int16 keeps these arrays small: each row compares every pair of ways that pass it.
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
    """A partial colouring of routes, where route n has the ways 2 n and 2 n + 1.

    - `clashes`: [way, way], whether two ways share a core
    - `limits`: the number of colours that each way may use, from 0 on
    - `is_heavy`: ways that would overload a link, chosen last among equal ones
    - `start`: the way and colour that each route has at first, or None

    `choices` holds the current way and colour of each route, and `without` lists the routes that have none.
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
        # For each way and colour: the number of conflicting routes, and the step until which the choice is tabu.
        self._taken, self._tabu = np.zeros(extents, np.int64), np.zeros(extents, np.int64)
        self._steps = 0
        self.without = [n for n, choice in enumerate(start) if choice is None]
        for n, choice in enumerate(start):
            if choice is not None:
                self._put(n, choice)

    def search(self) -> list[ColouredWay | None]:
        """Return the way and colour of each route, or None for routes without one, in the best colouring found.

        The best colouring has the most coloured routes. The search ends when all routes are coloured, or after
        `PATIENCE_STEPS_PER_ROUTE` steps for each route without an improvement. It returns the initial colouring if some
        route has no allowed colour on either way. It is deterministic and changes `choices` and `without`.
        """
        best, draw, since = list(self.choices), random.Random(0), 0
        fewest, most = len(self.without), max(MIN_PATIENCE_STEPS, PATIENCE_STEPS_PER_ROUTE * len(best))
        # If kernels leave a route no colour on either way, no search helps.
        if self._is_there.reshape(len(best), -1).any(axis=1).all():
            while self.without and since < most:
                # Avoid heavy ways in the first half only, since avoiding them may make the search cycle.
                self._step(draw, are_heavy_last=2 * since < most)
                since += 1
                if len(self.without) < fewest:
                    best, fewest, since = list(self.choices), len(self.without), 0
        return best

    def _step(self, draw: random.Random, are_heavy_last: bool) -> None:
        """Give one route without a colour the way and colour that conflict with the fewest other routes.

        These lose their colour and may not take it back for some steps. Ties are drawn with `draw`; if
        `are_heavy_last`, heavy ways lose ties. Nothing changes if all choices are forbidden at present.
        """
        self._steps += 1
        ways = [WAYS_PER_ROUTE * n + way for n in self.without for way in range(WAYS_PER_ROUTE)]
        may = self._is_there[ways] & (self._tabu[ways] <= self._steps)
        costs = np.where(may, 2 * self._taken[ways] + are_heavy_last * self._is_heavy[ways], _FORBIDDEN_COST)
        least = int(costs.min())
        if least == _FORBIDDEN_COST:
            # All choices are tabu; tabus expire after some steps.
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
        """Give route `n` a way and a colour, and count its conflicts with other ways. `without` is unchanged."""
        self.choices[n] = choice
        self._taken[:, choice.colour] += self.clashes[WAYS_PER_ROUTE * n + choice.way]

    def _take_back(self, n: int, choice: ColouredWay) -> None:
        """Remove the colour of route `n`, which has `choice`, and append the route to `without`."""
        self.choices[n] = None
        self.without.append(n)
        self._taken[:, choice.colour] -= self.clashes[WAYS_PER_ROUTE * n + choice.way]
