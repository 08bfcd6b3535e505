"""A product with one operand in place: rows of the other flow by, and partial sums leave along the other axis.

This is how weights that lie in the PEs' memories are used, and what the recipe of a matmul prices as one long stream.
Here the rows come in chunks, and three stages overlap: a chunk arrives while the one before is multiplied and the sums
of the one before that leave.
"""

from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES
from wse_sim.isa.packing import words_of
from wse_sim.kernels.kernel import BANK_PAIRS, MeshKernel, Placed, Room, base_of, body_of
from wse_sim.kernels.tiles import MatrixView, clear, multiply
from wse_sim.layout import Rect
from wse_sim.phase import Broadcast, Local, Par, Phase, Reduce, Seq


def operand_in_place(
    rect: Rect, passing: int, inner: int, outer: int, dtype: str = "float32", chunk: int = 1, algorithm: str = ""
) -> MeshKernel:
    """c [passing, outer] = a b of a [passing, inner], `chunk` rows at a time, and b [inner, outer], which stays.

    a begins in the first column of PEs, inner along y; c ends in the first row of PEs, outer along x. Chunks of 16-bit
    elements are of an even number of rows.
    """
    room = Room()
    # Phases count words: a chunk of 16-bit rows is rounded up to whole ones.
    chunk = -(-chunk * ITEM_BYTES[dtype] // WORD_BYTES) * WORD_BYTES // ITEM_BYTES[dtype]
    column, row = Rect(rect.x, rect.y, 1, rect.height), Rect(rect.x, rect.y, rect.width, 1)
    a = room.place("a", column, passing, inner, dtype, is_turned=True)
    b = room.place("b", rect, inner, outer, dtype)
    c = room.place("c", row, passing, outer, dtype)
    buffers = [room.take(chunk * a.tile_columns, dtype, a.address % BANK_PAIRS) for _ in range(2)]
    starts = range(0, passing, chunk)
    parts: list[Phase] = [clear(rect, room, c)]
    # A pipeline of three stages takes two steps more than there are chunks, to fill and to drain.
    for i in range(len(starts) + 2):
        stages: list[Phase] = []
        if i < len(starts):
            stages.append(_arrive(rect, a, starts[i], chunk, buffers[i % 2]))
        if 0 < i <= len(starts):
            stages.append(_work(rect, room, (a, b, c), starts[i - 1], chunk, buffers[(i - 1) % 2]))
        # The stages of one step touch different chunks and different buffers, so they may overlap.
        if i > 1:
            stages.append(_leave(rect, c, starts[i - 2], chunk, algorithm))
        parts.append(Par(tuple(stages)))
    return MeshKernel(Seq(tuple(parts)), (a, b), (c,), room.words)


def _rows(placed: Placed, start: int, chunk: int) -> tuple[int, int]:
    """Address and words of some rows of a tile."""
    rows = min(chunk, placed.tile_rows - start)
    first = words_of(start * placed.tile_columns, placed.dtype)
    return placed.address + first, words_of(rows * placed.tile_columns, placed.dtype)


def _arrive(rect: Rect, a: Placed, start: int, chunk: int, buffer: int) -> Broadcast:
    address, words = _rows(a, start, chunk)
    return Broadcast(rect, axis="x", words=words, take=address, put=buffer)


def _leave(rect: Rect, c: Placed, start: int, chunk: int, algorithm: str) -> Reduce:
    address, words = _rows(c, start, chunk)
    return Reduce(rect, axis="y", words=words, algorithm=algorithm, at=address, dtype=c.dtype)


def _work(rect: Rect, room: Room, tiles: tuple[Placed, Placed, Placed], start: int, chunk: int, buffer: int) -> Local:
    """The rows of a chunk times the tile that stays."""
    a, b, c = tiles
    rows, builder = min(chunk, a.tile_rows - start), room.builder()
    left = MatrixView(
        base=base_of(buffer, a.dtype),
        rows=rows,
        columns=a.tile_columns,
        row_stride=a.tile_columns,
        column_stride=1,
        dtype=a.dtype,
    )
    sums = MatrixView(
        base=c.base + start * c.tile_columns,
        rows=rows,
        columns=c.tile_columns,
        row_stride=c.tile_columns,
        column_stride=1,
        dtype=c.dtype,
    )
    multiply(builder, left, MatrixView.of(b), sums)
    return Local(rect, body_of(builder))
