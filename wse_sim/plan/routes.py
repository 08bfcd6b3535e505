"""Routes between stages: how far what they hand on travels, what it loads on each link, and how many colours it takes.

A route leaves its first rectangle along the rows of it and enters the second along its columns: one turn, no way is
shorter. It has as many lanes as the larger of both numbers, each with an equal share of the bytes: from the middle
column of its row to its own column, and along that to the middle row. The rows that lie first on the way turn last, so
that lanes do not cross. A link that several routes share passes all of them for each sample: the fullest bounds the
rhythm. `tests/wse_sim/test_routes.py` runs lanes on the fabric and counts what passes each link.

Where rows and columns are not as many, an *adapter* stands where lanes turn, a core for each: as in `wse_sim.pipeline`
such a port holds its part of a sample, and makes the parts of one layer into those of the other.

A route has one colour on all routers that it passes, given first come, first served, of those that no other route takes
there. Kernels of a stage may be given the last colours of all on every router of its rectangle; plans give none yet.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lazytensor.errors import PlacementError
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.plan.stages import Stage, sample_bytes
from wse_sim.plan.wiring import OUTSIDE, Wiring

EAST, WEST, SOUTH, NORTH = range(4)
DIRECTIONS = ("east", "west", "south", "north")
NO_COLOUR = -1
_WORD_BYTES = 4


@dataclass(frozen=True)
class Link:
    """The link that leaves a core in a direction, and the bytes of all routes that pass it for each sample."""

    x: int
    y: int
    direction: str
    bytes: float


NO_LINK = Link(0, 0, "", 0.0)


@dataclass(frozen=True)
class Route:
    """What one stage hands to another for each sample: over `hops` from centre to centre, with a colour.

    `link` is the fullest on its way. Its adapter has `ports`, 0 where it needs none. Without a colour `full` is the
    core on its way where the most are taken.
    """

    source: int
    target: int
    sample_bytes: int
    hops: int
    lanes: int
    ports: int
    colour: int
    link: Link = NO_LINK
    full: tuple[int, int] = (0, 0)

    @property
    def port_words(self) -> int:
        """Words of a sample that a port of its adapter takes and gives."""
        return ceil_div(ceil_div(self.sample_bytes, _WORD_BYTES), self.ports) if self.ports else 0


@dataclass(frozen=True)
class Routes:
    """All routes of a placement. `link_bytes` pass its fullest link for each sample, most of them of `fullest`.

    `core_bytes` [height, width] are what passes the fullest of the four links that leave each core; `router_colours`
    are taken on the fullest router, by routes and kernels together.
    """

    routes: tuple[Route, ...]
    link_bytes: float = 0.0
    fullest: Route | None = None
    router_colours: int = 0
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


def routes_of(
    flows: Mapping[tuple[int, int], int], rects: Sequence[Rect], machine: Machine, kernel_colours: Sequence[int] = ()
) -> Routes:
    """Lay the routes of all flows on a placement, whose kernels take `kernel_colours` on the rectangle of each."""
    mesh = _Links(machine)
    # Kernels first: what they take is taken whatever passes over their rectangles.
    for rect, count in zip(rects, kernel_colours, strict=False):
        mesh.take(rect, count)
    laid = [mesh.lay(ends, size, rects) for ends, size in flows.items()]
    if not laid:
        return Routes((), router_colours=max(kernel_colours, default=0))
    # Only now: a link is as full as all routes make it, those laid later too.
    routes = tuple(mesh.with_link(route, rects) for route in laid)
    return Routes(
        routes,
        link_bytes=float(mesh.loads.max()),
        # Of routes that share it the largest has most of what passes there.
        fullest=max(routes, key=lambda r: (r.link.bytes, r.sample_bytes)),
        router_colours=int(np.bitwise_count(mesh.taken).max()),
        core_bytes=mesh.loads.max(axis=0),
    )


def require_colours(routes: Routes, stages: Sequence[Stage], rects: Sequence[Rect], machine: Machine) -> None:
    """Raise PlacementError if a route finds no colour of the machine's that is free on its way; it says where."""
    for route in routes.routes:
        # The first is told: the others would have colours if it had another way.
        if route.colour == NO_COLOUR:
            ends = f"{stages[route.source].name} to {stages[route.target].name}"
            x, y = route.full
            at = (s.name for s, r in zip(stages, rects, strict=True) if r.overlaps(Rect(x, y, 1, 1)))
            place = next((f" in the rectangle of {name}, whose kernels take some" for name in at), "")
            raise PlacementError(
                f"the route from {ends} finds none of the {int(machine.colours)} colours of {machine.name} free on its "
                f"way; it is fullest at core ({x}, {y}){place}",
                where=stages[route.source].where,
                hint="Use weight-streaming mode, or fewer tensors that skip layers.",
            )


@dataclass(frozen=True)
class Run:
    """Cores of a lane in one line, from `start` to `end`: along row `line`, or along that column."""

    is_row: bool
    line: int
    start: int
    end: int

    def cells(self) -> tuple[int | slice, int | slice]:
        """All its cores, to index [y, x] with."""
        along = slice(min(self.start, self.end), max(self.start, self.end) + 1)
        return (self.line, along) if self.is_row else (along, self.line)

    def links(self) -> tuple[int, int | slice, int | slice]:
        """The links that leave its cores but the last one, to index [direction, y, x] with."""
        is_up = self.end > self.start
        along = slice(self.start, self.end) if is_up else slice(self.end + 1, self.start + 1)
        if self.is_row:
            return EAST if is_up else WEST, self.line, along
        return SOUTH if is_up else NORTH, along, self.line


def lanes_of(one: Rect, other: Rect) -> Iterator[tuple[Run, Run]]:
    """The lanes of a route: each along a row of the first rectangle, and then along a column of the second."""
    (x, y), (to_x, to_y) = _centre(one), _centre(other)
    count = max(one.height, other.width)
    # What comes first turns last, so that no lane crosses another.
    is_mirrored = (to_x > x) == (to_y > y)
    # Where there are more of the one than of the other, several lanes share a row, or a column.
    for lane in range(count):
        row = one.y + lane * one.height // count
        place = lane * other.width // count
        column = other.x + (other.width - 1 - place if is_mirrored else place)
        yield Run(True, row, x, column), Run(False, column, row, to_y)


class _Links:
    """What links and routers of a mesh carry: bytes for each sample, and the colours that are taken, a bit for each."""

    def __init__(self, machine: Machine):
        grid = machine.usable_height, machine.usable_width
        self.loads, self.taken = np.zeros((4, *grid)), np.zeros(grid, np.uint64)
        self.colours = int(machine.colours)

    def take(self, rect: Rect, count: int) -> None:
        """Take the last colours on a rectangle, for its kernels."""
        # From the other end than routes, which count up: so both grow towards each other, and meet when it is full.
        bits = np.uint64((1 << self.colours) - (1 << max(0, self.colours - count)))
        self.taken[rect.y : rect.y + rect.height, rect.x : rect.x + rect.width] |= bits

    def lay(self, ends: tuple[int, int], size: int, rects: Sequence[Rect]) -> Route:
        """A route with the first colour that is free on its way; what it loads is added up."""
        one, other = (rects[n] for n in ends)
        lanes = list(lanes_of(one, other))
        # A router takes a colour from one side only: a route needs one that nobody else has on any core of its way.
        used = 0
        for run in (run for lane in lanes for run in lane):
            self.loads[run.links()] += size / len(lanes)
            used |= int(np.bitwise_or.reduce(self.taken[run.cells()]))
        colour = next((c for c in range(self.colours) if not used >> c & 1), NO_COLOUR)
        if colour != NO_COLOUR:
            for run in (run for lane in lanes for run in lane):
                self.taken[run.cells()] |= np.uint64(1 << colour)
        (x, y), (to_x, to_y) = _centre(one), _centre(other)
        return Route(
            *ends,
            sample_bytes=size,
            hops=abs(x - to_x) + abs(y - to_y),
            lanes=len(lanes),
            ports=0 if one.height == other.width else len(lanes),
            colour=colour,
            full=self._fullest(lanes) if colour == NO_COLOUR else (0, 0),
        )

    def _fullest(self, lanes: Sequence[tuple[Run, Run]]) -> tuple[int, int]:
        """Column and row of the core on these lanes where the most colours are taken."""
        is_passed = np.zeros(self.taken.shape, bool)
        for run in (run for lane in lanes for run in lane):
            is_passed[run.cells()] = True
        counts = np.where(is_passed, np.bitwise_count(self.taken), 0)
        y, x = np.unravel_index(int(counts.argmax()), counts.shape)
        return int(x), int(y)

    def with_link(self, route: Route, rects: Sequence[Rect]) -> Route:
        """The route with the fullest link on its way, when all are laid."""
        best = NO_LINK
        for run in (run for lane in lanes_of(rects[route.source], rects[route.target]) for run in lane):
            direction, *_ = run.links()
            line = self.loads[run.links()]
            # A lane may have nothing to go along its row, or its column.
            if line.size and line.max() > best.bytes:
                at = min(run.start, run.end) + int(line.argmax()) + (run.end < run.start)
                x, y = (at, run.line) if run.is_row else (run.line, at)
                best = Link(x, y, DIRECTIONS[direction], float(line.max()))
        return Route(**{**vars(route), "link": best})


def _centre(rect: Rect) -> tuple[int, int]:
    return rect.x + rect.width // 2, rect.y + rect.height // 2
