"""Generate sums in a fixed order: the bits of a sum depend only on the number of elements.

A sum has `LANES` partial sums, which LLVM keeps in vector registers: lane j adds the elements j, j + LANES and so on.
After the last full round, elements in full groups continue in the lanes from 0 on. Fewer than GROUP remaining elements
go into the last lanes of the first group, or into the first lanes if there are no other elements. The lanes are then
added by halves: those from the largest power of two on are added to the first ones, until one is left. A sum of more
than two blocks adds the sums of its blocks in order, which keeps the rounding error small.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

BLOCK = 4096  # elements summed in one go before the partial sum is added to the total
LANES = 64  # partial sums of one reduction: four registers of AVX-512, eight of AVX2
GROUP = 16  # lanes that the last elements fill together

Line = Callable[[int, str], None]
"""A function (indent, text) that adds a line of text."""
Values = Callable[[str, int], list[str]]
"""A function (index text, indent) that writes one iteration, and returns the texts of the values to accumulate."""


@dataclass(frozen=True)
class Accumulation:
    """One of the sums of a loop. The variable of its result is `s{name}_{indent}`.

    - `name`: part of the names of its variables.
    - `start`: the text of the initial value.
    - `step`: a function from two texts to the text of their sum.
    - `kind`: the NumPy type of the lanes.
    - `total`: the name of the `lanes_` function that adds the lanes; empty if they are added one by one.
    """

    name: str
    start: str
    step: Callable[[str, str], str]
    kind: str
    total: str

    def lane(self, place: str) -> str:
        """Return the text of the lane at index `place`."""
        return f"l{self.name}[{place}]"


class LaneWriter:
    """Writes sums by calling `line`. If `reads_once`, it never generates an iteration that runs a second time."""

    def __init__(self, line: Line, sums: Sequence[Accumulation], reads_once: bool):
        self._line, self._sums, self._reads_once = line, sums, reads_once

    def allocations(self) -> list[str]:
        """Return the lines that allocate the lanes, to be placed before all loops."""
        return [f"l{s.name} = np.empty({LANES}, np.{s.kind})" for s in self._sums]

    def write(self, size: int, indent: int, values: Values) -> None:
        """Write the sums of `size` elements. The result of each is in its variable at `indent`; see `Accumulation`.

        `values(at, indent)` writes what computes the element `at`, a text, and returns the text of its value for each
        sum. Above 2 * BLOCK elements, blocks are summed one by one and added to a total.
        """
        if size <= 2 * BLOCK:
            self._lanes("", size, indent, values)
            return
        for s in self._sums:
            self._line(indent, f"s{s.name}_{indent} = {s.start}")
        self._line(indent, f"for block in range(0, {size}, {BLOCK}):")
        inside = indent + 1
        self._lanes("block", size, inside, values)
        for s in self._sums:
            self._line(inside, f"s{s.name}_{indent} = {s.step(f's{s.name}_{indent}', f's{s.name}_{inside}')}")

    def _lanes(self, block: str, size: int, indent: int, values: Values) -> None:
        """Write the sums of `size` elements, or of one block of them if `block` is the name of the block's first
        element.
        """
        rounds, rest = size // LANES * LANES, size % GROUP
        count = LANES if rounds else (size - rest) or size
        self._each_lane(self._sums, count, indent, lambda s: s.start)
        if rounds:
            last = f"min(block + {BLOCK}, {rounds})" if block else str(rounds)
            self._line(indent, f"for part in range({block or 0}, {last}, {LANES}):")
            self._over_lanes(f"{LANES}", "part + lane", indent + 1, values)
        if size > rounds:
            inside = indent
            if block:
                self._line(indent, f"if block + {BLOCK} >= {size}:")
                inside += 1
            self._last(size, rounds, rest, inside, values)
        self._total(count, indent)

    def _last(self, size: int, rounds: int, rest: int, indent: int, values: Values) -> None:
        """Write the accumulation of the elements after the last full round.

        `rounds` is the number of elements in full rounds, and `rest` that of elements after the last full group.
        """
        groups = size - rest - rounds
        if groups:
            self._over_lanes(f"{groups}", f"{rounds} + lane", indent, values)
        if not rest:
            return
        if size < GROUP:
            self._over_lanes(f"{size}", "lane", indent, values)
        elif self._reads_once:
            self._over_lanes(f"{GROUP - rest}, {GROUP}", f"{size - GROUP} + lane", indent, values)
        else:
            # Load a whole vector, and mask the elements that are accumulated already.
            self._over_lanes(f"{GROUP}", f"{size - GROUP} + lane", indent, values, f"lane >= {GROUP - rest}")

    def _over_lanes(self, span: str, at: str, indent: int, values: Values, condition: str = "") -> None:
        """Write the accumulation of element `at` in each lane of `span`, the text of a range's arguments.

        With a `condition`, only in lanes where it holds.
        """
        self._line(indent, f"for lane in range({span}):")
        for s, value in zip(self._sums, values(at, indent + 1), strict=True):
            chosen = f"({value} if {condition} else {s.start})" if condition else value
            self._line(indent + 1, f"{s.lane('lane')} = {s.step(s.lane('lane'), chosen)}")

    def _total(self, count: int, indent: int) -> None:
        """Write the addition of the lanes of each sum, by halves, into its variable at `indent`. `count` is the
        number of lanes.
        """
        singly = [s for s in self._sums if not s.total or count % GROUP]
        left = count
        while singly and left > 1:
            half = 1 << ((left - 1).bit_length() - 1)
            self._each_lane(singly, left - half, indent, _halves(half))
            left = half
        for s in self._sums:
            total = s.lane("0") if s in singly else f"{s.total}(l{s.name}, {count})"
            self._line(indent, f"s{s.name}_{indent} = {total}")

    def _each_lane(
        self, sums: Sequence[Accumulation], count: int, indent: int, value: Callable[[Accumulation], str]
    ) -> None:
        """Write the assignment of a value to each of the first `count` lanes of some sums.

        `value` gives the text of the value for a sum, in terms of the variable "lane".
        """
        self._line(indent, f"for lane in range({count}):")
        for s in sums:
            self._line(indent + 1, f"{s.lane('lane')} = {value(s)}")


def _halves(half: int) -> Callable[[Accumulation], str]:
    """Return the text of a lane added to the lane `half` further."""
    return lambda s: s.step(s.lane("lane"), s.lane(f"lane + {half}"))


def sum_text(size: int, indent: int, lines: Sequence[str], value: str, reads_once: bool) -> str:
    """Return the text of one float32 sum of `size` elements: `s0_{indent}`, over the array `l0` of lanes.

    `lines` compute element `k` of the sum, whose text is `value`. `reads_once` is as in `LaneWriter`.
    """
    written: list[str] = []

    def line(depth: int, text: str) -> None:
        written.append("    " * depth + text + "\n")

    def values(at: str, inside: int) -> list[str]:
        for text in (f"k = {at}", *lines):
            line(inside, text)
        return [value]

    total = Accumulation("0", "np.float32(0)", lambda a, b: f"{a} + {b}", "float32", "lanes_add")
    LaneWriter(line, [total], reads_once).write(size, indent, values)
    return "".join(written)
