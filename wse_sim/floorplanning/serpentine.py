"""Arrange a sequence of blocks in columns that run down and up in turn.

Such columns nearly fill a mesh and have short wires. A column stacks groups of a few adjacent blocks. With groups of
one block the sequence is strictly kept. Larger groups fill a column better and lengthen its wires.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from wse_sim.floorplanning.shape_curves import INFEASIBLE, ShapeCurve
from wse_sim.floorplanning.slicing_tree import (
    HORIZONTAL_CUT,
    VERTICAL_CUT,
    IntervalCurves,
    SlicingTree,
    SlicingTreeBuilder,
)

MAX_COLUMN_WIDTH_RATIO = 1.25
"""If the first block of a column is wide, the column may have this multiple of the block's least width."""


class SerpentineColumns:
    """The narrowest columns of at most `height` for a sequence of blocks, given by their shape `curves`.

    - `group`: maximum number of blocks in a group
    - `widest`: maximum width of a column, exceeded only by up to `MAX_COLUMN_WIDTH_RATIO` times the least width of its
      first block; None for no maximum
    - `narrowest`: for each number n, the least total width of columns for the first n blocks
    - `begin`: for each number n, the first block of the last of these columns
    """

    def __init__(self, curves: Sequence[ShapeCurve], width: int, height: int, group: int, widest: int | None = None):
        self.n, self.width, self.height = len(curves), width, height
        self.group = min(group, self.n)
        self.table = IntervalCurves(curves, width, height, self.group)
        self.narrowest = [0] + [INFEASIBLE] * self.n
        self.begin = [0] * (self.n + 1)
        alone = [self.table.least_width(n, n + 1) for n in range(self.n)]
        most = [max(widest, math.ceil(MAX_COLUMN_WIDTH_RATIO * own)) if widest else width for own in alone]
        self._most = np.minimum(most, width)
        # Dynamic programming over the first n blocks: the narrowest columns for them are part of the best solution for
        # all that follow.
        columns = self._columns()
        for start in range(self.n):
            for stop, column in columns[start]:
                total = self.narrowest[start] + column
                if total <= width and total < self.narrowest[stop]:
                    self.narrowest[stop], self.begin[stop] = total, start

    @property
    def least_width(self) -> int:
        """Return the total width of all columns, `INFEASIBLE` if they do not fit."""
        return self.narrowest[self.n]

    def _columns(self) -> list[list[tuple[int, int]]]:
        """Return, for each first block, (end (exclusive), least width) of each possible column, shorter ones first."""
        columns: list[list[tuple[int, int]]] = [[] for _ in range(self.n)]
        for starts, size, curves in self._stacks():
            for start, column in zip(starts.tolist(), (curves <= self.height).argmax(axis=1).tolist(), strict=True):
                columns[start].append((start + size, column + 1))
        return columns

    def _stacks(self) -> Iterator[tuple[NDArray[np.intp], int, NDArray[np.int16]]]:
        """Yield (first blocks, number of blocks, curves) of the columns that are not too high, by number of blocks.

        Curves [columns, widths] have the least height for each width, or `INFEASIBLE`. Numbers ascend from 1 and end
        when no column is low enough.
        """
        starts, wide = np.arange(self.n), int(self._most.max())
        # Curves by number of blocks and first block; all columns of a size are computed at once.
        stacks = {0: np.zeros((self.n, wide), np.int16)}
        for size in range(1, self.n + 1):
            starts = starts[starts + size <= self.n]
            if not len(starts):
                return
            groups = range(1, min(self.group, size) + 1)
            curves = np.min(
                [stacks[size - g][starts] + self.table.heights[g - 1, starts + size - g, :wide] for g in groups], axis=0
            )
            # A column that is too high at its maximum width is so with more blocks too.
            is_low = curves[np.arange(len(starts)), self._most[starts] - 1] <= self.height
            starts, curves = starts[is_low], curves[is_low]
            curves[curves > self.height] = INFEASIBLE
            stacks[size] = np.full((self.n, wide), INFEASIBLE, np.int16)
            stacks[size][starts] = curves
            stacks.pop(size - self.group, None)
            yield starts, size, curves

    def tree(self) -> SlicingTree | None:
        """Return the narrowest columns as a slicing tree, or None if they do not fit.

        The first column runs down, the next one up, and so on.
        """
        if self.least_width > self.width:
            return None
        ends = [self.n]
        while ends[-1]:
            ends.append(self.begin[ends[-1]])
        cuts = SlicingTreeBuilder(self.n)
        columns: list[int] = []
        for stop, start in zip(ends[-2::-1], ends[:0:-1], strict=True):
            columns.append(self._column(cuts, start, stop, is_upward=len(columns) % 2 == 1))
        return cuts.tree(cuts.chain(VERTICAL_CUT, columns))

    def _column(self, cuts: SlicingTreeBuilder, start: int, stop: int, is_upward: bool) -> int:
        """Add the cuts of the column with blocks `start` to `stop` - 1 to `cuts`, and return its node.

        Groups are chosen for the least height. If `is_upward`, the first block is lowest.
        """
        width = self.narrowest[stop] - self.narrowest[start]
        high = {start: 0}
        before: dict[int, int] = {}
        for end in range(start + 1, stop + 1):
            nearest = range(max(start, end - self.group), end)
            high[end], before[end] = min((high[b] + int(self.table.curve(b, end)[width - 1]), b) for b in nearest)
        nodes: list[int] = []
        first = len(cuts.cuts)
        while stop > start:
            one = before[stop]
            nodes.append(self.table.cut(cuts, one, stop, (width, high[stop] - high[one])))
            stop = one
        if is_upward:
            # Reverse each group too, because the column runs upwards.
            for i in range(first, len(cuts.cuts)):
                if cuts.cuts[i] == HORIZONTAL_CUT:
                    cuts.first[i], cuts.second[i] = cuts.second[i], cuts.first[i]
        return cuts.chain(HORIZONTAL_CUT, nodes if is_upward else nodes[::-1])
