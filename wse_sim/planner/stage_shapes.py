"""Shape curves of a stage: the sizes on which it keeps a target time, estimated from a few priced sizes.

Pricing a size takes milliseconds, and a mesh has a million sizes. Powers of two near the size that a time needs are
priced. Between them the least height is interpolated as a power of the width. Placed sizes are priced too and used from
then on. If such a price is far from its estimate, time is a step function of size, as for convolutions whose channels
the width does not divide. Then only priced sizes are used, and more are priced where the least area may be.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from wse_sim.floorplanning.shape_curves import INFEASIBLE

MAX_ASPECT_RATIO = 32
"""Maximum ratio of a shape's longer to its shorter side, if the mesh allows it: long shapes have long routes."""
STEP_PRICE_RATIO = 1.25
"""A price of more than this multiple of its estimate shows that time is a step function."""
NEAR_TIME_RATIO = 1.25
"""A placed width informs estimates for target times within this factor of its prices."""
AREA_PRECISION_RATIO = 1.02
"""For step functions, the least area is determined within this factor."""
SHORT_ENOUGH_RATIO = 0.97
"""No smaller shape is estimated for a time above this share of the target."""

SideLengths = NDArray[np.int64]
"""For each width from 1 on, a height or a width."""


class StageShapes:
    """The priced sizes of one kind of stage on a mesh of `width` x `height` PEs.

    `time` is a function (width, height) that returns cycles. `has_steps` is True once a price showed that time is a
    step function of size.
    """

    def __init__(self, time: Callable[[int, int], int], width: int, height: int):
        self.width, self.height = width, height
        self.has_steps = False
        self._time = time
        self._widths, self._heights = _side_ladder(width), _side_ladder(height)
        # By width, then by height.
        self._prices: dict[int, dict[int, int]] = {}
        self._tried: set[int] = set()
        # Area and time of the last query, which start the next search.
        self._area = self._limit = 1.0

    def cycles(self, width: int, height: int) -> int:
        """Return the cycles of the stage on `width` x `height` PEs, at least 1. Each size is priced once."""
        column = self._prices.setdefault(width, {})
        if height not in column:
            column[height] = max(1, self._time(width, height))
        return column[height]

    def work(self, area: float) -> float:
        """Return cycles times PEs on a nearly square size of about `area` PEs, and start the next search there.

        The sides are powers of two or those of the mesh.
        """
        side = math.sqrt(area)
        width, height = _nearest_side(self._widths, side), _nearest_side(self._heights, side)
        self._area, self._limit = float(width * height), float(self.cycles(width, height))
        return self._area * self._limit

    def heights(self, limit: int, is_known: bool = False) -> SideLengths:
        """Return, for each width from 1 on, the least height on which the stage keeps `limit`, or `INFEASIBLE`.

        With `is_known`, or if `has_steps`, only priced widths have a separate value. A width between two of them has
        the height of the narrower one; otherwise heights are interpolated. Prices more sizes.
        """
        area = max(1.0, self._area * self._limit / limit)
        low, high = (
            min(self.width, math.sqrt(area / MAX_ASPECT_RATIO)),
            max(math.sqrt(area * MAX_ASPECT_RATIO), 2 * area / self.height),
        )
        columns = {w: self._search_height(w, limit, area) for w in self._widths if low <= w <= high}
        # Target times near the minimum need more PEs than the estimate: try wider shapes.
        for wider in (w for w in self._widths if w > high):
            if min(columns.values(), default=INFEASIBLE) < INFEASIBLE:
                break
            columns[wider] = self._search_height(wider, limit, area)
        # Placed widths have the best estimates, but only for times near theirs.
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
        """Return the estimated least height that keeps `limit` on a width that has prices.

        It is interpolated between priced heights, or is the least priced one that suffices if `has_steps`. If no priced
        height suffices, time is assumed to be inversely proportional to height; the result may exceed the mesh.
        """
        column, (below, enough) = self._prices[width], self._span(width, limit)
        # With no price that suffices, assume time inversely proportional to height. The next price corrects it.
        if not enough:
            return max(column) * column[max(column)] / limit
        if below and not self.has_steps:
            share = math.log(column[below] / limit) / math.log(column[below] / column[enough])
            return float(below * (enough / below) ** share)
        saved = column[enough] / limit
        return enough if below or saved > SHORT_ENOUGH_RATIO else max(1.0, enough * saved)

    def tried(self, width: int, height: int, limit: int) -> int:
        """Price a size that was expected to keep `limit`, record its width for later estimates, and return its cycles.

        Sets `has_steps` if the cycles exceed `STEP_PRICE_RATIO` times `limit`.
        """
        cycles = self.cycles(width, height)
        self._tried.add(width)
        self.has_steps |= cycles > STEP_PRICE_RATIO * limit
        return cycles

    def _refine_shapes(self, columns: dict[int, float], limit: int) -> None:
        """Price lower and narrower shapes than those that keep the time, and update `columns` (width -> least height).

        It ends when the least area falls by less than 2 %.
        """
        least = math.inf
        while (area := self._lower_heights(columns, limit)) * AREA_PRECISION_RATIO < least:
            least = area
            self._narrow_widths(columns, limit)

    def _lower_heights(self, columns: dict[int, float], limit: int) -> float:
        """Price heights between one that is too small and one that suffices, and update `columns`.

        `columns` maps widths to least heights. Return the least area that was priced, infinity if no height suffices.
        """
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
        """Price widths between that of the least area and the next smaller one, at the same height.

        Those that suffice are added to `columns`, which maps widths to heights. At least one has to suffice at first.
        """
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
        """Return the largest priced height below the least one that keeps `limit`, and that one; 0 if missing.

        If no priced height suffices, both are 0.
        """
        column = self._prices[width]
        enough = min((h for h, cycles in column.items() if cycles <= limit), default=0)
        return max((h for h in column if h < enough), default=0), enough

    def _is_informative(self, width: int, limit: int) -> bool:
        """Return whether a price of this width is near enough to the time `limit` for an estimate.

        Near is within a factor of `NEAR_TIME_RATIO`; if `has_steps`, the price may not exceed `limit`.
        """
        least = 1.0 if self.has_steps else 1 / NEAR_TIME_RATIO
        return any(least <= limit / cycles < NEAR_TIME_RATIO for cycles in self._prices[width].values())

    def _search_height(self, width: int, limit: int, area: float) -> float:
        """Return the least height for a ladder width, from prices around the expected height `area` / `width`.

        Ladder sides are powers of two and those of the mesh. Return `INFEASIBLE` if no priced height keeps `limit`.
        """
        ladder = self._heights
        at = ladder.index(_nearest_side(ladder, area / width))
        # Go down and then up, because time may increase with the number of cores.
        while at and self.cycles(width, ladder[at]) <= limit:
            at -= 1
        while at < len(ladder) - 1 and self.cycles(width, ladder[at]) > limit:
            at += 1
        # On a mesh of height 1 nothing has been priced so far.
        if min(self.cycles(width, ladder[at]), *self._prices[width].values()) > limit:
            return float(INFEASIBLE)
        return self.height_at(width, limit) if at else 1.0

    def _between(self, columns: Mapping[int, float], has_steps: bool) -> NDArray[np.float64]:
        """Return heights for all widths from those in `columns`; `INFEASIBLE` below the least one.

        Between two of them heights are interpolated as a power of the width. With `has_steps`, or if one is
        `INFEASIBLE`, the narrower one's height is used.
        """
        heights, widths = np.full(self.width, float(INFEASIBLE)), sorted(columns)
        for low, high in zip(widths, [*widths[1:], self.width + 1], strict=True):
            # A part may be narrower than its rectangle, so a height is valid for all larger widths.
            heights[low - 1 : high - 1] = columns[low]
            if high <= self.width and not has_steps and max(columns[low], columns[high]) < INFEASIBLE:
                ends = math.log(low), math.log(high)
                logs = np.interp(np.log(np.arange(low, high)), ends, (math.log(columns[low]), math.log(columns[high])))
                heights[low - 1 : high - 1] = np.exp(logs)
        return heights


def min_area_shape(heights: SideLengths) -> tuple[int, int, int]:
    """Return (area, width, height) of the smallest shape that `heights` allow, the narrowest of equal ones.

    If all heights are `INFEASIBLE`, the area is `INFEASIBLE` squared.
    """
    areas = np.where(heights < INFEASIBLE, np.arange(1, len(heights) + 1) * heights, INFEASIBLE * INFEASIBLE)
    at = int(areas.argmin())
    return int(areas[at]), at + 1, int(heights[at])


def _side_ladder(side: int) -> Sequence[int]:
    """Return the powers of two below `side`, and `side`."""
    # Most extents of layers are powers of two, and times have their steps there too.
    return [*(1 << n for n in range((side - 1).bit_length())), side]


def _nearest_side(ladder: Sequence[int], length: float) -> int:
    """Return the side of the ascending `ladder` with the smallest ratio to `length`, the lower of equal ones."""
    at = bisect_left(ladder, length)
    return min(ladder[max(0, at - 1) : at + 1], key=lambda step: abs(math.log(step / max(1e-9, length))))
