"""Shapes of a stage: on which extents it keeps a time, told from a few that were priced.

A price takes milliseconds, and a mesh has a million extents. Those are priced that are powers of two and near what a
time asks for; between them the least height is a power of the width. What is placed is priced too, and counts from then
on. Where such a price is far off, as for convolutions whose channels do not divide by the width, time has steps: then
only what was priced is used, and more is priced where the least area may lie.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from wse_sim.floorplanning.shape_curves import INFEASIBLE

MAX_ASPECT_RATIO = 32
"""Sides of a shape are at most so many times as long as each other, if the mesh allows: ways become longer."""
STEP_PRICE_RATIO = 1.25
"""A price so many times of what its neighbours tell is a step."""
NEAR_TIME_RATIO = 1.25
"""A width that was tried tells about times so many times as long or as short."""
AREA_PRECISION_RATIO = 1.02
"""Among steps, the least area is looked for as closely as this."""
SHORT_ENOUGH_RATIO = 0.97
"""Of a time that is to be kept: no smaller shape is looked for."""

SideLengths = NDArray[np.int64]
"""For each width from 1 on, a height or a width."""


class StageShapes:
    """The extents on which one kind of stage was priced, on a mesh of `width` x `height`. `time` prices them."""

    def __init__(self, time: Callable[[int, int], int], width: int, height: int):
        self.width, self.height = width, height
        self.has_steps = False
        self._time = time
        self._widths, self._heights = _side_ladder(width), _side_ladder(height)
        # By width, then by height.
        self._prices: dict[int, dict[int, int]] = {}
        self._tried: set[int] = set()
        # PEs that kept the last time that was asked for: the next is near it.
        self._area = self._limit = 1.0

    def cycles(self, width: int, height: int) -> int:
        """Its time on these extents, 1 at least."""
        column = self._prices.setdefault(width, {})
        if height not in column:
            column[height] = max(1, self._time(width, height))
        return column[height]

    def work(self, area: float) -> float:
        """Cycles times PEs on a square of about so many PEs: tells which times are worth a look."""
        side = math.sqrt(area)
        width, height = _nearest_side(self._widths, side), _nearest_side(self._heights, side)
        self._area, self._limit = float(width * height), float(self.cycles(width, height))
        return self._area * self._limit

    def heights(self, limit: int, is_known: bool = False) -> SideLengths:
        """For each width the least height on which it keeps `limit`, `INFEASIBLE` if there is none.

        With `is_known` of widths that were priced alone; those between have the height of the next narrower one.
        """
        area = max(1.0, self._area * self._limit / limit)
        low, high = (
            min(self.width, math.sqrt(area / MAX_ASPECT_RATIO)),
            max(math.sqrt(area * MAX_ASPECT_RATIO), 2 * area / self.height),
        )
        columns = {w: self._search_height(w, limit, area) for w in self._widths if low <= w <= high}
        # Times near the least possible ask for more PEs than the last time does tell.
        for wider in (w for w in self._widths if w > high):
            if min(columns.values(), default=INFEASIBLE) < INFEASIBLE:
                break
            columns[wider] = self._search_height(wider, limit, area)
        # What was placed before is known best, but says nothing about times far from its own.
        columns |= {
            w: self.height_at(w, limit) for w in self._tried if w not in columns and self._is_informative(w, limit)
        }
        if self.has_steps:
            self._refine_shapes(columns, limit)
        heights = np.ceil(self._between(columns, is_known or self.has_steps) - 1e-6)
        heights = np.where(heights > self.height, INFEASIBLE, heights).astype(np.int64)
        if heights.min() < INFEASIBLE:
            self._area, self._limit = float(min_area_shape(heights)[0]), float(limit)
        return heights

    def height_at(self, width: int, limit: int) -> float:
        """The least height that keeps a time on a width where something was priced, as far as that tells."""
        column, (below, enough) = self._prices[width], self._span(width, limit)
        # With one price alone, time is taken as inversely proportional: the next price will tell.
        if not enough:
            return max(column) * column[max(column)] / limit
        if below and not self.has_steps:
            share = math.log(column[below] / limit) / math.log(column[below] / column[enough])
            return float(below * (enough / below) ** share)
        saved = column[enough] / limit
        return enough if below or saved > SHORT_ENOUGH_RATIO else max(1.0, enough * saved)

    def tried(self, width: int, height: int, limit: int) -> int:
        """Price a shape that is to keep `limit`, and remember what that tells. Returns its cycles."""
        cycles = self.cycles(width, height)
        self._tried.add(width)
        self.has_steps |= cycles > STEP_PRICE_RATIO * limit
        return cycles

    def _refine_shapes(self, columns: dict[int, float], limit: int) -> None:
        """Price lower and narrower shapes than those that keep the time, where the least area may lie."""
        least = math.inf
        while (area := self._lower_heights(columns, limit)) * AREA_PRECISION_RATIO < least:
            least = area
            self._narrow_widths(columns, limit)

    def _lower_heights(self, columns: dict[int, float], limit: int) -> float:
        """Between a height that is too little and one that is enough. Returns the least area that was priced."""
        while True:
            spans = {w: self._span(w, limit) for w in columns}
            least = min((w * enough for w, (_, enough) in spans.items() if enough), default=math.inf)
            wide = [w for w, (below, enough) in spans.items() if enough > max(below + 1, AREA_PRECISION_RATIO * below)]
            width = min(wide, key=lambda w: w * spans[w][0], default=0)
            if not width or AREA_PRECISION_RATIO * width * spans[width][0] >= least:
                return least
            self.cycles(width, sum(spans[width]) // 2)
            columns[width] = self.height_at(width, limit)

    def _narrow_widths(self, columns: dict[int, float], limit: int) -> None:
        """Between the width of the least area and the next one that is known."""
        spans = {w: self._span(w, limit)[1] for w in columns}
        width = min((w for w in spans if spans[w]), key=lambda w: w * spans[w])
        height, below = spans[width], max((w for w in columns if w < width), default=0)
        while width > max(below + 1, AREA_PRECISION_RATIO * below):
            middle = (below + width) // 2
            if self.cycles(middle, height) <= limit:
                columns[middle], width = height, middle
            else:
                below = middle

    def _span(self, width: int, limit: int) -> tuple[int, int]:
        """The least height that was priced and keeps a time, behind the last one below; 0 where there is none."""
        column = self._prices[width]
        enough = min((h for h, cycles in column.items() if cycles <= limit), default=0)
        return max((h for h in column if h < enough), default=0), enough

    def _is_informative(self, width: int, limit: int) -> bool:
        least = 1.0 if self.has_steps else 1 / NEAR_TIME_RATIO
        return any(least <= limit / cycles < NEAR_TIME_RATIO for cycles in self._prices[width].values())

    def _search_height(self, width: int, limit: int, area: float) -> float:
        """The least height of a width of the ladder, from the prices on both sides of it."""
        ladder = self._heights
        at = ladder.index(_nearest_side(ladder, area / width))
        # Down and then up: time is not always less on more cores, and what lies near counts.
        while at and self.cycles(width, ladder[at]) <= limit:
            at -= 1
        while at < len(ladder) - 1 and self.cycles(width, ladder[at]) > limit:
            at += 1
        # Of a mesh that is one high nothing was priced on the way.
        if min(self.cycles(width, ladder[at]), *self._prices[width].values()) > limit:
            return float(INFEASIBLE)
        return self.height_at(width, limit) if at else 1.0

    def _between(self, columns: Mapping[int, float], has_steps: bool) -> NDArray[np.float64]:
        """Heights for all widths from those of some: a power of the width between two, or that of the narrower."""
        heights, widths = np.full(self.width, float(INFEASIBLE)), sorted(columns)
        for low, high in zip(widths, [*widths[1:], self.width + 1], strict=True):
            # A part may always be narrower than its rectangle, so that a narrower shape does for the widths after it.
            heights[low - 1 : high - 1] = columns[low]
            if high <= self.width and not has_steps and max(columns[low], columns[high]) < INFEASIBLE:
                ends = math.log(low), math.log(high)
                logs = np.interp(np.log(np.arange(low, high)), ends, (math.log(columns[low]), math.log(columns[high])))
                heights[low - 1 : high - 1] = np.exp(logs)
        return heights


def min_area_shape(heights: SideLengths) -> tuple[int, int, int]:
    """The smallest area that heights for all widths allow, and its width and height."""
    areas = np.where(heights < INFEASIBLE, np.arange(1, len(heights) + 1) * heights, INFEASIBLE * INFEASIBLE)
    at = int(areas.argmin())
    return int(areas[at]), at + 1, int(heights[at])


def _side_ladder(side: int) -> Sequence[int]:
    # Powers of two, as most extents of layers are: steps of a time stand there too.
    return [*(1 << n for n in range((side - 1).bit_length())), side]


def _nearest_side(ladder: Sequence[int], length: float) -> int:
    at = bisect_left(ladder, length)
    return min(ladder[max(0, at - 1) : at + 1], key=lambda step: abs(math.log(step / max(1e-9, length))))
