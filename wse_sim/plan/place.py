"""Placement of stages side by side: rectangles on shelves, just as large as the time of the slowest stage asks for.

The mesh is cut into shelves of one height; stages stand on them in the order of the program, each as narrow as its
memory and the time allow. The time is bisected, and the number of shelves is tried. A stage that gains nothing from the
height of its shelf uses a part of it. Area that buys nothing stays free.

Stages are priced on widths that are powers of two apart; between them time is taken as a power of the width. What a
report says of the placement is priced again on the parts as they came out.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from lazytensor.errors import PlacementError
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.plan.stages import Stage

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
    """What is to be placed: stages, their kind (equal kinds get equal parts), and their time for a batch."""

    stages: Sequence[Stage]
    kinds: Sequence[Hashable]
    time: Time
    batch_size: int
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
    best: _Layout | None = None
    # Powers of two, whose heights share prices, around the number on which equal stages would be squares.
    square = round(math.log2(max(1.0, math.sqrt(len(floor.stages) * height / width))))
    for count in (1 << n for n in range(max(0, square - 1), square + 3)):
        layout = _Shelves(floor, (width, height // count), count).best() if count <= height else None
        if layout and (best is None or layout.cycles < best.cycles):
            best = layout
    return best


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


@dataclass(frozen=True)
class _Part:
    """Extents on which a stage computes, and its cycles there."""

    width: int
    height: int
    cycles: int


class _Shelves:
    """Stages on `count` shelves of one width and height."""

    def __init__(self, floor: Floor, size: tuple[int, int], count: int):
        self.floor, self.count = floor, count
        self.width, self.height = size
        # One stage of each kind stands for the time of all of them. Memory is each stage's own: those that come first
        # hold the samples of all that follow.
        self.samples: dict[Hashable, int] = {}
        for n, kind in enumerate(floor.kinds):
            self.samples.setdefault(kind, n)
        # In PEs, and so independent of the shelf that a stage comes to stand on.
        self.least = [least_area(stage, floor.machine) for stage in floor.stages]
        self.ladder = _widths(self.width)
        self._parts: dict[tuple[Hashable, int], _Part] = {}

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
        asked = {kind: self._part(kind, limit) for kind in self.samples}
        rects: list[Rect] = []
        parts: list[tuple[int, int]] = []
        x = shelf = 0
        for kind, least in zip(self.floor.kinds, self.least, strict=True):
            part = asked[kind]
            if part is None:
                return None
            # Where memory asks for more PEs than the time does, the others hold data only.
            width = max(part.width, ceil_div(least, self.height))
            if width > self.width:
                return None
            if x + width > self.width:
                x, shelf = 0, shelf + 1
            if shelf == self.count:
                return None
            rects.append(Rect(x, shelf * self.height, width, max(part.height, ceil_div(least, width))))
            parts.append((part.width, part.height))
            x += width
        cycles = [part.cycles for kind in self.floor.kinds if (part := asked[kind])]
        # The rhythm of the slowest, and the way of one sample through all of them.
        return _Layout(max(cycles) + sum(cycles) // self.floor.batch_size, rects, parts)

    def _part(self, kind: Hashable, limit: int) -> "_Part | None":
        """The least part on which a kind keeps `limit`."""
        low, high = 0, len(self.ladder) - 1
        if self._cycles(kind, self.ladder[low]) <= limit:
            return self._priced(kind, self.ladder[low])
        if self._cycles(kind, self.ladder[high]) > limit:
            # Wider is not always faster: hops cost. Then some width between may do.
            fast = next((w for w in self.ladder if self._cycles(kind, w) <= limit), None)
            return self._priced(kind, fast) if fast else None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._cycles(kind, self.ladder[middle]) <= limit else (middle, high)
        return self._between(self._priced(kind, self.ladder[low]), self._priced(kind, self.ladder[high]), limit)

    def _between(self, slow: "_Part", fast: "_Part", limit: int) -> "_Part":
        """The part between two on which `limit` is kept, if time is a power of the width there."""
        if limit <= fast.cycles:
            return fast
        share = math.log(slow.cycles / limit) / math.log(slow.cycles / fast.cycles)
        width = math.ceil(slow.width * (fast.width / slow.width) ** share)
        return _Part(min(width, fast.width), fast.height, limit)

    def _cycles(self, kind: Hashable, width: int) -> int:
        return self._priced(kind, width).cycles

    def _priced(self, kind: Hashable, width: int) -> "_Part":
        """A kind on a width, and on as much of the shelf's height as is best for that."""
        key = kind, width
        if key not in self._parts:
            n, height = self.samples[kind], self.height
            best = _Part(width, height, self.floor.time(n, width, height))
            # Halved as long as it helps: every size is a price, and all kinds ask at many widths.
            while height > 1:
                height //= 2
                cycles = self.floor.time(n, width, height)
                if cycles > best.cycles:
                    break
                best = _Part(width, height, cycles)
            self._parts[key] = best
        return self._parts[key]


def _widths(whole: int) -> Sequence[int]:
    # Rising, and without the repetitions that rounding down makes of small ones.
    return sorted({whole >> n for n in range(whole.bit_length())})
