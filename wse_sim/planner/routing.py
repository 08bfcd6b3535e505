"""Routes between stages: how far what they hand on travels, what it loads on each link, and how many colours it takes.

A route leaves its first rectangle along the rows of it and enters the second along its columns: one turn, no way is
shorter. It has as many lanes as the larger of both numbers, each with an equal share of the bytes: from the middle
column of its row to its own column, and along that to the middle row. The rows that lie first on the way turn last, so
that lanes do not cross. A link that several routes share passes all of them for each sample: the fullest bounds the
rhythm. `tests/wse_sim/planner/test_routing.py` runs lanes on the fabric and counts what passes each link.

Where rows and columns are not as many, an *adapter* stands where lanes turn, a core for each: as in `wse_sim.pipeline`
such a port holds its part of a sample, and makes the parts of one layer into those of the other.

A route has one colour on all routers that it passes, given first come, first served, of those that no other route takes
there. Kernels take the last colours of all on every router of their rectangle, as `cost_model/colours.py` counts them.
A route that finds none turns the other way, and so does one that would make a link pass more than any route has to.
Where some are without one then, `colouring` looks for colours for all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazytensor.errors import PlacementError
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.planner.dataflow import EXTERNAL_SOURCE, Dataflow
from wse_sim.planner.route_colouring import WAYS_PER_ROUTE, ColouredWay, RouteColouring, RowSpans, find_clashes
from wse_sim.planner.stages import Stage, sample_bytes

EAST_LINK, WEST_LINK, SOUTH_LINK, NORTH_LINK = range(4)
LINK_DIRECTIONS = ("east", "west", "south", "north")
NO_COLOUR = -1
LineNumbers = NDArray[np.int64]
_WORD_BYTES = 4


class NoColoursError(PlacementError):
    """Colours do not suffice. `share` of all routes find none; it is 0 if a kernel alone wants too many."""

    share: float = 0.0


@dataclass(frozen=True)
class RouteLink:
    """The link that leaves a core in a direction, and the bytes of all routes that pass it for each sample."""

    x: int
    y: int
    direction: str
    bytes: float


NO_LINK = RouteLink(0, 0, "", 0.0)


@dataclass(frozen=True)
class StageColours:
    """Colours that a stage takes on its rectangle: `own` of `kernel`, which takes most, and `flow` of all that passes.

    Its kernels run in turn; what comes in and goes out does so beside them.
    """

    kernel: str = ""
    own: int = 0
    flow: int = 0

    @property
    def count(self) -> int:
        """All of them."""
        return self.own + self.flow


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
    is_row_first: bool = True
    link: RouteLink = NO_LINK
    full: tuple[int, int] = (0, 0)

    def placed_lanes(self, rects: Sequence[Rect]) -> "Iterator[tuple[LaneRun, LaneRun]]":
        """Its lanes on a placement, as `route_lanes` has them."""
        return route_lanes(rects[self.source], rects[self.target], self.is_row_first)

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


def stage_flows(dataflow: Dataflow, stages: Sequence[Stage]) -> Mapping[tuple[int, int], int]:
    """Bytes for each sample from stage to stage, activations and gradients alike."""
    number = {i: n for n, stage in enumerate(stages) for layer in stage.layers for i in layer.every_kernel}
    between: dict[tuple[int, int], int] = {}
    for (buffer, source), users in dataflow.users.items():
        if source == EXTERNAL_SOURCE or buffer not in dataflow.per_sample:
            continue
        # However many kernels of a stage read a tensor, it is sent there once.
        for target in {number[i] for i in users} - {number[source]}:
            ends = number[source], target
            between[ends] = between.get(ends, 0) + sample_bytes(dataflow, buffer)
    return between


def lay_routes(
    flows: Mapping[tuple[int, int], int],
    rects: Sequence[Rect],
    machine: Machine,
    stage_colours: Sequence[StageColours] = (),
) -> Routes:
    """Lay the routes of all flows on a placement, where stages take `stage_colours`."""
    most = max((colours.count for colours in stage_colours), default=0)
    if not flows:
        return Routes((), router_colours=most)
    alone = max(
        size / max(_min_end_lines(rects[n], rects[m], is_row) for is_row in (True, False))
        for (n, m), size in flows.items()
    )
    mesh = _MeshLoads(machine, alone)
    # Kernels first: what they take is taken whatever passes over their rectangles.
    for rect, colours in zip(rects, stage_colours, strict=False):
        mesh.take(rect, colours.count)
    kernels = mesh.taken.copy()
    laid = {ends: mesh.lay(ends, size, rects) for ends, size in flows.items()}
    if any(route.colour == NO_COLOUR for route in laid.values()):
        mesh = _recolour_routes(flows, rects, mesh, kernels, laid)
    # Only now: a link is as full as all routes make it, those laid later too.
    routes = tuple(mesh.with_link(laid[ends], rects) for ends in flows)
    return Routes(
        routes,
        link_bytes=float(mesh.loads.max()),
        # Of routes that share it the largest has most of what passes there.
        fullest=max(routes, key=lambda r: (r.link.bytes, r.sample_bytes)),
        router_colours=max(most, int(np.bitwise_count(mesh.taken).max())),
        core_bytes=mesh.loads.max(axis=0),
    )


def _recolour_routes(
    flows: Mapping[tuple[int, int], int],
    rects: Sequence[Rect],
    mesh: "_MeshLoads",
    kernels: NDArray[np.uint64],
    laid: dict[tuple[int, int], Route],
) -> "_MeshLoads":
    """The mesh where `kernels` alone take colours, with all of `laid` anew, of which as many as possible have some."""
    anew = copy(mesh)
    anew.loads, anew.taken = np.zeros_like(mesh.loads), kernels
    ways = [(rects[n], rects[m], is_first) for n, m in flows for is_first in (True, False)]
    legs, narrow = [_make_legs(*way) for way in ways], [_min_end_lines(*way) for way in ways]
    sizes = (size for size in flows.values() for _ in range(WAYS_PER_ROUTE))
    colouring = RouteColouring(
        find_clashes([(one.span(), other.span()) for one, other in legs], len(kernels)),
        limits=[mesh.colours - anew.used(own).bit_count() for own in legs],
        is_heavy=[flow > mesh.enough * lines for flow, lines in zip(sizes, narrow, strict=True)],
        start=[None if r.colour == NO_COLOUR else ColouredWay(1 - r.is_row_first, r.colour) for r in laid.values()],
    )
    pairs = list(zip(flows.items(), colouring.search(), strict=True))
    # What goes without is laid last: it says where it finds the most colours taken.
    for (ends, size), choice in sorted(pairs, key=lambda pair: pair[1] is None):
        way, colour = choice or ColouredWay(0, NO_COLOUR)
        laid[ends] = anew.put(ends, size, rects, is_row_first=not way, colour=colour)
    return anew


def require_colours(
    routes: Routes,
    stages: Sequence[Stage],
    rects: Sequence[Rect],
    machine: Machine,
    stage_colours: Sequence[StageColours] = (),
) -> None:
    """Raise NoColoursError if kernels, or they and routes, want more colours than the machine has; it says where."""
    has = f"{machine.name} has {int(machine.colours)} colours"
    for stage, rect, colours in zip(stages, rects, stage_colours, strict=False):
        if colours.count > machine.colours:
            raise NoColoursError(
                f"{_colour_demand_text(stage, colours)} on every router from ({rect.x}, {rect.y}) on; {has}",
                where=stage.where,
                hint="Use weight-streaming mode, or another batch, for which the kernel is cut otherwise.",
            )
    for route in routes.routes:
        # The first is told: the others would have colours if it had another way.
        if route.colour == NO_COLOUR:
            ends = f"{stages[route.source].name} to {stages[route.target].name}"
            x, y = route.full
            at = (n for n, rect in enumerate(rects) if rect.overlaps(Rect(x, y, 1, 1)) and n < len(stage_colours))
            whose = next((f", where {_colour_demand_text(stages[n], stage_colours[n])}" for n in at), "")
            error = NoColoursError(
                f"the route from {ends} finds no colour that is free on its way; {has}. It is fullest at core "
                f"({x}, {y}){whose}",
                where=stages[route.source].where,
                hint="Use weight-streaming mode, or fewer tensors that skip layers.",
            )
            error.share = sum(r.colour == NO_COLOUR for r in routes.routes) / len(routes.routes)
            raise error


def _colour_demand_text(stage: Stage, colours: StageColours) -> str:
    # Which kernel it is tells a user what to change; the flow is as large whatever the kernel.
    own = f"{colours.kernel} of {stage.name} takes {colours.own} colours"
    return f"{own}, and what comes in and goes out {colours.flow}," if colours.flow else own


@dataclass(frozen=True)
class LaneRun:
    """Cores of a lane in one line, from `start` to `end`: along row `line`, or along that column."""

    is_row: bool
    line: int
    start: int
    end: int

    def links(self) -> tuple[int, int | slice, int | slice]:
        """The links that leave its cores but the last one, to index [direction, y, x] with."""
        is_up = self.end > self.start
        along = slice(self.start, self.end) if is_up else slice(self.end + 1, self.start + 1)
        if self.is_row:
            return EAST_LINK if is_up else WEST_LINK, self.line, along
        return SOUTH_LINK if is_up else NORTH_LINK, along, self.line


def route_lanes(one: Rect, other: Rect, is_row_first: bool = True) -> Iterator[tuple[LaneRun, LaneRun]]:
    """The lanes of a route: each along a row of the first rectangle, and then along a column of the second.

    Otherwise along a column of the first, and then along a row of the second.
    """
    first, second = _make_legs(one, other, is_row_first)
    return zip(first.runs(), second.runs(), strict=True)


@dataclass(frozen=True)
class _LegPatch:
    """How many legs pass each core of a rectangle of the mesh, or each of the links that leave them in a direction.

    `counts` [lines, along]; a line is a row if `is_row`, else a column.
    """

    is_row: bool
    line: int
    along: int
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, is_row: bool, lines: LineNumbers, starts: LineNumbers, ends: LineNumbers) -> "_LegPatch":
        """Of legs that pass what lies from `starts` to before `ends`."""
        line, along = int(lines.min()), int(starts.min())
        changes = np.zeros((int(lines.max()) - line + 1, int(ends.max()) - along + 1), np.int64)
        np.add.at(changes, (lines - line, starts - along), 1)
        np.add.at(changes, (lines - line, ends - along), -1)
        return cls(is_row, line, along, changes.cumsum(axis=1)[:, :-1])

    def on(self, grid: NDArray[Any]) -> NDArray[Any]:
        """What a grid [y, x] has there, as `counts` lie. A view."""
        lines, along = self.counts.shape
        turned = grid if self.is_row else grid.T
        return turned[self.line : self.line + lines, self.along : self.along + along]


@dataclass(frozen=True)
class _RouteLegs:
    """The runs of all lanes of a route before they turn, or behind."""

    is_row: bool
    lines: LineNumbers
    starts: LineNumbers
    ends: LineNumbers

    def runs(self) -> Iterator[LaneRun]:
        """One for each lane."""
        for line, start, end in zip(self.lines.tolist(), self.starts.tolist(), self.ends.tolist(), strict=True):
            yield LaneRun(self.is_row, line, start, end)

    def cells(self) -> _LegPatch:
        """All cores that they pass."""
        return _LegPatch.of(
            self.is_row, self.lines, np.minimum(self.starts, self.ends), np.maximum(self.starts, self.ends) + 1
        )

    def span(self) -> RowSpans:
        """The cores that they pass, row by row."""
        patch = self.cells()
        passed = patch.counts > 0 if self.is_row else (patch.counts > 0).T
        row, column = (patch.line, patch.along) if self.is_row else (patch.along, patch.line)
        # Lanes lie side by side: what they pass of a row has no gap.
        last = column + passed.shape[1] - 1 - passed[:, ::-1].argmax(axis=1)
        return RowSpans(row, column + passed.argmax(axis=1), np.where(passed.any(axis=1), last, -1))

    def links(self) -> Iterator[tuple[int, _LegPatch]]:
        """By direction, the links that leave their cores but the last one."""
        up, down = self.ends > self.starts, self.ends < self.starts
        upward, downward = (EAST_LINK, WEST_LINK) if self.is_row else (SOUTH_LINK, NORTH_LINK)
        if up.any():
            yield upward, _LegPatch.of(self.is_row, self.lines[up], self.starts[up], self.ends[up])
        if down.any():
            yield downward, _LegPatch.of(self.is_row, self.lines[down], self.ends[down] + 1, self.starts[down] + 1)


def _make_legs(one: Rect, other: Rect, is_row_first: bool) -> tuple[_RouteLegs, _RouteLegs]:
    (x, y), (to_x, to_y) = _centre(one), _centre(other)
    # Where there are more of the one than of the other, several lanes share a row, or a column.
    count = max(_end_line_counts(one, other, is_row_first))
    out, into = (np.arange(count) * lines // count for lines in _end_line_counts(one, other, is_row_first))
    if (to_x > x) == (to_y > y):
        # What comes first turns last, so that no lane crosses another.
        into = into[0] + into[-1] - into
    if is_row_first:
        rows, columns = one.y + out, other.x + into
        return _RouteLegs(True, rows, np.full(count, x), columns), _RouteLegs(
            False, columns, rows, np.full(count, to_y)
        )
    columns, rows = one.x + out, other.y + into
    return _RouteLegs(False, columns, np.full(count, y), rows), _RouteLegs(True, rows, columns, np.full(count, to_x))


def _min_end_lines(one: Rect, other: Rect, is_row_first: bool) -> int:
    """Lines at the end of a route where there are fewer: the least that share its bytes."""
    return min(_end_line_counts(one, other, is_row_first))


def _end_line_counts(one: Rect, other: Rect, is_row_first: bool) -> tuple[int, int]:
    """Lines that a route leaves the first rectangle along, and those along which it enters the second."""
    return (one.height, other.width) if is_row_first else (one.width, other.height)


class _MeshLoads:
    """What links and routers of a mesh carry: bytes for each sample, and the colours that are taken, a bit for each.

    Where the first way of a route makes a link pass more than `enough` bytes, it may go the other way.
    """

    def __init__(self, machine: Machine, enough: float):
        self.enough = enough
        grid = machine.usable_height, machine.usable_width
        self.loads, self.taken = np.zeros((4, *grid)), np.zeros(grid, np.uint64)
        self.colours = int(machine.colours)

    def take(self, rect: Rect, count: int) -> None:
        """Take the last colours on a rectangle, for its kernels."""
        # From the other end than routes, which count up: so both grow towards each other, and meet when it is full.
        bits = np.uint64((1 << self.colours) - (1 << max(0, self.colours - count)))
        self.taken[rect.y : rect.y + rect.height, rect.x : rect.x + rect.width] |= bits

    def lay(self, ends: tuple[int, int], size: int, rects: Sequence[Rect]) -> Route:
        """A route with the first colour that is free on its way."""
        one, other = (rects[n] for n in ends)
        is_row_first, legs = True, _make_legs(one, other, True)
        colour, load = self._free(legs), self._load(one, other, True, legs, size)
        # The other turn passes other links and routers: it is taken where the first way has too much to pass, or no
        # colour left.
        if colour == NO_COLOUR or load > self.enough:
            turned = _make_legs(one, other, False)
            free = self._free(turned)
            is_emptier = load > self.enough and self._load(one, other, False, turned, size) < load
            if free != NO_COLOUR and (colour == NO_COLOUR or is_emptier):
                is_row_first, colour = False, free
        return self.put(ends, size, rects, is_row_first, colour)

    def put(self, ends: tuple[int, int], size: int, rects: Sequence[Rect], is_row_first: bool, colour: int) -> Route:
        """A route that goes that way, with a colour or without one; what it loads is added up."""
        one, other = (rects[n] for n in ends)
        legs = _make_legs(one, other, is_row_first)
        lanes = len(legs[0].lines)
        for own in legs:
            for direction, patch in own.links():
                patch.on(self.loads[direction])[:] += patch.counts * size / lanes
            if colour != NO_COLOUR:
                patch = own.cells()
                patch.on(self.taken)[patch.counts > 0] |= np.uint64(1 << colour)
        (x, y), (to_x, to_y) = _centre(one), _centre(other)
        out, into = _end_line_counts(one, other, is_row_first)
        return Route(
            *ends,
            sample_bytes=size,
            hops=abs(x - to_x) + abs(y - to_y),
            lanes=lanes,
            ports=0 if out == into else lanes,
            colour=colour,
            is_row_first=is_row_first,
            full=self._fullest(legs) if colour == NO_COLOUR else (0, 0),
        )

    def _free(self, legs: Sequence[_RouteLegs]) -> int:
        """The first colour that is free on a way, or NO_COLOUR."""
        used = self.used(legs)
        return next((c for c in range(self.colours) if not used >> c & 1), NO_COLOUR)

    def used(self, legs: Sequence[_RouteLegs]) -> int:
        """The colours, a bit for each, that are taken on any core of a way."""
        used = 0
        # A router takes a colour from one side only: a route needs one that nobody else has on any core of its way.
        for patch in (own.cells() for own in legs):
            used |= int(np.bitwise_or.reduce(patch.on(self.taken)[patch.counts > 0]))
        return used

    def _load(self, one: Rect, other: Rect, is_row_first: bool, legs: Sequence[_RouteLegs], size: int) -> float:
        """Bytes on the fullest link of a way with those of a new route on it."""
        # Lanes that are more than the lines share them.
        shares = (size / count for count in _end_line_counts(one, other, is_row_first))
        return max(share + self._fullest_link([own]) for own, share in zip(legs, shares, strict=True))

    def _fullest(self, legs: Sequence[_RouteLegs]) -> tuple[int, int]:
        """Column and row of the core on a way where the most colours are taken."""
        is_passed = np.zeros(self.taken.shape, bool)
        for patch in (own.cells() for own in legs):
            patch.on(is_passed)[:] |= patch.counts > 0
        counts = np.where(is_passed, np.bitwise_count(self.taken), 0)
        y, x = np.unravel_index(int(counts.argmax()), counts.shape)
        return int(x), int(y)

    def with_link(self, route: Route, rects: Sequence[Rect]) -> Route:
        """The route with the fullest link on its way, when all are laid."""
        legs = _make_legs(rects[route.source], rects[route.target], route.is_row_first)
        most = self._fullest_link(legs)
        # Of equal ones that of the first lane.
        for run in (run for lane in zip(*(own.runs() for own in legs), strict=True) for run in lane):
            line = self.loads[run.links()]
            # A lane may have nothing to go along its row, or its column.
            if line.size and line.max() == most:
                at = min(run.start, run.end) + int(line.argmax()) + (run.end < run.start)
                x, y = (at, run.line) if run.is_row else (run.line, at)
                return replace(route, link=RouteLink(x, y, LINK_DIRECTIONS[run.links()[0]], most))
        return route

    def _fullest_link(self, legs: Sequence[_RouteLegs]) -> float:
        """Bytes on the fullest of the links that legs pass."""
        patches = [(direction, patch) for own in legs for direction, patch in own.links()]
        return max((float(patch.on(self.loads[d])[patch.counts > 0].max()) for d, patch in patches), default=0.0)


def _centre(rect: Rect) -> tuple[int, int]:
    return rect.x + rect.width // 2, rect.y + rect.height // 2
