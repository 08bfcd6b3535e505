"""Designs: placements of few stages that no mesh changes, of which a mesh has the fastest that it has room for.

A larger mesh has room for all that a smaller one has, and so is never slower. A design is made for a time that no stage
is to exceed, one of a geometric series. For some widths, the same on all meshes but for a few more of low and narrow
ones, the least height that keeps that time is found by halves between powers of two. Then the least heights of all
trees that keep the line of stages follow by dynamic programming, and each tree of least height whose width or height is
among `WIDTHS` or `HEIGHTS` is a design. It stands on the least mesh that holds it, is priced there, and only that price
counts.

Which times are looked at, and which designs are placed, depends on estimates of steps: that none which is faster is
left out is likely and not proven. `python -m tests.campaign meshes` counts.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from wse_sim.layout import Rect
from wse_sim.machine import MACHINES, Machine
from wse_sim.placement.curves import NEVER, Curve
from wse_sim.placement.slicing import Cuts, Intervals, rectangles

FEW = 24
"""Stages of which designs are made: of more there are too many trees for each of many times."""
STEP = 1.03
"""From one time to the next."""
OCTAVE = math.ceil(math.log(2, STEP))
GAP = 3
"""So many times without a design in a row end the search for shorter ones."""
COARSE = 3
"""So many times further are looked at first; those between only near the fastest."""
UNEVEN = 2
"""By so many times a part may be faster than a higher one: prices have steps."""
CLOSE = 1.003
"""So near to the fastest step the times around one are looked at too."""
PATIENCE = 4
"""So many of those without a faster design end the search for longer times."""
LONGEST = 11
"""The longest side that is priced is two to the power of this."""
NEAR, FAR = 1.1, 2.3
"""Octaves of width around a square in which four widths an octave are priced, and two."""
STEPS = 0.12
"""The share of a time by which the stages that keep it may be faster."""
FINE = 16
"""Heights from one power of two to the next that are told apart, of a stage that has its share of the area."""
LESS = 0.85
"""Of an area: another width is better if its shape is so small."""
ROUGH = 8
"""Of those so many, where only the best width is looked for."""
MORE = 1.4
"""Of the smallest shape's area: what is larger for sure is not looked at any closer."""
SMALL = 0.25
"""Of the area that a stage would have if all had the same: of smaller ones half of the widths are priced."""


def sides(per_octave: int) -> set[int]:
    """Whole numbers, and from some on so many from each power of two to the next."""
    every, side = set(), 1
    while side <= 1 << LONGEST:
        every.add(side)
        side += max(1, (1 << side.bit_length() - 1) // per_octave)
    return every


# A machine's own sides too, so that its mesh is used to the edge.
WIDTHS = sorted(sides(16) | {machine.usable_width for machine in MACHINES.values()})
HEIGHTS = sorted(sides(16) | {machine.usable_height for machine in MACHINES.values()})
PRICED = sorted({round(2 ** (n / 4)) for n in range(4 * LONGEST + 1)})
COARSELY_PRICED = {round(2 ** (n / 2)) for n in range(2 * LONGEST + 1)}


@dataclass(frozen=True)
class Design:
    """The least mesh that holds it, and for each stage its rectangle and the width and height of the part in use."""

    width: int
    height: int
    rects: tuple[Rect, ...]
    parts: tuple[tuple[int, int], ...]


Outcome = TypeVar("Outcome", covariant=True)


class Line(Protocol[Outcome]):
    """A line of stages that is to be placed; stages of equal `kinds` take equal times."""

    @property
    def kinds(self) -> Sequence[Hashable]:
        """What tells equal stages."""

    @property
    def least_pes(self) -> Sequence[int]:
        """PEs that the memory of each stage asks for."""

    def cycles(self, n: int, width: int, height: int) -> int:
        """What stage `n` takes for a batch on a part of that size."""

    def estimate(self, design: Design, cycles: Sequence[int], slowest: int) -> float:
        """The fewest cycles that a step may turn out to take, of so many for a batch in each stage and in any."""

    def least_step(self, design: Design) -> float:
        """Cycles that a step takes at least, with what its stages take."""

    def placed(self, design: Design) -> tuple[float, Outcome] | None:
        """The cycles of a step and what came of it, or None if it cannot be placed."""


class Shapes:
    """The extents on which one kind of stage keeps a time, told from prices that no mesh changes."""

    def __init__(self, time: Callable[[int, int], int], machine: Machine):
        self._time = time
        self._width, self._height = machine.usable_width, machine.usable_height
        self._prices: dict[tuple[int, int], int] = {}
        self._heights: dict[tuple[int, int, bool], NDArray[np.int64] | None] = {}

    def cycles(self, width: int, height: int) -> int:
        """The time on a part, 1 at least."""
        key = width, height
        if key not in self._prices:
            self._prices[key] = max(1, self._time(width, height))
        return self._prices[key]

    def told(self, part: tuple[int, int], limit: int) -> int:
        """What a part takes that is to keep a time, as far as it was priced; on one PE nothing takes longer."""
        return self._prices.get(part, min(limit, self.cycles(1, 1)))

    def area(self, limit: int) -> float:
        """PEs of a square that keeps a time, without end if none does."""
        for n in range(LONGEST):
            here = self.cycles(1 << n, 1 << n)
            if here <= limit:
                before = self.cycles(1 << n - 1, 1 << n - 1) if n else here
                return 4.0 ** (n - 1 + _share(before, here, limit)) if before > here else 1.0
        return math.inf

    def heights(self, limit: int, weight: float) -> NDArray[np.int64] | None:
        """For each width from 1 on the least height on which it keeps a time; None if no width does.

        `weight` is the area over that which a stage would have if all had the same: a small one may be told coarsely.
        """
        fine, is_small = min(FINE, 1 << max(0, math.ceil(math.log2(FINE * weight)))), weight <= SMALL
        key = limit, fine, is_small
        if key not in self._heights:
            priced = dict(self._priced(*key))
            self._heights[key] = _between(priced) if priced else None
        return self._heights[key]

    def _priced(self, limit: int, fine: int, is_small: bool) -> Iterator[tuple[int, int]]:
        area = self.area(limit)
        if math.isinf(area):
            return
        centre, smallest = self._best_width(limit, area)
        beyond = next((width for width in PRICED if width > self._width), None)
        for width in PRICED:
            octaves = abs(math.log2(width / centre))
            is_near = octaves <= NEAR and not (is_small and width not in COARSELY_PRICED)
            is_near |= octaves <= FAR and width in COARSELY_PRICED
            # A mesh that is low or narrow asks for longer shapes than others do.
            is_long = centre < width <= 2 * area / self._height or self._width / 2 < width < centre
            if (is_near or is_long) and (width <= self._width or width == beyond):
                height = self._least_height(width, limit, area, fine, MORE * smallest)
                if height < NEVER:
                    yield width, height

    def _best_width(self, limit: int, area: float) -> tuple[int, int]:
        """Of the powers of two the width of the smallest shape, found from that of a square on; and its area."""
        width = best = 1 << round(math.log2(math.sqrt(area)))
        least = width * self._least_height(width, limit, area, ROUGH, math.inf)
        for step in (0.5, 2):
            width = best
            while 1 <= (width := int(width * step)) <= self._width:
                size = width * self._least_height(width, limit, area, ROUGH, math.inf)
                if size > LESS * least:
                    break
                best, least = width, size
        return best, least

    def _least_height(self, width: int, limit: int, area: float, fine: int, largest: float) -> int:
        highest = min(LONGEST, self._height.bit_length())
        n = min(highest, max(0, round(math.log2(max(1, area / width)))))
        while n and self.cycles(width, 1 << n) <= limit:
            n -= 1
        # What is higher than the mesh is as good as none.
        while n < highest and self.cycles(width, 1 << n) > limit:
            n += 1
        enough, below = self.cycles(width, 1 << n), self.cycles(width, 1 << max(0, n - 1))
        if enough > limit:
            return NEVER
        if below <= limit:
            return 1 << max(0, n - 1)
        low, high = 1 << n - 1, 1 << n
        # By halves, so that times near each other ask for the same prices.
        step = max(1, low // fine)
        while high - low > step and width * low < largest:
            middle = (low + high) // 2
            low, high = (low, middle) if self.cycles(width, middle) <= limit else (middle, high)
        return high


def _share(before: int, after: int, limit: int) -> float:
    """How far between two prices a time lies, as a power of the size."""
    return math.log(before / limit) / math.log(before / after)


def _between(priced: dict[int, int]) -> NDArray[np.int64]:
    """Heights for all widths from those of some: what a width has is enough for the wider ones."""
    widths = sorted(priced)
    heights = np.full(widths[-1], NEVER)
    for width in widths:
        heights[width - 1 :] = np.minimum(heights[width - 1 :], priced[width])
    return heights


class Search(Generic[Outcome]):
    """Looks for the fastest design that a mesh has room for, of those whose step takes less than `most_cycles`."""

    def __init__(self, line: Line[Outcome], machine: Machine, most_cycles: float = math.inf):
        self.best: Outcome | None = None
        # Of the slowest stage of all designs that were placed.
        self.shortest_cycles = 0
        self._line, self._width, self._height = line, machine.usable_width, machine.usable_height
        self._shapes: dict[Hashable, Shapes] = {}
        for n, kind in enumerate(line.kinds):
            self._shapes.setdefault(kind, Shapes(partial(line.cycles, n), machine))
        self._best_cycles = most_cycles
        self._best_number = 0
        # By the number of a time, the least step as far as it was priced, and whether there are designs that fit.
        self._least: dict[int, float] = {}
        self._seen: dict[int, bool] = {}
        # And the number of the shortest time that one of them keeps.
        self._fastest: dict[int, int] = {}
        self._least_steps: dict[Design, float] = {}

    def run(self) -> None:
        """Look at all times that may be the fastest."""
        last = math.ceil(math.log(max(shapes.cycles(1, 1) for shapes in self._shapes.values()), STEP)) + 1
        first = self._first(last)
        if first is None:
            return
        # Longer times have smaller parts, which fill sooner: up to where that gains no more.
        number, fastest = (first // COARSE + 1) * COARSE, first
        while number <= last and number - fastest <= PATIENCE * COARSE and self._may_be_faster(number):
            self._look(number)
            if self._best_number == number:
                fastest = number
            number += COARSE
        close = [n for n, cycles in self._least.items() if cycles < CLOSE * self._best_cycles]
        around = {near for n in close for near in range(max(first, n - COARSE + 1), min(last, n + COARSE - 1) + 1)}
        for near in sorted(around):
            if self._may_be_faster(near):
                self._look(near)

    def _first(self, last: int) -> int | None:
        """The shortest time that has a design."""
        # From the longest time on: small parts are priced before large ones, which few meshes have room for.
        low, high = last - OCTAVE, last
        while low > 0 and self._has_area(low):
            low, high = low - OCTAVE, low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if middle >= 0 and self._has_area(middle) else (middle, high)
        number = high
        # Squares may not fit where long shapes do, and then their designs may be far faster than asked for.
        while self._look(number) and self._fastest[number] < number - OCTAVE:
            number = self._fastest[number]
        if not self._look(number):
            return next((n for n in range(number + 1, last + 1) if self._look(n)), None)
        # Shapes have steps: a shorter time may fit where the next one does not.
        shorter = number - 1
        while shorter > max(0, number - GAP):
            if self._look(shorter):
                number = shorter
            shorter -= 1
        return number

    @property
    def has_designs(self) -> bool:
        """Whether there are any that fit, slower ones too."""
        return any(self._seen.values())

    def bound_cycles(self) -> int:
        """The area bound: the least time whose smallest shapes together are no larger than the mesh."""
        number = min(n for n, does_fit in self._seen.items() if does_fit)
        room, needed = self._width * self._height, [self._least_area(number)]
        while number > 0 and (less := self._least_area(number - 1)) <= room:
            number -= 1
            needed.append(less)
        if not number or math.isinf(less):
            bound = _limit(number)
        else:
            # Between two times the area is a power of the time.
            share = math.log(room / needed[-1]) / math.log(less / needed[-1])
            bound = math.ceil(_limit(number) / float(STEP**share))
        # What was met may be shorter than what shapes that were priced for other times tell.
        return min(bound, self.shortest_cycles)

    def _least_area(self, number: int) -> float:
        total = 0.0
        heights = self._heights(_limit(number))
        for kind, least in zip(self._line.kinds, self._line.least_pes, strict=True):
            own = heights[kind]
            if own is None:
                return math.inf
            total += max(least, int((np.arange(1, len(own) + 1) * own).min()))
        return total

    def _heights(self, limit: int) -> dict[Hashable, NDArray[np.int64] | None]:
        """For each kind of stage its least heights, finer for those that take more of the area."""
        areas = {kind: shapes.area(limit) for kind, shapes in self._shapes.items()}
        mean = sum(areas[kind] for kind in self._line.kinds) / len(self._line.kinds)
        if math.isinf(mean):
            return dict.fromkeys(areas)
        return {kind: shapes.heights(limit, areas[kind] / mean) for kind, shapes in self._shapes.items()}

    def _has_area(self, number: int) -> bool:
        areas = (self._shapes[kind].area(_limit(number)) for kind in self._line.kinds)
        return sum(map(max, areas, self._line.least_pes)) <= self._width * self._height

    def _may_be_faster(self, number: int) -> bool:
        """Whether designs for a time may be faster than the best, as far as squares tell."""
        limit = _limit(number)
        line = [self._shapes[kind] for kind in self._line.kinds]
        areas = [shapes.area(limit) for shapes in line]
        if any(map(math.isinf, areas)):
            return False
        lengths = [math.ceil(math.sqrt(area)) for area in areas]
        parts = tuple((side, side) for side in lengths)
        squares = Design(1, 1, tuple(Rect(0, 0, *part) for part in parts), parts)
        # Times have steps: what keeps one may be well below it. What keeps a shorter one was looked at there, but for
        # shapes that are faster than higher ones.
        shortest = math.floor(limit * (1 - STEPS))
        shorter = max((n for n, does_fit in self._seen.items() if does_fit and n < number), default=0)
        cycles = [min(shortest, shapes.cycles(1, 1)) for shapes in line]
        return self._line.estimate(squares, cycles, max(shortest, _limit(max(0, shorter - UNEVEN)))) < self._best_cycles

    def _look(self, number: int) -> bool:
        """Place the designs for a time that may be the fastest. Returns whether there are any."""
        if number not in self._seen:
            limit = _limit(number)
            told = [(self._told(design, limit), design) for design in self.designs(limit)]
            self._seen[number] = bool(told)
            if told:
                self._fastest[number] = _number(min(max(cycles) for cycles, _ in told))
            estimates = [(self._line.estimate(design, cycles, max(cycles)), design) for cycles, design in told]
            estimates.sort(key=lambda one: (one[0], one[1].width + one[1].height, one[1].width))
            for least, design in estimates:
                if least >= self._best_cycles:
                    break
                # Prices have steps: the same design may keep many times, and is placed once.
                is_new = design not in self._least_steps
                if is_new:
                    self._least_steps[design] = self._line.least_step(design)
                least_step = self._least_steps[design]
                self._least[number] = min(least_step, self._least.get(number, math.inf))
                if is_new and least_step < self._best_cycles:
                    placed = self._line.placed(design)
                    if placed:
                        slowest = max(self._line.cycles(n, *part) for n, part in enumerate(design.parts))
                        self.shortest_cycles = min(slowest, self.shortest_cycles or slowest)
                    if placed and placed[0] < self._best_cycles:
                        self._best_cycles, self.best = placed
                        self._best_number = number
        return self._seen[number]

    def _told(self, design: Design, limit: int) -> list[int]:
        kinds = (self._shapes[kind] for kind in self._line.kinds)
        return [own.told(part, limit) for own, part in zip(kinds, design.parts, strict=True)]

    def designs(self, limit: int) -> Iterator[Design]:
        """The designs for a time that the mesh has room for."""
        least = self._heights(limit)
        curves = self._curves(least)
        if not curves:
            return
        table, n = Intervals(curves, self._width, self._height, len(curves)), len(curves)
        heights, widths = table.curve(0, n), table.widths[n - 1, 0]
        corners = {int(heights[width - 1]) for width in WIDTHS if width <= self._width}
        corners |= {height for height in HEIGHTS if height <= self._height}
        sizes = {(int(widths[h - 1]), h) for h in corners if h <= self._height and widths[h - 1] <= self._width}
        # As low as the width allows: what is left over only lengthens ways.
        for width, height in sorted({(w, int(heights[w - 1])) for w, _ in sizes}):
            cuts = Cuts(n)
            tree = cuts.tree(table.cut(cuts, 0, n, (width, height)))
            rects = rectangles(tree, [curve[:width] for curve in curves], width, height)
            parts = [_part(least[kind], rect) for kind, rect in zip(self._line.kinds, rects, strict=True)]
            yield Design(width, height, tuple(rects), tuple(parts))

    def _curves(self, least_heights: Mapping[Hashable, NDArray[np.int64] | None]) -> list[Curve]:
        """The curves of all stages, with what memory asks for; none if a stage does not keep the time."""
        curves = []
        for kind, least in zip(self._line.kinds, self._line.least_pes, strict=True):
            own = least_heights[kind]
            if own is None:
                return []
            heights = np.full(self._width, NEVER)
            heights[: len(own)] = own[: self._width]
            heights[len(own) :] = own[-1]
            heights = np.maximum(heights, -(-least // np.arange(1, self._width + 1)))
            curves.append(np.where(heights > self._height, NEVER, heights).astype(np.int16))
        return curves


def _part(heights: NDArray[np.int64] | None, rect: Rect) -> tuple[int, int]:
    """The part of a rectangle that computes."""
    assert heights is not None
    own = heights[: rect.width]
    return int(np.argmax(own == own[-1])) + 1, int(own[-1])


def _limit(number: int) -> int:
    return math.ceil(STEP**number)


def _number(cycles: int) -> int:
    """Of the shortest time that is as long."""
    return math.ceil(math.log(cycles, STEP))
