"""Matrix products of any extents on any rectangle: choose the matrix that stays, its distribution and the kernel.

Of a product a b = c one matrix stays in the PEs' memories: b while rows of a pass (a weight in pipelined mode, or the
activations where weights are streamed), a while columns of b pass, or c while both pass. Strips of the rectangle
compute different products of a batch. Alternatively each PE has a part of the stationary matrix with the whole inner
extent: then the moving matrix goes to all PEs, and no sums leave them. All arrangements are estimated by a few sums,
and the best of them are priced by closed forms.
"""

import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from wse_sim.cost_model.cost import cost
from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES
from wse_sim.kernels.collective import sum_algorithm
from wse_sim.kernels.kernel import MeshKernel, price_alone
from wse_sim.kernels.matmul.stationary_operand import operand_in_place, result_in_place, whole_chunk
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import EMPTY_PHASE

PRICED = 2
"""Number of arrangements that are priced after the estimate, which rarely misorders more than that."""


@dataclass(frozen=True)
class Product:
    """`batch` products of m x k by k x n.

    - `dtype`: element type of a and b
    - `resident`: the matrices ("a", "b", "c") that may stay; "" means any of them
    - `sum_dtype`: type of sums, by default `dtype`
    """

    batch: int
    m: int
    n: int
    k: int
    dtype: str = "float32"
    resident: str = ""
    sum_dtype: str = ""

    @property
    def is_empty(self) -> bool:
        """True if the product has no elements."""
        return not self.batch * self.m * self.n * self.k


@dataclass(frozen=True)
class Arrangement:
    """One way to compute a product on the upper left `width` x `height` PEs of a rectangle.

    - `product`: the product
    - `stays`: the matrix that stays, "a", "b" or "c"
    - `cuts`: parts of a single product that are computed by separate strips
    - `strips`: products of a batch, or parts of one product, that are computed at the same time
    - `chunk`: rows of the moving matrix that are sent at a time
    - `is_turned`: True if the axes are exchanged
    """

    product: Product
    stays: str
    width: int
    height: int
    cuts: int = 1
    strips: int = 1
    chunk: int = 1
    is_turned: bool = False

    @property
    def rounds(self) -> int:
        """Number of rounds in which all strips are used."""
        return ceil_div(self.product.batch * self.cuts, self.strips)

    @property
    def passing(self) -> int:
        """Number of rows or columns that move over the PEs: m if b stays, n if a stays, and k if c stays."""
        return {"b": self.product.m, "a": self.product.n, "c": self.product.k}[self.stays]

    @property
    def outer(self) -> int:
        """Outer extent of one part of the stationary matrix: the extent that it shares with the result.

        It is n if b stays, else m, divided by `cuts` and rounded up.
        """
        return ceil_div(self.product.n if self.stays == "b" else self.product.m, self.cuts)

    def kernel(self, rect: Rect) -> MeshKernel:
        """Return the kernel of one round of this arrangement, on the PEs from the upper left corner of `rect` on.

        The size of `rect` is ignored; `width` and `height` count. Operands and results are those of `give` and `take`.
        """
        product, used = self.product, Rect(rect.x, rect.y, self.width, self.height)
        if self.stays == "c":
            extents = self.outer, product.n, product.k
            return result_in_place(
                used, *extents, product.dtype, self.chunk, sum_dtype=product.sum_dtype, strips=self.strips
            )
        line = (self.width if self.is_turned else self.height) // self.strips
        return operand_in_place(
            used,
            self.passing,
            product.k,
            self.outer,
            product.dtype,
            self.chunk,
            algorithm=sum_algorithm(line),
            sum_dtype=product.sum_dtype,
            strips=self.strips,
            is_turned=self.is_turned,
            is_shared=self.cuts > 1,
        )

    def all_rounds(self, rect: Rect) -> MeshKernel:
        """Return the kernel of all rounds, one after the other, with the operands of a single round."""
        return self.kernel(rect).repeated(self.rounds)

    def give(self, a: np.ndarray, b: np.ndarray, number: int) -> dict[str, np.ndarray]:
        """Return the operands, by name, of round `number` for a [batch, m, k] and b [batch, k, n].

        The kernel's operand "a" is the moving matrix, and "b" the stationary one or the second moving one. With several
        strips the names end with the strip's number, unless all strips share "a". Strips after the last product get
        zeros.
        """
        operands: dict[str, np.ndarray] = {}
        for strip in range(self.strips):
            item, part = self._part(number, strip)
            left, right = (x[item] if item < self.product.batch else np.zeros_like(x[0]) for x in (a, b))
            # The kernel's operand a is the moving matrix, with its inner extent last; for a result in place the inner
            # extent is first.
            passing, staying = {"b": (left, right), "a": (right.T, left.T), "c": (left.T, right)}[self.stays]
            if self.stays == "c":
                passing = self._padded(passing[:, part])
            else:
                staying = self._padded(staying[:, part])
            mark = str(strip) if self.strips > 1 else ""
            operands |= {f"a{mark if self.cuts == 1 else ''}": passing, f"b{mark}": staying}
        return operands

    def take(self, results: Mapping[str, np.ndarray], number: int, c: np.ndarray) -> None:
        """Write the results of round `number`, by name, to c [batch, m, n] in place.

        Results of strips after the last product and of padding are ignored.
        """
        for strip in range(self.strips):
            item, part = self._part(number, strip)
            if item < self.product.batch:
                result = results[f"c{strip}" if self.strips > 1 else "c"]
                rows = result if self.stays == "c" else result.T
                whole = c[item].T if self.stays == "b" else c[item]
                whole[part] = rows[: len(whole[part])]

    def _part(self, number: int, strip: int) -> tuple[int, slice]:
        """Return (number of the product in the batch, slice of its outer extent) of a strip in a round.

        The product's number is `batch` or more for a strip after the last one, which is idle.
        """
        # Strips beyond the last product are idle: they get zeros, and their results are ignored.
        item, cut = divmod(number * self.strips + strip, self.cuts)
        return item, slice(cut * self.outer, (cut + 1) * self.outer)

    def _padded(self, matrix: np.ndarray) -> np.ndarray:
        """Return a matrix padded with zeros to the number of columns of a part."""
        return np.pad(matrix, ((0, 0), (0, self.outer - matrix.shape[1])))


def product_kernel(product: Product, rect: Rect, machine: Machine) -> MeshKernel:
    """Return the kernel of the fastest arrangement on `rect`, with all its rounds and the operands of one round.

    A product without elements has an empty kernel without operands.
    """
    if product.is_empty:
        return price_alone(EMPTY_PHASE)
    way = arrange(product, rect.width, rect.height, machine)
    return _in_corner(way) if rect.x == rect.y == 0 else way.all_rounds(rect)


@lru_cache(maxsize=8192)
def arrange(product: Product, width: int, height: int, machine: Machine) -> Arrangement:
    """Return the fastest arrangement of a product on `width` x `height` PEs.

    An estimate selects `PRICED` candidates, and the closed forms choose among them. Results are cached.
    """
    # There are thousands of arrangements, too many to price, so an estimate selects a few.
    best = heapq.nsmallest(
        PRICED, _arrangements(product, width, height, machine), key=lambda one: _estimate(one, machine)
    )
    return min(best, key=lambda one: cost(_in_corner(one).phase, machine).cycles)


@lru_cache(maxsize=2 * PRICED)
def _in_corner(way: Arrangement) -> MeshKernel:
    """Return the kernel of an arrangement at the origin, where it is priced.

    Results are cached, since the kernel of the chosen arrangement is requested next.
    """
    return way.all_rounds(Rect(0, 0, way.width, way.height))


def _arrangements(product: Product, width: int, height: int, machine: Machine) -> Iterator[Arrangement]:
    """Yield every candidate: the matrix that stays, the axis of sums, the number of strips, and the chunk size."""
    for stays in product.resident or "abc":
        for is_turned in (False, True) if stays != "c" else (False,):
            for strips, cuts in _strips(product, stays, width if is_turned else height):
                yield from _chunked(product, stays, (width, height), is_turned, strips, cuts, machine)


def _strips(product: Product, stays: str, line: int) -> Iterator[tuple[int, int]]:
    """Yield candidate pairs (strips, cuts) for a line of `line` PEs; `cuts` is 1 unless a single product is cut into
    parts.

    A batch has one strip for each product, up to the line's length, or 1, 2, 4, ... strips. A single product has one
    strip or, unless its result stays, as many parts of its outer extent as possible, a strip for each.
    """
    if product.batch > 1:
        most = min(line, product.batch)
        yield from ((strips, 1) for strips in sorted({most, *(1 << i for i in range(most.bit_length()))}))
        return
    yield 1, 1
    parts = min(line, product.n if stays == "b" else product.m)
    if parts > 1 and stays != "c":
        yield parts, parts


def _chunked(
    product: Product,
    stays: str,
    extents: tuple[int, int],
    is_turned: bool,
    strips: int,
    cuts: int,
    machine: Machine,
) -> Iterator[Arrangement]:
    """Yield arrangements that differ in the size of their chunks, from the largest down by halves.

    `extents` are (width, height) of the PEs. The rows of the largest chunk, at least one, take about a quarter of a
    PE's usable memory. Sizes are rounded up by `whole_chunk`, and end at 1 / `_MOST_CHUNKS` of the rows that move.
    """
    # Extents are along and across the path of the moving rows, for both axes alike.
    along, across = extents[::-1] if is_turned else extents
    outer = ceil_div(product.n if stays == "b" else product.m, cuts)
    first, second = (product.n, outer) if stays == "c" else (outer, product.k)
    # PEs without a row or column would only make the path of words longer.
    along, line = min(along, first), 1 if cuts > 1 else min(across // strips, second)
    width, height = (line * strips, along) if is_turned else (along, line * strips)
    tile = ceil_div(first, along) + ceil_div(second, line)
    passing = {"b": product.m, "a": product.n, "c": product.k}[stays]
    chunk = min(passing, max(1, machine.usable_bytes_per_pe // (4 * tile * ITEM_BYTES[product.dtype])))
    # Large chunks have long vectors and few latencies, small ones overlap: neither is best for all products.
    while True:
        chunk = whole_chunk(chunk, product.dtype)
        yield Arrangement(
            product=product,
            stays=stays,
            width=width,
            height=height,
            cuts=cuts,
            strips=strips,
            chunk=chunk,
            is_turned=is_turned,
        )
        smaller = whole_chunk(chunk // 2, product.dtype)
        if smaller == chunk or chunk <= passing // _MOST_CHUNKS:
            return
        chunk = smaller


_MOST_CHUNKS = 64
"""No candidate has chunks much smaller than this fraction of the rows that pass."""


def _estimate(way: Arrangement, machine: Machine) -> float:
    """Return an estimate of the cycles of all rounds of an arrangement, from its stages and their overlap."""
    arriving, work, leaving, lost = _stages(way, machine)
    chunks = ceil_div(way.passing, way.chunk)
    # A single chunk passes its stages one after the other; several overlap.
    if chunks == 1:
        return way.rounds * (arriving + work + leaving)
    filled = max(work + lost, arriving, leaving)
    ends = arriving + max(arriving, work) + (max(leaving, work) + leaving if leaving else work)
    return way.rounds * (ends + (chunks - (2 if leaving else 1)) * filled)


def _stages(way: Arrangement, machine: Machine) -> tuple[float, float, float, float]:
    """Return (arriving, work, leaving, lost), in cycles, of one chunk of an arrangement.

    They are the cycles in which a chunk arrives, is multiplied, and its sums leave, and those that the work loses to
    words that arrive and leave at the same time. The first is 0 if nothing has to arrive, the third if no sums leave.
    """
    product, setup = way.product, machine.dsd_setup_cycles
    along, across = (way.height, way.width) if way.is_turned else (way.width, way.height)
    line, itemsize = across // way.strips, ITEM_BYTES[product.dtype]
    sum_size, chunk = ITEM_BYTES[product.sum_dtype or product.dtype], min(way.chunk, way.passing)
    start = machine.loaded_setup_cycles + machine.depth_step_cycles
    leaving = left_words = 0.0
    if way.stays == "c":
        rows, columns, inner = ceil_div(way.outer, line), ceil_div(product.n, along), chunk
        words = chunk * (rows * (along > 1) + columns * (line > 1)) * itemsize / WORD_BYTES
        arriving = words + max(along, line) * machine.hop_cycles + start if words else 0.0
    else:
        rows, columns, inner = chunk, ceil_div(way.outer, along), ceil_div(product.k, line)
        far = along + (way.strips if way.cuts > 1 else 0)
        words = chunk * inner * itemsize / WORD_BYTES if far > 1 else 0.0
        arriving = words + far * machine.hop_cycles + start if words else 0.0
        if line > 1:
            left_words = chunk * columns * sum_size / WORD_BYTES
            leaving = _sum_cycles(line, left_words, machine)
    # As in `tile_product.multiply`: vectors are along the longer side of the result.
    short, long = sorted((rows, columns))
    issued = math.ceil(long / machine.per_cycle("product", max(itemsize, sum_size)))
    work = inner * (short * (setup + machine.loop_cycles + issued) + machine.loop_cycles)
    lost = (words + left_words) * inner * short * (1 + issued) / work
    return arriving, work, leaving, lost


def _sum_cycles(line: int, words: float, machine: Machine) -> float:
    """Return an estimate of the cycles in which `words` words of each PE are summed along a line of `line` PEs.

    The algorithm is the one that `sum_algorithm` selects.
    """
    if sum_algorithm(line) == "chain":
        return words + (line - 1) * (machine.hop_cycles + machine.depth_step_cycles) + machine.loaded_setup_cycles
    depth = 2 * math.sqrt(line) * machine.depth_step_cycles
    return 2 * words + line * machine.hop_cycles + depth + 2 * machine.loaded_setup_cycles
