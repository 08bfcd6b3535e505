"""Matrix products of any extents on any rectangle: which matrix stays, how it is cut, and the kernel that does it.

Of a product a b = c one matrix stays in the PEs' memories: b while rows of a pass (a weight in pipelined mode, or the
activations where weights are streamed), a while columns of b pass, or c while both pass. Strips of the rectangle
compute different products of a batch. Or each PE has a part of the matrix that stays with its whole inner extent: then
what passes goes to all PEs, and no sum leaves them. All ways are estimated by a few sums, and the best of those are
priced by the closed forms.
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
"""Ways that are priced after the estimate; their order by the estimate is hardly ever wrong by more."""


@dataclass(frozen=True)
class Product:
    """`batch` products of m x k by k x n; matrices that may not be moved are named in `resident` ("a", "b", "c").

    Of several residents one stays and the others come from where they lie. Sums are of `sum_dtype`, by default that of
    the operands.
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
        """Whether there is nothing to multiply."""
        return not self.batch * self.m * self.n * self.k


@dataclass(frozen=True)
class Arrangement:
    """One way to do a product on the left upper part of a rectangle, `width` x `height` PEs of it.

    `strips` products of a batch are done at the same time, in `rounds`; or as many parts of a single one, its `cuts`.
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
        """How often all strips are filled."""
        return ceil_div(self.product.batch * self.cuts, self.strips)

    @property
    def passing(self) -> int:
        """Rows or columns that pass."""
        return {"b": self.product.m, "a": self.product.n, "c": self.product.k}[self.stays]

    @property
    def outer(self) -> int:
        """Of the matrix that stays the extent that the result has too, in one part."""
        return ceil_div(self.product.n if self.stays == "b" else self.product.m, self.cuts)

    def kernel(self, rect: Rect) -> MeshKernel:
        """What runs in one round, in the corner of `rect`."""
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
        """The kernel with all rounds, one after the other, on the operands of one of them."""
        return self.kernel(rect).repeated(self.rounds)

    def give(self, a: np.ndarray, b: np.ndarray, number: int) -> dict[str, np.ndarray]:
        """The operands of round `number` for a [batch, m, k] and b [batch, k, n]."""
        operands: dict[str, np.ndarray] = {}
        for strip in range(self.strips):
            item, part = self._part(number, strip)
            left, right = (x[item] if item < self.product.batch else np.zeros_like(x[0]) for x in (a, b))
            # The kernels' own a is what passes, its inner extent last; for a result in place it comes first.
            passing, staying = {"b": (left, right), "a": (right.T, left.T), "c": (left.T, right)}[self.stays]
            if self.stays == "c":
                passing = self._padded(passing[:, part])
            else:
                staying = self._padded(staying[:, part])
            mark = str(strip) if self.strips > 1 else ""
            operands |= {f"a{mark if self.cuts == 1 else ''}": passing, f"b{mark}": staying}
        return operands

    def take(self, results: Mapping[str, np.ndarray], number: int, c: np.ndarray) -> None:
        """Put the results of a round into c [batch, m, n]."""
        for strip in range(self.strips):
            item, part = self._part(number, strip)
            if item < self.product.batch:
                result = results[f"c{strip}" if self.strips > 1 else "c"]
                rows = result if self.stays == "c" else result.T
                whole = c[item].T if self.stays == "b" else c[item]
                whole[part] = rows[: len(whole[part])]

    def _part(self, number: int, strip: int) -> tuple[int, slice]:
        """Which product a strip works on, and which part of its outer extent."""
        # Strips beyond the last product are idle: they get zeros, and nothing is taken from them.
        item, cut = divmod(number * self.strips + strip, self.cuts)
        return item, slice(cut * self.outer, (cut + 1) * self.outer)

    def _padded(self, matrix: np.ndarray) -> np.ndarray:
        """With as many columns as every part has."""
        return np.pad(matrix, ((0, 0), (0, self.outer - matrix.shape[1])))


def product_kernel(product: Product, rect: Rect, machine: Machine) -> MeshKernel:
    """The kernel of the fastest arrangement, with all its rounds; nothing for a product without elements."""
    if product.is_empty:
        return price_alone(EMPTY_PHASE)
    way = arrange(product, rect.width, rect.height, machine)
    return _in_corner(way) if rect.x == rect.y == 0 else way.all_rounds(rect)


@lru_cache(maxsize=8192)
def arrange(product: Product, width: int, height: int, machine: Machine) -> Arrangement:
    """The fastest arrangement of a product on width x height PEs."""
    # Thousands of ways are too many to write down and price, so that a rough estimate goes first.
    best = heapq.nsmallest(
        PRICED, _arrangements(product, width, height, machine), key=lambda one: _estimate(one, machine)
    )
    return min(best, key=lambda one: cost(_in_corner(one).phase, machine).cycles)


@lru_cache(maxsize=2 * PRICED)
def _in_corner(way: Arrangement) -> MeshKernel:
    """The kernel of a way at the origin, where it is priced; that of the way which was chosen is asked for at once."""
    return way.all_rounds(Rect(0, 0, way.width, way.height))


def _arrangements(product: Product, width: int, height: int, machine: Machine) -> Iterator[Arrangement]:
    """Every way that is looked at: what stays, along which axis it is summed, in how many strips and which chunks."""
    for stays in product.resident or "abc":
        for is_turned in (False, True) if stays != "c" else (False,):
            for strips, cuts in _strips(product, stays, width if is_turned else height):
                yield from _chunked(product, stays, (width, height), is_turned, strips, cuts, machine)


def _strips(product: Product, stays: str, line: int) -> Iterator[tuple[int, int]]:
    """Strips of a line for a batch, powers of two and as many as there are; or the parts of one product."""
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
    """Chunks from all that passes, or as much as memory holds twice, by halves downward."""
    # Everything below is said along and across the way of the rows that pass, so that one text serves both axes.
    along, across = extents[::-1] if is_turned else extents
    outer = ceil_div(product.n if stays == "b" else product.m, cuts)
    first, second = (product.n, outer) if stays == "c" else (outer, product.k)
    # PEs without a row or column would only lengthen the way of the words.
    along, line = min(along, first), 1 if cuts > 1 else min(across // strips, second)
    width, height = (line * strips, along) if is_turned else (along, line * strips)
    tile = ceil_div(first, along) + ceil_div(second, line)
    passing = {"b": product.m, "a": product.n, "c": product.k}[stays]
    chunk = min(passing, max(1, machine.usable_bytes_per_pe // (4 * tile * ITEM_BYTES[product.dtype])))
    # Large chunks have long vectors and few latencies, small ones overlap: neither end is best for all products.
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


def _estimate(way: Arrangement, machine: Machine) -> float:
    """Roughly the cycles of a way: what its stages take on their own, and one beside the other."""
    arriving, work, leaving, lost = _stages(way, machine)
    chunks = ceil_div(way.passing, way.chunk)
    # A single chunk passes its stages one after the other; of more each overlaps with those before and after it.
    if chunks == 1:
        return way.rounds * (arriving + work + leaving)
    filled = max(work + lost, arriving, leaving)
    ends = arriving + max(arriving, work) + (max(leaving, work) + leaving if leaving else work)
    return way.rounds * (ends + (chunks - (2 if leaving else 1)) * filled)


def _stages(way: Arrangement, machine: Machine) -> tuple[float, float, float, float]:
    """Cycles in which a chunk arrives, is multiplied and leaves; and what the work loses to words beside it."""
    product, setup = way.product, machine.dsd_setup_cycles
    along, across = (way.height, way.width) if way.is_turned else (way.width, way.height)
    line, itemsize = across // way.strips, ITEM_BYTES[product.dtype]
    sum_size, chunk = ITEM_BYTES[product.sum_dtype or product.dtype], min(way.chunk, way.passing)
    start = setup + machine.depth_step_cycles
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
    # As in `tiles.multiply`: vectors lie along the longer side of the result.
    short, long = sorted((rows, columns))
    issued = math.ceil(long / machine.per_cycle("fma", max(itemsize, sum_size)))
    work = inner * (short * (setup + machine.loop_cycles + issued) + machine.loop_cycles)
    lost = (words + left_words) * inner * short * (1 + issued) / work
    return arriving, work, leaving, lost


def _sum_cycles(line: int, words: float, machine: Machine) -> float:
    """Cycles in which sums leave a line, by the reduction that its length asks for."""
    if sum_algorithm(line) == "chain":
        return words + (line - 1) * (machine.hop_cycles + machine.depth_step_cycles) + machine.dsd_setup_cycles
    depth = 2 * math.sqrt(line) * machine.depth_step_cycles
    return 2 * words + line * machine.hop_cycles + depth + 2 * machine.dsd_setup_cycles
