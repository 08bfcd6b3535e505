"""Dense matrix products with operands on a square of PEs, and a training step of a linear layer.

Each PE has one tile of each matrix. Of the three matrices of a product a b = c one stays. If c stays, a shifts along
the rows and b along the columns (Cannon's algorithm). For a product with a transposed, b stays and c shifts along the
columns. For one with b transposed, a stays and c shifts along the rows. So no matrix is transposed in memory: a tile is
read with exchanged strides. On a folded ring this is the interleaved product. SUMMA broadcasts tiles instead. `gemm.py`
has prices of the same algorithms.
"""

from collections.abc import Iterator
from dataclasses import replace

from lazytensor.errors import LazyError
from wse_sim.kernels.kernel import WIDE, Allocator, MeshKernel, Placed, round_to
from wse_sim.kernels.matmul.tile_product import clear, product
from wse_sim.layout import Rect
from wse_sim.phase import Broadcast, Local, Par, Phase, Seq, Shift

_EXTENTS = {"c": ("mk", "kn", "mn"), "b": ("mk", "mn", "kn"), "a": ("mn", "kn", "mk")}
"""Matrix that stays -> the extents of a, b and c."""
_SKEWS = {"c": ("row", "column", ""), "b": ("row", "", "column"), "a": ("", "column", "row")}
"""Matrix that stays -> how a, b and c are aligned before the first round; see `Placed.skew`."""
_TRANSPOSED = {"c": "", "b": "a", "a": "b"}


class ShiftedMatrix:
    """A matrix whose tiles shift from PE to PE, each time from one of two buffers to the other.

    `first` is its placement at the start and `current` that after the shifts so far. Without a skew it stays.
    """

    def __init__(self, room: Allocator, placed: Placed):
        self.first = self.current = placed
        # Two buffers in the same pair of banks: one is multiplied while the other is filled, and bank conflicts never
        # change.
        self._other = room.again(placed) if placed.skew else placed

    @property
    def shifts(self) -> bool:
        """True if tiles shift: False without a skew and on a single PE."""
        return bool(self.first.skew) and self.first.rect.width > 1

    def shift(self, rect: Rect | None = None) -> Shift:
        """Return a phase that sends each tile to the previous PE on its ring, into the other buffer, and exchange the
        buffers.

        `current` is the new placement afterwards. Tiles shift along x with the skew "row", else along y. Only tiles of
        `rect` are sent if it is given.
        """
        tile, self.current, self._other = self.current, self._other, self.current
        axis, wrap = ("x" if tile.skew == "row" else "y"), ("folded" if tile.is_folded else "line")
        put = self.current.address
        return Shift(rect or tile.rect, axis, words=tile.words, hops=-1, wrap=wrap, take=tile.address, put=put)

    def align(self, room: Allocator) -> Iterator[Phase]:
        """Yield phases that move plain tiles to their positions in the first round: line s shifts by s PEs.

        Lines are rows with the skew "row" and columns with "column"; without a skew nothing is yielded. Each phase
        exchanges the buffers, as `shift` does.
        """
        rect, size = self.first.rect, self.first.rect.width
        # In step s the lines from s on shift. The others are aligned and only copy to the other buffer, so that all
        # tiles are in the same one.
        for s in range(1, size if self.first.skew else 1):
            builder = room.builder()
            builder.move(self._other.vector(), self.current.vector(), self.current.elements)
            if self.first.skew == "row":
                moving, still = Rect(rect.x, rect.y + s, size, size - s), Rect(rect.x, rect.y, size, s)
            else:
                moving, still = Rect(rect.x + s, rect.y, size - s, size), Rect(rect.x, rect.y, s, size)
            yield Par((self.shift(moving), Local(still, builder.body())))


def _rounds(
    room: Allocator, a: ShiftedMatrix, b: ShiftedMatrix, c: ShiftedMatrix, stays: str, comes_back: bool = False
) -> Iterator[Phase]:
    """Yield the rounds of a product that adds a b to c; `stays` ("a", "b" or "c") is the matrix that does not shift.

    The product uses a^T if b stays, and b^T if a stays. Operands shift at the same time as the products. A result that
    shifts does so after each product and ends where it began. With `comes_back` operands shift in the last round too,
    so that another product can use them.
    """
    last = a.first.rect.width - 1
    for i in range(last + 1):
        work = product(room, (a.current, b.current, c.current), _TRANSPOSED[stays])
        # `work` uses the buffers of this round; the shift exchanges them, so the next tiles arrive in the others.
        moves = [tile.shift() for tile in (a, b) if tile.shifts and (i < last or comes_back)]
        yield Par((*moves, work))
        # A result shifts only after its product has finished.
        if c.shifts:
            yield c.shift()


def _require_square(rect: Rect) -> None:
    if rect.width != rect.height:
        what = f"this matrix product needs a square of PEs, but its rectangle has {rect.width} x {rect.height} PEs"
        raise LazyError(what, hint="Use a square rectangle.")


def summa(rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "") -> MeshKernel:
    """Return a kernel that computes c [m, n] = a [m, k] b [k, n] by SUMMA on a square `rect`.

    In step i column i of tiles of a and row i of tiles of b are broadcast, while the tiles of step i - 1 are
    multiplied. Sums are of type `sum_dtype`, by default `dtype`, and add over k in order. Raises LazyError if `rect` is
    not square.
    """
    _require_square(rect)
    room = Allocator()
    a, b = room.place("a", rect, m, k, dtype), room.place("b", rect, k, n, dtype)
    c = room.place("c", rect, m, n, sum_dtype or dtype)
    # Two panels of each operand: one is multiplied while the next is broadcast into the other.
    panels = [(room.again(a), room.again(b)) for _ in range(2)]
    parts: list[Phase] = [clear(rect, room, c)]
    # One more step than panels: the first only broadcasts, the last only multiplies.
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
    """Return a kernel that computes c [m, n] = a [m, k] b [k, n] with shifts by one PE, on a square `rect`.

    Sums are of type `sum_dtype`, by default `dtype`. Keyword `has_skew`: the operands come in plain tiles and are
    aligned first; otherwise `scatter` puts them in aligned positions. Keyword `is_folded`: as in `two_hop`. Both
    together raise LazyError, as does a rectangle that is not square.
    """
    return _shifting(rect, m, k, n, dtype, sum_dtype, stays="c", **how)


def two_hop(rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "") -> MeshKernel:
    """Return a kernel that computes the interleaved product c [m, n] = a [m, k] b [k, n] on a square `rect`.

    It is Cannon's product on rings folded onto the lines, so that no word travels further than two PEs (WaferLLM, OSDI
    2025).
    """
    return cannon(rect, m, k, n, dtype, sum_dtype, is_folded=True)


def weight_gradient(
    rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "", **how: bool
) -> MeshKernel:
    """Return a kernel that computes c [k, n] = a^T b of activations a [m, k] and the gradient of outputs b [m, n].

    b stays, and a and c shift. `sum_dtype`, the keywords and the errors are those of `cannon`.
    """
    return _shifting(rect, m, k, n, dtype, sum_dtype, stays="b", **how)


def input_gradient(
    rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "", **how: bool
) -> MeshKernel:
    """Return a kernel that computes c [m, k] = a b^T of the gradient of outputs a [m, n] and weights b [k, n].

    a stays, and b and c shift. `sum_dtype`, the keywords and the errors are those of `cannon`.
    """
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
    """Return the kernel of a product by shifts in which matrix `stays` ("a", "b" or "c") does not move.

    It is c [m, n] = a b if c stays, c [k, n] = a^T b if b stays, and c [m, k] = a b^T if a stays. `is_folded` selects
    the folded ring. With `has_skew` the operands come in plain tiles and are aligned first. Raises LazyError for both
    together, and if `rect` is not square.
    """
    _require_square(rect)
    if is_folded and has_skew:
        hint = "Leave has_skew out: `scatter` puts the tiles in aligned positions."
        raise LazyError(
            "the kernel cannot align tiles on a folded ring: is_folded and has_skew are both set", hint=hint
        )
    extents, room = {"m": m, "k": k, "n": n}, Allocator()
    types = (dtype, dtype, sum_dtype or dtype)
    a, b, c = (
        ShiftedMatrix(room, room.place(name, rect, extents[e[0]], extents[e[1]], type, skew=skew, is_folded=is_folded))
        for name, e, type, skew in zip("abc", _EXTENTS[stays], types, _SKEWS[stays], strict=True)
    )
    parts: list[Phase] = [clear(rect, room, c.current)]
    if has_skew:
        parts += [move for tile in (a, b) for move in tile.align(room)]
    # With `has_skew` the caller's matrices are in plain tiles, from which the alignment starts.
    operands = tuple(replace(tile.first, skew="") if has_skew else tile.first for tile in (a, b))
    parts += _rounds(room, a, b, c, stays)
    return MeshKernel(Seq(tuple(parts)), operands, (c.current,), room.words)


def linear_step(
    rect: Rect, m: int, k: int, n: int, dtype: str = "float32", rate: float = 0.1, is_folded: bool = True
) -> MeshKernel:
    """Return a kernel of a training step of a linear layer, for x [m, k], w [k, n] and target [m, n], on a square
    `rect`.

    It computes y = x w; dy = y - target; dw = x^T dy; dx = dy w^T; w = w - rate dw. The results are y, dx and w. dx is
    computed with the old w. No matrix changes its layout. Sums, y and dx are in float32. x, w and dy are of type
    `dtype`; w and dy are rounded to it once. Raises LazyError if `rect` is not square.
    """
    _require_square(rect)
    room = Allocator()

    def matrix(name: str, rows: int, columns: int, type: str, skew: str) -> ShiftedMatrix:
        return ShiftedMatrix(room, room.place(name, rect, rows, columns, type, skew=skew, is_folded=is_folded))

    # The gradient of y has the layout of y: with x it gives the gradient of w in the layout of w, and with w the
    # gradient of x in the layout of x.
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
