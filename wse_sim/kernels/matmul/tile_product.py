"""Products of tiles on one PE, with either operand transposed, and clearing of tiles."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory
from wse_sim.kernels.kernel import Allocator, Placed
from wse_sim.layout import Rect
from wse_sim.phase import Local


@dataclass(frozen=True)
class MatrixView:
    """A tile as a matrix of `rows` x `columns` elements of `dtype` from element `base` on, with strides in elements."""

    base: int
    rows: int
    columns: int
    row_stride: int
    column_stride: int
    dtype: str

    @classmethod
    def packed(cls, base: int, rows: int, columns: int, dtype: str) -> "MatrixView":
        """Return a matrix of `rows` x `columns` contiguous elements of `dtype`, row after row, from element `base`
        on.
        """
        return cls(base=base, rows=rows, columns=columns, row_stride=columns, column_stride=1, dtype=dtype)

    @classmethod
    def of(cls, placed: Placed, is_transposed: bool = False) -> "MatrixView":
        """Return the tile of a placed matrix, or its transpose without moving elements."""
        plain = cls.packed(placed.base, placed.tile_rows, placed.tile_columns, placed.dtype)
        return plain.turned() if is_transposed else plain

    def turned(self) -> "MatrixView":
        """Return the transpose, without moving elements."""
        extents = self.columns, self.rows, self.column_stride, self.row_stride
        return MatrixView(self.base, *extents, self.dtype)

    def part(self, rows: range, columns: range) -> "MatrixView":
        """Return the submatrix of consecutive `rows` and `columns`, as a view of the same elements."""
        base = self.base + rows.start * self.row_stride + columns.start * self.column_stride
        return replace(self, base=base, rows=len(rows), columns=len(columns))

    def some(self, rows: range) -> "MatrixView":
        """Return a submatrix of consecutive rows."""
        return self.part(rows, range(self.columns))

    def along(self, axis: str, steps: tuple[int, ...]) -> Memory:
        """Return the first row (`axis` "x"), column ("y") or element ("") as an operand.

        `steps` moves it with enclosing loops.
        """
        stride = {"x": self.column_stride, "y": self.row_stride, "": 0}[axis]
        return Memory(self.base, stride=stride, dtype=self.dtype, steps=steps)


def multiply(builder: Builder, a: MatrixView, b: MatrixView, c: MatrixView, begins: bool = False) -> None:
    """Append c += a b, computed in the type of c.

    There is one vector operation along the longer side of c for each inner index and each index of its shorter side.
    With `begins` it is c = a b: the last inner index comes first and only multiplies, so c need not be cleared.
    """
    # Each vector operation has a setup, and there are fewer of them along the longer side.
    along_x = c.columns >= c.rows
    if begins:
        # The last and not the first one: the others then start in the same banks as the tiles, which do not conflict.
        inner = range(a.columns)
        _multiply_once(builder, a.part(range(a.rows), inner[-1:]), b.part(inner[-1:], range(b.columns)), c)
        a = a.part(range(a.rows), inner[:-1])
    if not a.columns:
        return
    with builder.loop(a.columns), builder.loop(c.rows if along_x else c.columns):
        if along_x:
            # The inner index is outermost, so consecutive operations add to different rows of c and not to one element
            # repeatedly.
            target = c.along("x", (0, c.row_stride))
            left, right = a.along("", (a.column_stride, a.row_stride)), b.along("x", (b.row_stride, 0))
        else:
            target = c.along("y", (0, c.column_stride))
            left, right = a.along("y", (a.column_stride, 0)), b.along("", (b.row_stride, b.column_stride))
        builder.fmac(target, left, right, target, max(c.rows, c.columns))


def _multiply_once(builder: Builder, a: MatrixView, b: MatrixView, c: MatrixView) -> None:
    """Append c = a b, where a has one column and b one row; previous values of c are overwritten."""
    if c.columns >= c.rows:
        with builder.loop(c.rows):
            builder.mul(c.along("x", (c.row_stride,)), a.along("", (a.row_stride,)), b.along("x", (0,)), c.columns)
        return
    with builder.loop(c.columns):
        builder.mul(c.along("y", (c.column_stride,)), a.along("y", (0,)), b.along("", (b.column_stride,)), c.rows)


def multiply_short(builder: Builder, a: MatrixView, b: MatrixView, c: MatrixView) -> None:
    """Append c = a b, with vectors along the longest of the three extents; previous values of c are overwritten.

    If that is the inner one, each element of c is a separate sum.
    """
    if a.columns <= max(c.rows, c.columns):
        multiply(builder, a, b, c, begins=True)
        return
    # Each element is a separate sum, so all of c is cleared first.
    with builder.loop(c.rows):
        builder.move(c.along("x", (c.row_stride,)), 0.0, c.columns)
    with builder.loop(c.rows), builder.loop(c.columns):
        target = c.along("", (c.row_stride, c.column_stride))
        left, right = a.along("x", (a.row_stride, 0)), b.along("y", (0, b.column_stride))
        builder.fmac(target, left, right, target, a.columns)


def clear(rect: Rect, room: Allocator, *placed: Placed) -> Local:
    """Return a local phase in which each PE of `rect` sets every element of its tiles `placed` to zero.

    `room` is the allocator of the tiles, which provides the builder of the instructions. Without tiles the phase is
    empty.
    """
    builder = room.builder()
    for one in placed:
        builder.move(one.vector(), 0.0, one.elements)
    return Local(rect, builder.body())


def product(room: Allocator, tiles: Sequence[Placed], transposed: str = "") -> Local:
    """Return a phase that adds the product of the first two tiles to the third, on the PEs of the third.

    `transposed` names the operand that is transposed: "a", "b", or "" for none.
    """
    (a, b, c), builder = tiles, room.builder()
    multiply(builder, MatrixView.of(a, transposed == "a"), MatrixView.of(b, transposed == "b"), MatrixView.of(c))
    return Local(c.rect, builder.body())
