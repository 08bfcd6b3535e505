"""Routes between stages: how far what they hand on travels, what it loads on each link, and how many colours it takes.

A route leaves its first rectangle along the rows of it and enters the second along its columns: one turn, no way is
shorter. It has as many lanes as the larger of both numbers, each with an equal share of the bytes: from the middle
column of its row to its own column, and along that to the middle row. The rows that lie first on the way turn last, so
that lanes do not cross. A link that several routes share passes all of them for each sample: the fullest bounds the
rhythm. `tests/wse_sim/test_routes.py` runs lanes on the fabric and counts what passes each link.

Where rows and columns are not as many, an *adapter* stands where lanes turn, a core for each: as in `wse_sim.pipeline`
such a port holds its part of a sample, and makes the parts of one layer into those of the other.

A route has one colour on all routers that it passes, given first come, first served, of those that no other route takes
there. Kernels take the last colours of all on every router of their rectangle, as `price/colours.py` counts them.
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
from wse_sim.plan.colouring import WAYS, Choice, Colouring, Span, clashes_of
from wse_sim.plan.stages import Stage, sample_bytes
from wse_sim.plan.wiring import OUTSIDE, Wiring

EAST, WEST, SOUTH, NORTH = range(4)
DIRECTIONS = ("east", "west", "south", "north")
NO_COLOUR = -1
Lines = NDArray[np.int64]
_WORD_BYTES = 4


class NoColours(PlacementError):
    """Colours do not suffice. `share` of all routes find none; it is 0 if a kernel alone wants too many."""

    share: float = 0.0


@dataclass(frozen=True)
class Link:
    """The link that leaves a core in a direction, and the bytes of all routes that pass it for each sample."""

    x: int
    y: int
    direction: str
    bytes: float


NO_LINK = Link(0, 0, "", 0.0)


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
    link: Link = NO_LINK
    full: tuple[int, int] = (0, 0)

    def lanes_on(self, rects: Sequence[Rect]) -> "Iterator[tuple[Run, Run]]":
        """Its lanes on a placement, as `lanes_of` has them."""
        return lanes_of(rects[self.source], rects[self.target], self.is_row_first)

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
        size / max(_narrow(rects[n], rects[m], is_row) for is_row in (True, False)) for (n, m), size in flows.items()
    )
    mesh = _Links(machine, alone)
    # Kernels first: what they take is taken whatever passes over their rectangles.
    for rect, colours in zip(rects, stage_colours, strict=False):
        mesh.take(rect, colours.count)
    kernels = mesh.taken.copy()
    laid = {ends: mesh.lay(ends, size, rects) for ends, size in flows.items()}
    if any(route.colour == NO_COLOUR for route in laid.values()):
        mesh = _laid_anew(flows, rects, mesh, kernels, laid)
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


def _laid_anew(
    flows: Mapping[tuple[int, int], int],
    rects: Sequence[Rect],
    mesh: "_Links",
    kernels: NDArray[np.uint64],
    laid: dict[tuple[int, int], Route],
) -> "_Links":
    """The mesh where `kernels` alone take colours, with all of `laid` anew, of which as many as possible have some."""
    anew = copy(mesh)
    anew.loads, anew.taken = np.zeros_like(mesh.loads), kernels
    ways = [(rects[n], rects[m], is_first) for n, m in flows for is_first in (True, False)]
    legs, narrow = [_legs_of(*way) for way in ways], [_narrow(*way) for way in ways]
    sizes = (size for size in flows.values() for _ in range(WAYS))
    colouring = Colouring(
        clashes_of([(one.span(), other.span()) for one, other in legs], len(kernels)),
        limits=[mesh.colours - anew.used(own).bit_count() for own in legs],
        is_heavy=[flow > mesh.enough * lines for flow, lines in zip(sizes, narrow, strict=True)],
        start=[None if r.colour == NO_COLOUR else Choice(1 - r.is_row_first, r.colour) for r in laid.values()],
    )
    pairs = list(zip(flows.items(), colouring.search(), strict=True))
    # What goes without is laid last: it says where it finds the most colours taken.
    for (ends, size), choice in sorted(pairs, key=lambda pair: pair[1] is None):
        way, colour = choice or Choice(0, NO_COLOUR)
        laid[ends] = anew.put(ends, size, rects, is_row_first=not way, colour=colour)
    return anew


def require_colours(
    routes: Routes,
    stages: Sequence[Stage],
    rects: Sequence[Rect],
    machine: Machine,
    stage_colours: Sequence[StageColours] = (),
) -> None:
    """Raise NoColours if kernels, or they and routes, want more colours than the machine has; it says where."""
    has = f"{machine.name} has {int(machine.colours)} colours"
    for stage, rect, colours in zip(stages, rects, stage_colours, strict=False):
        if colours.count > machine.colours:
            raise NoColours(
                f"{_wanted(stage, colours)} on every router from ({rect.x}, {rect.y}) on; {has}",
                where=stage.where,
                hint="Use weight-streaming mode, or another batch, for which the kernel is cut otherwise.",
            )
    for route in routes.routes:
        # The first is told: the others would have colours if it had another way.
        if route.colour == NO_COLOUR:
            ends = f"{stages[route.source].name} to {stages[route.target].name}"
            x, y = route.full
            at = (n for n, rect in enumerate(rects) if rect.overlaps(Rect(x, y, 1, 1)) and n < len(stage_colours))
            whose = next((f", where {_wanted(stages[n], stage_colours[n])}" for n in at), "")
            error = NoColours(
                f"the route from {ends} finds no colour that is free on its way; {has}. It is fullest at core "
                f"({x}, {y}){whose}",
                where=stages[route.source].where,
                hint="Use weight-streaming mode, or fewer tensors that skip layers.",
            )
            error.share = sum(r.colour == NO_COLOUR for r in routes.routes) / len(routes.routes)
            raise error


def _wanted(stage: Stage, colours: StageColours) -> str:
    # Which kernel it is tells a user what to change; the flow is as large whatever the kernel.
    own = f"{colours.kernel} of {stage.name} takes {colours.own} colours"
    return f"{own}, and what comes in and goes out {colours.flow}," if colours.flow else own


@dataclass(frozen=True)
class Run:
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
            return EAST if is_up else WEST, self.line, along
        return SOUTH if is_up else NORTH, along, self.line


def lanes_of(one: Rect, other: Rect, is_row_first: bool = True) -> Iterator[tuple[Run, Run]]:
    """The lanes of a route: each along a row of the first rectangle, and then along a column of the second.

    Otherwise along a column of the first, and then along a row of the second.
    """
    first, second = _legs_of(one, other, is_row_first)
    return zip(first.runs(), second.runs(), strict=True)


@dataclass(frozen=True)
class _Patch:
    """How many legs pass each core of a rectangle of the mesh, or each of the links that leave them in a direction.

    `counts` [lines, along]; a line is a row if `is_row`, else a column.
    """

    is_row: bool
    line: int
    along: int
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, is_row: bool, lines: Lines, starts: Lines, ends: Lines) -> "_Patch":
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
class _Legs:
    """The runs of all lanes of a route before they turn, or behind."""

    is_row: bool
    lines: Lines
    starts: Lines
    ends: Lines

    def runs(self) -> Iterator[Run]:
        """One for each lane."""
        for line, start, end in zip(self.lines.tolist(), self.starts.tolist(), self.ends.tolist(), strict=True):
            yield Run(self.is_row, line, start, end)

    def cells(self) -> _Patch:
        """All cores that they pass."""
        return _Patch.of(
            self.is_row, self.lines, np.minimum(self.starts, self.ends), np.maximum(self.starts, self.ends) + 1
        )

    def span(self) -> Span:
        """The cores that they pass, row by row."""
        patch = self.cells()
        passed = patch.counts > 0 if self.is_row else (patch.counts > 0).T
        row, column = (patch.line, patch.along) if self.is_row else (patch.along, patch.line)
        # Lanes lie side by side: what they pass of a row has no gap.
        last = column + passed.shape[1] - 1 - passed[:, ::-1].argmax(axis=1)
        return Span(row, column + passed.argmax(axis=1), np.where(passed.any(axis=1), last, -1))

    def links(self) -> Iterator[tuple[int, _Patch]]:
        """By direction, the links that leave their cores but the last one."""
        up, down = self.ends > self.starts, self.ends < self.starts
        upward, downward = (EAST, WEST) if self.is_row else (SOUTH, NORTH)
        if up.any():
            yield upward, _Patch.of(self.is_row, self.lines[up], self.starts[up], self.ends[up])
        if down.any():
            yield downward, _Patch.of(self.is_row, self.lines[down], self.ends[down] + 1, self.starts[down] + 1)


def _legs_of(one: Rect, other: Rect, is_row_first: bool) -> tuple[_Legs, _Legs]:
    (x, y), (to_x, to_y) = _centre(one), _centre(other)
    # Where there are more of the one than of the other, several lanes share a row, or a column.
    count = max(_sides(one, other, is_row_first))
    out, into = (np.arange(count) * lines // count for lines in _sides(one, other, is_row_first))
    if (to_x > x) == (to_y > y):
        # What comes first turns last, so that no lane crosses another.
        into = into[0] + into[-1] - into
    if is_row_first:
        rows, columns = one.y + out, other.x + into
        return _Legs(True, rows, np.full(count, x), columns), _Legs(False, columns, rows, np.full(count, to_y))
    columns, rows = one.x + out, other.y + into
    return _Legs(False, columns, np.full(count, y), rows), _Legs(True, rows, columns, np.full(count, to_x))


def _narrow(one: Rect, other: Rect, is_row_first: bool) -> int:
    """Lines at the end of a route where there are fewer: the least that share its bytes."""
    return min(_sides(one, other, is_row_first))


def _sides(one: Rect, other: Rect, is_row_first: bool) -> tuple[int, int]:
    """Lines that a route leaves the first rectangle along, and those along which it enters the second."""
    return (one.height, other.width) if is_row_first else (one.width, other.height)


class _Links:
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
        is_row_first, legs = True, _legs_of(one, other, True)
        colour, load = self._free(legs), self._load(one, other, True, legs, size)
        # The other turn passes other links and routers: it is taken where the first way has too much to pass, or no
        # colour left.
        if colour == NO_COLOUR or load > self.enough:
            turned = _legs_of(one, other, False)
            free = self._free(turned)
            is_emptier = load > self.enough and self._load(one, other, False, turned, size) < load
            if free != NO_COLOUR and (colour == NO_COLOUR or is_emptier):
                is_row_first, colour = False, free
        return self.put(ends, size, rects, is_row_first, colour)

    def put(self, ends: tuple[int, int], size: int, rects: Sequence[Rect], is_row_first: bool, colour: int) -> Route:
        """A route that goes that way, with a colour or without one; what it loads is added up."""
        one, other = (rects[n] for n in ends)
        legs = _legs_of(one, other, is_row_first)
        lanes = len(legs[0].lines)
        for own in legs:
            for direction, patch in own.links():
                patch.on(self.loads[direction])[:] += patch.counts * size / lanes
            if colour != NO_COLOUR:
                patch = own.cells()
                patch.on(self.taken)[patch.counts > 0] |= np.uint64(1 << colour)
        (x, y), (to_x, to_y) = _centre(one), _centre(other)
        out, into = _sides(one, other, is_row_first)
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

    def _free(self, legs: Sequence[_Legs]) -> int:
        """The first colour that is free on a way, or NO_COLOUR."""
        used = self.used(legs)
        return next((c for c in range(self.colours) if not used >> c & 1), NO_COLOUR)

    def used(self, legs: Sequence[_Legs]) -> int:
        """The colours, a bit for each, that are taken on any core of a way."""
        used = 0
        # A router takes a colour from one side only: a route needs one that nobody else has on any core of its way.
        for patch in (own.cells() for own in legs):
            used |= int(np.bitwise_or.reduce(patch.on(self.taken)[patch.counts > 0]))
        return used

    def _load(self, one: Rect, other: Rect, is_row_first: bool, legs: Sequence[_Legs], size: int) -> float:
        """Bytes on the fullest link of a way with those of a new route on it."""
        # Lanes that are more than the lines share them.
        shares = (size / count for count in _sides(one, other, is_row_first))
        return max(share + self._fullest_link([own]) for own, share in zip(legs, shares, strict=True))

    def _fullest(self, legs: Sequence[_Legs]) -> tuple[int, int]:
        """Column and row of the core on a way where the most colours are taken."""
        is_passed = np.zeros(self.taken.shape, bool)
        for patch in (own.cells() for own in legs):
            patch.on(is_passed)[:] |= patch.counts > 0
        counts = np.where(is_passed, np.bitwise_count(self.taken), 0)
        y, x = np.unravel_index(int(counts.argmax()), counts.shape)
        return int(x), int(y)

    def with_link(self, route: Route, rects: Sequence[Rect]) -> Route:
        """The route with the fullest link on its way, when all are laid."""
        legs = _legs_of(rects[route.source], rects[route.target], route.is_row_first)
        most = self._fullest_link(legs)
        # Of equal ones that of the first lane.
        for run in (run for lane in zip(*(own.runs() for own in legs), strict=True) for run in lane):
            line = self.loads[run.links()]
            # A lane may have nothing to go along its row, or its column.
            if line.size and line.max() == most:
                at = min(run.start, run.end) + int(line.argmax()) + (run.end < run.start)
                x, y = (at, run.line) if run.is_row else (run.line, at)
                return replace(route, link=Link(x, y, DIRECTIONS[run.links()[0]], most))
        return route

    def _fullest_link(self, legs: Sequence[_Legs]) -> float:
        """Bytes on the fullest of the links that legs pass."""
        patches = [(direction, patch) for own in legs for direction, patch in own.links()]
        return max((float(patch.on(self.loads[d])[patch.counts > 0].max()) for d, patch in patches), default=0.0)


def _centre(rect: Rect) -> tuple[int, int]:
    return rect.x + rect.width // 2, rect.y + rect.height // 2
