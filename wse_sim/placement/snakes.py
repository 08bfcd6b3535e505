"""Columns through which a line of blocks runs down and up: they nearly fill a mesh, and their wires are short.

In a column, groups of a few blocks stand above each other. With groups of one the line never leaves its way; larger
ones fit a column better and lengthen its wires.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from wse_sim.placement.curves import NEVER, Curve
from wse_sim.placement.slicing import ABOVE, BESIDE, Cuts, Intervals, Tree

ROOMY = 1.25
"""A column is at most so many times as wide as its first block has to be, where that is wider than others are."""


class Snake:
    """The narrowest columns for a line of blocks below a height.

    None is wider than `widest`, but where its first block needs that, and as much more as `ROOMY` has it.
    """

    def __init__(self, curves: Sequence[Curve], width: int, height: int, group: int, widest: int | None = None):
        self.n, self.width, self.height = len(curves), width, height
        self.group = min(group, self.n)
        self.table = Intervals(curves, width, height, self.group)
        self.narrowest = [0] + [NEVER] * self.n
        self.begin = [0] * (self.n + 1)
        # Columns are cut from left to right, each as narrow as its blocks allow: which blocks share one is all there
        # is to choose, and the narrowest way to the first so many of them holds for all that follow.
        for start in range(self.n):
            if self.narrowest[start] < width:
                left = width - self.narrowest[start]
                most = max(widest, math.ceil(ROOMY * self.table.least_width(start, start + 1))) if widest else width
                for stop, column in self._columns(start, min(most, left)):
                    if self.narrowest[start] + column < self.narrowest[stop]:
                        self.narrowest[stop], self.begin[stop] = self.narrowest[start] + column, start

    @property
    def least_width(self) -> int:
        """The width of all columns together, `NEVER` if the mesh is too narrow for them."""
        return self.narrowest[self.n]

    def _columns(self, start: int, width: int) -> Iterator[tuple[int, int]]:
        """Each end of a column that begins with a block, and the column's least width, up to `width`."""
        for stop, curve in self._stacks(start, width):
            yield stop, int(np.argmax(curve <= self.height)) + 1

    def _stacks(self, start: int, width: int) -> Iterator[tuple[int, Curve]]:
        """The curve of each column that begins with a block and is no wider than `width`."""
        stacks = {start: np.zeros(width, np.int16)}
        for stop in range(start + 1, self.n + 1):
            before = range(max(start, stop - self.group), stop)
            curve = np.min([stacks[b] + self.table.curve(b, stop)[:width] for b in before], axis=0)
            # Too high even on all the width that is left.
            if curve[-1] > self.height:
                return
            curve[curve > self.height] = NEVER
            stacks[stop] = curve
            yield stop, curve

    def tree(self) -> Tree | None:
        """The columns as a tree, if they fit."""
        if self.least_width > self.width:
            return None
        ends = [self.n]
        while ends[-1]:
            ends.append(self.begin[ends[-1]])
        cuts = Cuts(self.n)
        columns: list[int] = []
        for stop, start in zip(ends[-2::-1], ends[:0:-1], strict=True):
            columns.append(self._column(cuts, start, stop, is_upward=len(columns) % 2 == 1))
        return cuts.tree(cuts.chain(BESIDE, columns))

    def _column(self, cuts: Cuts, start: int, stop: int, is_upward: bool) -> int:
        width = self.narrowest[stop] - self.narrowest[start]
        stacks = {start: np.zeros(width, np.int16), **dict(self._stacks(start, width))}
        nodes: list[int] = []
        first = len(cuts.cuts)
        while stop > start:
            before = min(
                range(max(start, stop - self.group), stop),
                key=lambda b: stacks[b][-1] + int(self.table.curve(b, stop)[width - 1]),
            )
            high = int(self.table.curve(before, stop)[width - 1])
            nodes.append(self.table.cut(cuts, before, stop, (width, high)))
            stop = before
        if is_upward:
            # What lies above within a group comes to lie below, as the line runs.
            for i in range(first, len(cuts.cuts)):
                if cuts.cuts[i] == ABOVE:
                    cuts.first[i], cuts.second[i] = cuts.second[i], cuts.first[i]
        return cuts.chain(ABOVE, nodes if is_upward else nodes[::-1])
