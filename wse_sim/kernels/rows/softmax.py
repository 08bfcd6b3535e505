"""Tiles in slices with statistics, and the kernels over rows: softmax and its cross-entropy.

Rows are cut along y and their elements along x. Sums, differences and functions are taken in float32 for every element
type, and results are rounded once. `norms.py` has the kernels that normalize slices.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory
from wse_sim.kernels.kernel import WIDE, MeshKernel, Placed, Room, round_to
from wse_sim.layout import Rect, ceil_div
from wse_sim.phase import AllReduce, Local, Phase, Seq

LOWEST = -1e30
"""Replaces minus infinity where that is multiplied by zero or subtracted from itself; its exponential is zero too."""


class Slices(ABC):
    """Tiles of one extent on the PEs of `rect`, in slices, and the phases so far.

    A PE has `slices`, with `elements` of each. A slice has `shared` elements on all PEs of a line along `axis`, or of
    one of the `groups` that a line is cut into.
    """

    def __init__(self, rect: Rect, axis: str, slices: int, elements: int, shared: int, groups: int = 1):
        self.rect, self.axis, self.groups = rect, axis, groups
        self.slices, self.elements, self.shared = slices, elements, shared
        self.room = Room()
        self._phases: list[Phase] = []

    @abstractmethod
    def tile(self, name: str, dtype: str, fill: float = 0) -> Placed:
        """Return room for all slices of a PE."""

    @abstractmethod
    def parameter(self, name: str, dtype: str) -> Placed:
        """Return room for what all PEs across the slices have alike."""

    @abstractmethod
    def mask(self) -> Placed:
        """Return an operand of one for each element of the matrix, and of zero for the fill of a tile."""

    @abstractmethod
    def of(self, placed: Placed) -> Memory:
        """Return what belongs to the slice of this round of a loop."""

    def statistics(self, count: int) -> list[Memory]:
        """Return room for `count` numbers of each slice, in one stretch, so that one all-reduce combines them."""
        first = self.room.vector(count * self.slices)
        return [Memory(first.base + n * self.slices) for n in range(count)]

    def each(self, build: Builder, op: str, *operands: Placed | Memory) -> None:
        """Append an operation over every slice, in which a statistic is one number; as a target it accumulates."""
        with build.loop(self.slices):
            getattr(build, op)(*map(self._operand, operands), self.elements)

    def _operand(self, operand: Placed | Memory) -> Memory:
        if isinstance(operand, Placed):
            return self.of(operand)
        return Memory(operand.base, stride=0, dtype=WIDE, steps=(1,))

    def run(self, build: Builder) -> Builder:
        """Add what was built as a phase. Returns a builder of the next one."""
        self._phases.append(Local(self.rect, build.body()))
        return self.room.builder()

    def combine(self, address: int, words: int, axis: str = "", combine: str = "add") -> None:
        """Add an all-reduce of float32, along the axis of the slices unless `axis` is another."""
        axis = axis or self.axis
        groups = self.groups if axis == self.axis else 1
        self._phases.append(
            AllReduce(self.rect, axis=axis, words=words, groups=groups, at=address, dtype=WIDE, combine=combine)
        )

    def finish(self, build: Builder, operands: tuple[Placed, ...], results: tuple[Placed, ...]) -> MeshKernel:
        """Return the kernel that ends with what was built."""
        self.run(build)
        return MeshKernel(Seq(tuple(self._phases)), operands, results, self.room.words)


class Rows(Slices):
    """Slices that are the rows of a matrix. With `groups` a row of PEs has several rows of the matrix side by side.

    PEs that groups of one length leave over stay idle.
    """

    def __init__(self, rect: Rect, rows: int, columns: int, groups: int = 1):
        # Groups are of one length, so that all of them have one program.
        rect = replace(rect, width=rect.width // groups * groups)
        tall, wide = ceil_div(rows, rect.height * groups), ceil_div(columns, rect.width // groups)
        super().__init__(rect, "x", slices=tall, elements=wide, shared=columns, groups=groups)
        self.rows = rows

    def _place(self, name: str, rows: int, columns: int, dtype: str, **how: Any) -> Placed:
        return self.room.place(name, self.rect, rows, columns, dtype, groups=self.groups, **how)

    def tile(self, name: str, dtype: str, fill: float = 0) -> Placed:
        """Return room for the rows of a PE."""
        return self._place(name, self.rows, self.shared, dtype, fill=fill)

    def parameter(self, name: str, dtype: str) -> Placed:
        """Return room for one row, which all rows share."""
        return self._place(name, 1, self.shared, dtype, row_kind="replicated")

    def mask(self) -> Placed:
        """Return a row of ones for what is no fill of a tile."""
        return self._place("real", 1, self.shared, WIDE, row_kind="replicated", constant=1)

    def number(self, name: str) -> Placed:
        """Return room for a float32 number of each row, on all its PEs."""
        return self._place(name, self.rows, 1, WIDE, column_kind="replicated")

    def of(self, placed: Placed) -> Memory:
        """Return a row of a tile, or the only row of a parameter."""
        return placed.vector(steps=(placed.tile_columns,) if placed.tile_rows > 1 else ())


def softmax(rect: Rect, rows: int, columns: int, dtype: str = "float32", groups: int = 1) -> MeshKernel:
    """y = exp(x - max x) / sum of that, over each row of x [rows, columns]."""
    on = Rows(rect, rows, columns, groups)
    x, y = on.tile("x", dtype, fill=float("-inf")), on.tile("y", dtype)
    work = on.room.wide(y)
    (total,) = on.statistics(1)
    build = _less_the_largest(on, x, work)
    _exponentials(on, build, work, total)
    build = on.run(build)
    on.combine(total.base, on.slices)
    build.special("reciprocal", total, total, on.slices)
    on.each(build, "mul", work, work, total)
    return on.finish(round_to(build, y, work), (x,), (y,))


def softmax_cross_entropy(rect: Rect, rows: int, columns: int, dtype: str = "float32", groups: int = 1) -> MeshKernel:
    """loss [rows] = log of the sum of exp(x) - the sum of target x, and y, its gradient: softmax(x) - target.

    x, y and target are [rows, columns]; each row of `target` adds up to 1. Losses are float32, on all PEs of a row.
    """
    on = Rows(rect, rows, columns, groups)
    x, y = on.tile("x", dtype, fill=float("-inf")), on.tile("y", dtype)
    work, target = on.room.wide(y), on.tile("target", dtype)
    total, aimed = on.statistics(2)
    build = _less_the_largest(on, x, work)
    build.move(aimed, 0.0, on.slices)
    # Filled columns are minus infinity, and minus infinity times a target of zero would be NaN.
    build.max(work.vector(), work.vector(), LOWEST, work.elements)
    on.each(build, "fmac", aimed, work, target, aimed)
    _exponentials(on, build, work, total)
    build = on.run(build)
    on.combine(total.base, 2 * on.slices)
    loss = on.number("loss")
    build.special("log", loss.vector(), total, on.slices)
    build.sub(loss.vector(), loss.vector(), aimed, on.slices)
    build.special("reciprocal", total, total, on.slices)
    on.each(build, "mul", work, work, total)
    on.each(build, "sub", work, work, target)
    return on.finish(round_to(build, y, work), (x, target), (y, loss))


def _less_the_largest(on: Rows, x: Placed, work: Placed) -> Builder:
    """Add the phases that find the largest of each row. Returns a builder that begins with work = x less it."""
    (largest,), build = on.statistics(1), on.room.builder()
    build.move(largest, float("-inf"), on.slices)
    on.each(build, "max", largest, largest, x)
    build = on.run(build)
    on.combine(largest.base, on.slices, combine="max")
    on.each(build, "sub", work, x, largest)
    return build


def _exponentials(on: Rows, build: Builder, work: Placed, total: Memory) -> None:
    """Append work = exp(work), and the sum of each row into `total`."""
    build.special("exp", work.vector(), work.vector(), work.elements)
    build.move(total, 0.0, on.slices)
    on.each(build, "add", total, total, work)
