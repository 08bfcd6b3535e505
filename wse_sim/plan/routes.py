"""Routes between stages: how far what they hand on travels, what it loads on each link, and how many colours it takes.

A route leaves its first rectangle with as many lanes as that has rows, goes along them to the columns of the second,
and along those to its rows: one turn, no way is shorter. Each lane has its share of the bytes. A link that several
routes share passes all of them for each sample, so that the fullest bounds the rhythm. A route has one colour on all
routers that it passes; two that meet on a router have different ones, given first come, first served.

The ports of `wse_sim.pipeline` are single cores, and its routes one lane: here streams enter over a whole side, as
kernels take their operands. The colours that kernels use within a rectangle are not counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lazytensor.errors import PlacementError
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.plan.stages import Stage, sample_bytes
from wse_sim.plan.wiring import OUTSIDE, Wiring

EAST, WEST, SOUTH, NORTH = range(4)


@dataclass(frozen=True)
class Route:
    """What one stage hands to another for each sample: over `hops` from centre to centre, with a colour."""

    source: int
    target: int
    sample_bytes: int
    hops: int
    colour: int


@dataclass(frozen=True)
class Routes:
    """All routes of a placement. `link_bytes` pass its fullest link for each sample, most of them of `fullest`.

    `core_bytes` [height, width] are what passes the fullest of the four links that leave each core.
    """

    routes: tuple[Route, ...]
    link_bytes: float = 0.0
    fullest: Route | None = None
    core_bytes: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)), compare=False, repr=False)

    @property
    def colours(self) -> int:
        """How many colours they take together."""
        return max((route.colour + 1 for route in self.routes), default=0)


def flows_between(wiring: Wiring, stages: Sequence[Stage]) -> Mapping[tuple[int, int], int]:
    """Bytes for each sample from stage to stage, activations and gradients alike."""
    number = {i: n for n, stage in enumerate(stages) for layer in stage.layers for i in layer.every_kernel}
    between: dict[tuple[int, int], int] = {}
    for (buffer, source), users in wiring.users.items():
        if source == OUTSIDE or buffer not in wiring.per_sample:
            continue
        # However many kernels of a stage read a tensor, it is sent there once.
        for target in {number[i] for i in users} - {number[source]}:
            ends = number[source], target
            between[ends] = between.get(ends, 0) + sample_bytes(wiring, buffer)
    return between


def routes_of(flows: Mapping[tuple[int, int], int], rects: Sequence[Rect], machine: Machine) -> Routes:
    """Lay the routes of all flows on a placement."""
    loads = np.zeros((4, machine.usable_height, machine.usable_width))
    routes: list[Route] = []
    passed: list[tuple[Rect, ...]] = []
    for (source, target), size in flows.items():
        one, other = rects[source], rects[target]
        for direction, band in _bands(one, other):
            # A lane is a row first, and then a column.
            lanes = band.height if direction in (EAST, WEST) else band.width
            loads[direction, band.y : band.y + band.height, band.x : band.x + band.width] += size / lanes
        own = tuple(band for _, band in _bands(one, other))
        used = {r.colour for r, bands in zip(routes, passed, strict=True) if _meet(own, bands)}
        colour = next(c for c in range(len(routes) + 1) if c not in used)
        (x, y), (to_x, to_y) = _centre(one), _centre(other)
        routes.append(Route(source, target, size, abs(x - to_x) + abs(y - to_y), colour))
        passed.append(own)
    if not routes:
        return Routes(())
    at = np.unravel_index(int(loads.argmax()), loads.shape)
    cell = Rect(int(at[2]), int(at[1]), 1, 1)
    through = [r for r, bands in zip(routes, passed, strict=True) if _meet((cell,), bands)]
    return Routes(tuple(routes), float(loads.max()), max(through, key=lambda r: r.sample_bytes), loads.max(axis=0))


def require_colours(routes: Routes, stages: Sequence[Stage], machine: Machine) -> None:
    """Raise PlacementError if a route finds no colour of the machine's that is free on its way."""
    for route in routes.routes:
        if route.colour >= machine.colours:
            ends = f"{stages[route.source].name} to {stages[route.target].name}"
            raise PlacementError(
                f"the route from {ends} meets others in all {machine.colours} colours of {machine.name}",
                where=stages[route.source].where,
                hint="Use weight-streaming mode, or fewer tensors that skip layers.",
            )


def _bands(one: Rect, other: Rect) -> Iterator[tuple[int, Rect]]:
    """The cores whose links a route loads: rows of the first, from centre to centre, then columns of the second."""
    (x, y), (to_x, to_y) = _centre(one), _centre(other)
    yield EAST if to_x > x else WEST, Rect(min(x, to_x), one.y, abs(x - to_x) + 1, one.height)
    yield SOUTH if to_y > y else NORTH, Rect(other.x, min(y, to_y), other.width, abs(y - to_y) + 1)


def _centre(rect: Rect) -> tuple[int, int]:
    return rect.x + rect.width // 2, rect.y + rect.height // 2


def _meet(one: Sequence[Rect], other: Sequence[Rect]) -> bool:
    return any(a.overlaps(b) for a in one for b in other)
