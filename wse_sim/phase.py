"""Phase programs: what a kernel does on its rectangle, as data, to be read in several ways.

Leaves say what every PE of a rectangle does: compute, or move words along an axis. Three forms compose them: `Seq` one
after another, `Par` at the same time, `Repeat` a number of times. `cost.py` reads a program as cycles; the same program
can be read as data on a small mesh and as packets on routers.

Words are wavelets of 32 bits, for each PE that sends. An axis is "x" (along the rows), "y" (along the columns) or "xy"
(the whole rectangle). With `groups` every line of the axis is cut into that many equal lines that act on their own; PEs
that are left over stay idle.
"""

from dataclasses import dataclass

from lazytensor.errors import LazyError
from wse_sim.layout import Rect

AXES = ("x", "y", "xy")
OPS = ("fma", "add", "move", "special")
PORTS = ("fabric", "edge")
REDUCTIONS = ("star", "chain", "tree", "two_phase", "auto_gen")


def _require(value: str, known: tuple[str, ...], what: str) -> None:
    if value not in known:
        raise LazyError(f"there is no {what} {value!r}", todo=f"Use one of {', '.join(known)}.")


def _require_line(rect: Rect, axis: str, groups: int) -> None:
    _require(axis, AXES, "axis")
    length = {"x": rect.width, "y": rect.height, "xy": 1}[axis]
    if not 1 <= groups <= length:
        raise LazyError(f"a line of {length} PEs cannot be cut into {groups} groups", todo=f"Use 1 to {length}.")


@dataclass(frozen=True)
class Compute:
    """Every PE runs `vectors` vector operations of `length` elements of `itemsize` bytes each.

    Around each of them stand `scalar_cycles` of scalar code: the turn of a loop, the reading of an index. With a length
    of 0 there is only that code. Elements take `slowdown` times as long where operands lie in banks that conflict.
    """

    rect: Rect
    op: str
    vectors: int
    length: int
    itemsize: int
    scalar_cycles: float = 0
    slowdown: float = 1

    def __post_init__(self) -> None:
        _require(self.op, OPS, "operation")


@dataclass(frozen=True)
class Shift:
    """Every PE sends `words` to the PE `hops` further along the axis, all at once."""

    rect: Rect
    axis: str
    words: int
    hops: int = 1

    def __post_init__(self) -> None:
        _require(self.axis, AXES[:2], "axis of a shift")


@dataclass(frozen=True)
class Broadcast:
    """One PE of every line along the axis gives `words` to all PEs of its line."""

    rect: Rect
    axis: str
    words: int
    groups: int = 1

    def __post_init__(self) -> None:
        _require_line(self.rect, self.axis, self.groups)


@dataclass(frozen=True)
class Reduce:
    """The `words` of all PEs of a line are combined, element by element, on one PE of the line.

    `algorithm` is one of `REDUCTIONS`; without a name the model takes the fastest of the first four. `size` is the
    number of PEs of a group in a two-phase reduction; 0 leaves it to the algorithm.
    """

    rect: Rect
    axis: str
    words: int
    groups: int = 1
    algorithm: str = ""
    size: int = 0

    def __post_init__(self) -> None:
        if self.algorithm:
            _require(self.algorithm, REDUCTIONS, "reduction")
        if self.size and (self.algorithm != "two_phase" or self.size < 0):
            raise LazyError(f"{self.algorithm or 'a reduction'} has no groups of {self.size}", todo="Use two_phase.")
        _require_line(self.rect, self.axis, self.groups)


@dataclass(frozen=True)
class AllReduce:
    """As `Reduce`, and every PE of the line gets the result."""

    rect: Rect
    axis: str
    words: int
    groups: int = 1

    def __post_init__(self) -> None:
        _require_line(self.rect, self.axis, self.groups)


@dataclass(frozen=True)
class Stream:
    """`bytes` in total flow into ("in") or out of ("out") the rectangle.

    Through the port "fabric" they come from a neighbour over one link for each PE of the longest side; through "edge"
    from outside the wafer, which is bounded by the edge I/O as well.
    """

    rect: Rect
    bytes: int
    direction: str
    port: str = "fabric"

    def __post_init__(self) -> None:
        _require(self.direction, ("in", "out"), "direction")
        _require(self.port, PORTS, "port")


@dataclass(frozen=True)
class Seq:
    """Parts one after another."""

    parts: "tuple[Phase, ...]"


@dataclass(frozen=True)
class Par:
    """Parts at the same time, on separate colours and units."""

    parts: "tuple[Phase, ...]"


@dataclass(frozen=True)
class Repeat:
    """The body `times` times."""

    times: int
    body: "Phase"

    def __post_init__(self) -> None:
        if self.times < 0:
            raise LazyError(f"a phase cannot repeat {self.times} times", todo="Give a count of at least 0.")


Phase = Compute | Shift | Broadcast | Reduce | AllReduce | Stream | Seq | Par | Repeat
IDLE = Seq(())
"""Does nothing and takes no time."""
