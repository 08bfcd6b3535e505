"""The price of products with sparse weights that stream in, at extents for which no program can be written weight by
weight: `sparse.streamed_product` is what runs, for a pattern that is given.

Inputs lie along y and tokens along x. Each weight that is not zero is a wavelet of a row of PEs, and a vector operation
over a PE's tokens; a row waits for the one with the most weights. Sums of a column then go up. Strips of the rectangle
have tokens of their own, where sums would take longer than the work. For the gradient of a weight it is the other way
round: what passes down the columns is the gradient of the outputs, each weight is a product of two vectors of tokens,
and sums go along the rows; indices say which weights are wanted.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from wse_sim.cost_model.cost import cost
from wse_sim.isa.core_program import ITEM_BYTES
from wse_sim.isa.packing import word_count
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import Broadcast, Compute, Phase, Reduce, Repeat, Seq

NUMBERS = "uint16"


@dataclass(frozen=True)
class SparseProduct:
    """`tokens` rows of `inputs` by sparse weights [inputs, outputs], of which the `share` is not zero.

    Each of `groups` parts of the inputs has as many weights as every other; without groups any element may be one.
    With `is_gradient` the product is that of the weights' gradient: only the weights that are not zero are wanted.
    """

    inputs: int
    outputs: int
    tokens: int
    share: float
    groups: int = 1
    dtype: str = "float32"
    sum_dtype: str = ""
    is_gradient: bool = False

    def fullest(self, elements: int, rows: int) -> int:
        """Weights of the fullest of `rows` parts of so many elements.

        Where chance spreads them the fullest has more than the mean, by sqrt(2 ln rows) standard deviations: the first
        term for the largest of independent sums.
        """
        mean = self.share * elements
        if self.groups >= rows:
            return math.ceil(mean)
        return min(elements, math.ceil(mean + math.sqrt(2 * math.log(rows) * mean * (1 - self.share))))


def sparse_phase(product: SparseProduct, rect: Rect, machine: Machine) -> Phase | None:
    """The fastest way on `rect`; None where its memory is too small for any, or it has no column beside the feeders."""
    return min(_ways(product, rect, machine), key=lambda way: cost(way, machine).cycles, default=None)


def _ways(product: SparseProduct, rect: Rect, machine: Machine) -> Iterator[Phase]:
    strips = 1
    # The sum of a weight's gradient over strips would need a way of its own.
    while rect.width > 1 and strips <= (1 if product.is_gradient else min(rect.height, product.tokens)):
        if (way := _way(product, rect, machine, strips)) is not None:
            yield way
        strips *= 2


def _way(product: SparseProduct, rect: Rect, machine: Machine, strips: int) -> Phase | None:
    rows, columns = min(product.inputs, rect.height // strips), min(rect.width - 1, ceil_div(product.tokens, strips))
    own, tile = ceil_div(product.inputs, rows), ceil_div(product.tokens, columns * strips)
    sums = product.sum_dtype or product.dtype
    itemsize, usable = ITEM_BYTES[product.dtype], machine.usable_bytes_per_pe
    # Half of the memory for inputs, and half for what is made of them; more tokens than that go in rounds.
    tile_now = min(tile, usable // (2 * own * itemsize))
    chunk = min(product.outputs, usable // (2 * max(1, tile_now) * ITEM_BYTES[sums]))
    if not tile_now or not chunk:
        return None
    mesh = Rect(rect.x, rect.y, columns, rows * strips)
    work = _gradient_round if product.is_gradient else _round
    one = work(product, mesh, machine, strips, (own, tile_now, chunk))
    return Repeat(ceil_div(tile, tile_now) * ceil_div(product.outputs, chunk), one)


def _round(product: SparseProduct, mesh: Rect, machine: Machine, strips: int, extents: tuple[int, int, int]) -> Phase:
    """The weights of `chunk` outputs pass, and their sums go up."""
    own, tile, chunk = extents
    sums = product.sum_dtype or product.dtype
    weights = product.fullest(own * chunk, mesh.height // strips)
    clear = Compute(mesh, "move", vectors=1, length=chunk * tile, itemsize=ITEM_BYTES[sums])
    total = Reduce(mesh, axis="y", words=word_count(chunk * tile, sums), groups=strips, dtype=sums)
    return Seq((clear, _stream(product, mesh, weights), *_work(product, mesh, machine, weights, tile), total))


def _gradient_round(
    product: SparseProduct, mesh: Rect, machine: Machine, strips: int, extents: tuple[int, int, int]
) -> Phase:
    """The gradients of `chunk` outputs pass down, and the weights' own go along the rows."""
    own, tile, chunk = extents
    sums = product.sum_dtype or product.dtype
    weights = product.fullest(own * chunk, mesh.height // strips)
    given = Broadcast(mesh, axis="y", words=word_count(chunk * tile, product.dtype))
    total = Reduce(mesh, axis="x", words=word_count(weights, sums), dtype=sums)
    return Seq((given, _stream(product, mesh, weights), *_work(product, mesh, machine, weights, tile), total))


def _stream(product: SparseProduct, mesh: Rect, weights: int) -> Phase:
    """As `sparse.wavelets_of`: two wavelets for a weight, in 16 bits one; past a column of feeders."""
    each = 2 if ITEM_BYTES[product.dtype] == ITEM_BYTES["float32"] else 1
    line = Rect(mesh.x, mesh.y, mesh.width + 1, mesh.height)
    return Broadcast(line, axis="x", words=weights * each)


def _work(product: SparseProduct, mesh: Rect, machine: Machine, weights: int, tile: int) -> tuple[Phase, Phase]:
    """For each weight: its numbers are moved to where they are read, and a vector of tokens is multiplied."""
    named = 2 if ITEM_BYTES[product.dtype] == ITEM_BYTES["float32"] else 1
    widest = max(ITEM_BYTES[product.dtype], ITEM_BYTES[product.sum_dtype or product.dtype])
    return (
        Compute(mesh, "move", vectors=weights, length=named, itemsize=ITEM_BYTES[NUMBERS]),
        Compute(mesh, "fma", vectors=weights, length=tile, itemsize=widest, scalar_cycles=machine.loop_cycles),
    )
