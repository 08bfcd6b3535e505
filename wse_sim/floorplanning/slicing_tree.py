"""Slicing trees: floorplans made by cutting a rectangle in two repeatedly, until each part is one block.

`find_ordered_tree` finds the tree of least height for a width among all that keep the order of the blocks. It uses
dynamic programming over intervals of blocks. Sources: shape curves by Otten and by Stockmeyer; the search over ordered
trees is our own derivation.
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
    """A slicing tree of n blocks. Nodes 0 to n - 1 are the blocks, and nodes n to 2 n - 2 are the cuts.

    - `cuts`: direction of each cut
    - `first`, `second`: nodes left and right of a vertical cut, or above and below a horizontal one
    - `root`: the node of the whole mesh
    """

    cuts: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    root: int

    @property
    def blocks(self) -> int:
        """Return the number of blocks."""
        return len(self.cuts) + 1


def rename_blocks(tree: SlicingTree, names: Sequence[int]) -> SlicingTree:
    """Return the tree with block `names[i]` in place of block i. The numbers of cuts stay."""
    full = (*names, *range(tree.blocks, 2 * tree.blocks - 1))
    first, second = (tuple(full[n] for n in side) for side in (tree.first, tree.second))
    return SlicingTree(tree.cuts, first, second, full[tree.root])


class SlicingTreeBuilder:
    """The cuts of a slicing tree under construction."""

    def __init__(self, blocks: int):
        self.blocks = blocks
        self.cuts: list[int] = []
        self.first: list[int] = []
        self.second: list[int] = []

    def add(self, cut: int, one: int, other: int) -> int:
        """Add a cut of direction `cut` between the nodes `one` (first part) and `other`, and return its node."""
        self.cuts.append(cut)
        self.first.append(one)
        self.second.append(other)
        return self.blocks + len(self.cuts) - 1

    def chain(self, cut: int, nodes: Sequence[int]) -> int:
        """Join nodes in order by a balanced tree of cuts in one direction, and return its root.

        A single node is its root. `nodes` must not be empty.
        """
        if len(nodes) == 1:
            return nodes[0]
        middle = len(nodes) // 2
        return self.add(cut, self.chain(cut, nodes[:middle]), self.chain(cut, nodes[middle:]))

    def tree(self, root: int) -> SlicingTree:
        """Return the slicing tree with the given root."""
        return SlicingTree(tuple(self.cuts), tuple(self.first), tuple(self.second), root)


def find_ordered_tree(curves: Sequence[ShapeCurve], width: int, height: int) -> SlicingTree | None:
    """Return a slicing tree that keeps the order of the blocks and fits on the mesh, or None if there is none.

    `curves` have the least height of each block for each width up to `width`.
    """
    # Avoid building the table if the total area is too large.
    if sum(map(min_curve_area, curves)) > width * height:
        return None
    table = IntervalCurves(curves, width, height, len(curves))
    if table.curve(0, len(curves))[-1] > height:
        return None
    cuts = SlicingTreeBuilder(len(curves))
    return cuts.tree(table.cut(cuts, 0, len(curves), (width, height)))


def min_sides(curves: Sequence[ShapeCurve], width: int, height: int) -> tuple[int, int]:
    """Return the least width at which the blocks fit on `height`, and the least height at which they fit on `width`.

    The blocks keep their order in a slicing tree. Each block has to fit on the mesh alone.
    """
    room = len(curves)
    # One mesh width per block is always enough.
    wider = [np.concatenate([c, np.full(width * (room - 1), c[-1], np.int16)]) for c in curves]
    wide = IntervalCurves(wider, width * room, height, room).least_width(0, room)
    high = IntervalCurves(curves, width, height * room, room).curve(0, room)[-1]
    return wide, int(high)


class IntervalCurves:
    """The shape curves of all intervals of at most `longest` successive blocks, and the inverses of these curves.

    An interval contains the blocks `start` to `stop` - 1. `heights` [longest, n, width] and `widths` [longest, n,
    height] are indexed by size - 1 and start.
    """

    def __init__(self, curves: Sequence[ShapeCurve], width: int, height: int, longest: int):
        n = len(curves)
        self.width, self.height = width, height
        self.heights = np.full((longest, n, width), INFEASIBLE, np.int16)
        self.widths = np.full((longest, n, height), INFEASIBLE, np.int16)
        # Layers repeat, and intervals of equal blocks in equal order have equal curves.
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
        """Return the curve of the blocks `start` to `stop` - 1: the least height for each width."""
        curve: ShapeCurve = self.heights[stop - start - 1, start]
        return curve

    def least_width(self, start: int, stop: int) -> int:
        """Return the least width on which the blocks `start` to `stop` - 1 fit on the height of the mesh."""
        return int(self.widths[stop - start - 1, start, -1])

    def _curve(self, start: int, stop: int, curves: Sequence[ShapeCurve]) -> ShapeCurve:
        """Return the curve of an interval: its least height for each width in any slicing tree that keeps the order.

        It is the minimum over all positions and directions of its first cut. Heights above that of the mesh are
        `INFEASIBLE`.
        """
        if stop - start == 1:
            return curves[start]
        # Take the minimum over all cut positions in both directions. This is optimal for each width, because a part
        # never gains from being larger than its least height.
        one, other = self._parts(start, stop)
        above = (self.heights[one] + self.heights[other]).min(axis=0)
        beside = (self.widths[one] + self.widths[other]).min(axis=0)
        curve: ShapeCurve = np.minimum(above, inverse_curve(beside, self.width))
        # Sums of two entries have to fit in 16 bits again.
        curve[curve > self.height] = INFEASIBLE
        return curve

    @staticmethod
    def _parts(start: int, stop: int) -> tuple[tuple[NDArray[np.intp], ...], tuple[NDArray[np.intp], ...]]:
        """Return the table indices of the first and of the second parts of an interval, for each position of a cut.

        Each is a pair of arrays (number of blocks - 1, first block). The interval is `start` to `stop` - 1, and cuts
        are in ascending order.
        """
        before = np.arange(1, stop - start)
        return (before - 1, np.full_like(before, start)), (stop - start - before - 1, start + before)

    def cut(self, cuts: SlicingTreeBuilder, start: int, stop: int, size: tuple[int, int]) -> int:
        """Add the cuts of an interval on a part of `size` (width, height), and return its node.

        The interval has to fit there. The first cut has the direction that leaves more space and, of equal positions,
        the middle one.
        """
        if stop - start == 1:
            return start
        (width, height), parts = size, self._parts(start, stop)
        above = sum(self.heights[(*part, width - 1)].astype(np.int64) for part in parts)
        beside = sum(self.widths[(*part, height - 1)].astype(np.int64) for part in parts)
        # Prefer the cut that leaves more of its side free: its parts are easier to cut.
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
    """Return the index of the least sum; of equal sums, the one nearest to the middle, and the first of two such."""
    ties = np.flatnonzero(sums == sums.min())
    return int(ties[np.argmin(np.abs(2 * ties - len(sums) + 1))])


def fits_mesh(tree: SlicingTree, curves: Sequence[ShapeCurve], width: int, height: int) -> bool:
    """Return whether the blocks of a slicing tree, with these shape curves, fit on a `width` x `height` mesh."""
    return bool(_node_curves(tree, curves, width, height)[0][tree.root][-1] <= height)


def _node_curves(
    tree: SlicingTree, curves: Sequence[ShapeCurve], width: int, height: int
) -> tuple[dict[int, ShapeCurve], dict[int, ShapeCurve]]:
    """Return two mappings from each node to its curve (least heights), and to its inverse curve (least widths).

    Entries beyond the mesh are `INFEASIBLE`.
    """
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
    """Return the rectangle of each block. A block has its least size and is centred in its part of the mesh."""
    return _place_tree(tree, *_node_curves(tree, curves, width, height), width, height)


def pack_blocks(tree: SlicingTree, curves: Sequence[ShapeCurve], width: int, height: int) -> tuple[Rect, ...]:
    """Return the rectangle of each block, with the whole tree packed into a corner of the mesh.

    The tree gets its least height at the width of the mesh, and then its least width at that height, because unused
    area would lengthen the wires. It has to fit on the mesh.
    """
    heights, widths = _node_curves(tree, curves, width, height)
    low = int(heights[tree.root][width - 1])
    return _place_tree(tree, heights, widths, int(widths[tree.root][low - 1]), low)


def _place_tree(
    tree: SlicingTree, heights: Mapping[int, ShapeCurve], widths: Mapping[int, ShapeCurve], width: int, height: int
) -> tuple[Rect, ...]:
    """Return the rectangle of each block, by number, if the tree is cut from a `width` x `height` rectangle.

    A block has its least height for the width of its part, and then its least width, and is centred there.
    """
    n = tree.blocks
    places: list[Rect | None] = [None] * n
    # From the root down, the first part gets its least size and the second one gets the remainder.
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
    """Return the nodes of the cuts of a tree, each after its parts."""
    n, order, todo = tree.blocks, [], [tree.root]
    while todo:
        node = todo.pop()
        if node >= n:
            order.append(node)
            todo += [tree.first[node - n], tree.second[node - n]]
    return order[::-1]
