"""Slicing trees: a mesh that is cut in two, and each part again, until every block has its own.

`find_ordered_tree` finds the tree of least height for a width among all that keep the order of the blocks, by dynamic
programming over intervals of them. Source: shape curves are Otten's and Stockmeyer's; the search over ordered trees is
our own derivation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wse_sim.floorplanning.shape_curves import INFEASIBLE, ShapeCurve, inverse_curve, min_curve_area
from wse_sim.layout import Rect

VERTICAL_CUT, HORIZONTAL_CUT = 0, 1


@dataclass(frozen=True)
class SlicingTree:
    """Nodes 0 to n - 1 are the blocks, the next n - 1 the cuts; `root` is the whole mesh.

    For cut i, `first[i]` and `second[i]` are the parts to the left and right of it, or above and below it.
    """

    cuts: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    root: int

    @property
    def blocks(self) -> int:
        """How many blocks it places."""
        return len(self.cuts) + 1


def rename_blocks(tree: SlicingTree, names: Sequence[int]) -> SlicingTree:
    """The tree with block `names[i]` where it has block i."""
    full = (*names, *range(tree.blocks, 2 * tree.blocks - 1))
    first, second = (tuple(full[n] for n in side) for side in (tree.first, tree.second))
    return SlicingTree(tree.cuts, first, second, full[tree.root])


class SlicingTreeBuilder:
    """The cuts of a tree that is being put together."""

    def __init__(self, blocks: int):
        self.blocks = blocks
        self.cuts: list[int] = []
        self.first: list[int] = []
        self.second: list[int] = []

    def add(self, cut: int, one: int, other: int) -> int:
        """A cut between two nodes. Returns its number."""
        self.cuts.append(cut)
        self.first.append(one)
        self.second.append(other)
        return self.blocks + len(self.cuts) - 1

    def chain(self, cut: int, nodes: Sequence[int]) -> int:
        """Nodes in a row, as deep a tree as it has to be."""
        if len(nodes) == 1:
            return nodes[0]
        middle = len(nodes) // 2
        return self.add(cut, self.chain(cut, nodes[:middle]), self.chain(cut, nodes[middle:]))

    def tree(self, root: int) -> SlicingTree:
        """The tree below a node."""
        return SlicingTree(tuple(self.cuts), tuple(self.first), tuple(self.second), root)


def find_ordered_tree(curves: Sequence[ShapeCurve], width: int, height: int) -> SlicingTree | None:
    """A tree of blocks in their order that fits the mesh, or None if none does."""
    # What no area allows needs no table.
    if sum(map(min_curve_area, curves)) > width * height:
        return None
    table = IntervalCurves(curves, width, height, len(curves))
    if table.curve(0, len(curves))[-1] > height:
        return None
    cuts = SlicingTreeBuilder(len(curves))
    return cuts.tree(table.cut(cuts, 0, len(curves), (width, height)))


def min_sides(curves: Sequence[ShapeCurve], width: int, height: int) -> tuple[int, int]:
    """The least width on which blocks fit below `height`, and the least height for `width`: one of both is enough.

    For blocks that do not fit the mesh; each of them alone does.
    """
    room = len(curves)
    # As many meshes beside each other as there are blocks are always wide enough.
    wider = [np.concatenate([c, np.full(width * (room - 1), c[-1], np.int16)]) for c in curves]
    wide = IntervalCurves(wider, width * room, height, room).least_width(0, room)
    high = IntervalCurves(curves, width, height * room, room).curve(0, room)[-1]
    return wide, int(high)


class IntervalCurves:
    """The curve of each interval of at most `longest` blocks, and its inverse. Blocks `start` to `stop` - 1."""

    def __init__(self, curves: Sequence[ShapeCurve], width: int, height: int, longest: int):
        n = len(curves)
        self.width, self.height = width, height
        # By size and start.
        self.heights = np.full((longest, n, width), INFEASIBLE, np.int16)
        self.widths = np.full((longest, n, height), INFEASIBLE, np.int16)
        # Layers repeat: an interval of the same blocks in the same order has the same curve, wherever it stands.
        kinds: dict[bytes, int] = {}
        line = [kinds.setdefault(curve.tobytes(), len(kinds)) for curve in curves]
        equal: dict[tuple[int, ...], int] = {}
        for size in range(1, min(longest, n) + 1):
            for start in range(n - size + 1):
                one = equal.setdefault(tuple(line[start : start + size]), start)
                curve = self.heights[size - 1, one] if one < start else self._curve(start, start + size, curves)
                self.heights[size - 1, start] = curve
                if one < start:
                    self.widths[size - 1, start] = self.widths[size - 1, one]
                else:
                    self.widths[size - 1, start] = inverse_curve(curve, height)

    def curve(self, start: int, stop: int) -> ShapeCurve:
        """The least height of an interval for each width."""
        curve: ShapeCurve = self.heights[stop - start - 1, start]
        return curve

    def least_width(self, start: int, stop: int) -> int:
        """The least width of an interval below the height of the mesh."""
        return int(self.widths[stop - start - 1, start, -1])

    def _curve(self, start: int, stop: int, curves: Sequence[ShapeCurve]) -> ShapeCurve:
        if stop - start == 1:
            return curves[start]
        # Every place at which the interval can be cut, in both directions: the least over all of them, width by width,
        # is as good as any tree can be, for a part never gains from being larger than its least height.
        one, other = self._parts(start, stop)
        above = (self.heights[one] + self.heights[other]).min(axis=0)
        beside = (self.widths[one] + self.widths[other]).min(axis=0)
        curve: ShapeCurve = np.minimum(above, inverse_curve(beside, self.width))
        # Sums of two such entries have to fit 16 bits again.
        curve[curve > self.height] = INFEASIBLE
        return curve

    @staticmethod
    def _parts(start: int, stop: int) -> tuple[tuple[NDArray[np.intp], ...], tuple[NDArray[np.intp], ...]]:
        """Where the two parts of an interval lie in the tables, for each place at which it can be cut."""
        before = np.arange(1, stop - start)
        return (before - 1, np.full_like(before, start)), (stop - start - before - 1, start + before)

    def cut(self, cuts: SlicingTreeBuilder, start: int, stop: int, size: tuple[int, int]) -> int:
        """Adds the cuts of an interval on a part of that size. Returns the node."""
        if stop - start == 1:
            return start
        (width, height), parts = size, self._parts(start, stop)
        above = sum(self.heights[(*part, width - 1)].astype(np.int64) for part in parts)
        beside = sum(self.widths[(*part, height - 1)].astype(np.int64) for part in parts)
        # The cut that leaves the largest share of its side free is the one whose parts are the easiest to cut.
        if (height - np.min(above)) * width >= (width - np.min(beside)) * height:
            middle = start + 1 + _middle_minimum(np.asarray(above))
            at = int(self.curve(start, middle)[width - 1])
            one, other, direction = (width, at), (width, height - at), HORIZONTAL_CUT
        else:
            middle = start + 1 + _middle_minimum(np.asarray(beside))
            at = int(self.widths[middle - start - 1, start, height - 1])
            one, other, direction = (at, height), (width - at, height), VERTICAL_CUT
        return cuts.add(direction, self.cut(cuts, start, middle, one), self.cut(cuts, middle, stop, other))


def _middle_minimum(sums: NDArray[np.int64]) -> int:
    """The position of the least sum; of equal ones that nearest to the middle."""
    ties = np.flatnonzero(sums == sums.min())
    return int(ties[np.argmin(np.abs(2 * ties - len(sums) + 1))])


def fits_mesh(tree: SlicingTree, curves: Sequence[ShapeCurve], width: int, height: int) -> bool:
    """Whether a tree of blocks stands on a mesh."""
    return bool(_node_curves(tree, curves, width, height)[0][tree.root][-1] <= height)


def _node_curves(
    tree: SlicingTree, curves: Sequence[ShapeCurve], width: int, height: int
) -> tuple[dict[int, ShapeCurve], dict[int, ShapeCurve]]:
    """The least heights and the least widths of all nodes."""
    n = tree.blocks
    heights: dict[int, ShapeCurve] = {i: curve[:width] for i, curve in enumerate(curves)}
    widths: dict[int, ShapeCurve] = {i: inverse_curve(curve, height) for i, curve in heights.items()}
    for node in _cuts_bottom_up(tree):
        one, other = tree.first[node - n], tree.second[node - n]
        if tree.cuts[node - n] == HORIZONTAL_CUT:
            curve = heights[one] + heights[other]
        else:
            curve = inverse_curve(widths[one] + widths[other], width)
        heights[node] = np.where(curve > height, INFEASIBLE, curve).astype(np.int16)
        widths[node] = inverse_curve(heights[node], height)
    return heights, widths


def place_blocks(tree: SlicingTree, curves: Sequence[ShapeCurve], width: int, height: int) -> tuple[Rect, ...]:
    """Where the blocks of a tree lie on the mesh, each as large as its curve asks for, in the middle of its part."""
    return _place_tree(tree, *_node_curves(tree, curves, width, height), width, height)


def pack_blocks(tree: SlicingTree, curves: Sequence[ShapeCurve], width: int, height: int) -> tuple[Rect, ...]:
    """The same in a corner of the mesh, as low as its width allows and then as narrow: what is over lengthens ways."""
    heights, widths = _node_curves(tree, curves, width, height)
    low = int(heights[tree.root][width - 1])
    return _place_tree(tree, heights, widths, int(widths[tree.root][low - 1]), low)


def _place_tree(
    tree: SlicingTree, heights: Mapping[int, ShapeCurve], widths: Mapping[int, ShapeCurve], width: int, height: int
) -> tuple[Rect, ...]:
    n = tree.blocks
    places: list[Rect | None] = [None] * n
    # From the root down: the first part is as large as it has to be, and the second has what is left.
    todo = [(tree.root, 0, 0, width, height)]
    while todo:
        node, x, y, w, h = todo.pop()
        if node < n:
            high = int(heights[node][w - 1])
            wide = int(widths[node][high - 1])
            places[node] = Rect(x + (w - wide) // 2, y + (h - high) // 2, wide, high)
            continue
        one, other = tree.first[node - n], tree.second[node - n]
        if tree.cuts[node - n] == HORIZONTAL_CUT:
            at = int(heights[one][w - 1])
            todo += [(one, x, y, w, at), (other, x, y + at, w, h - at)]
        else:
            at = int(widths[one][h - 1])
            todo += [(one, x, y, at, h), (other, x + at, y, w - at, h)]
    return tuple(p for p in places if p is not None)


def _cuts_bottom_up(tree: SlicingTree) -> Sequence[int]:
    """The cuts of a tree, each after its parts."""
    n, order, todo = tree.blocks, [], [tree.root]
    while todo:
        node = todo.pop()
        if node >= n:
            order.append(node)
            todo += [tree.first[node - n], tree.second[node - n]]
    return order[::-1]
