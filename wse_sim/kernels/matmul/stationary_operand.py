"""Matrix products with one matrix in place, on any rectangle; the other matrices move in chunks of rows.

With an operand in place (a weight in pipelined mode, an activation where weights are streamed), rows of the other
operand arrive along one axis, each PE multiplies them by its tile, and partial sums leave along the other axis. With
the result in place both operands arrive, one along each axis, and each PE accumulates. The stages overlap: one chunk
arrives while the previous one is multiplied and the sums of the one before leave.

`strips` products of equal extents are computed at the same time on parts of the rectangle, which are cut across the
axis along which rows arrive.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lazytensor.errors import LazyError
from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES
from wse_sim.isa.packing import word_count
from wse_sim.kernels.kernel import BANK_PAIRS, Allocator, Copies, MeshKernel, Placed
from wse_sim.kernels.matmul.tile_product import MatrixView, clear, multiply
from wse_sim.layout import Rect
from wse_sim.phase import Broadcast, Local, Par, Phase, Reduce, Rounds, Seq


def whole_chunk(chunk: int, dtype: str) -> int:
    """Return `chunk`, at least 1, rounded up to a number of rows such that every chunk starts in the same pair of
    banks.

    So bank conflicts are equal in all chunks, and all rounds take the same time.
    """
    rows = BANK_PAIRS * WORD_BYTES // ITEM_BYTES[dtype]
    return -(-max(1, chunk) // rows) * rows


def operand_in_place(
    rect: Rect,
    passing: int,
    inner: int,
    outer: int,
    dtype: str = "float32",
    chunk: int = 1,
    algorithm: str = "",
    sum_dtype: str = "",
    strips: int = 1,
    is_turned: bool = False,
    is_transposed: bool = False,
    is_shared: bool = False,
) -> MeshKernel:
    """Return a kernel that computes c [passing, outer] = a b, with b [inner, outer] in place.

    Rows of a [passing, inner] move. a starts in the first column of PEs, with `inner` along y. c ends in the first row
    of PEs, with `outer` along x. Raises LazyError for a shared operand with strips of more than one line.

    - `chunk`: rows of a at a time, rounded by `whole_chunk`
    - `algorithm`: reduction of the partial sums, "" for the fastest
    - `sum_dtype`: type of c, by default `dtype`
    - `strips`: number of products; with several, the operands are a0, a1, ..., b0, ..., and the results c0, ...
    - `is_turned`: exchange the axes
    - `is_transposed`: b is given as [outer, inner]
    - `is_shared`: there is only one a, which starts on the first PE and is broadcast to all
    """
    room, sums = Allocator(), sum_dtype or dtype
    chunk = min(whole_chunk(chunk, dtype), whole_chunk(passing, dtype))
    cut = _Strips(rect, strips, across="x" if is_turned else "y")
    first = cut.part()
    if is_shared and cut.line != 1:
        # Each line would need another part of the shared operand.
        what = f"{strips} strips of {cut.line} lines cannot share an operand"
        raise LazyError(what, hint="Use as many strips as lines, so that each strip has one line.")
    # The moving operand is at the start of the axis along which it is sent, and the sums at the start of the other
    # axis.
    begin = {"x": first.limit_size(1, first.height), "y": first.limit_size(first.width, 1)}
    a = room.place("a", begin[cut.along], passing, inner, dtype, is_turned=not is_turned)
    extents = (outer, inner) if is_transposed else (inner, outer)
    b = room.place("b", first, *extents, dtype, is_turned=is_transposed != is_turned)
    c = room.place("c", begin[cut.across], passing, outer, sums, is_turned=is_turned)

    def arrive(rows: range) -> Phase:
        # To the same address on all PEs: the sender has the words there already and copies nothing.
        address, words = _rows(a, rows)
        axis = "xy" if is_shared else cut.along
        return Broadcast(cut.used, axis=axis, words=words, take=address, put=address)

    def work(rows: range) -> Phase:
        builder = room.builder()
        left, total = (MatrixView.of(tile).some(rows) for tile in (a, c))
        multiply(builder, left, MatrixView.of(b, is_transposed), total, begins=True)
        return Local(cut.used, builder.body())

    def leave(rows: range) -> Phase:
        address, words = _rows(c, rows)
        return Reduce(
            cut.used, axis=cut.across, words=words, groups=strips, algorithm=algorithm, at=address, dtype=sums
        )

    phase = in_chunks(passing, chunk, (arrive, work, leave))
    operands = cut.copies(b, alone=(a,)) if is_shared else cut.copies(a, b)
    return MeshKernel(phase, operands, cut.copies(c), room.words)


def result_in_place(
    rect: Rect,
    m: int,
    n: int,
    k: int,
    dtype: str = "float32",
    chunk: int = 1,
    sum_dtype: str = "",
    strips: int = 1,
) -> MeshKernel:
    """Return a kernel that computes c [m, n] = a^T b of a [k, m] and b [k, n]; c stays and rows of a and b move.

    a starts in the first column of PEs, with m along y, and b in the first row of each strip, with n along x. c ends
    distributed over all PEs of the strip. `chunk`, the rows of a and b at a time, `sum_dtype` and `strips` are as in
    `operand_in_place`.
    """
    room, cut = Allocator(), _Strips(rect, strips, across="y")
    chunk = min(whole_chunk(chunk, dtype), whole_chunk(k, dtype))
    first = cut.part()
    a = room.place("a", first.limit_size(1, first.height), k, m, dtype, is_turned=True)
    b = room.place("b", first.limit_size(first.width, 1), k, n, dtype)
    c = room.place("c", first, m, n, sum_dtype or dtype)

    def arrive(rows: range) -> Phase:
        # Along both axes at the same time: the operands have separate colours and links.
        moves = []
        for tile, axis, groups in ((a, "x", 1), (b, "y", strips)):
            address, words = _rows(tile, rows)
            moves.append(Broadcast(cut.used, axis=axis, words=words, groups=groups, take=address, put=address))
        return Par(tuple(moves))

    def work(rows: range) -> Phase:
        builder = room.builder()
        multiply(builder, MatrixView.of(a).some(rows).turned(), MatrixView.of(b).some(rows), MatrixView.of(c))
        return Local(cut.used, builder.body())

    phase = Seq((clear(cut.used, room, c), in_chunks(k, chunk, (arrive, work))))
    return MeshKernel(phase, cut.copies(a, b), cut.copies(c), room.words)


Stage = Callable[[range], Phase]
"""A function from the rows of a chunk to the phase that processes it."""


def in_chunks(rows: int, chunk: int, stages: Sequence[Stage]) -> Phase:
    """Return a phase that passes the rows, in chunks of `chunk` rows, through all stages, as a pipeline.

    In step i stage n processes chunk i - n; the stages of a step run at the same time. The last chunk may be shorter.
    """
    starts = range(0, rows, chunk)

    def step(number: int) -> Phase:
        # Stages of one step access different chunks, so they may overlap.
        parts = []
        for n, stage in enumerate(stages):
            if 0 <= number - n < len(starts):
                start = starts[number - n]
                parts.append(stage(range(start, min(start + chunk, rows))))
        return Par(tuple(parts))

    # A pipeline has more steps than chunks, to fill and to drain. The steps between are equal rounds of full chunks.
    filling, full = len(stages) - 1, rows // chunk
    steps, equal = len(starts) + filling, max(0, full - filling)
    if not equal:
        return Seq(tuple(step(i) for i in range(steps)))
    before, after = (range(filling), range(full, steps))
    rounds = Rounds(equal, lambda number: step(filling + number))
    return Seq((*(step(i) for i in before), rounds, *(step(i) for i in after)))


@dataclass(frozen=True)
class _Strips:
    """`count` equal parts of a rectangle, next to each other along the axis `across`."""

    rect: Rect
    count: int
    across: str

    @property
    def along(self) -> str:
        """The other axis."""
        return "x" if self.across == "y" else "y"

    @cached_property
    def line(self) -> int:
        """PEs of a strip along the axis `across`."""
        return (self.rect.height if self.across == "y" else self.rect.width) // self.count

    @cached_property
    def used(self) -> Rect:
        """The rectangle of all strips."""
        if self.across == "y":
            return self.rect.limit_size(self.rect.width, self.line * self.count)
        return self.rect.limit_size(self.line * self.count, self.rect.height)

    def part(self) -> Rect:
        """Return the first strip, at the upper left corner."""
        width, height = self.rect.width, self.rect.height
        return self.rect.limit_size(width, self.line) if self.across == "y" else self.rect.limit_size(self.line, height)

    def copies(self, *first: Placed, alone: tuple[Placed, ...] = ()) -> Copies:
        """Return the matrices `alone`, then each matrix of `first`, placed on the first strip, on all strips."""
        return Copies(first, self.count, self._moved, alone)

    def _moved(self, placed: Placed, i: int) -> Placed:
        """Return a matrix of the first strip moved to strip `i`, with `i` appended to its name.

        With a single strip, return the matrix itself.
        """
        if self.count == 1:
            return placed
        rect, way = placed.rect, i * self.line
        moved = replace(rect, y=rect.y + way) if self.across == "y" else replace(rect, x=rect.x + way)
        return replace(placed, name=f"{placed.name}{i}", rect=moved)


def _rows(placed: Placed, rows: range) -> tuple[int, int]:
    """Return (address in words, words) of the rows `rows` of a tile; the first of them must start at a whole word."""
    first = word_count(rows.start * placed.tile_columns, placed.dtype)
    return placed.address + first, word_count(len(rows) * placed.tile_columns, placed.dtype)
