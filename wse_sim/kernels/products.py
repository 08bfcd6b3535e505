"""Dense matrix products that run: the arrangements of `gemm.py` with addresses, and both products of a backward pass.

Each PE of a square mesh holds one tile of each matrix. Of the three matrices of a product one stays. In Cannon's
product the result stays, the first operand turns along the rows and the second along the columns. For a product with
the first operand transposed the second one stays and the result turns along the columns; for one with the second
transposed the first stays and the result turns along the rows. So nobody transposes a matrix: a tile is just read the
other way. On a folded ring the same is the interleaved product.
"""

from dataclasses import replace

from lazytensor.errors import LazyError
from wse_sim.kernels.gemm import step
from wse_sim.kernels.kernel import MeshKernel, Placed, Room
from wse_sim.kernels.tiles import clear, product
from wse_sim.kernels.turning import SKEWS, Turning, require_square, rounds
from wse_sim.layout import Rect
from wse_sim.phase import Broadcast, Phase, Seq


def summa(rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "") -> MeshKernel:
    """c [m, n] = a [m, k] b [k, n]: in each step one column of tiles of a and one row of tiles of b go to all.

    They are on their way ahead of the products. Sums are in `sum_dtype`, by default that of the operands, and run over
    k in order.
    """
    require_square(rect)
    room = Room()
    a, b = room.place("a", rect, m, k, dtype), room.place("b", rect, k, n, dtype)
    c = room.place("c", rect, m, n, sum_dtype or dtype)
    # Two panels of each operand: one is multiplied while the next is broadcast into the other.
    panels = [(room.again(a), room.again(b)) for _ in range(2)]
    parts: list[Phase] = [clear(rect, room, c)]
    # One step more than panels: the first only brings tiles, the last only multiplies.
    for i in range(rect.width + 1):
        moves: tuple[Phase, ...] = ()
        if i < rect.width:
            to_a, to_b = panels[i % 2]
            moves = (_to_all("x", a, i, to_a), _to_all("y", b, i, to_b))
        parts.append(step(moves, *((product(room, (*panels[(i - 1) % 2], c)),) if i else ())))
    return MeshKernel(Seq(tuple(parts)), (a, b), (c,), room.words)


def _to_all(axis: str, tile: Placed, source: int, to: Placed) -> Broadcast:
    return Broadcast(tile.rect, axis=axis, words=tile.words, source=source, take=tile.address, put=to.address)


def cannon(rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "", **how: bool) -> MeshKernel:
    """c [m, n] = a [m, k] b [k, n] with shifts by one PE, on a square; `is_folded` as in `two_hop`.

    With `has_skew` the operands come in plain tiles and are turned into Cannon's places first.
    """
    return _rotating(rect, m, k, n, dtype, sum_dtype, stays="c", **how)


def two_hop(rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "") -> MeshKernel:
    """The interleaved product, c [m, n] = a [m, k] b [k, n], on a square.

    Cannon's on rings folded onto the lines, so that no word goes further than two PEs.
    """
    return cannon(rect, m, k, n, dtype, sum_dtype, is_folded=True)


def weight_gradient(
    rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "", **how: bool
) -> MeshKernel:
    """c [k, n] = a^T b of a [m, k], the activations, and b [m, n], the gradient of what came of them."""
    return _rotating(rect, m, k, n, dtype, sum_dtype, stays="b", **how)


def input_gradient(
    rect: Rect, m: int, k: int, n: int, dtype: str = "float32", sum_dtype: str = "", **how: bool
) -> MeshKernel:
    """c [m, k] = a b^T of a [m, n], the gradient of what came out, and b [k, n], the weights."""
    return _rotating(rect, m, k, n, dtype, sum_dtype, stays="a", **how)


_EXTENTS = {"c": ("mk", "kn", "mn"), "b": ("mk", "mn", "kn"), "a": ("mn", "kn", "mk")}
"""Which matrix stays -> the extents of a, b and c."""


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
) -> MeshKernel:
    require_square(rect)
    if is_folded and has_skew:
        raise LazyError("a folded ring is not turned into Cannon's places", hint="Scatter the tiles there.")
    extents, room = {"m": m, "k": k, "n": n}, Room()
    types = (dtype, dtype, sum_dtype or dtype)
    a, b, c = (
        Turning(room, room.place(name, rect, extents[e[0]], extents[e[1]], type, skew=skew, is_folded=is_folded))
        for name, e, type, skew in zip("abc", _EXTENTS[stays], types, SKEWS[stays], strict=True)
    )
    parts: list[Phase] = [clear(rect, room, c.here)]
    if has_skew:
        parts += [turn for tile in (a, b) for turn in tile.into_place(room)]
    # With `has_skew` the caller's matrices lie in plain tiles where the turns begin.
    operands = tuple(replace(tile.first, skew="") if has_skew else tile.first for tile in (a, b))
    parts += rounds(room, a, b, c, stays)
    return MeshKernel(Seq(tuple(parts)), operands, (c.here,), room.words)
