"""Matrix products: one matrix stays on the mesh in tiles and the others pass by.

Which one stays: a resident operand (a weight) if there is one, else whatever is fastest. For a product of m x k and
k x n with the second operand in place, rows of the first come in along one axis and partial sums leave along the
other; with the result in place, both operands come in along the two axes and each PE adds up outer products. A PE works
with vector operations of multiply-adds as long as the longer side of its tile.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from lazytensor.ir.program import Instr
from wse_sim.kernels.gemm import Tile, products, step
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import IDLE, Broadcast, Compute, Phase, Reduce, Repeat
from wse_sim.plan.recipes.generic import element_bytes
from wse_sim.plan.wiring import Wiring
from wse_sim.price.cost import cost, words


@dataclass(frozen=True)
class Product:
    """`batch` products of m x k by k x n; the resident operands are "a" (first) and "b" (second)."""

    batch: int
    m: int
    n: int
    k: int
    itemsize: int
    resident: str = ""


def matmul(instr: Instr, wiring: Wiring, rect: Rect, machine: Machine) -> Phase:
    """The fastest arrangement of `instr` on `rect`; reads a, b (attrs transpose_a, transpose_b), writes out."""
    product = product_of(instr, wiring)
    if not product.batch * product.m * product.n * product.k:
        return IDLE
    return min(_arrangements(product, rect, machine), key=lambda phase: cost(phase, machine).cycles)


def product_of(instr: Instr, wiring: Wiring) -> Product:
    """The extents of a matmul. A second operand without leading axes serves all rows of the first."""
    a, b = (wiring.type(i).shape for i in instr.reads[:2])
    lead_a, m, k = _matrix(a, bool(instr.attrs.get("transpose_a")), is_left=True)
    lead_b, _, n = _matrix(b, bool(instr.attrs.get("transpose_b")), is_left=False)
    names = "".join(name for name, i in zip("ab", instr.reads, strict=False) if i in wiring.resident)
    itemsize = element_bytes(instr, wiring)
    # Rows of all products follow one another: one product of a taller matrix, and no rounds.
    if not lead_b and not instr.attrs.get("transpose_a"):
        return Product(batch=1, m=prod(lead_a) * m, n=n, k=k, itemsize=itemsize, resident=names)
    # The same with the columns of the second operand.
    if not lead_a and not instr.attrs.get("transpose_b"):
        return Product(batch=1, m=m, n=prod(lead_b) * n, k=k, itemsize=itemsize, resident=names)
    return Product(batch=max(prod(lead_a), prod(lead_b)), m=m, n=n, k=k, itemsize=itemsize, resident=names)


def _matrix(shape: tuple[int, ...], is_transposed: bool, is_left: bool) -> tuple[tuple[int, ...], int, int]:
    """Leading axes, rows and columns; a vector is a row on the left and a column on the right."""
    # As in PyTorch: a vector is a row on the left and a column on the right, and the axis is dropped again afterwards.
    if len(shape) < 2:
        extent = prod(shape)
        return (), *((1, extent) if is_left else (extent, 1))
    rows, columns = shape[-2:]
    return shape[:-2], *((columns, rows) if is_transposed else (rows, columns))


def _arrangements(product: Product, rect: Rect, machine: Machine) -> Iterator[Phase]:
    """Every way to do it; several products share the rectangle in horizontal strips, or follow one another."""
    # Many small products side by side keep the mesh full; a few large ones are better one after another.
    for strips in {1, min(product.batch, rect.height)}:
        rounds = ceil_div(product.batch, strips)
        for one in _single(product, rect, strips, machine):
            yield one if rounds == 1 else Repeat(rounds, one)


def _single(product: Product, rect: Rect, strips: int, machine: Machine) -> Iterator[Phase]:
    m, n, k = product.m, product.n, product.k
    cut = _Strips(rect, strips, product.itemsize, machine)
    # A weight that lies on the mesh is not moved: only arrangements in which it stays are open.
    if "b" in product.resident or not product.resident:
        yield cut.operand_in_place(passing=m, inner=k, outer=n)
    if "a" in product.resident or not product.resident:
        yield cut.operand_in_place(passing=n, inner=k, outer=m)
    if not product.resident:
        yield cut.result_in_place(m, n, k)


@dataclass(frozen=True)
class _Strips:
    """A rectangle in `strips` that each compute a product of their own."""

    rect: Rect
    strips: int
    itemsize: int
    machine: Machine

    def operand_in_place(self, passing: int, inner: int, outer: int) -> Phase:
        """The operand of inner x outer stays: inner along y, outer along x; `passing` rows flow by.

        All three parts overlap row by row, so each is one long stream over all the rows; `kernels.operand_in_place`
        runs it in chunks.
        """
        used, groups = self._used(outer, inner)
        tile_inner = ceil_div(inner, used.height // groups)
        tile_outer = ceil_div(outer, used.width)
        moves = (
            Broadcast(used, axis="x", words=self._words(passing * tile_inner)),
            Reduce(used, axis="y", words=self._words(passing * tile_outer), groups=groups),
        )
        return step(moves, self._products(used, passing, tile_inner, tile_outer))

    def result_in_place(self, m: int, n: int, k: int) -> Phase:
        """The result of m x n stays: m along y, n along x; k passes in one stream from the border.

        Operands that already lie in tiles have to be sent panel by panel (SUMMA), with a latency for each panel that
        only a second buffer hides; that is not modelled.
        """
        used, groups = self._used(n, m)
        tile_m, tile_n = ceil_div(m, used.height // groups), ceil_div(n, used.width)
        moves = (
            Broadcast(used, axis="x", words=self._words(tile_m * k)),
            Broadcast(used, axis="y", words=self._words(tile_n * k), groups=groups),
        )
        return step(moves, self._products(used, k, tile_m, tile_n))

    def _used(self, columns: int, rows: int) -> tuple[Rect, int]:
        """The part of the rectangle that gets data, and the number of strips in it."""
        # A PE without a row or column would only lengthen the way of the words.
        height = min(self.rect.height // self.strips, rows)
        width = min(self.rect.width, columns)
        return Rect(self.rect.x, self.rect.y, width, height * self.strips), self.strips

    def _products(self, used: Rect, times: int, one: int, other: int) -> Compute:
        return products(used, Tile(one, times, other, self.itemsize), self.machine)

    def _words(self, elements: int) -> int:
        return words(elements, self.itemsize, self.machine)
