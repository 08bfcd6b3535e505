"""Prices of products with streamed sparse weights, from the number of weights instead of their pattern.

`sparse.streamed_product` is the kernel for a given pattern; here the extents may be too large for a program with every
weight. Inputs are distributed along y and tokens along x. Each nonzero weight is one or two wavelets of a row of PEs,
and a vector operation over a PE's tokens. The row with the most weights determines the time. Sums of a column then go
up. Strips of the rectangle have separate tokens if sums would take longer than the work. For the gradient of a weight,
the gradient of the outputs passes down the columns, each weight is a product of two vectors of tokens, and sums go
along the rows; indices select the weights.
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
    """A product of `tokens` rows of `inputs` elements with sparse weights [inputs, outputs].

    - `share`: fraction of weights that are not zero
    - `groups`: parts of the inputs with equal numbers of weights; with 1, weights are at random positions
    - `dtype`, `sum_dtype`: types of elements and of sums; `sum_dtype` defaults to `dtype`
    - `is_gradient`: True for the gradient of the weights, of which only the nonzero ones are computed
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
        """Return the expected maximum number of nonzero weights in one of `rows` parts of `elements` elements each,
        rounded up.

        With at least `rows` groups it is the mean. For random positions the maximum exceeds the mean by sqrt(2 ln rows)
        standard deviations, the first term for the largest of independent sums, and is at most `elements`.
        """
        mean = self.share * elements
        if self.groups >= rows:
            return math.ceil(mean)
        return min(elements, math.ceil(mean + math.sqrt(2 * math.log(rows) * mean * (1 - self.share))))


def sparse_phase(product: SparseProduct, rect: Rect, machine: Machine) -> Phase | None:
    """Return the phase, for pricing only, of the fastest number of strips on `rect`, or None if there is none.

    There is none if memory is too small, or if `rect` has only one column, that of the feeders.
    """
    return min(_ways(product, rect, machine), key=lambda way: cost(way, machine).cycles, default=None)


def _ways(product: SparseProduct, rect: Rect, machine: Machine) -> Iterator[Phase]:
    """Yield the phases for 1, 2, 4, ... strips that fit memory; a gradient has one strip, and one column of PEs has
    none.
    """
    strips = 1
    # The sum of a weight's gradient over strips would need another phase.
    while rect.width > 1 and strips <= (1 if product.is_gradient else min(rect.height, product.tokens)):
        if (way := _way(product, rect, machine, strips)) is not None:
            yield way
        strips *= 2


def _way(product: SparseProduct, rect: Rect, machine: Machine, strips: int) -> Phase | None:
    """Return the phase for a number of strips, with all its rounds, or None if memory is too small.

    A round has as many tokens and outputs as fit: half of the memory is for inputs, and half for results.
    """
    rows, columns = min(product.inputs, rect.height // strips), min(rect.width - 1, ceil_div(product.tokens, strips))
    own, tile = ceil_div(product.inputs, rows), ceil_div(product.tokens, columns * strips)
    sums = product.sum_dtype or product.dtype
    itemsize, usable = ITEM_BYTES[product.dtype], machine.usable_bytes_per_pe
    # Half of the memory is for inputs, and half for results; more tokens than that are processed in rounds.
    tile_now = min(tile, usable // (2 * own * itemsize))
    chunk = min(product.outputs, usable // (2 * max(1, tile_now) * ITEM_BYTES[sums]))
    if not tile_now or not chunk:
        return None
    mesh = Rect(rect.x, rect.y, columns, rows * strips)
    work = _gradient_round if product.is_gradient else _round
    one = work(product, mesh, machine, strips, (own, tile_now, chunk))
    return Repeat(ceil_div(tile, tile_now) * ceil_div(product.outputs, chunk), one)


def _round(product: SparseProduct, mesh: Rect, machine: Machine, strips: int, extents: tuple[int, int, int]) -> Phase:
    """Return one round: the weights of `chunk` outputs pass, and their sums go up the columns of each strip.

    `extents` are (inputs of a row of PEs, tokens of a PE in this round, outputs of this round).
    """
    own, tile, chunk = extents
    sums = product.sum_dtype or product.dtype
    weights = product.fullest(own * chunk, mesh.height // strips)
    clear = Compute(mesh, "move", vectors=1, length=chunk * tile, itemsize=ITEM_BYTES[sums])
    total = Reduce(mesh, axis="y", words=word_count(chunk * tile, sums), groups=strips, dtype=sums)
    return Seq((clear, _stream(product, mesh, weights), *_work(product, mesh, machine, weights, tile), total))


def _gradient_round(
    product: SparseProduct, mesh: Rect, machine: Machine, strips: int, extents: tuple[int, int, int]
) -> Phase:
    """Return one round of a gradient: the gradients of `chunk` outputs pass down, and those of the weights along the
    rows.

    `extents` are as in `_round`.
    """
    own, tile, chunk = extents
    sums = product.sum_dtype or product.dtype
    weights = product.fullest(own * chunk, mesh.height // strips)
    given = Broadcast(mesh, axis="y", words=word_count(chunk * tile, product.dtype))
    total = Reduce(mesh, axis="x", words=word_count(weights, sums), dtype=sums)
    return Seq((given, _stream(product, mesh, weights), *_work(product, mesh, machine, weights, tile), total))


def _stream(product: SparseProduct, mesh: Rect, weights: int) -> Phase:
    """Return the broadcast of weights from a column of feeders: as in `sparse.wavelets_of`, one or two wavelets for
    each.
    """
    each = 2 if ITEM_BYTES[product.dtype] == ITEM_BYTES["float32"] else 1
    line = Rect(mesh.x, mesh.y, mesh.width + 1, mesh.height)
    return Broadcast(line, axis="x", words=weights * each)


def _work(product: SparseProduct, mesh: Rect, machine: Machine, weights: int, tile: int) -> tuple[Phase, Phase]:
    """Return the work for each weight: its indices are copied, and a vector of tokens is multiplied."""
    named = 2 if ITEM_BYTES[product.dtype] == ITEM_BYTES["float32"] else 1
    widest = max(ITEM_BYTES[product.dtype], ITEM_BYTES[product.sum_dtype or product.dtype])
    return (
        Compute(mesh, "move", vectors=weights, length=named, itemsize=ITEM_BYTES[NUMBERS]),
        Compute(mesh, "fma", vectors=weights, length=tile, itemsize=widest, scalar_cycles=machine.loop_cycles),
    )
