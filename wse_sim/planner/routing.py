"""Routes between stages: their length, their load on links, and their colours.

A route leaves the source rectangle along its rows and enters the target rectangle along its columns. It has one turn,
so it is a shortest path. It has as many lanes as the larger of both numbers, each with an equal share of the bytes.
Each lane runs from the middle column of its row to the lane's column, and along that to the middle row. Rows that come
first on the way turn last, so lanes do not cross. All routes that share a link add to its load for each sample, and the
fullest link bounds the rhythm. `tests/wse_sim/planner/test_routing.py` runs lanes on the fabric and counts the words on
each link.

If the numbers of rows and columns differ, there is an *adapter* of one core for each lane where lanes turn. As in
`wse_sim.pipeline`, such a port buffers its part of a sample and redistributes it from one layout to the other.

A route uses one colour on all routers that it passes. It takes the first colour that is free on all of them. Kernels
use the highest colours on every router of their rectangle, as counted by `cost_model/colours.py`. A route turns the
other way if no colour is free, or if it would load a link more than any single route has to. If some routes still have
no colour, `route_colouring` assigns colours to all of them.
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
    """Raised if there are not enough colours.

    `share` is the share of all routes without a colour, 0 if a single kernel needs too many.
    """

    share: float = 0.0


@dataclass(frozen=True)
class RouteLink:
    """The link that leaves core (`x`, `y`) in a direction, and the bytes of all routes on it for each sample."""

    x: int
    y: int
    direction: str
    bytes: float


NO_LINK = RouteLink(0, 0, "", 0.0)


@dataclass(frozen=True)
class StageColours:
    """Colours that a stage uses on its rectangle.

    `own` is the number for its internal routes, which is that of `kernel`, the kernel with the most. `flow` is the
    number for its inputs and outputs. Kernels run in turn, but inputs and outputs overlap with them.
    """

    kernel: str = ""
    own: int = 0
    flow: int = 0

    @property
    def count(self) -> int:
        """Return `own` plus `flow`."""
        return self.own + self.flow


@dataclass(frozen=True)
class Route:
    """A route between two stages on a floorplan.

    - `source`, `target`: indices of the stages
    - `sample_bytes`: bytes for each sample
    - `hops`: distance from centre to centre
    - `lanes`: number of lanes
    - `ports`: cores of its adapter, 0 if it needs none
    - `colour`: its colour or `NO_COLOUR`
    - `is_row_first`: whether it leaves along rows and enters along columns
    - `link`: the fullest link on its way
    - `full`: without a colour, the core on its way where most colours are in use
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
        """Return its lanes on the given rectangles of all stages, as `route_lanes` does."""
        return route_lanes(rects[self.source], rects[self.target], self.is_row_first)

    @property
    def port_words(self) -> int:
        """Return the words of a sample that each port of its adapter receives and sends; 0 without an adapter."""
        return ceil_div(ceil_div(self.sample_bytes, _WORD_BYTES), self.ports) if self.ports else 0


@dataclass(frozen=True)
class Routes:
    """All routes of a floorplan.

    - `routes`: the routes
    - `link_bytes`: bytes for each sample on the fullest link
    - `fullest`: the route with the most bytes among those on that link
    - `router_colours`: colours of routes and kernels on the fullest router
    - `core_bytes`: [height, width], the load of the fullest of the four links that leave each core
    """

    routes: tuple[Route, ...]
    link_bytes: float = 0.0
    fullest: Route | None = None
    router_colours: int = 0
    core_bytes: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)), compare=False, repr=False)

    @property
    def colours(self) -> int:
        """Return the number of colours of all routes together: the highest colour plus 1, or 0 without routes."""
        return max((route.colour + 1 for route in self.routes), default=0)


def stage_flows(dataflow: Dataflow, stages: Sequence[Stage]) -> Mapping[tuple[int, int], int]:
    """Return (source stage, target stage) -> bytes for each sample, activations and gradients.

    A tensor is counted once for each target stage, however many of its kernels read it. Batch tensors and tensors
    without rows for each sample are left out.
    """
    number = {i: n for n, stage in enumerate(stages) for layer in stage.layers for i in layer.every_kernel}
    between: dict[tuple[int, int], int] = {}
    for (buffer, source), users in dataflow.users.items():
        if source == EXTERNAL_SOURCE or buffer not in dataflow.per_sample:
            continue
        # A tensor is sent to a stage once, even if several of its kernels read it.
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
    """Return the routes for all `flows` between stages on the rectangles `rects`, in the order of `flows`.

    `flows` maps (source stage, target stage) to bytes for each sample. `stage_colours` are in use on the rectangles.
    Routes are laid one after the other. If one finds no colour, all are laid again with the colours that a search
    finds. A route that still has none has `NO_COLOUR`; see `require_colours`. Without `flows` the result has no routes.
    """
    most = max((colours.count for colours in stage_colours), default=0)
    if not flows:
        return Routes((), router_colours=most)
    alone = max(
        size / max(_min_end_lines(rects[n], rects[m], is_row) for is_row in (True, False))
        for (n, m), size in flows.items()
    )
    mesh = _MeshLoads(machine, alone)
    # Mark the colours of kernels first: they are in use on the whole rectangle.
    for rect, colours in zip(rects, stage_colours, strict=False):
        mesh.take(rect, colours.count)
    kernels = mesh.taken.copy()
    laid = {ends: mesh.lay(ends, size, rects) for ends, size in flows.items()}
    if any(route.colour == NO_COLOUR for route in laid.values()):
        mesh = _recolour_routes(flows, rects, mesh, kernels, laid)
    # Determine the fullest links after all routes have been added.
    routes = tuple(mesh.with_link(laid[ends], rects) for ends in flows)
    return Routes(
        routes,
        link_bytes=float(mesh.loads.max()),
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
    """Lay all routes again with the directions and colours that a search finds; return the new loads of the mesh.

    Each route is row-first or column-first. Those without a colour are row-first and laid last. `kernels` [y, x] has
    bit masks of the colours that kernels use; the colours of routes are added to it. Replaces the entries of `laid`;
    `mesh` is unchanged.
    """
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
    # Lay routes without a colour last, so that `full` refers to the final colours.
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
    """Raise NoColoursError if a stage needs more colours than the machine has, or if a route has `NO_COLOUR`.

    A stage needs colours for its largest kernel and for its inputs and outputs. Stages are checked first. The message
    names the stage, or the first such route and the core with the most colours in use on its way. The `share` of the
    error is the share of routes without a colour, 0 for a stage.
    """
    has = f"{machine.name} has {int(machine.colours)} colours"
    for stage, rect, colours in zip(stages, rects, stage_colours, strict=False):
        if colours.count > machine.colours:
            raise NoColoursError(
                f"{_colour_demand_text(stage, colours)} on every router from ({rect.x}, {rect.y}) on; {has}",
                where=stage.where,
                hint="Use weight-streaming mode, or another batch size, which changes the layout of the kernel.",
            )
    for route in routes.routes:
        # Report the first route without a colour.
        if route.colour == NO_COLOUR:
            ends = f"{stages[route.source].name} to {stages[route.target].name}"
            x, y = route.full
            at = (n for n, rect in enumerate(rects) if rect.overlaps(Rect(x, y, 1, 1)) and n < len(stage_colours))
            whose = next((f", where {_colour_demand_text(stages[n], stage_colours[n])}" for n in at), "")
            error = NoColoursError(
                f"no colour is free on the whole route from {ends}; {has}. Most of them are in use at core "
                f"({x}, {y}){whose}",
                where=stages[route.source].where,
                hint="Use weight-streaming mode, or fewer tensors that skip layers.",
            )
            error.share = sum(r.colour == NO_COLOUR for r in routes.routes) / len(routes.routes)
            raise error


def _colour_demand_text(stage: Stage, colours: StageColours) -> str:
    """Return a text with the colours of a stage: of its most demanding kernel and of its inputs and outputs, if any."""
    # Name the kernel, which the user can change; the flow is the same for every kernel.
    own = f"{colours.kernel} of {stage.name} needs {colours.own} colours"
    return f"{own}, and its inputs and outputs {colours.flow}," if colours.flow else own


@dataclass(frozen=True)
class LaneRun:
    """A straight run of a lane: from core `start` to core `end` of row `line` if `is_row`, else of that column."""

    is_row: bool
    line: int
    start: int
    end: int

    def links(self) -> tuple[int, int | slice, int | slice]:
        """Return an index [direction, y, x] of the links on the run: those that leave all its cores but the last.

        It selects nothing if `start` equals `end`.
        """
        is_up = self.end > self.start
        along = slice(self.start, self.end) if is_up else slice(self.end + 1, self.start + 1)
        if self.is_row:
            return EAST_LINK if is_up else WEST_LINK, self.line, along
        return SOUTH_LINK if is_up else NORTH_LINK, along, self.line


def route_lanes(one: Rect, other: Rect, is_row_first: bool = True) -> Iterator[tuple[LaneRun, LaneRun]]:
    """Yield the lanes of a route from rectangle `one` to rectangle `other`, each as two straight runs.

    If `is_row_first`, a lane follows a row of `one` and then a column of `other`, else a column and then a row. It runs
    from the middle of `one` to the middle of `other`. There are as many lanes as the larger of the two numbers of
    lines.
    """
    first, second = _make_legs(one, other, is_row_first)
    return zip(first.runs(), second.runs(), strict=True)


@dataclass(frozen=True)
class _LegPatch:
    """The number of legs that pass each core of a rectangle of the mesh, or each link leaving these in one direction.

    - `is_row`: whether a line is a row, else a column
    - `line`, `along`: the first line, and the first position along the lines
    - `counts`: [lines, positions]
    """

    is_row: bool
    line: int
    along: int
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, is_row: bool, lines: LineNumbers, starts: LineNumbers, ends: LineNumbers) -> "_LegPatch":
        """Return the number of runs on each core of the smallest rectangle that contains all runs.

        Run i is on `lines[i]`, from position `starts[i]` to `ends[i]` (exclusive). Lines are rows if `is_row`, else
        columns.
        """
        line, along = int(lines.min()), int(starts.min())
        changes = np.zeros((int(lines.max()) - line + 1, int(ends.max()) - along + 1), np.int64)
        np.add.at(changes, (lines - line, starts - along), 1)
        np.add.at(changes, (lines - line, ends - along), -1)
        return cls(is_row, line, along, changes.cumsum(axis=1)[:, :-1])

    def on(self, grid: NDArray[Any]) -> NDArray[Any]:
        """Return a view of the part of `grid` [y, x] that the patch covers, with the axes of `counts`."""
        lines, along = self.counts.shape
        turned = grid if self.is_row else grid.T
        return turned[self.line : self.line + lines, self.along : self.along + along]


@dataclass(frozen=True)
class _RouteLegs:
    """The runs of all lanes of a route before the turn, or after it: line, start and end of each."""

    is_row: bool
    lines: LineNumbers
    starts: LineNumbers
    ends: LineNumbers

    def runs(self) -> Iterator[LaneRun]:
        """Yield a `LaneRun` for each lane."""
        for line, start, end in zip(self.lines.tolist(), self.starts.tolist(), self.ends.tolist(), strict=True):
            yield LaneRun(self.is_row, line, start, end)

    def cells(self) -> _LegPatch:
        """Return the number of runs that pass each core, ends included."""
        return _LegPatch.of(
            self.is_row, self.lines, np.minimum(self.starts, self.ends), np.maximum(self.starts, self.ends) + 1
        )

    def span(self) -> RowSpans:
        """Return the cores that any of the runs passes, as a range of columns for each row."""
        patch = self.cells()
        passed = patch.counts > 0 if self.is_row else (patch.counts > 0).T
        row, column = (patch.line, patch.along) if self.is_row else (patch.along, patch.line)
        # Lanes are adjacent, so the cores that they pass in a row have no gap.
        last = column + passed.shape[1] - 1 - passed[:, ::-1].argmax(axis=1)
        return RowSpans(row, column + passed.argmax(axis=1), np.where(passed.any(axis=1), last, -1))

    def links(self) -> Iterator[tuple[int, _LegPatch]]:
        """Yield (direction, number of runs on each link in this direction) for each direction in use."""
        up, down = self.ends > self.starts, self.ends < self.starts
        upward, downward = (EAST_LINK, WEST_LINK) if self.is_row else (SOUTH_LINK, NORTH_LINK)
        if up.any():
            yield upward, _LegPatch.of(self.is_row, self.lines[up], self.starts[up], self.ends[up])
        if down.any():
            yield downward, _LegPatch.of(self.is_row, self.lines[down], self.ends[down] + 1, self.starts[down] + 1)


def _make_legs(one: Rect, other: Rect, is_row_first: bool) -> tuple[_RouteLegs, _RouteLegs]:
    """Return the runs of all lanes of a route before the turn, and those after it, lane by lane.

    If `is_row_first`, a lane leaves along a row of `one` from its middle column, and enters along a column of `other`
    to its middle row; else with rows and columns exchanged. The number of lanes is the larger of the numbers of these
    rows and columns. If several lanes share a row or column, they are spread evenly. No two lanes cross.
    """
    (x, y), (to_x, to_y) = _centre(one), _centre(other)
    # If the numbers of lines differ, several lanes share a line.
    count = max(_end_line_counts(one, other, is_row_first))
    out, into = (np.arange(count) * lines // count for lines in _end_line_counts(one, other, is_row_first))
    if (to_x > x) == (to_y > y):
        # Lanes that come first on the way turn last, so that no lane crosses another.
        into = into[0] + into[-1] - into
    if is_row_first:
        rows, columns = one.y + out, other.x + into
        return _RouteLegs(True, rows, np.full(count, x), columns), _RouteLegs(
            False, columns, rows, np.full(count, to_y)
        )
    columns, rows = one.x + out, other.y + into
    return _RouteLegs(False, columns, np.full(count, y), rows), _RouteLegs(True, rows, columns, np.full(count, to_x))


def _min_end_lines(one: Rect, other: Rect, is_row_first: bool) -> int:
    """Return the smaller of both numbers of lines that share the bytes of a route."""
    return min(_end_line_counts(one, other, is_row_first))


def _end_line_counts(one: Rect, other: Rect, is_row_first: bool) -> tuple[int, int]:
    """Return the number of lines along which a route leaves `one`, and of those along which it enters `other`."""
    return (one.height, other.width) if is_row_first else (one.width, other.height)


class _MeshLoads:
    """The load of a mesh while routes are laid.

    - `enough`: bytes on a link above which a route tries its other way
    - `loads`: [direction, y, x], bytes on each link for each sample
    - `taken`: [y, x], colours in use on each router, as bits
    - `colours`: the number of colours of the machine
    """

    def __init__(self, machine: Machine, enough: float):
        self.enough = enough
        grid = machine.usable_height, machine.usable_width
        self.loads, self.taken = np.zeros((4, *grid)), np.zeros(grid, np.uint64)
        self.colours = int(machine.colours)

    def take(self, rect: Rect, count: int) -> None:
        """Mark the last `count` colours as in use on a rectangle, for its kernels. Mark all if there are fewer."""
        # Routes count up from colour 0, so kernels take colours from the other end.
        bits = np.uint64((1 << self.colours) - (1 << max(0, self.colours - count)))
        self.taken[rect.y : rect.y + rect.height, rect.x : rect.x + rect.width] |= bits

    def lay(self, ends: tuple[int, int], size: int, rects: Sequence[Rect]) -> Route:
        """Add a route of `size` bytes between the two stages `ends`, with the first free colour, and return it.

        The route is column-first only if that way has a free colour, and row-first has none or has more than `enough`
        bytes on a link and the higher load. If both have no free colour, the route is row-first without a colour.
        """
        one, other = (rects[n] for n in ends)
        is_row_first, legs = True, _make_legs(one, other, True)
        colour, load = self._free(legs), self._load(one, other, True, legs, size)
        # The other way uses different links and routers. Take it if the first way is too full or has no colour.
        if colour == NO_COLOUR or load > self.enough:
            turned = _make_legs(one, other, False)
            free = self._free(turned)
            is_emptier = load > self.enough and self._load(one, other, False, turned, size) < load
            if free != NO_COLOUR and (colour == NO_COLOUR or is_emptier):
                is_row_first, colour = False, free
        return self.put(ends, size, rects, is_row_first, colour)

    def put(self, ends: tuple[int, int], size: int, rects: Sequence[Rect], is_row_first: bool, colour: int) -> Route:
        """Add a route with the given turn and colour to `loads` and `taken`, and return it without `link`.

        Each lane carries an equal share of `size`. If `colour` is `NO_COLOUR`, `taken` is unchanged and the route's
        `full` is the core on its way with the most colours in use.
        """
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
        """Return the first colour that is free on all cores of a route, or NO_COLOUR.

        `legs` are its runs before and after the turn.
        """
        used = self.used(legs)
        return next((c for c in range(self.colours) if not used >> c & 1), NO_COLOUR)

    def used(self, legs: Sequence[_RouteLegs]) -> int:
        """Return the colours in use on any core of a route, as bits. `legs` are its runs before and after the turn."""
        used = 0
        # A router has one input for a colour, so a route needs a colour that is unused on its whole way.
        for patch in (own.cells() for own in legs):
            used |= int(np.bitwise_or.reduce(patch.on(self.taken)[patch.counts > 0]))
        return used

    def _load(self, one: Rect, other: Rect, is_row_first: bool, legs: Sequence[_RouteLegs], size: int) -> float:
        """Return an estimate of the bytes on the fullest link of a route if it were added with `size` bytes.

        For each of its `legs`, the runs before and after the turn, it adds an even share of the bytes to the fullest
        link. `loads` is unchanged.
        """
        # If there are fewer lines than lanes, lanes share them.
        shares = (size / count for count in _end_line_counts(one, other, is_row_first))
        return max(share + self._fullest_link([own]) for own, share in zip(legs, shares, strict=True))

    def _fullest(self, legs: Sequence[_RouteLegs]) -> tuple[int, int]:
        """Return column and row of the core on a route with the most colours in use, the first of equal ones."""
        is_passed = np.zeros(self.taken.shape, bool)
        for patch in (own.cells() for own in legs):
            patch.on(is_passed)[:] |= patch.counts > 0
        counts = np.where(is_passed, np.bitwise_count(self.taken), 0)
        y, x = np.unravel_index(int(counts.argmax()), counts.shape)
        return int(x), int(y)

    def with_link(self, route: Route, rects: Sequence[Rect]) -> Route:
        """Return the route with the fullest link on its way, the first one if several are equally full.

        A route without a hop is returned unchanged. Call it after all routes are laid.
        """
        legs = _make_legs(rects[route.source], rects[route.target], route.is_row_first)
        most = self._fullest_link(legs)
        for run in (run for lane in zip(*(own.runs() for own in legs), strict=True) for run in lane):
            line = self.loads[run.links()]
            # A lane may have no hop along its row or column.
            if line.size and line.max() == most:
                at = min(run.start, run.end) + int(line.argmax()) + (run.end < run.start)
                x, y = (at, run.line) if run.is_row else (run.line, at)
                return replace(route, link=RouteLink(x, y, LINK_DIRECTIONS[run.links()[0]], most))
        return route

    def _fullest_link(self, legs: Sequence[_RouteLegs]) -> float:
        """Return the bytes on the fullest link of a route, 0 without links.

        `legs` are its runs before and after the turn.
        """
        patches = [(direction, patch) for own in legs for direction, patch in own.links()]
        return max((float(patch.on(self.loads[d])[patch.counts > 0].max()) for d, patch in patches), default=0.0)


def _centre(rect: Rect) -> tuple[int, int]:
    return rect.x + rect.width // 2, rect.y + rect.height // 2
