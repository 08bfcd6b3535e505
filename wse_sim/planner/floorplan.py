"""Floorplan of a pipeline: one rectangle of the mesh for each stage, so that the slowest stage is as fast as possible.

The mesh is cut by a slicing tree. Stages are arranged in columns, traversed down and up in turn, so that successive
stages are adjacent. For few stages, or if columns do not fit, other slicing trees are tried. Shape curves come from
`stage_shapes`: for a target time, the least height for each width. The *area bound* is the least time at which the
total area of the shapes is no larger than the mesh. The shortest time with a valid floorplan is slightly above it. Each
floorplan is priced, and the search continues with the measured prices.

A rectangle may be larger than the part of it that computes, because a stage may need more PEs for its memory. PEs that
would not shorten the step stay unused. With few samples and many stages, the latency of the first sample matters as
much as the rhythm. The slowest stages then give area to stages of little work, whose latency falls by more.
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
"""Multiples of the area bound tried as target times if transport through the parts is slow.

Smaller parts fill and drain sooner. With the first multiple only, a step of eight layers of 256 takes 1.15 times as
many cycles at a batch of 64, and one of FC-MNIST 1.07 times.
"""
MAX_SHORT_WAY_ASPECT_RATIO = 3
"""Maximum ratio of a shape's longer to its shorter side in that search."""
MAX_SLOWER_STEP_RATIO = 1.1
"""The search over slower target times stops when a step takes more than this multiple of the best step."""
MIN_LONG_WAY_RATIO = 0.05
"""Slower target times are tried only if hops through the parts take at least this share of the slowest stage's time."""
TIME_MULTIPLES = (1.01, 1.02, 1.03, 1.035, 1.04, 1.045, 1.05, 1.06, 1.07, 1.1, 1.15, 1.2, 1.3, 1.5, 2, 3, 5, 10, 100)
"""Multiples of the target time that are tried in turn until shapes for that time fit on the mesh."""
CLOSE_ENOUGH_RATIO = 1.05
"""The search stops at a floorplan whose slowest stage takes at most this multiple of the target time."""
MIN_FILL_RATIO = 0.1
"""Stages of little work are sped up only if the first sample takes at least this share of a step.

Speeding them up takes 6 % off a step of GPT-2, and up to 24 % off steps of smaller language models.
"""
MAX_CUT_ROUNDS = 7
"""Maximum number of rounds of cutting and pricing, if the caller gives no other number."""
MAX_REPAIRS = 2
"""Maximum number of times the shapes within one slicing tree are adjusted."""
MAX_EXHAUSTIVE_STAGES = 30
"""Up to this number of stages, all slicing trees are tried, and columns may be as wide as the mesh."""
COLUMN_GROUP_SIZES = (1, 3, 5)
"""Numbers of stages that a column may stack as a group, in the order tried.

Small groups give short wires, large ones a fuller mesh.
"""
MAX_COLUMN_WIDTH_STAGES = 3
"""With many stages, the maximum width of a column, in widths of a square stage of average area."""
_TIME_PRECISION_DIVISOR = 200  # Bisections of a time end at 0.5 % of it.
_CLOSE_PRICE_RATIO = 1.01  # A priced shape may take this multiple of the estimated time.

StageTime = Callable[[int, int, int], int]
"""A function (stage index, width, height) that returns the cycles of the stage for a batch."""


@dataclass(frozen=True)
class Placement:
    """A floorplan, with one entry for each stage in the tuples.

    - `rects`: the rectangle of the stage
    - `parts`: width and height of the part of it that computes
    - `bytes_per_pe`: bytes on each PE of the rectangle
    - `bound_cycles`: the area bound, the least time of the slowest stage that the areas would allow
    - `shortest_cycles`: the least time of the slowest stage in any floorplan that was tried

    The slowest stage of this floorplan may take longer than `shortest_cycles`, if smaller parts or faster other stages
    make the whole step shorter.

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
        """Return the bytes on the fullest PE; 0 without stages."""
        return max(self.bytes_per_pe, default=0)


@dataclass(frozen=True)
class FloorplanProblem:
    """The input of a placer.

    - `stages`: the stages to place
    - `kinds`: for each stage a key; stages with equal keys have equal times on equal parts
    - `time`: cycles of a stage for a batch on a part
    - `batch_size`: samples of the batch
    - `machine`: the machine with the mesh
    - `max_aspect`: maximum ratio of a part's longer to its shorter side, exceeded only if no other shape keeps the time
    """

    stages: Sequence[Stage]
    kinds: Sequence[Hashable]
    time: StageTime
    batch_size: int
    machine: Machine
    max_aspect: int = MAX_ASPECT_RATIO


Placer = Callable[[FloorplanProblem, int, bool], Placement]
"""A function (problem, maximum rounds, fill sooner) that places stages.

If the last argument is True, a slower rhythm is accepted where it shortens the step by letting the first sample
through sooner.
"""


def place_by_slicing(floor: FloorplanProblem, rounds: int = MAX_CUT_ROUNDS, fills_sooner: bool = False) -> Placement:
    """Return the floorplan with the fastest step that was found. Raise PlacementError if the stages do not fit.

    `rounds` limits the rounds of cutting and pricing. By default the time of the slowest stage is minimized. With
    `fills_sooner`, stages of little work may get more area at the expense of the slowest stage if that makes the whole
    step shorter. Without stages the floorplan is empty.
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
    # Shapes between the priced ones may turn out faster than the bound was computed from.
    shortest = min(cutting.shortest, layout.slowest)
    return Placement(tuple(layout.rects), tuple(layout.parts), tuple(per_pe), min(bound, shortest), shortest)


def area_bound(floor: FloorplanProblem) -> int:
    """Return the area bound: the least time of the slowest stage for which the mesh has enough area.

    The smallest shapes that keep this time are together no larger than the mesh. Shapes are taken from priced sizes and
    interpolation between them. The shapes that determine the bound are priced. A stage counts with at least the PEs
    that its memory needs. Return 0 without stages. Raise PlacementError if the memory of the stages exceeds the
    machine.
    """
    require_enough_pes(floor.stages, floor.machine)
    return _SlicingSearch(floor).bound() if floor.stages else 0


PLACERS: Mapping[str, Placer] = {"slicing": place_by_slicing}
"""The placers by name."""


def min_memory_pes(stage: Stage, machine: Machine) -> int:
    """Return the number of PEs that a stage needs for its memory, at least 1.

    It is `stage.held_bytes` over the usable bytes of a PE, rounded up.
    """
    return max(1, ceil_div(stage.held_bytes, machine.usable_bytes_per_pe))


def require_enough_pes(stages: Sequence[Stage], machine: Machine) -> None:
    """Raise PlacementError if the stages need more PEs for their memory than the machine has.

    Each stage needs whole PEs. The message names the largest stage.
    """
    needed = sum(min_memory_pes(stage, machine) for stage in stages)
    if needed > machine.usable_pes:
        largest = max(stages, key=lambda s: s.held_bytes)
        excess = (needed - machine.usable_pes) * machine.usable_bytes_per_pe
        raise PlacementError(
            f"the layers need {sum(s.held_bytes for s in stages):,} bytes, which take {needed:,} PEs with "
            f"{machine.usable_bytes_per_pe:,} usable bytes each; {machine.name} has {machine.usable_pes:,} PEs: "
            f"{excess:,} bytes over; the largest layer, {largest.name}, needs {largest.held_bytes:,} bytes",
            where=largest.where,
            hint="Use weight-streaming mode, smaller layers or a larger machine.",
        )


def _mesh_too_full_error(floor: FloorplanProblem) -> PlacementError:
    largest = max(floor.stages, key=lambda s: s.held_bytes)
    return PlacementError(
        f"{len(floor.stages)} stages, which need "
        f"{sum(min_memory_pes(s, floor.machine) for s in floor.stages):,} of the "
        f"{floor.machine.usable_pes:,} PEs of {floor.machine.name}, do not fit on it as rectangles; the largest stage "
        f"is {largest.name} with {largest.held_bytes:,} bytes",
        where=largest.where,
        hint="Use weight-streaming mode, smaller layers or a larger machine.",
    )


@dataclass(frozen=True)
class _StageLayout:
    """A priced floorplan: for each stage its rectangle, the part that computes, and its cycles."""

    rects: Sequence[Rect]
    parts: Sequence[tuple[int, int]]
    cycles: Sequence[int]

    @property
    def slowest(self) -> int:
        """Return the cycles of the slowest stage."""
        return max(self.cycles)


@dataclass(frozen=True)
class _KindShapes:
    """Shapes of one kind of stage: for each maximum width, the least height, and the width that has this height."""

    heights: SideLengths
    widths: SideLengths

    @classmethod
    def of(cls, heights: SideLengths) -> "_KindShapes":
        """Return the shapes for `heights`, an array with the least height at exactly each width from 1 on.

        A narrower shape that is no higher replaces a wider one, so that heights never increase with the width.
        """
        least = np.minimum.accumulate(heights)
        is_lower = np.concatenate(([True], least[1:] < least[:-1]))
        return cls(least, np.maximum.accumulate(np.where(is_lower, np.arange(1, len(least) + 1), 0)))

    def part(self, width: int) -> tuple[int, int]:
        """Return width and height of the part that computes in a rectangle of `width` columns."""
        return int(self.widths[width - 1]), int(self.heights[width - 1])


class _SlicingSearch:
    """The search for a floorplan by slicing trees.

    - `shapes`: the priced shapes of each kind of stage
    - `least`: for each stage, the PEs that its memory needs
    - `longest`: the maximum aspect ratio at present
    - `shares`: for each kind, its target time as a share of the target of the slowest stage
    - `shortest`: the least time of the slowest stage found so far, 0 before the search
    """

    def __init__(self, floor: FloorplanProblem, rounds: int = MAX_CUT_ROUNDS, fills_sooner: bool = False):
        self.floor, self.rounds, self.fills_sooner = floor, rounds, fills_sooner
        self.width, self.height = floor.machine.usable_width, floor.machine.usable_height
        # One stage of each kind is priced for all. Memory differs between stages of a kind: the first stages hold the
        # activations of samples in all later ones.
        samples: dict[Hashable, int] = {}
        for n, kind in enumerate(floor.kinds):
            samples.setdefault(kind, n)
        self.shapes = {
            kind: StageShapes(partial(floor.time, n), self.width, self.height) for kind, n in samples.items()
        }
        self.least = [min_memory_pes(stage, floor.machine) for stage in floor.stages]
        self.longest = floor.max_aspect
        self.shares = dict.fromkeys(samples, 1.0)
        self.shortest = 0

    def bound(self) -> int:
        """Return the area bound in cycles."""
        return self._least_slowest_time(self._first_time())

    def _least_slowest_time(self, first: int) -> int:
        """Return the area bound for the current `shares`, starting the search at the time `first`.

        The shapes that determine it are priced. If one is slower than estimated, the search is repeated, `rounds` times
        at most.
        """
        limit = self._least_time(first)
        for _ in range(self.rounds):
            over = 0.0
            for kind, shapes in self.shapes.items():
                own = self._kind_limit(kind, limit)
                _, width, height = min_area_shape(shapes.heights(own))
                over = max(over, shapes.tried(width, height, own) / own)
            # The bound is invalid if a shape is slower than estimated: repeat with the new price.
            if over <= _CLOSE_PRICE_RATIO:
                break
            limit = self._least_time(limit)
        return limit

    def fastest(self, bound: int) -> _StageLayout | None:
        """Return the floorplan with the shortest estimated step, or None if no floorplan exists.

        Target times above `bound` are tried too while hops through the parts are a notable share of the step. Sets
        `shortest` and lowers `longest`.
        """
        best = self._settle_layout(bound)
        if best is None:
            return None
        self.shortest = best.slowest
        if self.fills_sooner:
            best = self._fill_sooner(best)
        # Square and small parts have the shortest routes.
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
        """Return `best`, or a floorplan with a shorter step in which stages of little work get more area.

        It is `best` if the first sample takes less than `MIN_FILL_RATIO` of a step.
        """
        if sum(best.cycles) < MIN_FILL_RATIO * self.floor.batch_size * self._step(best):
            return best
        self.shares = self._time_shares(best.slowest)
        layout = self._settle_layout(self._least_slowest_time(best.slowest))
        self.shares = dict.fromkeys(self.shapes, 1.0)
        return best if layout is None else min(best, layout, key=self._step)

    def _time_shares(self, limit: int) -> dict[Hashable, float]:
        """Return, for each kind, the target time relative to `limit` that makes the step shortest on the same area.

        No share exceeds 1, and stages with much work have 1. A stage with work w has area w / t at time t. One of the B
        samples takes the times of all stages and the others take the rhythm T. A step is therefore (B - 1) T / B plus
        the sum of t / B. For a given total area it is shortest if t ** 2 / w is equal for all stages faster than T
        (Lagrange). The n stages that take T contribute (B - 1 + n) T / B. Their work divided by B - 1 + n is the
        maximum work of a stage that is faster than T.
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
        """Return the target time of a kind if the target of the slowest stage is `limit`, at least 1."""
        return max(1, int(self.shares[kind] * limit))

    def _way(self, layout: _StageLayout) -> float:
        """Return the cycles of hops through all parts, from corner to corner, forward and backward."""
        return 2 * self.floor.machine.hop_cycles * sum(width + height for width, height in layout.parts)

    def _step(self, layout: _StageLayout) -> float:
        """Return the estimated cycles of a step: slowest stage, one sample through all stages, and its hops."""
        return layout.slowest + sum(layout.cycles) / self.floor.batch_size + self._way(layout)

    def _first_time(self) -> int:
        """Return an estimate in cycles of the time at which all stages together fill the mesh, at least 1."""
        whole = self.width * self.height
        areas = dict.fromkeys(self.shapes, whole / len(self.floor.stages))
        time = 1.0
        # Iterate twice, because the work of a stage grows with the number of cores.
        for _ in range(2):
            work = {kind: shapes.work(areas[kind]) for kind, shapes in self.shapes.items()}
            time = sum(work[kind] for kind in self.floor.kinds) / whole
            areas = {kind: own / time for kind, own in work.items()}
        return max(1, round(time))

    def _least_time(self, first: int) -> int:
        """Return the least target time for which the areas suffice, within 0.5 %, starting at `first`.

        The time is bracketed in steps of a quarter and then bisected.
        """
        # Bracket outwards from `first`, so that few shapes are priced needlessly.
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
        """Return whether the smallest shapes that keep the time `limit` and hold the stages' memory fit by area.

        Shapes of kinds with a smaller share keep a shorter time. A floorplan need not exist.
        """
        kinds = self.shapes.items()
        least = {kind: min_area_shape(shapes.heights(self._kind_limit(kind, limit)))[0] for kind, shapes in kinds}
        needed = sum(max(least[kind], own) for kind, own in zip(self.floor.kinds, self.least, strict=True))
        return needed <= self.width * self.height

    def _settle_layout(self, target: int) -> _StageLayout | None:
        """Return the floorplan found with the fastest slowest stage, or None if none fits.

        `target` is the time wanted for this stage. Cutting and pricing are repeated until it is close enough to the
        target, for `self.rounds` rounds at most. The result may be slower than the target.
        """
        best: _StageLayout | None = None
        # Use interpolated sizes first. After a round without gain, use priced sizes only, until they bring no gain.
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
        """Yield a floorplan for the least multiple of `target` at which there is one, and then repaired versions of it.

        Stages are in program order or, if that gives no floorplan, ordered by memory. With `is_known` only priced
        widths are used, and repairs are made. Yield nothing if no floorplan exists.
        """
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
                    # In the first round estimates are inaccurate, and a repair would price shapes for nothing.
                    for _ in range(MAX_REPAIRS if is_known else 0):
                        layout = self._repair_layout(tree, layout, target)
                        yield layout
                    return

    def _menu(self, heights: SideLengths) -> _KindShapes:
        """Return the shapes of a kind without those beyond the aspect ratio `longest`, or all if no others exist.

        `heights` has the least height for each width.
        """
        widths = np.arange(1, self.width + 1)
        is_long = (heights > self.longest * widths) | (widths > self.longest * heights)
        return _KindShapes.of(heights if is_long.all() else np.where(is_long, INFEASIBLE, heights))

    def _orders(self) -> Iterator[Sequence[int]]:
        """Yield the orders of stages to try: program order, then decreasing memory.

        An order is a sequence of stage indices.
        """
        yield range(len(self.least))
        # If memory leaves little space, give up the order of stages and place large ones first.
        yield sorted(range(len(self.least)), key=lambda n: (-self.least[n], n))

    def _tree(self, curves: Sequence[ShapeCurve], order: Sequence[int]) -> SlicingTree | None:
        """Return a slicing tree in which the curves fit on the mesh in the given `order`, or None if none was found.

        Columns are tried first, small groups before large ones. Up to `MAX_EXHAUSTIVE_STAGES` stages, all trees that
        keep the order follow. With more stages only columns of limited width and the largest groups are tried. The
        blocks of the tree have the numbers of the stages.
        """
        whole, count = self.width * self.height, len(curves)
        if sum(map(min_curve_area, curves)) > whole:
            return None
        line = [curves[n] for n in order]
        # With many stages, wide columns have too many slicing trees and gain nothing over narrow ones.
        is_few = count <= MAX_EXHAUSTIVE_STAGES
        widest = self.width if is_few else MAX_COLUMN_WIDTH_STAGES * math.isqrt(whole // count) + 1
        # With many stages, try only the largest groups: each try takes long, and wires are short in all of them.
        for group in COLUMN_GROUP_SIZES if is_few else COLUMN_GROUP_SIZES[-1:]:
            if tree := SerpentineColumns(line, self.width, self.height, group, widest).tree():
                return rename_blocks(tree, order)
        tree = find_ordered_tree(line, self.width, self.height) if is_few else None
        return rename_blocks(tree, order) if tree else None

    def _repair_layout(self, tree: SlicingTree, layout: _StageLayout, target: int) -> _StageLayout:
        """Return a floorplan with the same tree and widths in which slow stages get more height and others less.

        Heights are those of the least time, from `target` on, at which the tree fits. Return `layout` if there is none.
        """
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
        """Return the floorplan of these rectangles and parts, with the priced cycles of each stage.

        The prices are recorded for later estimates. `limit` is the time that they were expected to keep.
        """
        pairs = zip(self.floor.kinds, parts, strict=True)
        cycles = [self.shapes[kind].tried(*part, self._kind_limit(kind, limit)) for kind, part in pairs]
        return _StageLayout(rects, parts, cycles)

    def _curves(self, heights: Sequence[SideLengths]) -> list[ShapeCurve]:
        """Return the shape curves of all stages: the given heights, raised to what memory needs.

        Heights above that of the mesh become `INFEASIBLE`.
        """
        widths = np.arange(1, self.width + 1)
        curves = [np.maximum(own, -(-least // widths)) for own, least in zip(heights, self.least, strict=True)]
        return [np.where(curve > self.height, INFEASIBLE, curve).astype(np.int16) for curve in curves]
