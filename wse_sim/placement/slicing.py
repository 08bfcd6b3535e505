"""Slicing trees: a mesh that is cut in two, and each part again, until every block has its own.

`ordered_tree` finds the tree of least height for a width among all that keep the order of the blocks, by dynamic
programming over intervals of them. Source: shape curves are Otten's and Stockmeyer's; the search over ordered trees is
our own derivation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wse_sim.layout import Rect
from wse_sim.placement.curves import NEVER, Curve, inverse, least_area

BESIDE, ABOVE = 0, 1


@dataclass(frozen=True)
class Tree:
    """Nodes 0 to n - 1 are the blocks, the next n - 1 the cuts, of which the last is the root.

    For cut i, `first[i]` and `second[i]` are the parts to the left and right of it, or above and below it.
    """

    cuts: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]

    @property
    def blocks(self) -> int:
        """How many blocks it places."""
        return len(self.cuts) + 1


def ordered_tree(curves: Sequence[Curve], width: int, height: int) -> Tree | None:
    """A tree of blocks in their order that fits the mesh, or None if none does."""
    # What no area allows needs no table.
    if sum(map(least_area, curves)) > width * height:
        return None
    table = _Table(curves, width, height)
    return table.tree() if table.fits else None


def least_sides(curves: Sequence[Curve], width: int, height: int) -> tuple[int, int]:
    """The least width on which blocks fit below `height`, and the least height for `width`: one of both is enough.

    For blocks that do not fit the mesh; each of them alone does.
    """
    room = len(curves)
    # As many meshes beside each other as there are blocks are always wide enough.
    wider = [np.concatenate([c, np.full(width * (room - 1), c[-1], np.int16)]) for c in curves]
    wide = _Table(wider, width * room, height).widths[0, -1, -1]
    high = _Table(curves, width, height * room).heights[0, -1, -1]
    return int(wide), int(high)


class _Table:
    """The curve of each interval of blocks, and its inverse."""

    def __init__(self, curves: Sequence[Curve], width: int, height: int):
        n = len(curves)
        self.width, self.height = width, height
        self.heights = np.full((n, n, width), NEVER, np.int16)
        self.widths = np.full((n, n, height), NEVER, np.int16)
        # Layers repeat: an interval of the same blocks in the same order has the same curve, wherever it stands.
        kinds: dict[bytes, int] = {}
        line = [kinds.setdefault(curve.tobytes(), len(kinds)) for curve in curves]
        equal: dict[tuple[int, ...], tuple[int, int]] = {}
        for size in range(1, n + 1):
            for i in range(n - size + 1):
                j = i + size - 1
                one = equal.setdefault(tuple(line[i : j + 1]), (i, j))
                if one != (i, j):
                    self.heights[i, j], self.widths[i, j] = self.heights[one], self.widths[one]
                else:
                    self._fill(i, j, curves)

    @property
    def fits(self) -> bool:
        """Whether the whole line stands on the mesh."""
        return bool(self.heights[0, -1, -1] <= self.height)

    def _fill(self, i: int, j: int, curves: Sequence[Curve]) -> None:
        if i == j:
            curve = curves[i]
        else:
            # Every place at which the interval can be cut, in both directions: the least over all of them, width by
            # width, is as good as any tree can be, for a part never gains from being larger than its least height.
            above = (self.heights[i, i:j] + self.heights[i + 1 : j + 1, j]).min(axis=0)
            beside = (self.widths[i, i:j] + self.widths[i + 1 : j + 1, j]).min(axis=0)
            curve = np.minimum(above, inverse(beside, self.width))
            # Sums of two such entries have to fit 16 bits again.
            curve[curve > self.height] = NEVER
        self.heights[i, j] = curve
        self.widths[i, j] = inverse(curve, self.height)

    def tree(self) -> Tree:
        """Reads off a tree for the whole mesh."""
        n = len(self.heights)
        cuts, first, second = [0] * (n - 1), [0] * (n - 1), [0] * (n - 1)
        # A cut is numbered before its parts, from the root's number down: no two paths of the walk meet.
        unused = n - 1
        todo = [(0, n - 1, self.width, self.height, -1, True)]
        while todo:
            i, j, width, height, parent, is_first = todo.pop()
            number = i
            if i < j:
                unused -= 1
                number = n + unused
                cut, k, at = self._split(i, j, width, height)
                cuts[unused] = cut
                parts = ((at, height), (width - at, height)) if cut == BESIDE else ((width, at), (width, height - at))
                todo.append((i, k, *parts[0], unused, True))
                todo.append((k + 1, j, *parts[1], unused, False))
            if parent >= 0:
                (first if is_first else second)[parent] = number
        return Tree(tuple(cuts), tuple(first), tuple(second))

    def _split(self, i: int, j: int, width: int, height: int) -> tuple[int, int, int]:
        """The cut of an interval on a part of that size, the last block before it, and where it is."""
        above = self.heights[i, i:j, width - 1] + self.heights[i + 1 : j + 1, j, width - 1]
        beside = self.widths[i, i:j, height - 1] + self.widths[i + 1 : j + 1, j, height - 1]
        # The cut that leaves the largest share of its side free is the one whose parts are the easiest to cut.
        if (height - int(above.min())) * width >= (width - int(beside.min())) * height:
            k = _middle(above)
            return ABOVE, i + k, int(self.heights[i, i + k, width - 1])
        k = _middle(beside)
        return BESIDE, i + k, int(self.widths[i, i + k, height - 1])


def _middle(sums: NDArray[np.int16]) -> int:
    """The position of the least sum; of equal ones that nearest to the middle."""
    ties = np.flatnonzero(sums == sums.min())
    return int(ties[np.argmin(np.abs(2 * ties - len(sums) + 1))])


def rectangles(tree: Tree, curves: Sequence[Curve], width: int, height: int) -> tuple[Rect, ...]:
    """Where the blocks of a tree lie on the mesh, each as large as its curve asks for, in the middle of its part."""
    n = len(curves)
    cut_heights: dict[int, Curve] = dict(enumerate(curves))
    cut_widths: dict[int, Curve] = {i: inverse(curve, height) for i, curve in enumerate(curves)}
    for node in _bottom_up(tree):
        one, other = tree.first[node - n], tree.second[node - n]
        if tree.cuts[node - n] == ABOVE:
            curve = cut_heights[one] + cut_heights[other]
        else:
            curve = inverse(cut_widths[one] + cut_widths[other], width)
        cut_heights[node] = np.where(curve > height, NEVER, curve).astype(np.int16)
        cut_widths[node] = inverse(cut_heights[node], height)
    places: list[Rect | None] = [None] * n
    # From the root down: the first part is as large as it has to be, and the second has what is left.
    todo = [(2 * n - 2, 0, 0, width, height)]
    while todo:
        node, x, y, w, h = todo.pop()
        if node < n:
            high = int(cut_heights[node][w - 1])
            wide = int(cut_widths[node][high - 1])
            places[node] = Rect(x + (w - wide) // 2, y + (h - high) // 2, wide, high)
            continue
        one, other = tree.first[node - n], tree.second[node - n]
        if tree.cuts[node - n] == ABOVE:
            at = int(cut_heights[one][w - 1])
            todo += [(one, x, y, w, at), (other, x, y + at, w, h - at)]
        else:
            at = int(cut_widths[one][h - 1])
            todo += [(one, x, y, at, h), (other, x + at, y, w - at, h)]
    return tuple(p for p in places if p is not None)


def _bottom_up(tree: Tree) -> Sequence[int]:
    """The cuts of a tree, each after its parts."""
    n, order, todo = tree.blocks, [], [2 * tree.blocks - 2]
    while todo:
        node = todo.pop()
        if node >= n:
            order.append(node)
            todo += [tree.first[node - n], tree.second[node - n]]
    return order[::-1]
