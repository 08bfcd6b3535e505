"""Kernels over rows that are cut along x: what is common to a row is combined over the fabric.

With `groups` a row of PEs holds so many rows of the matrix side by side, each on a group of its own.

Sums, differences and functions are taken in float32 for every element type, and results are rounded once.
"""

from dataclasses import replace
from typing import Any

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory
from wse_sim.isa.packing import words_of
from wse_sim.kernels.kernel import WIDE, MeshKernel, Placed, Room
from wse_sim.layout import Rect
from wse_sim.phase import AllReduce, Local, Phase, Seq

LOWEST = -1e30
"""Stands for minus infinity where it is multiplied by zero; its exponential is zero too."""


class _Rows:
    """Tiles of rows, with one float32 tile to work in and statistics of one word for each row.

    With `groups` each row of PEs has so many rows side by side; PEs that are left over stay idle.
    """

    def __init__(self, rect: Rect, rows: int, columns: int, dtype: str, fill: float = 0, groups: int = 1):
        # Groups are of one length, so that all of them have one program.
        self.rect, self.room, self.groups = replace(rect, width=rect.width // groups * groups), Room(), groups
        self.x = self.tile("x", rows, columns, dtype, fill=fill)
        self.y = self.tile("y", rows, columns, dtype)
        # In float32 the result is worked out where it will lie.
        self.work = self.y if dtype == WIDE else self.tile("work", rows, columns, WIDE)
        self.phases: list[Phase] = []

    def tile(self, name: str, rows: int, columns: int, dtype: str, **how: Any) -> Placed:
        """Room for rows; `how` as the fields of `Placed`."""
        return self.room.place(name, self.rect, rows, columns, dtype, groups=self.groups, **how)

    def along(self, name: str, dtype: str, constant: float | None = None) -> Placed:
        """One row for all: its columns as those of the tiles."""
        return self.tile(name, 1, self.x.columns, dtype, row_kind="replicated", constant=constant)

    def statistic(self) -> Memory:
        """One number for each row."""
        return self.room.vector(self.x.tile_rows)

    def each_row(self, builder: Builder, op: str, target: Placed | Memory, *sources: Placed | Memory) -> None:
        """An operation over every row; a statistic gives or takes one element of each."""
        operands = [self._row(operand) for operand in (target, *sources)]
        with builder.loop(self.x.tile_rows):
            # A statistic has stride 0 within a row: as a target it accumulates, as a source it is the same for all
            # columns.
            getattr(builder, op)(*operands, self.x.tile_columns)

    def _row(self, operand: Placed | Memory) -> Memory:
        if isinstance(operand, Memory):
            return Memory(operand.base, stride=0, dtype=WIDE, steps=(1,))
        return operand.vector(steps=(operand.tile_columns,) if operand.tile_rows > 1 else ())

    def run(self, builder: Builder) -> None:
        self.phases.append(Local(self.rect, builder.body()))

    def combine(self, statistic: Memory, combine: str = "add", count: int = 1) -> None:
        """What the PEs of a row have becomes one number, on all of them; or `count` that lie behind each other."""
        words = words_of(count * self.x.tile_rows, WIDE)
        self.phases.append(
            AllReduce(
                self.rect,
                axis="x",
                words=words,
                groups=self.groups,
                at=statistic.base,
                dtype=WIDE,
                combine=combine,
            )
        )

    def finish(
        self, builder: Builder, operands: tuple[Placed, ...] = (), results: tuple[Placed, ...] = ()
    ) -> MeshKernel:
        """Round the result, and run what was built; these and x are read, these and y written."""
        if self.work is not self.y:
            builder.convert(self.y.vector(), self.work.vector(), self.y.elements)
        self.run(builder)
        return MeshKernel(Seq(tuple(self.phases)), (self.x, *operands), (self.y, *results), self.room.words)


def softmax(rect: Rect, rows: int, columns: int, dtype: str = "float32", groups: int = 1) -> MeshKernel:
    """y = exp(x - max x) / sum of that, over each row of x [rows, columns]."""
    on = _Rows(rect, rows, columns, dtype, fill=float("-inf"), groups=groups)
    total, build = on.statistic(), _less_the_largest(on)
    _exponentials(on, build, total)
    on.run(build)
    on.combine(total)
    build = on.room.builder()
    build.special("reciprocal", total, total, on.x.tile_rows)
    on.each_row(build, "mul", on.work, on.work, total)
    return on.finish(build)


def softmax_cross_entropy(rect: Rect, rows: int, columns: int, dtype: str = "float32", groups: int = 1) -> MeshKernel:
    """loss [rows] = log of the sum of exp(x) - the sum of target x, and y, its gradient: softmax(x) - target.

    x, y and target are [rows, columns]; each row of `target` adds up to 1. Losses are float32, on all PEs of a row.
    """
    on = _Rows(rect, rows, columns, dtype, fill=float("-inf"), groups=groups)
    target = on.tile("target", rows, columns, dtype)
    count = on.x.tile_rows
    # Two sums of each row behind each other go through one all-reduce, whose latency is most of its price.
    both = on.room.vector(2 * count)
    total, aimed = both, Memory(both.base + count)
    build = _less_the_largest(on)
    build.move(aimed, 0.0, count)
    # Filled columns are minus infinity, and minus infinity times a target of zero would be NaN.
    build.max(on.work.vector(), on.work.vector(), LOWEST, on.work.elements)
    on.each_row(build, "fmac", aimed, on.work, target, aimed)
    _exponentials(on, build, total)
    on.run(build)
    on.combine(both, count=2)
    loss = on.tile("loss", rows, 1, WIDE, column_kind="replicated")
    build = on.room.builder()
    build.special("log", loss.vector(), total, count)
    build.sub(loss.vector(), loss.vector(), aimed, count)
    build.special("reciprocal", total, total, count)
    on.each_row(build, "mul", on.work, on.work, total)
    on.each_row(build, "sub", on.work, on.work, target)
    return on.finish(build, (target,), (loss,))


def _less_the_largest(on: _Rows) -> Builder:
    """x less the largest of its row, which begins what comes after."""
    largest, build = on.statistic(), on.room.builder()
    build.move(largest, float("-inf"), on.x.tile_rows)
    on.each_row(build, "max", largest, largest, on.x)
    on.run(build)
    on.combine(largest, combine="max")
    build = on.room.builder()
    on.each_row(build, "sub", on.work, on.x, largest)
    return build


def _exponentials(on: _Rows, build: Builder, total: Memory) -> None:
    """Their own in place of all elements, and the sum of each row in `total`."""
    build.special("exp", on.work.vector(), on.work.vector(), on.work.elements)
    build.move(total, 0.0, on.x.tile_rows)
    on.each_row(build, "add", total, total, on.work)


def layer_norm(
    rect: Rect, rows: int, columns: int, dtype: str = "float32", eps: float = 1e-5, groups: int = 1
) -> MeshKernel:
    """y = (x - mean) / sqrt(variance + eps) * gain + bias, over each row.

    x and y are [rows, columns], gain and bias [1, columns]. The variance is the mean of squared differences. PEs at
    the end of a row may hold fewer columns than the others: a row of ones and zeros keeps the rest out of the sum.
    """
    on = _Rows(rect, rows, columns, dtype, groups=groups)
    gain, bias, real = on.along("gain", dtype), on.along("bias", dtype), on.along("real", WIDE, constant=1)
    count, mean, spread = on.x.tile_rows, on.statistic(), on.statistic()
    build = on.room.builder()
    build.move(mean, 0.0, count)
    on.each_row(build, "add", mean, mean, on.x)
    on.run(build)
    on.combine(mean)
    build = on.room.builder()
    build.mul(mean, mean, 1 / columns, count)
    on.each_row(build, "sub", on.work, on.x, mean)
    # Filled columns hold minus the mean by now: ones and zeros take them out of the sum of squares.
    on.each_row(build, "mul", on.work, on.work, real)
    build.move(spread, 0.0, count)
    on.each_row(build, "fmac", spread, on.work, on.work, spread)
    on.run(build)
    on.combine(spread)
    build = on.room.builder()
    build.fmac(spread, spread, 1 / columns, eps, count)
    build.special("sqrt", spread, spread, count)
    build.special("reciprocal", spread, spread, count)
    on.each_row(build, "mul", on.work, on.work, spread)
    on.each_row(build, "fmac", on.work, on.work, gain, bias)
    return on.finish(build, (gain, bias, real))
