"""Columns through which a line of blocks runs down and up: they nearly fill a mesh, and their wires are short.

In a column, groups of a few blocks stand above each other. With groups of one the line never leaves its way; larger
ones fit a column better and lengthen its wires.
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
"""A column is at most so many times as wide as its first block has to be, where that is wider than others are."""


class SerpentineColumns:
    """The narrowest columns for a line of blocks below a height.

    None is wider than `widest`, but where its first block needs that, and as much more as `MAX_COLUMN_WIDTH_RATIO` has
    it.
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
        # Columns are cut from left to right, each as narrow as its blocks allow: which blocks share one is all there
        # is to choose, and the narrowest way to the first so many of them holds for all that follow.
        columns = self._columns()
        for start in range(self.n):
            for stop, column in columns[start]:
                total = self.narrowest[start] + column
                if total <= width and total < self.narrowest[stop]:
                    self.narrowest[stop], self.begin[stop] = total, start

    @property
    def least_width(self) -> int:
        """The width of all columns together, `INFEASIBLE` if the mesh is too narrow for them."""
        return self.narrowest[self.n]

    def _columns(self) -> list[list[tuple[int, int]]]:
        """For each block the ends of the columns that begin with it, and the least width of each."""
        columns: list[list[tuple[int, int]]] = [[] for _ in range(self.n)]
        for starts, size, curves in self._stacks():
            for start, column in zip(starts.tolist(), (curves <= self.height).argmax(axis=1).tolist(), strict=True):
                columns[start].append((start + size, column + 1))
        return columns

    def _stacks(self) -> Iterator[tuple[NDArray[np.intp], int, NDArray[np.int16]]]:
        """For each size first blocks, the size, and the curves of columns of so many blocks that are not too high."""
        starts, wide = np.arange(self.n), int(self._most.max())
        # By size, and there by first block: all columns of a size at once.
        stacks = {0: np.zeros((self.n, wide), np.int16)}
        for size in range(1, self.n + 1):
            starts = starts[starts + size <= self.n]
            if not len(starts):
                return
            groups = range(1, min(self.group, size) + 1)
            curves = np.min(
                [stacks[size - g][starts] + self.table.heights[g - 1, starts + size - g, :wide] for g in groups], axis=0
            )
            # What is too high even on all the width that it may have is so with more blocks too.
            is_low = curves[np.arange(len(starts)), self._most[starts] - 1] <= self.height
            starts, curves = starts[is_low], curves[is_low]
            curves[curves > self.height] = INFEASIBLE
            stacks[size] = np.full((self.n, wide), INFEASIBLE, np.int16)
            stacks[size][starts] = curves
            stacks.pop(size - self.group, None)
            yield starts, size, curves

    def tree(self) -> SlicingTree | None:
        """The columns as a tree, if they fit."""
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
            # What lies above within a group comes to lie below, as the line runs.
            for i in range(first, len(cuts.cuts)):
                if cuts.cuts[i] == HORIZONTAL_CUT:
                    cuts.first[i], cuts.second[i] = cuts.second[i], cuts.first[i]
        return cuts.chain(HORIZONTAL_CUT, nodes if is_upward else nodes[::-1])
