"""Placement of stages side by side: rectangles cut from the mesh, as large as the time of the slowest stage asks for.

The mesh is cut in two, and each part again, until each stage has its own: in columns through which the line of stages
runs down and up, so that neighbours in it stay neighbours, or for a few stages wherever the cuts fit best. Shapes come
from `stage_shapes`: for a time, the least height of each width. The least time that the areas allow is the *area
bound*; the least time whose shapes can be cut is a little above it. What came out is priced, and cut again with what
that tells.

A rectangle is larger than the part of it that computes where memory asks for more PEs than time does. Area that buys
nothing stays free. Where few samples flow through many stages, what the first of them takes counts as much as the
rhythm: then the slowest stages lend some area to those of little work, which it makes faster by more.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lazytensor.errors import PlacementError
from wse_sim.floorplanning.serpentine import SerpentineColumns
from wse_sim.floorplanning.shape_curves import INFEASIBLE, ShapeCurve, min_curve_area
from wse_sim.floorplanning.slicing_tree import SlicingTree, find_ordered_tree, fits_mesh, pack_blocks, rename_blocks
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.planner.stage_shapes import MAX_ASPECT_RATIO, SideLengths, StageShapes, min_area_shape
from wse_sim.planner.stages import Stage

SLOWER_TIME_MULTIPLES = (1, 1.25, 1.6, 2.5, 4, 6)
"""Multiples of the area bound that are tried where long ways count: smaller parts fill and drain sooner."""
MAX_SHORT_WAY_ASPECT_RATIO = 3
"""Sides of a shape are at most so many times as long as each other then."""
MAX_SLOWER_STEP_RATIO = 1.1
"""Of the fastest step: no slower rhythm is looked at."""
MIN_LONG_WAY_RATIO = 0.05
"""The share of a step that ways through the parts have to take for that."""
TIME_MULTIPLES = (1.01, 1.02, 1.03, 1.035, 1.04, 1.045, 1.05, 1.06, 1.07, 1.1, 1.15, 1.2, 1.3, 1.5, 2, 3, 5, 10, 100)
"""Multiples of a time at which cuts are looked for, until there are some."""
CLOSE_ENOUGH_RATIO = 1.05
"""Of the area bound: no faster layout is looked for."""
MIN_FILL_RATIO = 0.1
"""The share of a step that its first sample has to take for stages of little work to be made faster than others."""
MAX_CUT_ROUNDS = 7
"""So many times the mesh is cut anew at most, each time with the prices of the layouts before, if nobody says less."""
MAX_REPAIRS = 2
"""So many times the shapes of one cutting are changed."""
MAX_EXHAUSTIVE_STAGES = 30
"""Stages for which all ways to cut are looked at, in columns as wide as the mesh."""
COLUMN_GROUP_SIZES = (1, 3, 5)
"""Stages in a group of a column, from the shortest wires to the fullest mesh."""
MAX_COLUMN_WIDTH_STAGES = 3
"""Columns for many stages are at most so many times as wide as a stage of the mean area."""
_TIME_PRECISION_DIVISOR = 200  # of times that are bisected
_CLOSE_PRICE_RATIO = 1.01  # a shape is this near to what was told of it

StageTime = Callable[[int, int, int], int]
"""(stage, width, height) -> cycles of the stage for a batch."""


@dataclass(frozen=True)
class Placement:
    """For each stage its rectangle, the width and height of the part that computes, and bytes on one of its PEs.

    `bound_cycles` is the area bound: the least time of the slowest stage that the areas of the stages would allow. The
    slowest stage takes `shortest_cycles` in that placement of all that were looked at where it is the fastest; here it
    may take longer, on smaller parts with shorter ways between them, or so that others take less.

    >>> import lazytensor as lt, wse_sim
    >>> tiny = wse_sim.plan(lt.trace(lt.nn.Linear(64, 10), lt.ones(32, 64)), "tiny", "pipelined")
    >>> tiny.chosen.placement.rects
    (Rect(x=0, y=0, width=8, height=8),)
    """

    rects: tuple[Rect, ...]
    parts: tuple[tuple[int, int], ...]
    bytes_per_pe: tuple[int, ...]
    bound_cycles: int = 0
    shortest_cycles: int = 0

    @property
    def peak_bytes_per_pe(self) -> int:
        """Bytes on the fullest PE."""
        return max(self.bytes_per_pe, default=0)


@dataclass(frozen=True)
class FloorplanProblem:
    """What is to be placed: stages, their kind (equal kinds get equal parts), and their time for a batch.

    One side of a part is at most `max_aspect` times as long as the other, unless only longer shapes keep a time.
    """

    stages: Sequence[Stage]
    kinds: Sequence[Hashable]
    time: StageTime
    batch_size: int
    machine: Machine
    max_aspect: int = MAX_ASPECT_RATIO


Placer = Callable[[FloorplanProblem, int, bool], Placement]
"""Places stages in so many rounds at most; with True in as slow a rhythm as lets the first sample through sooner."""


def place_by_slicing(floor: FloorplanProblem, rounds: int = MAX_CUT_ROUNDS, fills_sooner: bool = False) -> Placement:
    """The placement with the fastest step. Raises PlacementError if memory does not allow any.

    The slowest stage takes as little as it may, or with `fills_sooner` a little more, where the area that it gives
    makes the step shorter at stages of little work: the first sample passes all of them.
    """
    require_enough_pes(floor.stages, floor.machine)
    if not floor.stages:
        return Placement((), (), ())
    cutting = _SlicingSearch(floor, rounds, fills_sooner)
    bound = cutting.bound()
    layout = cutting.fastest(bound)
    if layout is None:
        raise _mesh_too_full_error(floor)
    per_pe = (ceil_div(stage.held_bytes, rect.area) for stage, rect in zip(floor.stages, layout.rects, strict=True))
    # Shapes between those that were priced may be faster than all that the bound was told of.
    shortest = min(cutting.shortest, layout.slowest)
    return Placement(tuple(layout.rects), tuple(layout.parts), tuple(per_pe), min(bound, shortest), shortest)


def area_bound(floor: FloorplanProblem) -> int:
    """The least time of the slowest stage at which the smallest shapes together are no larger than the mesh.

    Smallest of the shapes that were priced, and of those between them; each that counts here was priced. A stage whose
    memory asks for more PEs than the time does has that many. Raises PlacementError if memory does not allow any.
    """
    require_enough_pes(floor.stages, floor.machine)
    return _SlicingSearch(floor).bound() if floor.stages else 0


PLACERS: Mapping[str, Placer] = {"slicing": place_by_slicing}
"""Name -> a function that places stages."""


def min_memory_pes(stage: Stage, machine: Machine) -> int:
    """PEs that a stage needs for its memory."""
    return max(1, ceil_div(stage.held_bytes, machine.usable_bytes_per_pe))


def require_enough_pes(stages: Sequence[Stage], machine: Machine) -> None:
    """Raise PlacementError if the stages hold more than the machine has."""
    needed = sum(min_memory_pes(stage, machine) for stage in stages)
    if needed > machine.usable_pes:
        largest = max(stages, key=lambda s: s.held_bytes)
        excess = (needed - machine.usable_pes) * machine.usable_bytes_per_pe
        raise PlacementError(
            f"the layers hold {sum(s.held_bytes for s in stages):,} bytes, for which {needed:,} PEs are needed; "
            f"{machine.name} has {machine.usable_pes:,}: {excess:,} bytes over; the largest, {largest.name}, holds "
            f"{largest.held_bytes:,} bytes at {machine.usable_bytes_per_pe:,} usable bytes a PE",
            where=largest.where,
            hint="Use weight-streaming mode, smaller layers or a larger machine.",
        )


def _mesh_too_full_error(floor: FloorplanProblem) -> PlacementError:
    largest = max(floor.stages, key=lambda s: s.held_bytes)
    return PlacementError(
        f"{len(floor.stages)} stages, which need "
        f"{sum(min_memory_pes(s, floor.machine) for s in floor.stages):,} of the "
        f"{floor.machine.usable_pes:,} PEs of {floor.machine.name}, do not fit on it as rectangles; the largest is "
        f"{largest.name} with {largest.held_bytes:,} bytes",
        where=largest.where,
        hint="Use weight-streaming mode, smaller layers or a larger machine.",
    )


@dataclass(frozen=True)
class _StageLayout:
    """Rectangles, the parts of them that compute, and the cycles of each stage."""

    rects: Sequence[Rect]
    parts: Sequence[tuple[int, int]]
    cycles: Sequence[int]

    @property
    def slowest(self) -> int:
        """Cycles of the slowest stage."""
        return max(self.cycles)


@dataclass(frozen=True)
class _KindShapes:
    """Of a kind, for each width the least height up to it, and the width that has it."""

    heights: SideLengths
    widths: SideLengths

    @classmethod
    def of(cls, heights: SideLengths) -> "_KindShapes":
        """From the least height of each width."""
        least = np.minimum.accumulate(heights)
        is_lower = np.concatenate(([True], least[1:] < least[:-1]))
        return cls(least, np.maximum.accumulate(np.where(is_lower, np.arange(1, len(least) + 1), 0)))

    def part(self, width: int) -> tuple[int, int]:
        """The part of a rectangle that computes."""
        return int(self.widths[width - 1]), int(self.heights[width - 1])


class _SlicingSearch:
    """Cuts a mesh among stages."""

    def __init__(self, floor: FloorplanProblem, rounds: int = MAX_CUT_ROUNDS, fills_sooner: bool = False):
        self.floor, self.rounds, self.fills_sooner = floor, rounds, fills_sooner
        self.width, self.height = floor.machine.usable_width, floor.machine.usable_height
        # One stage of each kind stands for the time of all of them. Memory is each stage's own: those that come first
        # hold the samples of all that follow.
        samples: dict[Hashable, int] = {}
        for n, kind in enumerate(floor.kinds):
            samples.setdefault(kind, n)
        self.shapes = {
            kind: StageShapes(partial(floor.time, n), self.width, self.height) for kind, n in samples.items()
        }
        self.least = [min_memory_pes(stage, floor.machine) for stage in floor.stages]
        self.longest = floor.max_aspect
        # Of the time of the slowest stage, what each kind is to take.
        self.shares = dict.fromkeys(samples, 1.0)
        # Of all layouts, the least time of the slowest stage.
        self.shortest = 0

    def bound(self) -> int:
        """The area bound."""
        return self._least_slowest_time(self._first_time())

    def _least_slowest_time(self, first: int) -> int:
        """The least time of the slowest stage that the areas allow, looked for from `first` on."""
        limit = self._least_time(first)
        for _ in range(self.rounds):
            over = 0.0
            for kind, shapes in self.shapes.items():
                own = self._kind_limit(kind, limit)
                _, width, height = min_area_shape(shapes.heights(own))
                over = max(over, shapes.tried(width, height, own) / own)
            # A bound of shapes that turn out slower than they were told would be none.
            if over <= _CLOSE_PRICE_RATIO:
                break
            limit = self._least_time(limit)
        return limit

    def fastest(self, bound: int) -> _StageLayout | None:
        """The layout with the fastest step, as far as it can be told from stages alone; None if nothing can be cut."""
        best = self._settle_layout(bound)
        if best is None:
            return None
        self.shortest = best.slowest
        if self.fills_sooner:
            best = self._fill_sooner(best)
        # Squares have the shortest ways, and smaller parts shorter ones.
        self.longest = MAX_SHORT_WAY_ASPECT_RATIO
        for times in SLOWER_TIME_MULTIPLES:
            if self._way(best) < MIN_LONG_WAY_RATIO * best.slowest:
                break
            layout = self._settle_layout(int(times * bound))
            if layout is None or (self._step(layout) > MAX_SLOWER_STEP_RATIO * self._step(best)):
                break
            best = min(best, layout, key=self._step)
        return best

    def _fill_sooner(self, best: _StageLayout) -> _StageLayout:
        """The layout, or a faster one whose rhythm is slower and whose first sample is sooner through all stages."""
        if sum(best.cycles) < MIN_FILL_RATIO * self.floor.batch_size * self._step(best):
            return best
        self.shares = self._time_shares(best.slowest)
        layout = self._settle_layout(self._least_slowest_time(best.slowest))
        self.shares = dict.fromkeys(self.shapes, 1.0)
        return best if layout is None else min(best, layout, key=self._step)

    def _time_shares(self, limit: int) -> dict[Hashable, float]:
        """What each kind is to take of the time of the slowest stage, for the shortest step on the same area.

        A stage with work w has the area w / t at a time t. Of B samples one takes the times of all stages and the
        others the rhythm T, so that a step is (B - 1) T / B and the sum of t / B. On a given area it is the shortest
        where t ** 2 / w is one number for all stages that are faster than T (Lagrange). The n others, which take T, are
        B - 1 + n times T in that sum: so their work over B - 1 + n is the most work of a stage that is faster.
        """
        counts = Counter(self.floor.kinds)
        work = {kind: min_area_shape(shapes.heights(limit))[0] * limit for kind, shapes in self.shapes.items()}
        slow = set(work)
        while True:
            samples = self.floor.batch_size - 1 + sum(counts[kind] for kind in slow)
            most = sum(counts[kind] * work[kind] for kind in slow) / samples
            light = {kind for kind in slow if work[kind] < most}
            if not light:
                return {kind: min(1.0, math.sqrt(own / most)) for kind, own in work.items()}
            slow -= light

    def _kind_limit(self, kind: Hashable, limit: int) -> int:
        """What a kind is to take where the slowest stage takes `limit`."""
        return max(1, int(self.shares[kind] * limit))

    def _way(self, layout: _StageLayout) -> float:
        # Forward and back through every part, from corner to corner.
        return 2 * self.floor.machine.hop_cycles * sum(width + height for width, height in layout.parts)

    def _step(self, layout: _StageLayout) -> float:
        """The rhythm of the slowest, and the way of one sample through all of them."""
        return layout.slowest + sum(layout.cycles) / self.floor.batch_size + self._way(layout)

    def _first_time(self) -> int:
        """About the time at which all stages together fill the mesh."""
        whole = self.width * self.height
        areas = dict.fromkeys(self.shapes, whole / len(self.floor.stages))
        time = 1.0
        # Twice: the work of a stage grows with the cores that it is spread over.
        for _ in range(2):
            work = {kind: shapes.work(areas[kind]) for kind, shapes in self.shapes.items()}
            time = sum(work[kind] for kind in self.floor.kinds) / whole
            areas = {kind: own / time for kind, own in work.items()}
        return max(1, round(time))

    def _least_time(self, first: int) -> int:
        # Outwards from what is known, so that few shapes are priced that nobody asks for.
        low = high = first
        while not self._has_area(high):
            low, high = high, math.ceil(1.25 * high)
        while low > 1 and (low == high or self._has_area(low)):
            low, high = math.floor(low / 1.25), low
        while high - low > max(1, high // _TIME_PRECISION_DIVISOR):
            middle = (low + high) // 2
            low, high = (low, middle) if self._has_area(middle) else (middle, high)
        return high

    def _has_area(self, limit: int) -> bool:
        """Whether the smallest shapes that keep a time, and hold what stages hold, are no larger than the mesh."""
        kinds = self.shapes.items()
        least = {kind: min_area_shape(shapes.heights(self._kind_limit(kind, limit)))[0] for kind, shapes in kinds}
        needed = sum(max(least[kind], own) for kind, own in zip(self.floor.kinds, self.least, strict=True))
        return needed <= self.width * self.height

    def _settle_layout(self, target: int) -> _StageLayout | None:
        """A layout for about that time, cut again until its prices are near to what was told of its shapes."""
        best: _StageLayout | None = None
        # Sizes between those that were priced come first. Then only priced sizes count, until they bring no gain.
        is_known = False
        for _ in range(self.rounds):
            before = best
            for layout in self._layouts(target, is_known):
                best = layout if best is None or layout.slowest < best.slowest else best
                if best.slowest <= CLOSE_ENOUGH_RATIO * target:
                    return best
            is_known = best is not before or not is_known
        return best

    def _layouts(self, target: int, is_known: bool) -> Iterator[_StageLayout]:
        """The layout of the least time whose shapes can be cut, and the same cuts with what its prices tell."""
        for orders in self._orders():
            for slack in TIME_MULTIPLES:
                limit = int(slack * target)
                kinds = self.shapes.items()
                menus = {k: self._menu(shapes.heights(self._kind_limit(k, limit), is_known)) for k, shapes in kinds}
                curves = self._curves([menus[kind].heights for kind in self.floor.kinds])
                if tree := self._tree(curves, orders):
                    rects = pack_blocks(tree, curves, self.width, self.height)
                    pairs = zip(self.floor.kinds, rects, strict=True)
                    layout = self._priced(rects, [menus[kind].part(rect.width) for kind, rect in pairs], limit)
                    yield layout
                    # After the first look widths are far from known, and a repair would price shapes for nothing.
                    for _ in range(MAX_REPAIRS if is_known else 0):
                        layout = self._repair_layout(tree, layout, target)
                        yield layout
                    return

    def _menu(self, heights: SideLengths) -> _KindShapes:
        """The menu of a kind without its longest shapes, if there are others."""
        widths = np.arange(1, self.width + 1)
        is_long = (heights > self.longest * widths) | (widths > self.longest * heights)
        return _KindShapes.of(heights if is_long.all() else np.where(is_long, INFEASIBLE, heights))

    def _orders(self) -> Iterator[Sequence[int]]:
        yield range(len(self.least))
        # Where memory leaves little room the line of stages is given up: what is large is put down first.
        yield sorted(range(len(self.least)), key=lambda n: (-self.least[n], n))

    def _tree(self, curves: Sequence[ShapeCurve], order: Sequence[int]) -> SlicingTree | None:
        """Cuts for these curves."""
        whole, count = self.width * self.height, len(curves)
        if sum(map(min_curve_area, curves)) > whole:
            return None
        line = [curves[n] for n in order]
        # Wide columns of many stages have more cuts than there is time for, and hold nothing that narrow ones do not.
        is_few = count <= MAX_EXHAUSTIVE_STAGES
        widest = self.width if is_few else MAX_COLUMN_WIDTH_STAGES * math.isqrt(whole // count) + 1
        # For many stages the fullest columns at once: each try takes long, and wires are short in all of them.
        for group in COLUMN_GROUP_SIZES if is_few else COLUMN_GROUP_SIZES[-1:]:
            if tree := SerpentineColumns(line, self.width, self.height, group, widest).tree():
                return rename_blocks(tree, order)
        tree = find_ordered_tree(line, self.width, self.height) if is_few else None
        return rename_blocks(tree, order) if tree else None

    def _repair_layout(self, tree: SlicingTree, layout: _StageLayout, target: int) -> _StageLayout:
        """The same cuts and widths, with other heights: what is too slow gets more, and the others give it."""
        pairs = [(kind, width) for kind, (width, _) in zip(self.floor.kinds, layout.parts, strict=True)]

        def heights(limit: int) -> dict[tuple[Hashable, int], int]:
            return {
                (k, w): math.ceil(self.shapes[k].height_at(w, self._kind_limit(k, limit)) - 1e-6)
                for k, w in dict.fromkeys(pairs)
            }

        def curves(limit: int) -> list[ShapeCurve]:
            own, wide = heights(limit), np.arange(1, self.width + 1)
            ends = zip(pairs, layout.rects, strict=True)
            return self._curves([np.where(wide < rect.width, INFEASIBLE, own[pair]) for pair, rect in ends])

        low, high = target, layout.slowest
        while high - low > max(1, high // _TIME_PRECISION_DIVISOR):
            middle = (low + high) // 2
            is_enough = fits_mesh(tree, curves(middle), self.width, self.height)
            low, high = (low, middle) if is_enough else (middle, high)
        own, last = heights(high), curves(high)
        if not fits_mesh(tree, last, self.width, self.height):
            return layout
        rects = pack_blocks(tree, last, self.width, self.height)
        return self._priced(rects, [(width, own[kind, width]) for kind, width in pairs], high)

    def _priced(self, rects: Sequence[Rect], parts: Sequence[tuple[int, int]], limit: int) -> _StageLayout:
        pairs = zip(self.floor.kinds, parts, strict=True)
        cycles = [self.shapes[kind].tried(*part, self._kind_limit(kind, limit)) for kind, part in pairs]
        return _StageLayout(rects, parts, cycles)

    def _curves(self, heights: Sequence[SideLengths]) -> list[ShapeCurve]:
        """The curves of all stages, with what memory asks for."""
        widths = np.arange(1, self.width + 1)
        curves = [np.maximum(own, -(-least // widths)) for own, least in zip(heights, self.least, strict=True)]
        return [np.where(curve > self.height, INFEASIBLE, curve).astype(np.int16) for curve in curves]
