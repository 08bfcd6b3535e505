"""Kernels that read elements or rows by index, and their gradients, which add elements or rows by index.

A core has no gather over a vector. Each index is copied to the address from which an operand's index is read, and then
one element or row is moved. The columns of a table are distributed along x, and indices along y.
"""

from dataclasses import replace

from wse_sim.isa.core_program import Memory
from wse_sim.kernels.kernel import INDEX, Allocator, MeshKernel, Placed, round_to
from wse_sim.layout import Rect
from wse_sim.phase import AllReduce, Local, Phase, Seq


def at_places(rect: Rect, rows: int, columns: int, extent: int, count: int, dtype: str = "float32") -> MeshKernel:
    """Return a kernel that computes y = the elements of x at the indices `places`, in each of rows x columns lists.

    Each list has `extent` elements, of which `count` are read: x is [rows, columns x extent], y and places are [rows,
    columns x count]. Indices are uint16 and count within each list.
    """
    room = Allocator()
    x = room.place("x", rect, rows, columns, dtype, depth=extent)
    places = room.place("places", rect, rows, columns, INDEX, depth=count)
    y = room.place("y", rect, rows, columns, dtype, depth=count)
    number, build = room.vector(1, INDEX), room.builder()
    with build.loop(x.tile_rows * x.tile_columns), build.loop(count):
        build.move(number, places.vector(steps=(count, 1)), 1)
        build.move(y.vector(steps=(count, 1)), _named(x, number, steps=(extent,)), 1)
    return MeshKernel(Local(rect, build.body()), (x, places), (y,), room.words)


def put_places(
    rect: Rect,
    rows: int,
    columns: int,
    extent: int,
    count: int,
    dtype: str = "float32",
    accumulate: bool = True,
    has_base: bool = False,
) -> MeshKernel:
    """Return a kernel that computes y [rows, columns x extent], which has the elements of g at the indices `places`.

    There are rows x columns lists of `extent` elements; `count` elements of g, with indices within the list, belong to
    each. g and places are [rows, columns x count]. Other elements are zero, or with `has_base` those of the operand
    "base". With `accumulate`, elements of g are added in float32 to the initial value and rounded once. Without it,
    they replace it, and of several elements at one index the last one counts.
    """
    room = Allocator()
    g = room.place("g", rect, rows, columns, dtype, depth=count)
    places = room.place("places", rect, rows, columns, INDEX, depth=count)
    y = room.place("y", rect, rows, columns, dtype, depth=extent)
    total, number = room.wide(y), room.vector(1, INDEX)
    operands = [g, places]
    if has_base:
        operands.append(room.place("base", rect, rows, columns, dtype, depth=extent))
    build = room.builder()
    build.convert(total.vector(), operands[-1].vector() if has_base else 0.0, total.elements)
    with build.loop(g.tile_rows * g.tile_columns), build.loop(count):
        build.move(number, places.vector(steps=(count, 1)), 1)
        target, value = _named(total, number, steps=(extent,)), g.vector(steps=(count, 1))
        if accumulate:
            build.add(target, target, value, 1)
        else:
            build.convert(target, value, 1)
    round_to(build, y, total)
    return MeshKernel(Local(rect, build.body()), tuple(operands), (y,), room.words)


def embedding(rect: Rect, tokens: int, vocabulary: int, width: int, dtype: str = "float32") -> MeshKernel:
    """Return a kernel that computes y [tokens, width], rows of `table` [vocabulary, width].

    The operand `tokens` [tokens, 1] has the indices of the rows, as uint16. Every row of PEs has the whole table, with
    its columns along x.
    """
    room, table, numbers, y = _table(rect, tokens, vocabulary, width, dtype, "table", "y")
    row, build = room.vector(1, INDEX), room.builder()
    with build.loop(y.tile_rows):
        build.move(row, numbers.vector(steps=(1,)), 1)
        build.move(y.vector(steps=(y.tile_columns,)), _named(table, row, table.tile_columns), y.tile_columns)
    return MeshKernel(Local(rect, build.body()), (table, numbers), (y,), room.words)


def embedding_gradient(
    rect: Rect, tokens: int, vocabulary: int, width: int, dtype: str = "float32", has_base: bool = False
) -> MeshKernel:
    """Return a kernel that computes the `gradient` [vocabulary, width] of a table from dy [tokens, width].

    Each row of dy is added to the row with its index in `tokens`. With `has_base` the sums are added to the operand
    "base", another gradient of the table. Sums are of type `dtype`. Every row of PEs gets the whole gradient.
    """
    room, gradient, numbers, dy = _table(rect, tokens, vocabulary, width, dtype, "gradient", "dy")
    row, build = room.vector(1, INDEX), room.builder()
    build.move(gradient.vector(), 0.0, gradient.elements)
    with build.loop(dy.tile_rows):
        build.move(row, numbers.vector(steps=(1,)), 1)
        # Destination and source are the same row: if an index occurs twice, both rows are added.
        target = _named(gradient, row, gradient.tile_columns)
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


def _table(
    rect: Rect, tokens: int, vocabulary: int, width: int, dtype: str, table: str, rows: str
) -> tuple[Allocator, Placed, Placed, Placed]:
    """Allocate a table, the indices of its rows, and as many rows as there are indices.

    Return (allocator, table, indices, rows). `table` and `rows` are names; the indices are called "tokens". Columns are
    distributed along x; every row of PEs has all rows of the table.
    """
    room = Allocator()
    placed = room.place(table, rect, vocabulary, width, dtype, row_kind="replicated")
    numbers = room.place("tokens", rect, tokens, 1, INDEX, column_kind="replicated")
    return room, placed, numbers, room.place(rows, rect, tokens, width, dtype)


def _named(placed: Placed, number: Memory, width: int = 1, steps: tuple[int, ...] = ()) -> Memory:
    """Return the operand that starts at element `width` times n of a tile, where n is the uint16 at `number`.

    n is read when the operation starts. Loops move the operand by `steps`.
    """
    return Memory(placed.base, dtype=placed.dtype, steps=steps, index=number.base, index_step=width)
