"""A kernel that runs: a phase program, where its operands and results lie, and how global matrices get there and back.

Tiles lie row after row and all have the extents of the largest; what a smaller one leaves over holds the fill value.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lazytensor.errors import LazyError
from wse_sim.fabric import RunResult, simulate_phase
from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES, Memory
from wse_sim.isa.packing import decode_bits, view_elements, word_count
from wse_sim.isa.rounding import to_bits
from wse_sim.layout import Rect, part_range
from wse_sim.machine import Machine
from wse_sim.phase import Phase, Repeat
from wse_sim.reference.phase_reference import apply

WIDE = "float32"
"""Type of sums, statistics and what is worked out in several steps, which are rounded once."""
INDEX = "uint16"
"""Type of the numbers that name elements or rows."""
# Two sources of an operation must not begin in the same pair of banks, or its elements take twice as long (SPMM).
BANK_PAIRS = 4
"""Words of a memory in turn; half of `Machine.sram_banks` of every preset."""


@dataclass(frozen=True)
class Placed:
    """A matrix of `rows` x `columns` over `rect`: rows along y, columns along x.

    Each axis is cut as `layout.part_range` does: "block", "cyclic" or "replicated". `address` is in words. `skew` says
    which tile lies where on a square: "row" turns each row of tiles to the left by its number, as Cannon's first
    operand lies, "column" each column upwards. With `is_folded` neighbours of a tile are its neighbours on the ring
    that is folded onto the line. With `is_turned` the rows run along x and the columns along y instead. With `groups`
    each row of PEs is cut into so many: columns of the matrix run over a group, and rows over the groups of all rows
    of PEs. Where a `constant` is given all elements have that value, and with `counts` each is its number over that,
    rounded down. Each place of the matrix is `depth` elements that stay together, as the pixels of a channel do. A
    tile has room for `least` columns, also where the matrix has fewer.
    """

    name: str
    rect: Rect
    rows: int
    columns: int
    dtype: str
    address: int
    row_kind: str = "block"
    column_kind: str = "block"
    skew: str = ""
    is_folded: bool = False
    is_turned: bool = False
    groups: int = 1
    fill: float = 0
    constant: float | None = None
    counts: int = 0
    depth: int = 1
    least: int = 0

    @property
    def tile_rows(self) -> int:
        """Rows of the largest tile."""
        return len(part_range(self.row_kind, self.rows, self._across[0], 0))

    @property
    def tile_columns(self) -> int:
        """Columns of the largest tile."""
        return max(self.least, len(part_range(self.column_kind, self.columns, self._across[1], 0)))

    @property
    def _across(self) -> tuple[int, int]:
        """Tiles that a column and a row of the matrix are cut into."""
        extents = self.rect.height * self.groups, self.rect.width // self.groups
        return extents[::-1] if self.is_turned else extents

    @property
    def elements(self) -> int:
        """Elements of a tile."""
        return self.tile_rows * self.tile_columns * self.depth

    @property
    def words(self) -> int:
        """Words of a tile in memory."""
        return word_count(self.elements, self.dtype)

    @property
    def base(self) -> int:
        """The address in elements."""
        return base_of(self.address, self.dtype)

    @property
    def is_given(self) -> bool:
        """Whether the caller has to give its elements."""
        return self.constant is None and not self.counts

    def own(self) -> np.ndarray:
        """The elements of what is not given."""
        size = self.rows * self.columns * self.depth
        return np.arange(size) // self.counts if self.counts else np.full(size, self.constant, np.float32)

    def vector(self, stride: int = 1, steps: tuple[int, ...] = (), start: int = 0) -> Memory:
        """Elements of the tile as an operand."""
        return Memory(self.base + start, stride=stride, dtype=self.dtype, steps=steps)

    def moved(self, address: int) -> "Placed":
        """The same tile at another address, as a second buffer has it."""
        # By name and not by `replace`, which takes twice as long: a price places hundreds.
        return Placed(**{**vars(self), "address": address})

    def tile_of(self, x: int, y: int) -> tuple[range, range]:
        """Rows and columns of the matrix on the PE at (x, y), counted from the corner of the rectangle."""
        across = self._across
        # First the ring that is folded onto the line, then the skew along it: Cannon's places are counted on the ring.
        row, column = (x, y) if self.is_turned else (y, x)
        if self.groups > 1:
            group, column = divmod(x, across[1])
            row = y * self.groups + group
        if self.is_folded:
            row, column = _ring_index(across[0], row), _ring_index(across[1], column)
        if self.skew == "column":
            row = (row + column) % across[0]
        elif self.skew == "row":
            column = (row + column) % across[1]
        rows = part_range(self.row_kind, self.rows, across[0], row)
        return rows, part_range(self.column_kind, self.columns, across[1], column)


class Copies(Sequence[Placed]):
    """Matrices `alone`, then each of `first` with its `count` copies, as `copy` makes them by their number from 0.

    A copy is made when it is read: a price reads none, and a kernel may have thousands.
    """

    def __init__(
        self,
        first: tuple[Placed, ...],
        count: int,
        copy: Callable[[Placed, int], Placed],
        alone: tuple[Placed, ...] = (),
    ):
        self._first, self._count, self._copy, self._alone = first, count, copy, alone

    def __len__(self) -> int:
        return len(self._alone) + len(self._first) * self._count

    def __getitem__(self, index: Any) -> Any:
        number = range(len(self))[index] - len(self._alone)
        if number < 0:
            return self._alone[number]
        return self._copy(self._first[number // self._count], number % self._count)


@dataclass(frozen=True)
class MeshKernel:
    """What runs on memories of `words` words, and what it reads and writes there.

    `rect` is given where it runs on PEs that no operand and no result begins or ends on.
    """

    phase: Phase
    operands: Sequence[Placed]
    results: Sequence[Placed]
    words: int
    rect: Rect | None = None

    def repeated(self, times: int) -> "MeshKernel":
        """Return the kernel that runs so many times, on the operands of one of them."""
        return self if times == 1 else replace(self, phase=Repeat(times, self.phase))

    @property
    def runs(self) -> bool:
        """Whether it computes something; else only its price is known."""
        return bool(self.operands or self.results)


def price_alone(phase: Phase) -> MeshKernel:
    """A kernel of which only the price is known: a phase program without operands."""
    return MeshKernel(phase, (), (), 0)


class Room:
    """Gives out the words of a memory from the start.

    What it gives out begins in another pair of banks each time, so that the operands of an instruction do not wait for
    each other; `bank` names the pair.
    """

    def __init__(self) -> None:
        self.words = 0
        self._bank = 0

    def take(self, elements: int, dtype: str, bank: int | None = None) -> int:
        """The address, in words, of room for `elements`. Raises LazyError for a type that cores have not."""
        if dtype not in ITEM_BYTES:
            raise LazyError(f"cores have no {dtype}", hint=f"Give one of {', '.join(ITEM_BYTES)}.")
        wanted = self._bank if bank is None else bank
        # At most three words are left empty to begin in the pair that is wanted.
        address = self.words + (wanted - self.words) % BANK_PAIRS
        self._bank = (wanted + 1) % BANK_PAIRS
        self.words = address + word_count(elements, dtype)
        return address

    def place(
        self, name: str, rect: Rect, rows: int, columns: int, dtype: str, bank: int | None = None, **how: Any
    ) -> Placed:
        """Room for a matrix; `how` as the fields of `Placed`."""
        placed = Placed(name=name, rect=rect, rows=rows, columns=columns, dtype=dtype, address=0, **how)
        return placed.moved(self.take(placed.elements, dtype, bank))

    def whole(self, name: str, rect: Rect, rows: int, columns: int, dtype: str) -> Placed:
        """Room for a matrix of which every PE has all."""
        return self.place(name, rect, rows, columns, dtype, row_kind="replicated", column_kind="replicated")

    def again(self, placed: Placed, bank: int | None = None) -> Placed:
        """Room for a second tile of this kind, by default in the same pair of banks."""
        own = placed.address % BANK_PAIRS if bank is None else bank
        return placed.moved(self.take(placed.elements, placed.dtype, own))

    def wide(self, placed: Placed, name: str = "") -> Placed:
        """A float32 tile of this kind to work in: the tile itself if it is of float32 and no `name` is given."""
        if placed.dtype == WIDE and not name:
            return placed
        return replace(placed, name=name or placed.name, dtype=WIDE, address=self.take(placed.elements, WIDE))

    def vector(self, elements: int, dtype: str = WIDE) -> Memory:
        """Room for `elements` as an operand."""
        return operand_at(self.take(elements, dtype), dtype)

    def builder(self) -> Builder:
        """A builder of local work over what was given out so far.

        Its `body` goes into a `Local` unchecked: it is checked where it runs, and a report prices many and runs none.
        """
        return Builder("local", self.words)


def round_to(build: Builder, result: Placed, total: Placed) -> Builder:
    """Append the conversion of a tile to the type of the result, unless they are one tile."""
    if total is not result:
        build.convert(result.vector(), total.vector(), result.elements)
    return build


def base_of(address: int, dtype: str) -> int:
    """An address in words as one in elements."""
    return address * WORD_BYTES // ITEM_BYTES[dtype]


def operand_at(
    address: int,
    dtype: str,
    start: int = 0,
    stride: int = 1,
    steps: tuple[int, ...] = (),
    outer: tuple[tuple[int, int], ...] = (),
) -> Memory:
    """Elements from an address in words on, from the one with the number `start`."""
    return Memory(base_of(address, dtype) + start, stride=stride, dtype=dtype, steps=steps, outer=outer)


def blank(kernel: MeshKernel) -> np.ndarray:
    """Memories [height, width, words] of zeros, as large as the kernel needs."""
    rects = [placed.rect for placed in (*kernel.operands, *kernel.results)] + [r for r in (kernel.rect,) if r]
    height, width = max(r.y + r.height for r in rects), max(r.x + r.width for r in rects)
    return np.zeros((height, width, kernel.words), np.float32)


def scatter(kernel: MeshKernel, values: Mapping[str, Any]) -> np.ndarray:
    """Memories [height, width, words] with every operand in its place; the rest is zero.

    `values` are global matrices by name, of any shape with as many elements. They count from PE (0, 0), as float32 of
    which the bits count. Raises LazyError for a name or a size that is not the kernel's.
    """
    names = {placed.name for placed in kernel.operands if placed.is_given}
    if names != set(values):
        raise LazyError(f"operands {', '.join(sorted(values))}", hint=f"Give {', '.join(sorted(names))}.")
    memory = blank(kernel)
    for placed in kernel.operands:
        # What the kernel itself needs, as a row of ones, is no business of the caller.
        matrix = values[placed.name] if placed.is_given else placed.own()
        _scatter(placed, np.asarray(matrix), memory)
    return memory


def gather(kernel: MeshKernel, memory: np.ndarray) -> dict[str, np.ndarray]:
    """Every result as a global matrix [rows, columns x depth] of float32 from memories [height, width, words]."""
    return {placed.name: _gather(placed, memory) for placed in kernel.results}


def as_data(kernel: MeshKernel, values: Mapping[str, Any], machine: Machine | None = None) -> dict[str, np.ndarray]:
    """The results of a kernel for global matrices by name, read with NumPy; see `apply`."""
    return gather(kernel, apply(kernel.phase, scatter(kernel, values), machine))


def as_wavelets(
    kernel: MeshKernel, values: Mapping[str, Any], machine: Machine
) -> tuple[dict[str, np.ndarray], RunResult]:
    """The results of a kernel for global matrices by name, run cycle by cycle, and what came of the run."""
    done = simulate_phase(kernel.phase, machine, scatter(kernel, values)).expect_finished()
    return gather(kernel, done.memory), done


def _ring_index(length: int, position: int) -> int:
    """Where a position comes in the order of the folded ring: 0, 2, 4, ..., 5, 3, 1."""
    return length - 1 - position // 2 if position % 2 else position // 2


def _scatter(placed: Placed, values: np.ndarray, memory: np.ndarray) -> None:
    if values.size != placed.rows * placed.columns * placed.depth:
        extents = f"{placed.rows} x {placed.columns * placed.depth}"
        raise LazyError(f"{placed.name!r} of {values.shape}", hint=f"Give {extents} elements.")
    matrix = to_bits(values.reshape(placed.rows, placed.columns, placed.depth), placed.dtype)
    fill = to_bits(np.full(1, placed.fill, np.float32), placed.dtype)
    for x, y, tile in _tiles(placed, memory):
        rows, columns = placed.tile_of(x, y)
        # Tiles are as large as the largest: what the matrix does not reach must not change a sum or a maximum.
        tile[:] = fill
        tile[: len(rows), : len(columns)] = matrix[np.ix_(rows, columns)]


def _gather(placed: Placed, memory: np.ndarray) -> np.ndarray:
    result = np.zeros((placed.rows, placed.columns, placed.depth), np.float32)
    for x, y, tile in _tiles(placed, np.ascontiguousarray(memory)):
        rows, columns = placed.tile_of(x, y)
        result[np.ix_(rows, columns)] = decode_bits(tile[: len(rows), : len(columns)], placed.dtype)
    return result.reshape(placed.rows, -1)


def _tiles(placed: Placed, memory: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    """The tile of every PE of the rectangle, as a view of raw elements."""
    flat = view_elements(memory, placed.dtype)[..., placed.base : placed.base + placed.elements]
    for y in range(placed.rect.height):
        for x in range(placed.rect.width):
            tile = flat[placed.rect.y + y, placed.rect.x + x]
            yield x, y, tile.reshape(placed.tile_rows, placed.tile_columns, placed.depth)
