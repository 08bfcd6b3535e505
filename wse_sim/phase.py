"""Phase programs: a description, as data, of what a kernel does on its rectangle of PEs.

A leaf phase describes what all PEs of a rectangle do: compute, or move words along an axis. `Seq` runs phases one after
another, `Par` at the same time, `Repeat` several times, and `Rounds` several times with other addresses each time. A
phase program has three interpretations: cycles by closed forms (`cost_model`), NumPy on the memories (`reference`), and
wavelets on routes (`fabric`).

Sizes are in words of 32 bits, the payload of one wavelet, and count the words that one PE sends. Addresses count the
same words in the memory of each PE. Two elements of a 16-bit type share a word. An axis is "x" (along the rows), "y"
(along the columns) or "xy" (the whole rectangle). `groups` cuts each line of the axis into that many equal lines, which
are independent of each other; PEs that are left over stay idle and keep their words. Position 0 of a line is its left
or upper end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from lazytensor.errors import LazyError
from wse_sim.layout import Rect

# Imported for type checking only: at run time `phase` and `core_program` do not depend on each other.
if TYPE_CHECKING:
    from wse_sim.isa.core_program import Instruction

AXES = ("x", "y", "xy")
"""Values of `axis`: along rows, along columns, over the whole rectangle."""
COMPUTE_OPS = ("fma", "add", "move", "special")
"""Values of `Compute.op`."""
PORTS = ("fabric", "edge")
"""Values of `Stream.port`."""
REDUCTION_ALGORITHMS = ("star", "chain", "tree", "two_phase", "auto_gen")
"""Values of `Reduce.algorithm`; an empty name lets the cost model choose."""
SHIFT_WRAPS = ("", "line", "folded")
"""Values of `Shift.wrap`."""
DTYPES = ("float32", "float16", "bfloat16")
"""Element types of reductions."""
COMBINE_OPS = ("add", "max")
"""Values of `combine` in reductions."""


def _require(value: str, known: tuple[str, ...], what: str) -> None:
    if value not in known:
        raise LazyError(f"{value!r} is not a valid {what}", hint=f"Use one of {', '.join(known)}.")


def _require_line(rect: Rect, axis: str, groups: int) -> None:
    """Raise LazyError if `axis` is unknown or its lines cannot be cut into `groups`."""
    _require(axis, AXES, "axis")
    # The axis "xy" has no groups: use several smaller rectangles instead.
    length = {"x": rect.width, "y": rect.height, "xy": 1}[axis]
    if not 1 <= groups <= length:
        raise LazyError(f"a line of {length} PEs cannot be cut into {groups} groups", hint=f"Use 1 to {length} groups.")


def _require_not_negative(**counts: int) -> None:
    for name, value in counts.items():
        if value < 0:
            raise LazyError(f"{name} is negative: {value}", hint="Give a number of at least 0.")


def _require_algorithm(algorithm: str, size: int, known: tuple[str, ...]) -> None:
    """Raise LazyError if `algorithm` is neither empty nor in `known`, or if `size` is given without "two_phase"."""
    if algorithm:
        _require(algorithm, known, "reduction algorithm")
    # Any other algorithm would silently ignore the size.
    if size and (algorithm != "two_phase" or size < 0):
        hint = 'Give a positive size with algorithm="two_phase", or leave size out.'
        raise LazyError(f"a reduction with algorithm {algorithm!r} cannot use groups of {size} PEs", hint=hint)


def _make_tuple(phase: object, name: str) -> None:
    """Replace the field `name` of a phase by a tuple of its items, since phases are keys of tables.

    Raises LazyError for a value without items, such as the only part in parentheses without a comma.
    """
    items = getattr(phase, name)
    if isinstance(items, tuple):
        return
    try:
        object.__setattr__(phase, name, tuple(items))
    except TypeError:
        what = f"{name} of a {type(phase).__name__} is a {type(items).__name__}"
        raise LazyError(what, hint="Give a tuple or a list, such as (one,) with a comma.") from None


@dataclass(frozen=True)
class Compute:
    """A phase in which every PE runs `vectors` vector operations of `length` elements of `itemsize` bytes each.

    It only has a cost: in the NumPy interpretation it changes no word. `op` selects the rate of the machine and is one
    of `COMPUTE_OPS`. `scalar_cycles` is the cycles of scalar code (a loop, reading an index) for each vector operation.
    With a `length` of 0 there is only scalar code. `apart` is the number of words from the start of one source to that
    of the other, which determines whether they meet in a memory bank; None if only one source is in memory. `slowdown`
    multiplies the cycles of the elements, for mixtures of conflicts. Raises LazyError for another `op`.

    >>> import wse_sim
    >>> wse_sim.cost(Compute(Rect(0, 0, 4, 4), "fma", vectors=2, length=100, itemsize=4), "wse2").cycles
    212
    """

    rect: Rect
    op: str
    vectors: int
    length: int
    itemsize: int
    scalar_cycles: float = 0
    slowdown: float = 1
    apart: int | None = None

    def __post_init__(self) -> None:
        _require(self.op, COMPUTE_OPS, "operation")


@dataclass(frozen=True)
class Local:
    """A phase in which every PE runs the instructions `body` on its own memory.

    A builder of the kernel's allocator collects the instructions. Raises LazyError if an operand of an instruction is a
    colour: words that cross the fabric need a move phase.

    >>> from wse_sim import Allocator
    >>> memory = Allocator()
    >>> numbers, build = memory.vector(8), memory.builder()
    >>> build.mul(numbers, numbers, 2.0, 8)
    >>> print(*Local(Rect(0, 0, 4, 4), build.body()).body)
    mul [0], [0], 2.0 x8
    """

    rect: Rect
    body: "tuple[Instruction, ...]"

    def __post_init__(self) -> None:
        _make_tuple(self, "body")
        for instruction in self.body:
            for operand in getattr(instruction, "operands", ()):
                # Tested by attribute, since the operand classes are not imported here.
                if hasattr(operand, "colour"):
                    hint = "Use Shift, Broadcast, Reduce, AllReduce or Stream to move words over the fabric."
                    raise LazyError(f"`{instruction}` of a local phase uses a colour", hint=hint)


@dataclass(frozen=True)
class Shift:
    """A phase in which every PE sends its `words` at `take` to the PE `hops` further along `axis`.

    The receiver stores them at `put`. All PEs send at the same time. Negative `hops` go left or up. `axis` is "x" or
    "y". The words that are sent are `take`, `take + take_stride`, `take + 2 * take_stride`, ..., and the received ones
    are stored `put_stride` apart. So the column of a tile needs no packing: its stride is the words of a row of the
    tile. A stride counts whole words, so a column of a 16-bit matrix, which has halves of words, cannot be sent this
    way. `wrap` says what happens at the ends of a line:

    - "": words that would leave the line are not sent; a PE that receives nothing keeps its words
    - "line": the line is a ring; the last PE sends back over the whole line, as in Cannon's algorithm
    - "folded": the ring visits the PEs in the order 0, 2, 4, ..., 5, 3, 1, so that neighbours on the ring are at most
      two PEs apart (WaferLLM's interleaving, OSDI 2025)

    Raises LazyError for an unknown `axis` or `wrap`, a negative size or address, and a stride of less than 1.

    >>> column = Shift(Rect(0, 0, 4, 4), "x", words=3, take=4, take_stride=6, put=0, put_stride=6)
    >>> list(column.sent), list(column.received)
    ([4, 10, 16], [0, 6, 12])
    """

    rect: Rect
    axis: str
    words: int
    hops: int = 1
    wrap: str = ""
    take: int = 0
    put: int = 0
    take_stride: int = 1
    put_stride: int = 1

    def __post_init__(self) -> None:
        _require(self.axis, AXES[:2], "axis of a shift")
        _require(self.wrap, SHIFT_WRAPS, "wrap of a shift")
        _require_not_negative(words=self.words, take=self.take, put=self.put)
        for name in ("take_stride", "put_stride"):
            if getattr(self, name) < 1:
                what = f"{name} of a shift is {getattr(self, name)}"
                raise LazyError(what, hint="Give the words from one to the next, at least 1.")

    @property
    def sent(self) -> range:
        """The addresses of the words that a PE sends."""
        return range(self.take, self.take + self.words * self.take_stride, self.take_stride)

    @property
    def received(self) -> range:
        """The addresses at which a PE stores the words that it receives."""
        return range(self.put, self.put + self.words * self.put_stride, self.put_stride)

    @property
    def overlaps(self) -> bool:
        """True if some address is both sent and received: words may be overwritten before they are sent."""
        sent, received = self.sent, self.received
        if not self.words or sent[-1] < received[0] or received[-1] < sent[0]:
            return False
        return any(address in received for address in sent)


@dataclass(frozen=True)
class Broadcast:
    """A phase in which one PE of every line along `axis` sends its `words` at `take` to all PEs of the line.

    The sender is the PE at position `source`. All PEs, including the sender, have the words at `put` afterwards. With
    the axis "xy" the line is the whole rectangle, and positions count row after row. `groups` cuts each line into
    independent lines.

    >>> import wse_sim
    >>> wse_sim.cost(Broadcast(Rect(0, 0, 4, 1), "x", words=100, put=100), "wse2").wire_words
    300
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
            what = f"a broadcast starts at position {self.source} of a line of {length} PEs"
            raise LazyError(what, hint=f"Use a position from 0 to {length - 1}.")


@dataclass(frozen=True)
class Reduce:
    """A phase that combines the `words` at `at` of all PEs of a line, element by element.

    PE 0 of the line gets the result, which overwrites its words at `at`. The words of the other PEs at `at` are
    undefined afterwards.

    - `rect`, `axis`, `groups`: the lines; see the head of this file
    - `algorithm`: one of `REDUCTION_ALGORITHMS`, or "" for the fastest by the cost model
    - `size`: PEs of a group with the algorithm "two_phase"; 0 lets the algorithm choose
    - `dtype`: element type, one of `DTYPES`
    - `combine`: "add" or "max"

    >>> import wse_sim
    >>> line = Rect(0, 0, 64, 1)
    >>> [wse_sim.cost(Reduce(line, "x", 1, algorithm=name), "wse2").cycles for name in ("chain", "two_phase")]
    [385, 147]
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
        _require(self.dtype, DTYPES, "type of a reduction")
        _require(self.combine, COMBINE_OPS, "operation of a reduction")


@dataclass(frozen=True)
class AllReduce:
    """A phase that combines words as `Reduce` does; every PE of the line gets the result at `at`.

    `algorithm` is either one of a reduction, followed by a broadcast, or "ring". In a ring, parts of the words are
    combined on their way around the folded line (see `Shift`) and go around it once more. The fields are those of
    `Reduce`.

    >>> import wse_sim
    >>> AllReduce(Rect(0, 0, 4, 4), "x", words=8, combine="product")
    Traceback (most recent call last):
    lazytensor.errors.LazyError: 'product' is not a valid operation of a reduction
      Use one of add, max.
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
        _require(self.dtype, DTYPES, "type of a reduction")
        _require(self.combine, COMBINE_OPS, "operation of a reduction")


@dataclass(frozen=True)
class Stream:
    """A phase that moves `bytes` in total into ("in") or out of ("out") the rectangle, an equal block for each PE.

    The block of a PE is at address `at`. With the port "fabric" the words come from or go to a line of cores next to
    the longer side of the rectangle, over one link for each PE of that side. The line is to the left of the rectangle
    or above it; at the left or upper border of the mesh it is to the right or below. Each of its cores has the blocks
    of its line of PEs at `at`, one after the other, position 0 first. With the port "edge" the words come from or go to
    a place outside the wafer, so the rate of the edge I/O limits them as well.

    >>> import wse_sim
    >>> wse_sim.cost(Stream(Rect(0, 1, 4, 4), bytes=1024, direction="in"), "wse2").bytes_in
    1024
    """

    rect: Rect
    bytes: int
    direction: str
    port: str = "fabric"
    at: int = 0

    def __post_init__(self) -> None:
        _require(self.direction, ("in", "out"), "direction of a stream")
        _require(self.port, PORTS, "port of a stream")
        _require_not_negative(bytes=self.bytes, at=self.at)


@dataclass(frozen=True)
class Seq:
    """A phase that runs `parts` one after another.

    >>> import wse_sim
    >>> step = Broadcast(Rect(0, 0, 4, 4), "x", words=8)
    >>> wse_sim.cost(Seq((step, step)), "wse2").cycles == 2 * wse_sim.cost(step, "wse2").cycles
    True
    """

    parts: "tuple[Phase, ...]"

    def __post_init__(self) -> None:
        _make_tuple(self, "parts")


@dataclass(frozen=True)
class Par:
    """A phase that runs `parts` at the same time, on separate colours and threads.

    Parts on the same cores share the issue slot of each core. A part may not read words that another part writes.

    >>> import wse_sim
    >>> right, left = (Shift(Rect(0, 0, 4, 4), "x", 8, hops, put=put) for hops, put in ((1, 8), (-1, 16)))
    >>> wse_sim.cost(Par((right, left)), "wse2").cycles < wse_sim.cost(Seq((right, left)), "wse2").cycles
    True
    """

    parts: "tuple[Phase, ...]"

    def __post_init__(self) -> None:
        _make_tuple(self, "parts")


@dataclass(frozen=True)
class Repeat:
    """A phase that runs `body` `times` times, one after another. Raises LazyError for a negative number.

    >>> import wse_sim
    >>> step = Broadcast(Rect(0, 0, 4, 4), "x", words=8)
    >>> wse_sim.cost(Repeat(100, step), "wse2").cycles == 100 * wse_sim.cost(step, "wse2").cycles
    True
    """

    times: int
    body: "Phase"

    def __post_init__(self) -> None:
        if self.times < 0:
            raise LazyError(f"a phase cannot repeat {self.times} times", hint="Give a count of at least 0.")


@dataclass(frozen=True)
class Rounds:
    """A phase that runs `times` rounds one after another; `body(k)` returns the phase of round k, from 0.

    All rounds run, but the cost model prices only `looks` of them, evenly spaced, and multiplies each price by the
    number of rounds that it represents. One is enough if rounds differ only in addresses. Several are needed if the
    cost changes from round to round, such as that of a broadcast from each PE of a line in turn. Raises LazyError if
    `times` is negative or `looks` is less than 1.

    >>> turns = Rounds(4, lambda k: Broadcast(Rect(0, 0, 4, 1), "x", words=8, source=k))
    >>> [phase.source for phase in turns.parts]
    [0, 1, 2, 3]
    """

    times: int
    body: "Callable[[int], Phase]"
    looks: int = 1

    def __post_init__(self) -> None:
        _require_not_negative(times=self.times)
        if self.looks < 1:
            what = f"looks is {self.looks}, but the cost model prices at least one round"
            raise LazyError(what, hint="Give looks of at least 1.")

    @property
    def parts(self) -> "Iterator[Phase]":
        """An iterator over the phases of all rounds."""
        return (self.body(number) for number in range(self.times))

    @property
    def priced_rounds(self) -> "Iterator[tuple[Phase, int]]":
        """An iterator over pairs (phase of a representative round, number of rounds that it represents)."""
        looks = min(self.looks, self.times)
        bounds = [self.times * n // looks for n in range(looks + 1)] if looks else []
        for start, end in pairwise(bounds):
            yield self.body((start + end) // 2), end - start


Phase = Compute | Local | Shift | Broadcast | Reduce | AllReduce | Stream | Seq | Par | Repeat | Rounds
# The neutral element of `Seq` and `Par`, so that kernels need no special case for an empty phase.
EMPTY_PHASE = Seq(())
"""A phase that does nothing and takes no time."""
