"""Arrange the iterations of a loop nest as a matrix over a rectangle: which loops are its rows and which its
columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import isqrt, prod

import numpy as np

from lazytensor.ir.nest import Access, Nest
from wse_sim.layout import Rect, ceil_div

# Approximate values of the WSE-2, for comparing layouts only; prices do not use them.
_SETUP, _HOP, ELEMENT_CYCLES = 16, 6, 0.5


@dataclass(frozen=True)
class Domain:
    """The iterations of a nest as a matrix on `rect`: rows are distributed along y and columns along x.

    Loops that a store reduces over are columns. If all loops are such, or none is, the loops are divided into rows and
    columns where the largest tile is smallest. If every operand is read once by each iteration or is a single element,
    the iterations may instead be numbered through and cut into rows of one length (`is_flat`). The last ones are
    repeated to fill the last row; with sums nothing is repeated, and the length of rows is a divisor. Rows of PEs are
    cut into `groups` with separate rows of the matrix, if that makes vector operations longer.
    """

    nest: Nest
    rect: Rect

    @cached_property
    def order(self) -> tuple[list[int], list[int]]:
        """(loops that are rows, loops that are columns), by number."""
        loops = [*range(len(self.nest.loops))]
        summed = [i for i in loops if self.nest.loops[i].is_reduction]
        if summed and not self.sums_rows:
            return [i for i in loops if i not in summed], summed
        # From the last loop on, so that of equal divisions the one with the fewest columns is taken.
        cuts = range(len(loops) - 1, -1, -1) or [0]
        best = min(cuts, key=lambda i: self._tile(self._extent(loops[:i]), self._extent(loops[i:])))
        return loops[:best], loops[best:]

    @cached_property
    def extents(self) -> tuple[int, int]:
        """(rows, columns) of the matrix of iterations.

        They are the products of the extents of the loops in `order`. A flat domain has rows of one length instead,
        whose last one may be padded; with sums the length is a divisor.
        """
        rows, columns = (self._extent(some) for some in self.order)
        if not self.is_flat:
            return rows, columns
        total = rows * columns
        if self.sums_rows:
            return min(_divided(total), key=lambda pair: self._tile(*pair))
        return min(self.rect.height, total), ceil_div(total, min(self.rect.height, total))

    @cached_property
    def is_flat(self) -> bool:
        """True if iterations are numbered through and cut into rows of one length, regardless of the loops.

        This needs operands that change with every loop or with none, and no sum over only some loops. It is done only
        if it makes the largest tile smaller.
        """
        rows, columns = (self._extent(some) for some in self.order)
        loops = self.nest.loops
        if not rows * columns or (self._has_sums and not self.sums_rows):
            return False
        accesses = [*self.nest.reads, *(s.attr for s in self.nest.body if s.op == "index")]
        # An operand that is constant along only some loops is broadcast, which needs rows and columns of loops.
        if any(0 < self._moves(a, range(len(loops))) < self._moves_at_most for a in accesses):
            return False
        # Only if it makes tiles smaller: a matrix keeps its rows, which later kernels read as such.
        least = ceil_div(rows * columns, self.rect.area)
        if self.sums_rows:
            least = min(self._tile(*pair) for pair in _divided(rows * columns))
        return least < self._tile(rows, columns)

    @cached_property
    def groups(self) -> int:
        """Number of groups that each row of PEs is cut into; columns run over one group, and groups have other rows.

        It is the fastest by `row_groups`, with groups that divide the columns evenly, or 1 group. It is 1 for a flat or
        empty domain and for a sum over all iterations.
        """
        rows, columns = self.extents
        if self.is_flat or self.sums_rows or not rows * columns:
            return 1
        # A sum must not include padding: only groups that divide the columns, or one group of a whole row.
        lengths = [n for n in _powers(self.rect.width) if columns % n == 0]
        return row_groups(self.rect, rows, columns, [*lengths, self.rect.width], has_sums=self._has_sums)

    @property
    def used(self) -> Rect:
        """The PEs in groups of equal length; the others stay idle."""
        return replace(self.rect, width=self.rect.width // self.groups * self.groups)

    @property
    def _has_sums(self) -> bool:
        return any(loop.is_reduction for loop in self.nest.loops)

    @property
    def sums_rows(self) -> bool:
        """True if all iterations are summed, over rows too."""
        return self._has_sums and all(loop.is_reduction or loop.extent == 1 for loop in self.nest.loops)

    def shape(self, access: Access) -> tuple[int, int]:
        """Return (rows, columns) of an operand, 1 for an axis along which it is constant, and 0 for an empty axis."""
        if self.is_flat:
            return self.extents if self._moves(access, range(len(self.nest.loops))) else (1, 1)
        rows, columns = self.extents
        down, along = (self._moves(access, some) for some in self.order)
        return rows if down else min(rows, 1), columns if along else min(columns, 1)

    def places(self, access: Access) -> np.ndarray:
        """Return [rows, columns] with the index, in the flattened array, of the element that each iteration
        accesses.
        """
        if self.is_flat:
            return self._flat_places(access)
        rows, columns = self.order
        total = np.full((), access.offset, np.int64)
        for i in (*rows, *columns):
            total = np.add.outer(total, access.strides[i] * np.arange(self.nest.loops[i].extent))
        return total.reshape(self.extents)

    def read(self, access: Access) -> np.ndarray:
        """Return `places(access)`, with an extent of 1 for an axis along which the operand is constant."""
        # `shape` depends on strides only, so pricing needs no list of elements.
        rows, columns = self.shape(access)
        return self.places(access)[:rows, :columns]

    def _flat_places(self, access: Access) -> np.ndarray:
        """Return the flat index of the element that each iteration of a flat domain accesses, in its shape `extents`.

        The iterations are in order, row after row of the domain; the last one is repeated as padding.
        """
        count = self._extent(range(len(self.nest.loops)))
        # The last row may be longer than the remaining iterations: it repeats the last one, which is harmless.
        numbers = np.minimum(np.arange(prod(self.extents)), count - 1)
        at = np.unravel_index(numbers, [loop.extent for loop in self.nest.loops] or [1])
        strides = access.strides or (0,)
        places = np.full(len(numbers), access.offset, np.int64)
        for stride, along in zip(strides, at, strict=True):
            places += stride * along
        return places.reshape(self.extents)

    def _extent(self, loops: Sequence[int]) -> int:
        return prod(self.nest.loops[i].extent for i in loops)

    def _tile(self, rows: int, columns: int) -> int:
        """Return the iterations of the PE with the most."""
        return ceil_div(rows, self.rect.height) * ceil_div(columns, self.rect.width)

    def _moves(self, access: Access, loops: Sequence[int]) -> int:
        """Return how many of `loops` change the element that is accessed."""
        return sum(bool(access.strides[i]) and self.nest.loops[i].extent > 1 for i in loops)

    @property
    def _moves_at_most(self) -> int:
        return sum(loop.extent > 1 for loop in self.nest.loops)


def row_groups(
    rect: Rect,
    rows: int,
    columns: int,
    lengths: Sequence[int] = (),
    has_sums: bool = True,
    element_cycles: float = ELEMENT_CYCLES,
) -> int:
    """Return the number of groups per row of PEs for which operations on `rows` x `columns` elements take the least
    time.

    A short group has longer vectors and fewer PEs to sum over. `lengths` are the candidate lengths of a group, in PEs;
    by default powers of two and the results of dividing a row by them. `element_cycles` is the mean time of an element
    in an operation. With `has_sums` false, no time for sums is counted. The time is an estimate; of equally fast
    lengths the shortest is taken.
    """

    def cycles(length: int) -> float:
        tall, wide = ceil_div(rows, rect.height * (rect.width // length)), ceil_div(columns, length)
        sent = tall + _HOP * length if length > 1 and has_sums else 0
        return tall * (_SETUP + wide * element_cycles) + sent

    tried = lengths or [n for power in _powers(rect.width) for n in (power, rect.width // power)]
    return rect.width // min(sorted(set(tried)), key=cycles)


@lru_cache(maxsize=1024)
def _divided(total: int) -> tuple[tuple[int, int], ...]:
    """Return all pairs of positive integers whose product is `total`, in both orders. Results are cached."""
    # Divisors come in pairs; the smaller one is at most the square root.
    low = [n for n in range(1, isqrt(total) + 1) if total % n == 0]
    return (*((n, total // n) for n in low), *((total // n, n) for n in low))


def _powers(most: int) -> list[int]:
    return [1 << n for n in range(most.bit_length())]
