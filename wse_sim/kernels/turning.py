"""Tiles that go around on a square of PEs, and the rounds of a product in which two of three matrices do.

Of a, b and c = a b one matrix stays. If c stays, a turns along the rows and b along the columns (Cannon). If b stays,
a is taken transposed and c turns along the columns; if a stays, b is taken transposed and c turns along the rows.
"""

from collections.abc import Iterator

from lazytensor.errors import LazyError
from wse_sim.kernels.gemm import step
from wse_sim.kernels.kernel import Placed, Room
from wse_sim.kernels.tiles import product
from wse_sim.layout import Rect
from wse_sim.phase import Local, Par, Phase, Shift

SKEWS = {"c": ("row", "column", ""), "b": ("row", "", "column"), "a": ("", "column", "row")}
"""Which matrix stays -> how a, b and c lie when they are at home."""
_TRANSPOSED = {"c": "", "b": "a", "a": "b"}


class Turning:
    """A matrix whose tiles go from PE to PE, each time from one of two buffers to the other.

    `first` is where it lies at first and `here` where it lies after the turns so far. Without a skew it stays.
    """

    def __init__(self, room: Room, placed: Placed):
        self.first = self.here = placed
        # Two buffers in the same pair of banks: while one is multiplied the other fills, and what stands beside them in
        # an operation never changes its distance in banks.
        self._other = room.again(placed) if placed.skew else placed

    @property
    def turns(self) -> bool:
        """Whether tiles go anywhere: not without a skew, nor on a single PE."""
        return bool(self.first.skew) and self.first.rect.width > 1

    def turn(self, rect: Rect | None = None) -> Shift:
        """Tiles go to the PE before on the ring; only those of `rect`, if it is given."""
        tile, self.here, self._other = self.here, self._other, self.here
        axis, wrap = ("x" if tile.skew == "row" else "y"), ("folded" if tile.is_folded else "line")
        return Shift(
            rect or tile.rect, axis=axis, words=tile.words, hops=-1, wrap=wrap, take=tile.address, put=self.here.address
        )

    def into_place(self, room: Room) -> Iterator[Phase]:
        """Plain tiles turn into their places: line s takes part in s of the turns, and copies in the others."""
        rect, size = self.first.rect, self.first.rect.width
        # Line s has to turn s times. In turn s the lines from s on take part; those before are at home and only change
        # buffers, so that all tiles lie in the same one.
        for s in range(1, size if self.first.skew else 1):
            builder = room.builder()
            builder.move(self._other.vector(), self.here.vector(), self.here.elements)
            if self.first.skew == "row":
                turning, still = Rect(rect.x, rect.y + s, size, size - s), Rect(rect.x, rect.y, size, s)
            else:
                turning, still = Rect(rect.x + s, rect.y, size - s, size), Rect(rect.x, rect.y, s, size)
            yield Par((self.turn(turning), Local(still, builder.body())))


def rounds(room: Room, a: Turning, b: Turning, c: Turning, stays: str, comes_home: bool = False) -> Iterator[Phase]:
    """Adds a b to c. Operands turn beside the products; a result that turns follows them and ends at home.

    With `comes_home` operands turn once more in the last round, so that another product can take them.
    """
    last = a.first.rect.width - 1
    for i in range(last + 1):
        work = product(room, (a.here, b.here, c.here), _TRANSPOSED[stays])
        # `work` was built with the buffers of this round, before the turn exchanges them: the next tiles arrive in the
        # others.
        moves = [tile.turn() for tile in (a, b) if tile.turns and (i < last or comes_home)]
        yield step(tuple(moves), work)
        # A result cannot turn beside its own product: its sums have to be complete first.
        if c.turns:
            yield c.turn()


def require_square(rect: Rect) -> None:
    """Raise LazyError for any other rectangle."""
    if rect.width != rect.height:
        raise LazyError(f"a product on {rect.width} x {rect.height} PEs", hint="Give a square rectangle.")
