"""Lines of PEs, and ways along them: which cells they are, and which of them may share a colour.

A router takes a colour from one side only. So two ways along a line may have the same colour only if they have no
router in common, and the fewest colours are as many as ways cross one router.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from wse_sim.fabric.mesh import EAST, NORTH, RAMP, SOUTH, WEST, Mesh
from wse_sim.layout import Rect

PositionPairs = Sequence[tuple[int, int]]
"""Positions of a sender and a receiver."""


@dataclass(frozen=True)
class PELines:
    """Equal lines of `length` PEs on `rect`, each cut from a row ("x") or a column ("y")."""

    rect: Rect
    axis: str
    groups: int = 1

    @property
    def length(self) -> int:
        """PEs of one line; those left over behind the last group belong to none."""
        return (self.rect.width if self.axis == "x" else self.rect.height) // self.groups

    @property
    def inward(self) -> int:
        """The direction of position 0."""
        return WEST if self.axis == "x" else NORTH

    @property
    def outward(self) -> int:
        """The direction away from position 0."""
        return EAST if self.axis == "x" else SOUTH

    def cells(self, positions: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
        """Columns and rows of these positions on every line, to index with."""
        starts = np.arange(self.groups) * self.length
        along = (starts[:, None] + np.asarray(list(positions), np.int64)).reshape(-1)
        if self.axis == "x":
            return self.rect.x + along[None, :], self.rect.y + np.arange(self.rect.height)[:, None]
        return self.rect.x + np.arange(self.rect.width)[None, :], self.rect.y + along[:, None]


def colour_paths(pairs: PositionPairs) -> list[int]:
    """A colour, from 0, for the way of each pair, as few as possible: the ways are intervals of routers."""
    colours = [0] * len(pairs)
    reached: list[int] = []
    # Greedy colouring of intervals by their left ends needs as many colours as overlap most, which is the least
    # possible.
    for way in sorted(range(len(pairs)), key=lambda n: min(pairs[n])):
        low, high = sorted(pairs[way])
        colour = next((c for c, end in enumerate(reached) if end < low), len(reached))
        # `reached[c]` is how far colour c is taken; the slice also appends a new colour.
        reached[colour:] = [high, *reached[colour + 1 :]]
        colours[way] = colour
    return colours


def route_paths(mesh: Mesh, lines: PELines, pairs: PositionPairs, colours: Sequence[int]) -> None:
    """Route the way of each pair on its colour, from ramp to ramp."""
    for colour in sorted(set(colours)):
        # Ways in both directions may share a colour, but a router's route names its source, so they are laid one after
        # the other.
        for is_outward in (True, False):
            here = [p for p, c in zip(pairs, colours, strict=True) if c == colour and (p[0] < p[1]) == is_outward]
            if here:
                _route_colour(mesh, lines, here, colour, is_outward)


def _route_colour(mesh: Mesh, lines: PELines, pairs: PositionPairs, colour: int, is_outward: bool) -> None:
    on, back = (lines.outward, lines.inward) if is_outward else (lines.inward, lines.outward)
    between = [k for i, j in pairs for k in range(min(i, j) + 1, max(i, j))]
    mesh.route(colour, *lines.cells(i for i, _ in pairs), RAMP, [on])
    mesh.route(colour, *lines.cells(j for _, j in pairs), back, [RAMP])
    if between:
        mesh.route(colour, *lines.cells(between), back, [on])
