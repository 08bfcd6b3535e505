"""Where things lie: rectangles of PEs, and how a tensor is cut over one.

A tensor is seen as a matrix: its last axis runs over the columns (x) of the rectangle, all others together over the
rows (y). A flat layout runs the elements over all PEs instead, row after row.
"""

from dataclasses import dataclass

from lazytensor.errors import LazyError
from lazytensor.ir.types import Type
from wse_sim.machine import Machine

LAYOUT_KINDS = ("block", "cyclic", "replicated")


def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


@dataclass(frozen=True)
class Rect:
    """A rectangle of PEs: the left upper corner and the extents, in PEs.

    >>> import wse_sim
    >>> wse_sim.Rect(0, 0, 4, 2).overlaps(wse_sim.Rect(3, 1, 4, 2))
    True
    """

    x: int
    y: int
    width: int
    height: int

    def __post_init__(self) -> None:
        if self.width < 1 or self.height < 1:
            raise LazyError(f"{self} holds no PE", hint="Give extents of at least 1.")

    @classmethod
    def whole(cls, machine: Machine) -> "Rect":
        """All PEs of `machine` that a program may use."""
        return cls(0, 0, machine.usable_width, machine.usable_height)

    @property
    def area(self) -> int:
        """The number of PEs in the rectangle."""
        return self.width * self.height

    def overlaps(self, other: "Rect") -> bool:
        """Whether the two have a PE in common."""
        # Two rectangles are apart as soon as they are on one axis.
        apart_x = self.x + self.width <= other.x or other.x + other.width <= self.x
        apart_y = self.y + self.height <= other.y or other.y + other.height <= self.y
        return not (apart_x or apart_y)

    def contains(self, other: "Rect") -> bool:
        """Whether all PEs of `other` are in this one."""
        inside_x = self.x <= other.x and other.x + other.width <= self.x + self.width
        inside_y = self.y <= other.y and other.y + other.height <= self.y + self.height
        return inside_x and inside_y

    def limit_size(self, width: int, height: int) -> "Rect":
        """At most so wide and so high, from the same corner: PEs without a part of a tensor only lengthen its way."""
        return Rect(self.x, self.y, min(self.width, width), min(self.height, height))

    def as_tuple(self) -> tuple[int, int, int, int]:
        """x, y, width, height, as reports hold it."""
        return self.x, self.y, self.width, self.height

    def __str__(self) -> str:
        return f"{self.width}x{self.height}+{self.x}+{self.y}"


def part_range(kind: str, extent: int, parts: int, index: int) -> range:
    """The positions of an axis of `extent` that part `index` of `parts` holds."""
    if kind == "replicated":
        return range(extent)
    if kind == "cyclic":
        return range(index, extent, parts)
    # The first parts are full and the last ones short or empty: so the PE at the corner always holds the most.
    size = ceil_div(extent, parts)
    return range(min(index * size, extent), min((index + 1) * size, extent))


@dataclass(frozen=True)
class Layout:
    """A tensor cut over `rect`: `kind` is "block", "cyclic" or "replicated".

    >>> import lazytensor as lt
    >>> from lazytensor.ir.types import Type
    >>> Layout(Rect(0, 0, 2, 2)).tile_of(Type((8, 6), lt.float32), 1, 0)
    (range(0, 4), range(3, 6))
    """

    rect: Rect
    kind: str = "block"
    is_flat: bool = False

    def __post_init__(self) -> None:
        if self.kind not in LAYOUT_KINDS:
            raise LazyError(f"there is no layout {self.kind!r}", hint=f"Use one of {', '.join(LAYOUT_KINDS)}.")

    def tile_of(self, type: Type, x: int, y: int) -> tuple[range, range]:
        """The ranges of rows and columns of the tensor on the PE at (x, y); (0, 0) is the corner of the rectangle.

        In a flat layout the tensor is a single row.
        """
        if self.is_flat:
            return range(1), part_range(self.kind, type.size, self.rect.area, y * self.rect.width + x)
        rows, columns = matrix_extents(type)
        return part_range(self.kind, rows, self.rect.height, y), part_range(self.kind, columns, self.rect.width, x)

    def bytes_per_pe(self, type: Type) -> int:
        """Bytes on the PE that holds the most: the first one, in every kind."""
        rows, columns = self.tile_of(type, 0, 0)
        return len(rows) * len(columns) * type.dtype.itemsize


def matrix_extents(type: Type) -> tuple[int, int]:
    """Rows and columns of a tensor as a matrix: the last axis is the columns, all others together are the rows."""
    columns = type.shape[-1] if type.shape else 1
    # An empty last axis leaves nothing to cut.
    return (type.size // columns if columns else 0), columns
