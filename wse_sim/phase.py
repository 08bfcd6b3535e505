"""Phase programs: what a kernel does on its rectangle, as data, to be read in several ways.

Leaves say what every PE of a rectangle does: compute, or move words along an axis. Four forms compose them: `Seq` one
after another, `Par` at the same time, `Repeat` a number of times, `Rounds` a number of times with other addresses each
time. There are three readings of a program: as cycles by closed forms (`cost_model`), as data with NumPy (`reference`)
and as wavelets on routers (`fabric`).

Words are wavelets of 32 bits, for each PE that sends; addresses count the same words in the memory of each PE. Types of
16 bits lie two to a word. An axis is "x" (along the rows), "y" (along the columns) or "xy" (the whole rectangle). With
`groups` every line of the axis is cut into that many equal lines that act on their own; PEs that are left over stay
idle and keep what they have. Position 0 of a line is its left or upper end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from lazytensor.errors import LazyError
from wse_sim.layout import Rect

# An instruction set needs no phases and a phase only hands its instructions on: at run time neither imports the other.
if TYPE_CHECKING:
    from wse_sim.isa.core_program import Instruction

AXES = ("x", "y", "xy")
COMPUTE_OPS = ("fma", "add", "move", "special")
PORTS = ("fabric", "edge")
REDUCTION_ALGORITHMS = ("star", "chain", "tree", "two_phase", "auto_gen")
SHIFT_WRAPS = ("", "line", "folded")
DTYPES = ("float32", "float16", "bfloat16")
COMBINE_OPS = ("add", "max")


def _require(value: str, known: tuple[str, ...], what: str) -> None:
    if value not in known:
        raise LazyError(f"there is no {what} {value!r}", hint=f"Use one of {', '.join(known)}.")


def _require_line(rect: Rect, axis: str, groups: int) -> None:
    _require(axis, AXES, "axis")
    # A rectangle as a whole is not cut into groups: give smaller rectangles instead.
    length = {"x": rect.width, "y": rect.height, "xy": 1}[axis]
    if not 1 <= groups <= length:
        raise LazyError(f"a line of {length} PEs cannot be cut into {groups} groups", hint=f"Use 1 to {length}.")


def _require_not_negative(**counts: int) -> None:
    for name, value in counts.items():
        if value < 0:
            raise LazyError(f"{name} = {value}", hint="Give a number of at least 0.")


def _require_algorithm(algorithm: str, size: int, known: tuple[str, ...]) -> None:
    if algorithm:
        _require(algorithm, known, "reduction")
    # A size without the algorithm that has groups would be ignored silently.
    if size and (algorithm != "two_phase" or size < 0):
        raise LazyError(f"{algorithm or 'a reduction'} has no groups of {size}", hint="Use two_phase.")


@dataclass(frozen=True)
class Compute:
    """Every PE runs `vectors` vector operations of `length` elements of `itemsize` bytes each.

    Around each of them stand `scalar_cycles` of scalar code: the turn of a loop, the reading of an index. With a length
    of 0 there is only that code. Elements take `slowdown` times as long where operands lie in banks that conflict. As
    data it changes no word: it is a price.
    """

    rect: Rect
    op: str
    vectors: int
    length: int
    itemsize: int
    scalar_cycles: float = 0
    slowdown: float = 1

    def __post_init__(self) -> None:
        _require(self.op, COMPUTE_OPS, "operation")


@dataclass(frozen=True)
class Local:
    """Every PE runs the instructions `body` over its own memory; no operand is a colour."""

    rect: Rect
    body: "tuple[Instruction, ...]"

    def __post_init__(self) -> None:
        for instruction in self.body:
            for operand in getattr(instruction, "operands", ()):
                # By attribute: operands are defined above this file in the layers, and all that matters is whether they
                # have a colour.
                if hasattr(operand, "colour"):
                    hint = "Use Shift, Broadcast, Reduce, AllReduce or Stream for what crosses the fabric."
                    raise LazyError(f"`{instruction}` of a local phase uses a colour", hint=hint)


@dataclass(frozen=True)
class Shift:
    """Every PE sends the `words` at `take` to the PE `hops` further along the axis, where they come to lie at `put`.

    All send at once; negative hops go to the left and upwards. What would leave the line is not sent, and a PE that
    gets nothing keeps what it has, unless the line is closed to a ring: with `wrap` "line" the far end sends back over
    the whole line (Cannon), with "folded" the order of the PEs is 0, 2, 4, ..., 5, 3, 1, so that a neighbour on the
    ring is at most two PEs away (WaferLLM's interleaving, OSDI 2025).
    """

    rect: Rect
    axis: str
    words: int
    hops: int = 1
    wrap: str = ""
    take: int = 0
    put: int = 0

    def __post_init__(self) -> None:
        _require(self.axis, AXES[:2], "axis of a shift")
        _require(self.wrap, SHIFT_WRAPS, "wrap of a shift")
        _require_not_negative(words=self.words, take=self.take, put=self.put)


@dataclass(frozen=True)
class Broadcast:
    """The PE at position `source` of every line along the axis gives its `words` at `take` to all PEs of the line.

    All of them, the sender too, hold the words at `put` afterwards. In a rectangle ("xy") the positions count along
    its rows, one row after the other.
    """

    rect: Rect
    axis: str
    words: int
    groups: int = 1
    source: int = 0
    take: int = 0
    put: int = 0

    def __post_init__(self) -> None:
        _require_line(self.rect, self.axis, self.groups)
        _require_not_negative(words=self.words, take=self.take, put=self.put)
        length = {"x": self.rect.width, "y": self.rect.height, "xy": self.rect.area}[self.axis] // self.groups
        if not 0 <= self.source < length:
            raise LazyError(f"no position {self.source} on a line of {length} PEs", hint=f"Use 0 to {length - 1}.")


@dataclass(frozen=True)
class Reduce:
    """The `words` at `at` of all PEs of a line are combined, element by element, on the PE at position 0.

    `combine` is "add" or "max" of elements of `dtype`; the result takes the place of that PE's own words. What the
    others hold at `at` afterwards is undefined. `algorithm` is one of `REDUCTION_ALGORITHMS`; without a name the model
    takes the fastest. `size` is the number of PEs of a group in a two-phase reduction; 0 leaves it to the algorithm.
    """

    rect: Rect
    axis: str
    words: int
    groups: int = 1
    algorithm: str = ""
    size: int = 0
    at: int = 0
    dtype: str = "float32"
    combine: str = "add"

    def __post_init__(self) -> None:
        _require_algorithm(self.algorithm, self.size, REDUCTION_ALGORITHMS)
        _require_line(self.rect, self.axis, self.groups)
        _require_not_negative(words=self.words, at=self.at)
        _require(self.dtype, DTYPES, "type to reduce")
        _require(self.combine, COMBINE_OPS, "combination")


@dataclass(frozen=True)
class AllReduce:
    """As `Reduce`, and every PE of the line gets the result at `at`.

    `algorithm` is that of a reduction, which a broadcast follows, or "ring": parts are combined on their way around
    the folded line, and go around it once more.
    """

    rect: Rect
    axis: str
    words: int
    groups: int = 1
    algorithm: str = ""
    size: int = 0
    at: int = 0
    dtype: str = "float32"
    combine: str = "add"

    def __post_init__(self) -> None:
        _require_algorithm(self.algorithm, self.size, (*REDUCTION_ALGORITHMS, "ring"))
        _require_line(self.rect, self.axis, self.groups)
        _require_not_negative(words=self.words, at=self.at)
        _require(self.dtype, DTYPES, "type to reduce")
        _require(self.combine, COMBINE_OPS, "combination")


@dataclass(frozen=True)
class Stream:
    """`bytes` in total flow into ("in") or out of ("out") the rectangle, in equal blocks at `at` of each PE.

    Through the port "fabric" they come from a neighbour over one link for each PE of the longest side; through "edge"
    from outside the wafer, which is bounded by the edge I/O as well. The neighbour is a line of cores along that side,
    to the left of the rectangle or above it (to the right or below, if the rectangle lies at that border). Each holds
    the blocks of its line at `at`, one after the other, that of position 0 first.
    """

    rect: Rect
    bytes: int
    direction: str
    port: str = "fabric"
    at: int = 0

    def __post_init__(self) -> None:
        _require(self.direction, ("in", "out"), "direction")
        _require(self.port, PORTS, "port")
        _require_not_negative(bytes=self.bytes, at=self.at)


@dataclass(frozen=True)
class Seq:
    """Parts one after another."""

    parts: "tuple[Phase, ...]"


@dataclass(frozen=True)
class Par:
    """Parts at the same time, on separate colours and threads of the same cores, whose issue slot they share."""

    parts: "tuple[Phase, ...]"


@dataclass(frozen=True)
class Repeat:
    """The body `times` times."""

    times: int
    body: "Phase"

    def __post_init__(self) -> None:
        if self.times < 0:
            raise LazyError(f"a phase cannot repeat {self.times} times", hint="Give a count of at least 0.")


@dataclass(frozen=True)
class Rounds:
    """`times` rounds one after another, of which `body` gives the phase by its number, from 0.

    What runs is every round; what is priced are `looks` of them, evenly spread, each for as many rounds as lie around
    it. One is enough where rounds differ in addresses alone; where a cost rises along the way, as that of a broadcast
    from each PE of a line in turn, a few are.
    """

    times: int
    body: "Callable[[int], Phase]"
    looks: int = 1

    def __post_init__(self) -> None:
        _require_not_negative(times=self.times)
        if self.looks < 1:
            raise LazyError(f"rounds that are looked at {self.looks} times", hint="Look at one of them at least.")

    @property
    def parts(self) -> "Iterator[Phase]":
        """Every round."""
        return (self.body(number) for number in range(self.times))

    @property
    def priced_rounds(self) -> "Iterator[tuple[Phase, int]]":
        """Rounds that stand for others, with how many rounds each stands for."""
        looks = min(self.looks, self.times)
        bounds = [self.times * n // looks for n in range(looks + 1)] if looks else []
        for start, end in pairwise(bounds):
            yield self.body((start + end) // 2), end - start


Phase = Compute | Local | Shift | Broadcast | Reduce | AllReduce | Stream | Seq | Par | Repeat | Rounds
# The neutral element of `Seq` and `Par`, so that recipes need no case for nothing to do.
EMPTY_PHASE = Seq(())
"""Does nothing and takes no time."""
