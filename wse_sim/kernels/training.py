"""A training step of one linear layer, from its input to its new weights, without moving a matrix to another layout.

x and w lie as Cannon's operands do and y in plain tiles. So does the gradient of y, next to x for the gradient of w,
which ends as w lies, and next to w for the gradient of x, which ends as x lies.
"""

from wse_sim.kernels.kernel import WIDE, MeshKernel, Placed, Room
from wse_sim.kernels.tiles import clear
from wse_sim.kernels.turning import Turning, require_square, rounds
from wse_sim.layout import Rect
from wse_sim.phase import Local, Phase, Seq


def linear_step(
    rect: Rect, m: int, k: int, n: int, dtype: str = "float32", rate: float = 0.1, is_folded: bool = True
) -> MeshKernel:
    """y = x w; dy = y - target; dw = x^T dy; dx = dy w^T; w = w - rate dw, for x [m, k] and w [k, n].

    Sums are in float32; x, w, dy are of `dtype`, of which the last two are rounded once.
    """
    require_square(rect)
    room = Room()

    def turning(name: str, rows: int, columns: int, type: str, skew: str) -> Turning:
        return Turning(room, room.place(name, rect, rows, columns, type, skew=skew, is_folded=is_folded))

    x, w = turning("x", m, k, dtype, "row"), turning("w", k, n, dtype, "column")
    target, dy = turning("target", m, n, dtype, ""), turning("dy", m, n, dtype, "")
    y, dw, dx = turning("y", m, n, WIDE, ""), turning("dw", k, n, WIDE, "column"), turning("dx", m, k, WIDE, "row")
    # The difference is taken in float32 and rounded once, into dy.
    work = room.again(y.here, bank=3)
    parts: list[Phase] = [clear(rect, room, y.here, dw.here, dx.here)]
    # Both operands turn all the way home, since the two products of the backward pass read them again.
    parts += rounds(room, x, w, y, "c", comes_home=True)
    parts.append(_difference(room, dy.here, y.here, target.here, work))
    parts += rounds(room, x, dy, dw, "b")
    parts += rounds(room, dy, w, dx, "a", comes_home=True)
    parts.append(_update(room, w.here, dw.here, rate))
    results = tuple(tile.here for tile in (y, dx, w))
    return MeshKernel(Seq(tuple(parts)), (x.first, w.first, target.first), results, room.words)


def _difference(room: Room, to: Placed, a: Placed, b: Placed, work: Placed) -> Local:
    """Rounded once."""
    builder = room.builder()
    builder.sub(work.vector(), a.vector(), b.vector(), a.elements)
    builder.convert(to.vector(), work.vector(), a.elements)
    return Local(to.rect, builder.body())


def _update(room: Room, w: Placed, dw: Placed, rate: float) -> Local:
    builder = room.builder()
    builder.mul(dw.vector(), dw.vector(), -rate, w.elements)
    builder.add(w.vector(), w.vector(), dw.vector(), w.elements)
    return Local(w.rect, builder.body())
