"""Lines of PEs, paths along them, and colours for these paths.

A router takes a colour from one side only. So two paths along a line may share a colour only if they have no router in
common, and the minimum number of colours is the largest number of paths over one router.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from wse_sim.fabric.mesh import EAST, NORTH, RAMP, SOUTH, WEST, Mesh
from wse_sim.layout import Rect

PositionPairs = Sequence[tuple[int, int]]
"""Pairs of the positions of a sender and a receiver on a line."""


@dataclass(frozen=True)
class PELines:
    """Equal lines of `length` PEs on `rect`, cut from its rows (`axis` "x") or columns ("y"), `groups` lines from
    each.
    """

    rect: Rect
    axis: str
    groups: int = 1

    @property
    def length(self) -> int:
        """PEs of one line; PEs that are left over after the last group belong to no line."""
        return (self.rect.width if self.axis == "x" else self.rect.height) // self.groups

    @property
    def inward(self) -> int:
        """The direction towards position 0."""
        return WEST if self.axis == "x" else NORTH

    @property
    def outward(self) -> int:
        """The direction away from position 0."""
        return EAST if self.axis == "x" else SOUTH

    def cells(self, positions: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return (columns, rows) of the given positions on every line, as NumPy index arrays that broadcast to all
        these PEs.

        They are [1, n] and [height, 1] for the axis "x", and [1, width] and [n, 1] for "y", where n counts the
        positions on all groups.
        """
        starts = np.arange(self.groups) * self.length
        along = (starts[:, None] + np.asarray(list(positions), np.int64)).reshape(-1)
        if self.axis == "x":
            return self.rect.x + along[None, :], self.rect.y + np.arange(self.rect.height)[:, None]
        return self.rect.x + np.arange(self.rect.width)[None, :], self.rect.y + along[:, None]


def colour_paths(pairs: PositionPairs) -> list[int]:
    """Return a colour, from 0, for the path of each pair (sender, receiver), in order, with the minimum number of
    colours.

    Paths that share a router, ends included, get different colours. Without pairs the list is empty.
    """
    colours = [0] * len(pairs)
    reached: list[int] = []
    # Greedy colouring of intervals by their left ends needs as many colours as intervals overlap, which is the minimum.
    for way in sorted(range(len(pairs)), key=lambda n: min(pairs[n])):
        low, high = sorted(pairs[way])
        colour = next((c for c, end in enumerate(reached) if end < low), len(reached))
        # `reached[c]` is the last position of colour c; the slice also appends a new colour.
        reached[colour:] = [high, *reached[colour + 1 :]]
        colours[way] = colour
    return colours


def route_paths(mesh: Mesh, lines: PELines, pairs: PositionPairs, colours: Sequence[int]) -> None:
    """Add routes to `mesh` for the path of each pair on its colour, from ramp to ramp, on all `lines`."""
    for colour in sorted(set(colours)):
        # Paths in both directions may share a colour, but a route names its source, so they are added one direction at
        # a time.
        for is_outward in (True, False):
            here = [p for p, c in zip(pairs, colours, strict=True) if c == colour and (p[0] < p[1]) == is_outward]
            if here:
                _route_colour(mesh, lines, here, colour, is_outward)


def _route_colour(mesh: Mesh, lines: PELines, pairs: PositionPairs, colour: int, is_outward: bool) -> None:
    """Add routes to `mesh` for paths of one colour and one direction.

    They go from the ramp to the link at senders, from the link to the ramp at receivers, and from link to link between.
    """
    on, back = (lines.outward, lines.inward) if is_outward else (lines.inward, lines.outward)
    between = [k for i, j in pairs for k in range(min(i, j) + 1, max(i, j))]
    mesh.route(colour, *lines.cells(i for i, _ in pairs), RAMP, [on])
    mesh.route(colour, *lines.cells(j for _, j in pairs), back, [RAMP])
    if between:
        mesh.route(colour, *lines.cells(between), back, [on])
