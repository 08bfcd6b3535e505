"""Rectangles of PEs, and how a tensor is distributed over one.

A tensor is treated as a matrix. Its last axis is distributed over the columns (x) of the rectangle, and all other axes
together over the rows (y). A flat layout distributes the elements over all PEs instead, row after row.
"""

from dataclasses import dataclass

from lazytensor.errors import LazyError
from lazytensor.ir.types import Type
from wse_sim.machine import Machine

LAYOUT_KINDS = ("block", "cyclic", "replicated")
"""The kinds of `Layout`."""


def ceil_div(a: int, b: int) -> int:
    """Return a / b, rounded up to an integer."""
    return -(-a // b)


@dataclass(frozen=True)
class Rect:
    """A rectangle of PEs: its upper left corner `x`, `y` and its `width` and `height`, in PEs.

    Raises LazyError if `width` or `height` is less than 1.

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
            raise LazyError(f"{self} has no PE", hint="Give a width and a height of at least 1.")

    @classmethod
    def whole(cls, machine: Machine | str) -> "Rect":
        """Return the rectangle of all PEs that a program may use, with its corner at (0, 0).

        `machine` is a machine or its name.
        """
        machine = Machine.of(machine)
        return cls(0, 0, machine.usable_width, machine.usable_height)

    @property
    def area(self) -> int:
        """Number of PEs in the rectangle."""
        return self.width * self.height

    def overlaps(self, other: "Rect") -> bool:
        """Return True if the two rectangles have a PE in common."""
        # Two rectangles are disjoint if they are disjoint on one axis.
        apart_x = self.x + self.width <= other.x or other.x + other.width <= self.x
        apart_y = self.y + self.height <= other.y or other.y + other.height <= self.y
        return not (apart_x or apart_y)

    def contains(self, other: "Rect") -> bool:
        """Return True if all PEs of `other` are in this rectangle."""
        inside_x = self.x <= other.x and other.x + other.width <= self.x + self.width
        inside_y = self.y <= other.y and other.y + other.height <= self.y + self.height
        return inside_x and inside_y

    def limit_size(self, width: int, height: int) -> "Rect":
        """Return the rectangle with the same corner and at most `width` x `height` PEs.

        Kernels use it for small tensors: PEs without a part of the tensor would only make messages longer.
        """
        return Rect(self.x, self.y, min(self.width, width), min(self.height, height))

    def as_tuple(self) -> tuple[int, int, int, int]:
        """Return (x, y, width, height), the form used in reports."""
        return self.x, self.y, self.width, self.height

    def __str__(self) -> str:
        return f"{self.width}x{self.height}+{self.x}+{self.y}"


def part_range(kind: str, extent: int, parts: int, index: int) -> range:
    """Return the indices of an axis with `extent` elements that are in part `index` of `parts`.

    - "replicated": all indices, in every part
    - "cyclic": `index`, `index + parts`, `index + 2 * parts`, ...
    - any other `kind` ("block"): consecutive indices; the first parts are full, the last ones may be short or empty
    """
    if kind == "replicated":
        return range(extent)
    if kind == "cyclic":
        return range(index, extent, parts)
    # Since the first parts are full, the PE at the corner always has the most elements.
    size = ceil_div(extent, parts)
    return range(min(index * size, extent), min((index + 1) * size, extent))


@dataclass(frozen=True)
class Layout:
    """A distribution of a tensor over the PEs of `rect`. `kind` is "block", "cyclic" or "replicated"; see `part_range`.

    With `is_flat` the tensor is a single row of elements that is distributed over all PEs, row after row. Raises
    LazyError for another `kind`.

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
            raise LazyError(f"layout {self.kind!r} is unknown", hint=f"Use one of {', '.join(LAYOUT_KINDS)}.")

    def tile_of(self, type: Type, x: int, y: int) -> tuple[range, range]:
        """Return the ranges of matrix rows and columns of a tensor of `type` that the PE at (`x`, `y`) has.

        (0, 0) is the upper left PE of the rectangle. See `matrix_extents` for the matrix. In a flat layout the tensor
        is one row: the first range is range(1), and the second counts all elements.
        """
        if self.is_flat:
            return range(1), part_range(self.kind, type.size, self.rect.area, y * self.rect.width + x)
        rows, columns = matrix_extents(type)
        return part_range(self.kind, rows, self.rect.height, y), part_range(self.kind, columns, self.rect.width, x)

    def bytes_per_pe(self, type: Type) -> int:
        """Return the bytes of the largest tile of a tensor of `type`, which is that of PE (0, 0) in every layout."""
        rows, columns = self.tile_of(type, 0, 0)
        return len(rows) * len(columns) * type.dtype.itemsize


def matrix_extents(type: Type) -> tuple[int, int]:
    """Return (rows, columns) of a tensor as a matrix: its last axis is the columns, all others together are the rows.

    A scalar is (1, 1). If the last axis is empty, both are 0.
    """
    columns = type.shape[-1] if type.shape else 1
    # The division by `columns` would fail for an empty last axis.
    return (type.size // columns if columns else 0), columns
