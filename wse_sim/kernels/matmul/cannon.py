"""Dense matrix products on a square of PEs that run: the arrangements of `gemm.py` with addresses, and a training step.

Each PE has one tile of each matrix. Of the three matrices of a product a b = c one stays. If c stays, a shifts along
the rows and b along the columns (Cannon). For a product with a transposed b stays and c shifts along the columns; for
one with b transposed a stays and c shifts along the rows. So no matrix is transposed: a tile is read the other way. On
a folded ring the same is the interleaved product. SUMMA broadcasts tiles instead.
"""

from collections.abc import Iterator
from dataclasses import replace

from lazytensor.errors import LazyError
from wse_sim.kernels.kernel import WIDE, MeshKernel, Placed, Room, round_to
from wse_sim.kernels.matmul.tile_product import clear, product
from wse_sim.layout import Rect
from wse_sim.phase import Broadcast, Local, Par, Phase, Seq, Shift

_EXTENTS = {"c": ("mk", "kn", "mn"), "b": ("mk", "mn", "kn"), "a": ("mn", "kn", "mk")}
"""Which matrix stays -> the extents of a, b and c."""
_SKEWS = {"c": ("row", "column", ""), "b": ("row", "", "column"), "a": ("", "column", "row")}
"""Which matrix stays -> how a, b and c are aligned before the first round."""
_TRANSPOSED = {"c": "", "b": "a", "a": "b"}


class ShiftedMatrix:
    """A matrix whose tiles go from PE to PE, each time from one of two buffers to the other.

    `first` is where it lies at first and `current` where it lies after the shifts so far. Without a skew it stays.
    """

    def __init__(self, room: Room, placed: Placed):
        self.first = self.current = placed
        # Two buffers in the same pair of banks: one is multiplied while the other fills, and the distance in banks to
        # the other operands of an operation never changes.
        self._other = room.again(placed) if placed.skew else placed

    @property
    def shifts(self) -> bool:
        """Whether tiles go anywhere: not without a skew, nor on a single PE."""
        return bool(self.first.skew) and self.first.rect.width > 1

    def shift(self, rect: Rect | None = None) -> Shift:
        """Send tiles to the PE before on the ring; only those of `rect`, if it is given."""
        tile, self.current, self._other = self.current, self._other, self.current
        axis, wrap = ("x" if tile.skew == "row" else "y"), ("folded" if tile.is_folded else "line")
        put = self.current.address
        return Shift(rect or tile.rect, axis, words=tile.words, hops=-1, wrap=wrap, take=tile.address, put=put)

    def align(self, room: Room) -> Iterator[Phase]:
        """Shift plain tiles to where the first round reads them: line s by s PEs."""
        rect, size = self.first.rect, self.first.rect.width
        # In step s the lines from s on shift; those before are aligned and only change buffers, so that all tiles are
        # in the same one.
        for s in range(1, size if self.first.skew else 1):
            builder = room.builder()
            builder.move(self._other.vector(), self.current.vector(), self.current.elements)
            if self.first.skew == "row":
                moving, still = Rect(rect.x, rect.y + s, size, size - s), Rect(rect.x, rect.y, size, s)
            else:
                moving, still = Rect(rect.x + s, rect.y, size - s, size), Rect(rect.x, rect.y, s, size)
            yield Par((self.shift(moving), Local(still, builder.body())))


def _rounds(
    room: Room, a: ShiftedMatrix, b: ShiftedMatrix, c: ShiftedMatrix, stays: str, comes_back: bool = False
) -> Iterator[Phase]:
    """Add a b to c. Operands shift beside the products; a result that shifts follows them and ends where it began.

    With `comes_back` operands shift once more in the last round, so that another product can take them.
    """
    last = a.first.rect.width - 1
    for i in range(last + 1):
        work = product(room, (a.current, b.current, c.current), _TRANSPOSED[stays])
        # `work` was built with the buffers of this round, before the shift exchanges them: the next tiles arrive in the
        # others.
        moves = [tile.shift() for tile in (a, b) if tile.shifts and (i < last or comes_back)]
        yield Par((*moves, work))
        # A result cannot shift beside its own product: its sums have to be complete first.
        if c.shifts:
            yield c.shift()


def _require_square(rect: Rect) -> None:
    if rect.width != rect.height:
        raise LazyError(f"a product on {rect.width} x {rect.height} PEs", hint="Give a square rectangle.")


def summa(rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "") -> MeshKernel:
    """c [m, n] = a [m, k] b [k, n]: in each step one column of tiles of a and one row of tiles of b go to all.

    They are on their way ahead of the products. Sums are in `sum_dtype`, by default that of the operands, and run over
    k in order.
    """
    _require_square(rect)
    room = Room()
    a, b = room.place("a", rect, m, k, dtype), room.place("b", rect, k, n, dtype)
    c = room.place("c", rect, m, n, sum_dtype or dtype)
    # Two panels of each operand: one is multiplied while the next is broadcast into the other.
    panels = [(room.again(a), room.again(b)) for _ in range(2)]
    parts: list[Phase] = [clear(rect, room, c)]
    # One step more than panels: the first only brings tiles, the last only multiplies.
    for i in range(rect.width + 1):
        step: list[Phase] = []
        if i < rect.width:
            for axis, tile, to in zip("xy", (a, b), panels[i % 2], strict=True):
                step.append(Broadcast(rect, axis, words=tile.words, source=i, take=tile.address, put=to.address))
        if i:
            step.append(product(room, (*panels[(i - 1) % 2], c)))
        parts.append(Par(tuple(step)))
    return MeshKernel(Seq(tuple(parts)), (a, b), (c,), room.words)


def cannon(rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "", **how: bool) -> MeshKernel:
    """c [m, n] = a [m, k] b [k, n] with shifts by one PE, on a square; `is_folded` as in `two_hop`.

    With `has_skew` the operands come in plain tiles and are aligned first.
    """
    return _shifting(rect, m, k, n, dtype, sum_dtype, stays="c", **how)


def two_hop(rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "") -> MeshKernel:
    """The interleaved product, c [m, n] = a [m, k] b [k, n], on a square.

    Cannon's on rings folded onto the lines, so that no word goes further than two PEs.
    """
    return cannon(rect, m, k, n, dtype, sum_dtype, is_folded=True)


def weight_gradient(
    rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "", **how: bool
) -> MeshKernel:
    """c [k, n] = a^T b of a [m, k], the activations, and b [m, n], the gradient of what came of them."""
    return _shifting(rect, m, k, n, dtype, sum_dtype, stays="b", **how)


def input_gradient(
    rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "", **how: bool
) -> MeshKernel:
    """c [m, k] = a b^T of a [m, n], the gradient of what came out, and b [k, n], the weights."""
    return _shifting(rect, m, k, n, dtype, sum_dtype, stays="a", **how)


def _shifting(
    rect: Rect,
    m: int,
    k: int,
    n: int,
    dtype: str,
    sum_dtype: str,
    stays: str,
    is_folded: bool = False,
    has_skew: bool = False,
) -> MeshKernel:
    _require_square(rect)
    if is_folded and has_skew:
        raise LazyError("a folded ring is not turned into Cannon's places", hint="Scatter the tiles there.")
    extents, room = {"m": m, "k": k, "n": n}, Room()
    types = (dtype, dtype, sum_dtype or dtype)
    a, b, c = (
        ShiftedMatrix(room, room.place(name, rect, extents[e[0]], extents[e[1]], type, skew=skew, is_folded=is_folded))
        for name, e, type, skew in zip("abc", _EXTENTS[stays], types, _SKEWS[stays], strict=True)
    )
    parts: list[Phase] = [clear(rect, room, c.current)]
    if has_skew:
        parts += [move for tile in (a, b) for move in tile.align(room)]
    # With `has_skew` the caller's matrices lie in plain tiles where the shifts begin.
    operands = tuple(replace(tile.first, skew="") if has_skew else tile.first for tile in (a, b))
    parts += _rounds(room, a, b, c, stays)
    return MeshKernel(Seq(tuple(parts)), operands, (c.current,), room.words)


def linear_step(
    rect: Rect, m: int, k: int, n: int, dtype: str = "float32", rate: float = 0.1, is_folded: bool = True
) -> MeshKernel:
    """y = x w; dy = y - target; dw = x^T dy; dx = dy w^T; w = w - rate dw, for x [m, k] and w [k, n].

    A training step of one linear layer in which no matrix moves to another layout. Sums are in float32; x, w, dy are
    of `dtype`, of which the last two are rounded once.
    """
    _require_square(rect)
    room = Room()

    def matrix(name: str, rows: int, columns: int, type: str, skew: str) -> ShiftedMatrix:
        return ShiftedMatrix(room, room.place(name, rect, rows, columns, type, skew=skew, is_folded=is_folded))

    # The gradient of y lies as y does: next to x for the gradient of w, which ends as w lies, and next to w for the
    # gradient of x, which ends as x lies.
    x, w = matrix("x", m, k, dtype, "row"), matrix("w", k, n, dtype, "column")
    target, dy = matrix("target", m, n, dtype, ""), matrix("dy", m, n, dtype, "")
    y, dw, dx = matrix("y", m, n, WIDE, ""), matrix("dw", k, n, WIDE, "column"), matrix("dx", m, k, WIDE, "row")
    difference = room.again(y.current, bank=3)
    parts: list[Phase] = [clear(rect, room, y.current, dw.current, dx.current)]
    # Both operands come back, since the two products of the backward pass read them again.
    parts += _rounds(room, x, w, y, "c", comes_back=True)
    build = room.builder()
    build.sub(difference.vector(), y.current.vector(), target.current.vector(), difference.elements)
    parts.append(Local(rect, round_to(build, dy.current, difference).body()))
    parts += _rounds(room, x, dy, dw, "b")
    parts += _rounds(room, dy, w, dx, "a", comes_back=True)
    build, change, weight = room.builder(), dw.current.vector(), w.current.vector()
    build.mul(change, change, -rate, w.current.elements)
    build.add(weight, weight, change, w.current.elements)
    parts.append(Local(rect, build.body()))
    results = tuple(tile.current for tile in (y, dx, w))
    return MeshKernel(Seq(tuple(parts)), (x.first, w.first, target.first), results, room.words)
