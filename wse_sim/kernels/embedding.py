"""Rows of a table by number: the columns of the table are cut along x, and the numbers along y."""

from dataclasses import replace

from wse_sim.isa.core_program import Memory
from wse_sim.kernels.kernel import MeshKernel, Placed, Room, operand_at
from wse_sim.layout import Rect
from wse_sim.phase import AllReduce, Local, Phase, Seq


def embedding(rect: Rect, tokens: int, vocabulary: int, width: int, dtype: str = "float32") -> MeshKernel:
    """y [tokens, width] = the rows of table [vocabulary, width] that `tokens` (uint16) name."""
    room, table, numbers, y = _placed(rect, tokens, vocabulary, width, dtype, "table", "y")
    # An operand's index is read at one address, so each number is moved there first.
    row = operand_at(room.take(1, "uint16"), "uint16")
    build = room.builder()
    with build.loop(y.tile_rows):
        build.move(row, numbers.vector(steps=(1,)), 1)
        build.move(y.vector(steps=(y.tile_columns,)), _named(table, row), y.tile_columns)
    return MeshKernel(Local(rect, build.body()), (table, numbers), (y,), room.words)


def embedding_gradient(
    rect: Rect, tokens: int, vocabulary: int, width: int, dtype: str = "float32", has_base: bool = False
) -> MeshKernel:
    """gradient [vocabulary, width] of a table: each row of dy [tokens, width] is added to the row that it came from.

    With `has_base` the sums are added to the operand "base", a gradient from elsewhere.
    """
    room, gradient, numbers, dy = _placed(rect, tokens, vocabulary, width, dtype, "gradient", "dy")
    row = operand_at(room.take(1, "uint16"), "uint16")
    build = room.builder()
    build.move(gradient.vector(), 0.0, gradient.elements)
    with build.loop(dy.tile_rows):
        build.move(row, numbers.vector(steps=(1,)), 1)
        # Target and source are the same row: the same number may come twice, and both are added.
        target = _named(gradient, row)
        build.add(target, target, dy.vector(steps=(dy.tile_columns,)), dy.tile_columns)
    total = AllReduce(rect, axis="y", words=gradient.words, at=gradient.address, dtype=dtype)
    parts: list[Phase] = [Local(rect, build.body()), total]
    operands = [numbers, dy]
    if has_base:
        base = replace(gradient, name="base", address=room.take(gradient.elements, dtype))
        build = room.builder()
        build.add(gradient.vector(), gradient.vector(), base.vector(), gradient.elements)
        parts.append(Local(rect, build.body()))
        operands.append(base)
    return MeshKernel(Seq(tuple(parts)), tuple(operands), (gradient,), room.words)


def _placed(
    rect: Rect, tokens: int, vocabulary: int, width: int, dtype: str, table: str, rows: str
) -> tuple[Room, Placed, Placed, Placed]:
    room = Room()
    placed = room.place(table, rect, vocabulary, width, dtype, row_kind="replicated")
    numbers = room.place("tokens", rect, tokens, 1, "uint16", column_kind="replicated")
    return room, placed, numbers, room.place(rows, rect, tokens, width, dtype)


def _named(table: Placed, row: Memory) -> Memory:
    """The row of a table whose number lies in memory."""
    return Memory(table.base, stride=1, dtype=table.dtype, index=row.base, index_step=table.tile_columns)
