"""Dense matrix products that run: the arrangements of `gemm.py` with addresses, and both products of a backward pass.

Each PE of a square mesh holds one tile of each matrix. Of the three matrices of a product one stays. In Cannon's
product the result stays, the first operand turns along the rows and the second along the columns. For a product with
the first operand transposed the second one stays and the result turns along the columns; for one with the second
transposed the first stays and the result turns along the rows. So nobody transposes a matrix: a tile is just read the
other way. On a folded ring the same is the interleaved product.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lazytensor.errors import LazyError
from wse_sim.fabric.program import Builder, Memory
from wse_sim.layout import Rect
from wse_sim.phase import Broadcast, Local, Par, Phase, Seq, Shift
from wse_sim.programs.gemm import step
from wse_sim.programs.kernel import Kernel, Placed, Room, body_of


@dataclass(frozen=True)
class Operand:
    """A tile as a matrix of `rows` x `columns` with strides in elements, perhaps read the other way."""

    base: int
    rows: int
    columns: int
    row_stride: int
    column_stride: int
    dtype: str

    @classmethod
    def of(cls, placed: Placed, is_transposed: bool = False) -> "Operand":
        rows, columns = placed.tile_rows, placed.tile_columns
        if is_transposed:
            return cls(placed.base, columns, rows, 1, columns, placed.dtype)
        return cls(placed.base, rows, columns, columns, 1, placed.dtype)

    def along(self, axis: str, steps: tuple[int, int]) -> Memory:
        """A row ("x"), a column ("y") or one element (""), moving with the rounds of two loops."""
        stride = {"x": self.column_stride, "y": self.row_stride, "": 0}[axis]
        return Memory(self.base, stride, self.dtype, steps)


def multiply(builder: Builder, a: Operand, b: Operand, c: Operand) -> None:
    """c += a b: for each inner index and each index of the shorter side, one operation over the longer side."""
    along_x = c.columns >= c.rows
    with builder.loop(a.columns), builder.loop(c.rows if along_x else c.columns):
        if along_x:
            target = c.along("x", (0, c.row_stride))
            left, right = a.along("", (a.column_stride, a.row_stride)), b.along("x", (b.row_stride, 0))
        else:
            target = c.along("y", (0, c.column_stride))
            left, right = a.along("y", (a.column_stride, 0)), b.along("", (b.row_stride, b.column_stride))
        builder.fmac(target, left, right, target, max(c.rows, c.columns))


def clear(rect: Rect, room: Room, *placed: Placed) -> Local:
    """Sets tiles to zero."""
    builder = room.builder()
    for one in placed:
        builder.move(one.vector(), 0.0, one.elements)
    return Local(rect, body_of(builder))


def summa(rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "") -> Kernel:
    """c = a b: in each step one column of tiles of a and one row of tiles of b go to all, ahead of the products.

    Sums are in `sum_dtype`, by default that of the operands, and run over k in order.
    """
    _require_square(rect)
    room = Room()
    a, b = room.place("a", rect, m, k, dtype), room.place("b", rect, k, n, dtype)
    c = room.place("c", rect, m, n, sum_dtype or dtype)
    panels = [(room.again(a), room.again(b)) for _ in range(2)]
    parts: list[Phase] = [clear(rect, room, c)]
    for i in range(rect.width + 1):
        moves: tuple[Phase, ...] = ()
        if i < rect.width:
            to_a, to_b = panels[i % 2]
            moves = (_to_all("x", a, i, to_a), _to_all("y", b, i, to_b))
        parts.append(step(moves, *((_product(room, (*panels[(i - 1) % 2], c)),) if i else ())))
    return Kernel(Seq(tuple(parts)), (a, b), (c,), room.words)


def _to_all(axis: str, tile: Placed, source: int, to: Placed) -> Broadcast:
    return Broadcast(tile.rect, axis, tile.words, source=source, take=tile.address, put=to.address)


def _product(room: Room, tiles: Sequence[Placed], transposed: str = "") -> Local:
    """Adds the product of the first two tiles to the third."""
    (a, b, c), builder = tiles, room.builder()
    multiply(builder, Operand.of(a, transposed == "a"), Operand.of(b, transposed == "b"), Operand.of(c))
    return Local(c.rect, body_of(builder))


def cannon(rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "", **how: bool) -> Kernel:
    """c = a b with shifts by one PE; `is_folded` as in `two_hop`.

    With `has_skew` the operands come in plain tiles and are turned into Cannon's places first.
    """
    return _rotating(rect, m, k, n, dtype, sum_dtype, stays="c", **how)


def two_hop(rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "") -> Kernel:
    """The interleaved product: Cannon's on rings folded onto the lines, so that no word goes further than two PEs."""
    return cannon(rect, m, k, n, dtype, sum_dtype, is_folded=True)


def weight_gradient(
    rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "", **how: bool
) -> Kernel:
    """c [k, n] = a^T b of a [m, k], the activations, and b [m, n], the gradient of what came of them."""
    return _rotating(rect, m, k, n, dtype, sum_dtype, stays="b", **how)


def input_gradient(
    rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "", **how: bool
) -> Kernel:
    """c [m, k] = a b^T of a [m, n], the gradient of what came out, and b [k, n], the weights."""
    return _rotating(rect, m, k, n, dtype, sum_dtype, stays="a", **how)


_EXTENTS = {"c": ("mk", "kn", "mn"), "b": ("mk", "mn", "kn"), "a": ("mn", "kn", "mk")}
"""Which matrix stays -> the extents of a, b and c."""
_SKEWS = {"c": ("row", "column", ""), "b": ("row", "", "column"), "a": ("", "column", "row")}
_TRANSPOSED = {"c": "", "b": "a", "a": "b"}


def _rotating(
    rect: Rect,
    m: int,
    k: int,
    n: int,
    dtype: str,
    sum_dtype: str,
    stays: str,
    is_folded: bool = False,
    has_skew: bool = False,
) -> Kernel:
    _require_square(rect)
    if is_folded and has_skew:
        raise LazyError("a folded ring is not turned into Cannon's places", todo="Scatter the tiles there.")
    extents, room = {"m": m, "k": k, "n": n}, Room()
    types = (dtype, dtype, sum_dtype or dtype)
    tiles = [
        room.place(name, rect, extents[e[0]], extents[e[1]], type, skew=skew, is_folded=is_folded)
        for name, e, type, skew in zip("abc", _EXTENTS[stays], types, _SKEWS[stays], strict=True)
    ]
    buffers = [(t, room.again(t) if t.skew else t) for t in tiles]
    parts: list[Phase] = [clear(rect, room, tiles[2])]
    operands = tiles[:2]
    if has_skew:
        parts += [turn for pair in buffers[:2] if pair[0].skew for turn in _skewing(room, pair)]
        operands = [replace(pair[(rect.width - 1) % 2], skew="") for pair in buffers[:2]]
    parts += _rounds(room, buffers, _TRANSPOSED[stays])
    result = buffers[2][rect.width % 2 if rect.width > 1 else 0]
    return Kernel(Seq(tuple(parts)), tuple(operands), (result,), room.words)


def _skewing(room: Room, buffers: tuple[Placed, Placed]) -> Iterator[Phase]:
    """Plain tiles turn into Cannon's places: line s takes part in the first s of the turns and copies in the others."""
    rect, size = buffers[0].rect, buffers[0].rect.width
    for s in range(1, size):
        tile, to = buffers[(size - s) % 2], buffers[(size - s - 1) % 2]
        builder = room.builder()
        builder.move(to.vector(), tile.vector(), tile.elements)
        if tile.skew == "row":
            turning, still = Rect(rect.x, rect.y + s, size, size - s), Rect(rect.x, rect.y, size, s)
        else:
            turning, still = Rect(rect.x + s, rect.y, size - s, size), Rect(rect.x, rect.y, s, size)
        yield Par((_turn(tile, to, turning), Local(still, body_of(builder))))


def _rounds(room: Room, buffers: list[tuple[Placed, Placed]], transposed: str) -> Iterator[Phase]:
    """Operands turn beside the products; a result that turns follows them, and comes home in the last round."""
    rect = buffers[0][0].rect
    for i in range(rect.width):
        here = [pair[i % 2] for pair in buffers]
        turns = [
            _turn(tile, pair[(i + 1) % 2], rect) if tile.skew and rect.width > 1 else None
            for tile, pair in zip(here, buffers, strict=True)
        ]
        moves = [turn for turn in turns[:2] if turn and i < rect.width - 1]
        yield step(tuple(moves), _product(room, here, transposed))
        if turns[2]:
            yield turns[2]


def _turn(tile: Placed, to: Placed, rect: Rect) -> Shift:
    """Tiles go to the PE before on the ring, into another buffer."""
    axis, wrap = ("x" if tile.skew == "row" else "y"), ("folded" if tile.is_folded else "line")
    return Shift(rect, axis, tile.words, -1, wrap, tile.address, to.address)


def _require_square(rect: Rect) -> None:
    if rect.width != rect.height:
        raise LazyError(f"a product on {rect.width} x {rect.height} PEs", todo="Give a square rectangle.")
