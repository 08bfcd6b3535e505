"""Placement of stages side by side: rectangles on shelves, just as large as the time of the slowest stage asks for.

The mesh is cut into shelves of one height; stages stand on them in the order of the program, each as narrow as its
memory and the time allow. The time is bisected, and the number of shelves is tried. A stage that gains nothing from the
height of its shelf uses a part of it. Area that buys nothing stays free.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from lazytensor.errors import PlacementError
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.plan.stages import Stage

COARSE, FINE = 2.0, 2 ** (1 / 5)
"""Widths that are tried are the mesh's over powers of these: to choose the shelves, and then on the chosen ones."""
SLOWER = (1, 1.5, 2, 3, 5, 8)
"""Multiples of the shortest rhythm that are tried: smaller parts fill and drain sooner."""
_PRECISION = 50  # of the time that is bisected

Time = Callable[[int, int, int], int]
"""(stage, width, height) -> cycles of the stage for a batch."""


@dataclass(frozen=True)
class Placement:
    """For each stage its rectangle, the width and height of the part that computes, and bytes on one of its PEs."""

    rects: tuple[Rect, ...]
    parts: tuple[tuple[int, int], ...]
    bytes_per_pe: tuple[int, ...]

    @property
    def peak_bytes_per_pe(self) -> int:
        """Bytes on the fullest PE."""
        return max(self.bytes_per_pe, default=0)


@dataclass(frozen=True)
class Floor:
    """What is to be placed: stages, their kind (equal kinds get equal parts), their time, and the machine.

    `step` gives the cycles of a whole step for the parts of all stages.
    """

    stages: Sequence[Stage]
    kinds: Sequence[Hashable]
    time: Time
    step: Callable[[Sequence[tuple[int, int]]], int]
    machine: Machine


Placer = Callable[[Floor], Placement]


def shelves(floor: Floor) -> Placement:
    """The placement with the fastest step. Raises PlacementError if memory does not allow any."""
    require_room(floor)
    if not floor.stages:
        return Placement((), (), ())
    best = _on_mesh(floor, floor.machine.usable_width, floor.machine.usable_height)
    if best is None:
        raise _too_full(floor)
    per_pe = (ceil_div(stage.held_bytes, rect.area) for stage, rect in zip(floor.stages, best.rects, strict=True))
    return Placement(tuple(best.rects), tuple(best.parts), tuple(per_pe))


def _on_mesh(floor: Floor, width: int, height: int) -> "_Layout | None":
    """The layout with the fastest step on a mesh of that size."""
    layouts: dict[int, _Layout] = {}
    count = 1
    # Powers of two, whose heights share prices; twice as many shelves as stages leave the last ones empty.
    while count <= min(height, 2 * len(floor.stages)):
        if layout := _Shelves(floor, (width, height // count), count, COARSE).best():
            layouts[count] = layout
        count *= 2
    # Finer widths only where the coarse ones say that it pays.
    if not layouts:
        return None
    count = min(layouts, key=lambda n: layouts[n].cycles)
    fine = _Shelves(floor, (width, height // count), count, FINE).best()
    return min((layout for layout in (layouts[count], fine) if layout), key=lambda layout: layout.cycles)


PLACERS: Mapping[str, Placer] = {"shelves": shelves}
"""Name -> a function that places stages."""


def least_area(stage: Stage, machine: Machine) -> int:
    """PEs that a stage needs for its memory."""
    return max(1, ceil_div(stage.held_bytes, machine.usable_bytes_per_pe))


def require_room(floor: Floor) -> None:
    """Raise PlacementError if the stages hold more than the machine has."""
    machine = floor.machine
    needed = sum(least_area(stage, machine) for stage in floor.stages)
    if needed > machine.usable_pes:
        largest = max(floor.stages, key=lambda s: s.held_bytes)
        excess = (needed - machine.usable_pes) * machine.usable_bytes_per_pe
        raise PlacementError(
            f"the layers hold {sum(s.held_bytes for s in floor.stages):,} bytes, for which {needed:,} PEs are needed; "
            f"{machine.name} has {machine.usable_pes:,}: {excess:,} bytes over; the largest, {largest.name}, holds "
            f"{largest.held_bytes:,} bytes at {machine.usable_bytes_per_pe:,} usable bytes a PE",
            where=largest.where,
            hint="Use weight-streaming mode, smaller layers or a larger machine.",
        )


def _too_full(floor: Floor) -> PlacementError:
    largest = max(floor.stages, key=lambda s: s.held_bytes)
    return PlacementError(
        f"{len(floor.stages)} stages, which need {sum(least_area(s, floor.machine) for s in floor.stages):,} of the "
        f"{floor.machine.usable_pes:,} PEs of {floor.machine.name}, do not fit on it as rectangles; the largest is "
        f"{largest.name} with {largest.held_bytes:,} bytes",
        where=largest.where,
        hint="Use weight-streaming mode, smaller layers or a larger machine.",
    )


@dataclass(frozen=True)
class _Layout:
    cycles: int
    rects: Sequence[Rect]
    parts: Sequence[tuple[int, int]]


class _Shelves:
    """Stages on `count` shelves of one width and height."""

    def __init__(self, floor: Floor, size: tuple[int, int], count: int, narrower: float):
        self.floor, self.count = floor, count
        self.width, self.height = size
        # One stage of each kind stands for the time of all of them. Memory is each stage's own: those that come first
        # hold the samples of all that follow.
        self.samples: dict[Hashable, int] = {}
        for n, kind in enumerate(floor.kinds):
            self.samples.setdefault(kind, n)
        # In PEs, and so independent of the shelf that a stage comes to stand on.
        self.least = [least_area(stage, floor.machine) for stage in floor.stages]
        self.ladder = _widths(self.width, narrower)
        self._sizes: dict[tuple[Hashable, int], tuple[int, int]] = {}

    def best(self) -> _Layout | None:
        """The layout with the fastest step among some rhythms, or None if the stages do not stand on the shelves."""
        if not self.samples:
            return _Layout(0, (), ())
        fastest = self._fastest()
        if fastest is None:
            return None
        # A rhythm that only large parts keep costs more on their long ways than it saves, where the batch is small.
        slower = (self._stand(int(fastest * times)) for times in SLOWER)
        return min((layout for layout in slower if layout), key=lambda layout: layout.cycles)

    def _fastest(self) -> int | None:
        """Cycles that the slowest stage can keep."""
        high = max(self._cycles(kind, self.ladder[0]) for kind in self.samples)
        if not self._stand(high):
            return None
        # No stage is faster than on the widest part, as a rule; times differ by powers, so the middle is a mean of
        # logarithms.
        low = min(high, max(self._cycles(kind, self.ladder[-1]) for kind in self.samples))
        while high - low > max(1, high // _PRECISION):
            middle = max(low + 1, math.isqrt(low * high))
            low, high = (low, middle) if self._stand(middle) else (middle, high)
        return high

    def _stand(self, limit: int) -> _Layout | None:
        """A layout in which no stage takes more than `limit` cycles, if the shelves are long enough."""
        asked = {kind: self._width(kind, limit) for kind in self.samples}
        rects: list[Rect] = []
        parts: list[tuple[int, int]] = []
        x = shelf = 0
        for kind, least in zip(self.floor.kinds, self.least, strict=True):
            computing = asked[kind]
            # Where memory asks for more PEs than the time does, the others hold data only.
            width = max(computing or 0, ceil_div(least, self.height))
            if computing is None or width > self.width:
                return None
            if x + width > self.width:
                x, shelf = 0, shelf + 1
            if shelf == self.count:
                return None
            height = self._size(kind, computing)[1]
            rects.append(Rect(x, shelf * self.height, width, max(height, ceil_div(least, width))))
            parts.append((computing, height))
            x += width
        return _Layout(self.floor.step(parts), rects, parts)

    def _width(self, kind: Hashable, limit: int) -> int | None:
        """The least width of the ladder at which a kind keeps `limit`."""
        low, high = 0, len(self.ladder) - 1
        if self._cycles(kind, self.ladder[low]) <= limit:
            return self.ladder[low]
        if self._cycles(kind, self.ladder[high]) > limit:
            # Wider is not always faster: hops cost. Then some width between may do.
            return next((w for w in self.ladder if self._cycles(kind, w) <= limit), None)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._cycles(kind, self.ladder[middle]) <= limit else (middle, high)
        return self.ladder[high]

    def _cycles(self, kind: Hashable, width: int) -> int:
        return self._size(kind, width)[0]

    def _size(self, kind: Hashable, width: int) -> tuple[int, int]:
        """Cycles of a kind on a width, and how much of the shelf's height is best for that."""
        key = kind, width
        if key not in self._sizes:
            n, height = self.samples[kind], self.height
            best = self.floor.time(n, width, height), height
            # Halved as long as it helps: every size is a price, and all kinds ask at many widths.
            while height > 1:
                height //= 2
                cycles = self.floor.time(n, width, height)
                if cycles > best[0]:
                    break
                best = cycles, height
            self._sizes[key] = best
        return self._sizes[key]


def _widths(whole: int, narrower: float) -> Sequence[int]:
    count = 1 + int(math.log(whole, narrower))
    # Rising, and without the repetitions that rounding down makes of small ones.
    return sorted({1, whole, *(int(whole * narrower**-n) or 1 for n in range(count))})
