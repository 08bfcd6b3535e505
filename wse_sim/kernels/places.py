"""Elements of lists by their numbers: read where numbers say, and put there, which is the gradient of that.

A core has no gather over a vector. Each number is moved to where an operand's index is read, and then one element goes.
"""

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory
from wse_sim.kernels.kernel import INDEX, WIDE, MeshKernel, Placed, Room
from wse_sim.layout import Rect
from wse_sim.phase import Local


def at_places(rect: Rect, rows: int, columns: int, extent: int, count: int, dtype: str = "float32") -> MeshKernel:
    """y = the elements of x that `places` name, in each of rows x columns lists.

    x is [rows, columns x extent], y and places [rows, columns x count]; places count within their own list.
    """
    room = Room()
    x = room.place("x", rect, rows, columns, dtype, depth=extent)
    places = room.place("places", rect, rows, columns, INDEX, depth=count)
    y = room.place("y", rect, rows, columns, dtype, depth=count)
    number = room.vector(1, INDEX)
    build = room.builder()
    with build.loop(x.tile_rows * x.tile_columns), build.loop(count):
        build.move(number, places.vector(steps=(count, 1)), 1)
        build.move(y.vector(steps=(count, 1)), _named(x, number, extent), 1)
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
    """y [rows, columns x extent] is zero but at `places`, where g is put; both are [rows, columns x count].

    With `has_base` it is what the operand "base" was, instead of zero. What comes to one place is added up in float32
    and rounded once, or with `accumulate` off the last of it stays.
    """
    room = Room()
    g = room.place("g", rect, rows, columns, dtype, depth=count)
    places = room.place("places", rect, rows, columns, INDEX, depth=count)
    y = room.place("y", rect, rows, columns, dtype, depth=extent)
    total = y if dtype == WIDE else room.place("total", rect, rows, columns, WIDE, depth=extent)
    number = room.vector(1, INDEX)
    operands = [g, places]
    if has_base:
        operands.append(room.place("base", rect, rows, columns, dtype, depth=extent))
    build = room.builder()
    build.convert(total.vector(), operands[-1].vector() if has_base else 0.0, total.elements)
    with build.loop(g.tile_rows * g.tile_columns), build.loop(count):
        build.move(number, places.vector(steps=(count, 1)), 1)
        _put(build, _named(total, number, extent), g.vector(steps=(count, 1)), accumulate)
    if total is not y:
        build.convert(y.vector(), total.vector(), y.elements)
    return MeshKernel(Local(rect, build.body()), tuple(operands), (y,), room.words)


def _put(build: Builder, target: Memory, value: Memory, accumulate: bool) -> None:
    if accumulate:
        build.add(target, target, value, 1)
    else:
        build.convert(target, value, 1)


def _named(lists: Placed, number: Memory, extent: int) -> Memory:
    """The element of the list of this round whose number lies in memory."""
    return Memory(lists.base, dtype=lists.dtype, steps=(extent,), index=number.base)
