"""Slices of tiles with statistics, and the kernels softmax and softmax cross-entropy over rows.

Rows are distributed along y and their elements along x. Sums, differences and functions are computed in float32 for
every element type, and results are rounded once. `norms.py` has the kernels that normalize slices.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory
from wse_sim.kernels.kernel import WIDE, Allocator, MeshKernel, Placed, round_to
from wse_sim.layout import Rect, ceil_div
from wse_sim.phase import AllReduce, Local, Phase, Seq

LOWEST = -1e30
"""Replaces minus infinity where that would be multiplied by zero or subtracted from itself; its exponential is zero
too.
"""


class Slices(ABC):
    """A builder of kernels over slices of tiles, with the phases so far.

    - `rect`: the PEs
    - `axis`: the axis along which the elements of a slice are distributed
    - `slices`, `elements`: slices of each PE, and elements of a slice on each PE
    - `shared`: elements of a slice on all PEs of a line, or of one of its groups
    - `groups`: groups that a line is cut into
    - `room`: the allocator
    """

    def __init__(self, rect: Rect, axis: str, slices: int, elements: int, shared: int, groups: int = 1):
        self.rect, self.axis, self.groups = rect, axis, groups
        self.slices, self.elements, self.shared = slices, elements, shared
        self.room = Allocator()
        self._phases: list[Phase] = []

    @abstractmethod
    def tile(self, name: str, dtype: str, fill: float = 0) -> Placed:
        """Allocate all slices of a PE."""

    @abstractmethod
    def parameter(self, name: str, dtype: str) -> Placed:
        """Allocate parameters, which are equal on all PEs across the axis of the slices."""

    @abstractmethod
    def mask(self) -> Placed:
        """Allocate an operand with a one for each element of the matrix, and a zero for padding."""

    @abstractmethod
    def of(self, placed: Placed) -> Memory:
        """Return the part of `placed` that belongs to the slice of the current round of a loop."""

    def statistics(self, count: int) -> list[Memory]:
        """Allocate `count` statistics, a float32 number for each slice, contiguously, so that one all-reduce combines
        them.

        They are not cleared.
        """
        first = self.room.vector(count * self.slices)
        return [Memory(first.base + n * self.slices) for n in range(count)]

    def each(self, build: Builder, op: str, *operands: Placed | Memory) -> None:
        """Append the operation `op`, a method of `Builder`, for every slice; `operands` are the destination and the
        sources.

        A matrix is used slice by slice. A statistic (Memory) is one number of each slice; as the destination it
        accumulates.
        """
        with build.loop(self.slices):
            getattr(build, op)(*map(self._operand, operands), self.elements)

    def _operand(self, operand: Placed | Memory) -> Memory:
        if isinstance(operand, Placed):
            return self.of(operand)
        return Memory(operand.base, stride=0, dtype=WIDE, steps=(1,))

    def run(self, build: Builder) -> Builder:
        """Add the instructions of `build` as a phase, and return a builder of the next one."""
        self._phases.append(Local(self.rect, build.body()))
        return self.room.builder()

    def combine(self, address: int, words: int, axis: str = "", combine: str = "add") -> None:
        """Add an all-reduce of `words` float32 words at `address`; `combine` is "add" or "max".

        It is along the axis of the slices, within their groups, unless `axis` is given.
        """
        axis = axis or self.axis
        groups = self.groups if axis == self.axis else 1
        self._phases.append(
            AllReduce(self.rect, axis=axis, words=words, groups=groups, at=address, dtype=WIDE, combine=combine)
        )

    def finish(self, build: Builder, operands: tuple[Placed, ...], results: tuple[Placed, ...]) -> MeshKernel:
        """Add the instructions of `build` as the last phase, and return the kernel of all phases so far.

        `operands` and `results` are those of the kernel.
        """
        self.run(build)
        return MeshKernel(Seq(tuple(self._phases)), operands, results, self.room.words)


class Rows(Slices):
    """Slices that are the rows of a matrix.

    With `groups` a row of PEs is cut into groups of equal length, each with other rows of the matrix. PEs that are left
    over stay idle.
    """

    def __init__(self, rect: Rect, rows: int, columns: int, groups: int = 1):
        # Groups have equal lengths, so that all of them have one program.
        rect = replace(rect, width=rect.width // groups * groups)
        tall, wide = ceil_div(rows, rect.height * groups), ceil_div(columns, rect.width // groups)
        super().__init__(rect, "x", slices=tall, elements=wide, shared=columns, groups=groups)
        self.rows = rows

    def _place(self, name: str, rows: int, columns: int, dtype: str, **how: Any) -> Placed:
        return self.room.place(name, self.rect, rows, columns, dtype, groups=self.groups, **how)

    def tile(self, name: str, dtype: str, fill: float = 0) -> Placed:
        """Allocate the rows of a PE."""
        return self._place(name, self.rows, self.shared, dtype, fill=fill)

    def parameter(self, name: str, dtype: str) -> Placed:
        """Allocate one row, which all rows share."""
        return self._place(name, 1, self.shared, dtype, row_kind="replicated")

    def mask(self) -> Placed:
        """Allocate a row of ones, with zeros for padding."""
        return self._place("real", 1, self.shared, WIDE, row_kind="replicated", constant=1)

    def number(self, name: str) -> Placed:
        """Allocate a float32 number for each row, on all its PEs."""
        return self._place(name, self.rows, 1, WIDE, column_kind="replicated")

    def of(self, placed: Placed) -> Memory:
        """Return a row of a tile, or the only row of a parameter."""
        return placed.vector(steps=(placed.tile_columns,) if placed.tile_rows > 1 else ())


def softmax(rect: Rect, rows: int, columns: int, dtype: str = "float32", groups: int = 1) -> MeshKernel:
    """Return a kernel that computes y = softmax of each row of x [rows, columns]; `groups` as in `Rows`.

    The maximum of each row is subtracted first. It is computed in float32 and rounded to `dtype` once.
    """
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
    """Return a kernel that computes the cross-entropy of logits x, and its gradient; `groups` as in `Rows`.

    Operands are x and `target`. The result loss [rows] = log(sum of exp(x)) - sum of target x, in float32. The result y
    = softmax(x) - target. x, y and target are [rows, columns]; the formulas hold if each row of `target` adds up to 1.
    """
    on = Rows(rect, rows, columns, groups)
    x, y = on.tile("x", dtype, fill=float("-inf")), on.tile("y", dtype)
    work, target = on.room.wide(y), on.tile("target", dtype)
    total, aimed = on.statistics(2)
    build = _less_the_largest(on, x, work)
    build.move(aimed, 0.0, on.slices)
    # Padding columns are minus infinity, and minus infinity times a target of zero would be NaN.
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
    """Add the phases that find the maximum of each row over all its PEs.

    Return a builder that starts with work = x - maximum.
    """
    (largest,), build = on.statistics(1), on.room.builder()
    build.move(largest, float("-inf"), on.slices)
    on.each(build, "max", largest, largest, x)
    build = on.run(build)
    on.combine(largest.base, on.slices, combine="max")
    on.each(build, "sub", work, x, largest)
    return build


def _exponentials(on: Rows, build: Builder, work: Placed, total: Memory) -> None:
    """Append work = exp(work), and into `total` the sum of each row's elements on the PE."""
    build.special("exp", work.vector(), work.vector(), work.elements)
    build.move(total, 0.0, on.slices)
    on.each(build, "add", total, total, work)
