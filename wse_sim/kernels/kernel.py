"""Mesh kernels: a phase program, the placement of its operands and results, and functions that copy matrices to and
from it.

The tiles of a matrix are stored row after row, and all have the extents of the largest one. Elements of smaller tiles
beyond their rows and columns have the fill value.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lazytensor.errors import LazyError, PlacementError, ShapeError
from wse_sim.fabric import RunResult, simulate_phase
from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES, Memory
from wse_sim.isa.packing import decode_bits, view_elements, word_count
from wse_sim.isa.rounding import to_bits
from wse_sim.kernels.phase_verifier import verify_phase
from wse_sim.layout import Rect, part_range
from wse_sim.machine import Machine
from wse_sim.phase import Phase, Repeat
from wse_sim.reference.phase_reference import apply

WIDE = "float32"
"""The type of sums, of statistics and of intermediate values; results are rounded from it once."""
INDEX = "uint16"
"""The type of indices of elements or rows."""
# Two sources of an operation must not start in the same pair of banks, or its elements take twice as long (SPMM).
BANK_PAIRS = 4
"""Pairs of memory banks over which consecutive words are interleaved; half of `Machine.sram_banks` of every preset."""


@dataclass(frozen=True)
class Placed:
    """A matrix that is distributed over the PEs of `rect`, its rows along y and its columns along x.

    - `name`: name of the operand or result
    - `rows`, `columns`: extents of the matrix
    - `dtype`: element type
    - `address`: address of the tile on every PE, in words
    - `row_kind`, `column_kind`: how each axis is distributed, see `layout.part_range`: "block", "cyclic" or
      "replicated"
    - `skew`: alignment of tiles on a square of PEs: "row" rotates row r of tiles left by r, as in Cannon's algorithm;
      "column" rotates column c up by c
    - `is_folded`: True if neighbouring tiles are neighbours on the ring that is folded onto the line of PEs
    - `is_turned`: True if rows run along x and columns along y
    - `groups`: parts that each row of PEs is cut into; columns of the matrix run over one part, and rows over all parts
      of all rows of PEs
    - `fill`: value of padding elements
    - `constant`: value of all elements of an operand that the kernel itself provides, or None
    - `counts`: if not 0, the kernel provides the operand, and element i has the value i // counts
    - `depth`: elements at each position of the matrix, which stay together, such as the pixels of a channel
    - `least`: minimum number of columns for which a tile has room
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
        """Columns of the largest tile, at least `least`."""
        return max(self.least, len(part_range(self.column_kind, self.columns, self._across[1], 0)))

    @property
    def _across(self) -> tuple[int, int]:
        """(tiles in a column of the matrix, tiles in a row of it)."""
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
        """Address of the tile, in elements."""
        return base_of(self.address, self.dtype)

    @property
    def is_given(self) -> bool:
        """True if the caller provides the elements, False if the kernel does."""
        return self.constant is None and not self.counts

    def own(self) -> np.ndarray:
        """Return the elements of an operand that the kernel provides, as a flat array of rows x columns x depth.

        Element i is i // `counts` if that is not 0, else `constant`.
        """
        size = self.rows * self.columns * self.depth
        return np.arange(size) // self.counts if self.counts else np.full(size, self.constant, np.float32)

    def vector(self, stride: int = 1, steps: tuple[int, ...] = (), start: int = 0) -> Memory:
        """Return the elements of the tile from element `start` on as an operand.

        `stride` and `steps` are as in `Memory`.
        """
        return Memory(self.base + start, stride=stride, dtype=self.dtype, steps=steps)

    def moved(self, address: int) -> "Placed":
        """Return the same matrix at another `address`, for example a second buffer."""
        # `replace` takes twice as long, and pricing moves hundreds of tiles.
        return Placed(**{**vars(self), "address": address})

    def tile_of(self, x: int, y: int) -> tuple[range, range]:
        """Return the ranges of matrix rows and columns that the PE at (`x`, `y`) of the rectangle has; they may be
        empty.

        (0, 0) is the upper left PE of the rectangle.
        """
        across = self._across
        # First the folded ring, then the skew along it: Cannon's positions are counted on the ring.
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
    """A lazy sequence of matrices: those in `alone`, then `count` copies of each matrix in `first`.

    `copy(placed, i)` makes copy i of a matrix. A copy is made when it is accessed: pricing accesses none, and a kernel
    may have thousands.
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
    """A phase program with its operands and results.

    - `phase`: the program
    - `operands`, `results`: matrices that it reads and writes
    - `words`: words of memory that it needs on each PE
    - `rect`: all PEs, if it uses PEs outside the rectangles of its operands and results; else None

    >>> from wse_sim import Allocator, Rect, Shift, as_data
    >>> memory, rect = Allocator(), Rect(0, 0, 3, 1)
    >>> x, y = (memory.place(name, rect, 1, 3, "float32") for name in "xy")
    >>> kernel = MeshKernel(Shift(rect, "x", 1, take=x.address, put=y.address), (x,), (y,), memory.words)
    >>> as_data(kernel, {"x": [1, 2, 3]})["y"]
    array([[0., 1., 2.]], dtype=float32)
    """

    phase: Phase
    operands: Sequence[Placed]
    results: Sequence[Placed]
    words: int
    rect: Rect | None = None

    def repeated(self, times: int) -> "MeshKernel":
        """Return a kernel that runs `times` times, one after the other, on the same operands."""
        return self if times == 1 else replace(self, phase=Repeat(times, self.phase))

    @property
    def runs(self) -> bool:
        """True if the kernel has operands or results; otherwise it only has a price."""
        return bool(self.operands or self.results)


def price_alone(phase: Phase) -> MeshKernel:
    """Return a kernel without operands and results, for a phase program that is only priced."""
    return MeshKernel(phase, (), (), 0)


class Allocator:
    """An allocator of words in the memories of the PEs, from address 0 on.

    Consecutive allocations start in different pairs of banks, so that the operands of an instruction do not conflict.
    `bank` selects the pair. `words` is the size of the memory so far.

    >>> from wse_sim import Allocator, Rect
    >>> memory = Allocator()
    >>> x = memory.place("x", Rect(0, 0, 4, 4), rows=8, columns=12, dtype="float32")
    >>> x.tile_rows, x.tile_columns, memory.words
    (2, 3, 6)
    """

    def __init__(self) -> None:
        self.words = 0
        self._bank = 0

    def take(self, elements: int, dtype: str, bank: int | None = None) -> int:
        """Allocate `elements` elements of `dtype` and return their address in words.

        They start in the pair of banks `bank`, by default the one after that of the last allocation. Raises LazyError
        for an unsupported type.
        """
        if dtype not in ITEM_BYTES:
            raise LazyError(f"cores do not support {dtype}", hint=f"Use one of {', '.join(ITEM_BYTES)}.")
        wanted = self._bank if bank is None else bank
        # At most three words stay empty to reach the selected pair.
        address = self.words + (wanted - self.words) % BANK_PAIRS
        self._bank = (wanted + 1) % BANK_PAIRS
        self.words = address + word_count(elements, dtype)
        return address

    def place(
        self, name: str, rect: Rect, rows: int, columns: int, dtype: str, bank: int | None = None, **how: Any
    ) -> Placed:
        """Allocate tiles for the matrix `name` of `rows` x `columns` on `rect`, and return its placement.

        The tiles start in the pair of banks `bank`, by default the one after that of the last allocation. `how` are
        further fields of `Placed`. Raises LazyError for a `dtype` that cores do not support.
        """
        placed = Placed(name=name, rect=rect, rows=rows, columns=columns, dtype=dtype, address=0, **how)
        return placed.moved(self.take(placed.elements, dtype, bank))

    def whole(self, name: str, rect: Rect, rows: int, columns: int, dtype: str) -> Placed:
        """Allocate a matrix that is replicated on every PE."""
        return self.place(name, rect, rows, columns, dtype, row_kind="replicated", column_kind="replicated")

    def again(self, placed: Placed, bank: int | None = None) -> Placed:
        """Allocate a second tile for the matrix `placed` and return its placement. The elements are not copied.

        The tile starts in the pair of banks `bank`, by default the same as that of `placed`.
        """
        own = placed.address % BANK_PAIRS if bank is None else bank
        return placed.moved(self.take(placed.elements, placed.dtype, own))

    def wide(self, placed: Placed, name: str = "") -> Placed:
        """Return a float32 tile of the same extents.

        It is `placed` itself if that has float32 elements and no `name` is given, and otherwise newly allocated.
        """
        if placed.dtype == WIDE and not name:
            return placed
        return replace(placed, name=name or placed.name, dtype=WIDE, address=self.take(placed.elements, WIDE))

    def vector(self, elements: int, dtype: str = WIDE) -> Memory:
        """Allocate `elements` elements and return them as an operand."""
        return operand_at(self.take(elements, dtype), dtype)

    def builder(self) -> Builder:
        """Return a builder of local work on the memory allocated so far.

        Its `body` is unchecked: programs are checked when they run, and a report prices many programs without running
        them.
        """
        return Builder("local", self.words)


def __getattr__(name: str) -> Any:
    """Return `Allocator` for its old name `Room`, with a DeprecationWarning."""
    if name != "Room":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn("wse_sim.kernels.kernel.Room is now wse_sim.Allocator", DeprecationWarning, stacklevel=2)
    return Allocator


def round_to(build: Builder, result: Placed, total: Placed) -> Builder:
    """Append the conversion of `total` to the type of `result`, unless both are the same tile. Return the builder."""
    if total is not result:
        build.convert(result.vector(), total.vector(), result.elements)
    return build


def base_of(address: int, dtype: str) -> int:
    """Return an address in words as an address in elements of `dtype`."""
    return address * WORD_BYTES // ITEM_BYTES[dtype]


def operand_at(
    address: int,
    dtype: str,
    start: int = 0,
    stride: int = 1,
    steps: tuple[int, ...] = (),
    outer: tuple[tuple[int, int], ...] = (),
) -> Memory:
    """Return an operand from element `start` on, counted from an address in words. The rest is as in `Memory`."""
    return Memory(base_of(address, dtype) + start, stride=stride, dtype=dtype, steps=steps, outer=outer)


def blank(kernel: MeshKernel) -> np.ndarray:
    """Return memories [height, width, words] of float32 zeros that hold the kernel.

    They extend from PE (0, 0) to the last row and column of all operands, results and the kernel's `rect`.
    """
    rects = [placed.rect for placed in (*kernel.operands, *kernel.results)] + [r for r in (kernel.rect,) if r]
    height, width = max(r.y + r.height for r in rects), max(r.x + r.width for r in rects)
    return np.zeros((height, width, kernel.words), np.float32)


def scatter(kernel: MeshKernel, values: Mapping[str, Any]) -> np.ndarray:
    """Return memories [height, width, words] with every operand at its address; all other words are zero.

    `values` maps the names of operands to global matrices of any shape with the right number of elements, which are
    rounded to the operand's type. Operands that the kernel provides are not in it. The memories start at PE (0, 0);
    they are float32 arrays whose bits count. Raises LazyError for missing or unknown names and for a wrong size.
    """
    names = {placed.name for placed in kernel.operands if placed.is_given}
    if names != set(values):
        raise LazyError(f"the kernel got the operands {sorted(values)}", hint=f"Give {', '.join(sorted(names))}.")
    memory = blank(kernel)
    for placed in kernel.operands:
        # Operands of the kernel itself, such as a row of ones, are not in `values`.
        matrix = values[placed.name] if placed.is_given else placed.own()
        _scatter(placed, np.asarray(matrix), memory)
    return memory


def gather(kernel: MeshKernel, memory: np.ndarray) -> dict[str, np.ndarray]:
    """Return every result, by name, as a global float32 matrix [rows, columns x depth].

    `memory` is the memories [height, width, words] after the kernel.
    """
    return {placed.name: _gather(placed, memory) for placed in kernel.results}


def verified_memory(kernel: MeshKernel, values: Mapping[str, Any], machine: Machine | None) -> np.ndarray:
    """Return the memories of `scatter`, after the kernel has been verified.

    Raises ShapeError for a matrix of another shape than its operand's, LazyError for operands as in `scatter`, and
    LazyError or PlacementError for an invalid phase as in `verify_phase`. Raises PlacementError if the kernel needs
    more memory than a PE of `machine` has. With None any memory is large enough.
    """
    needed = kernel.words * WORD_BYTES
    if machine and needed > machine.usable_bytes_per_pe:
        tiles = ", ".join(f"{p.name} {p.words * WORD_BYTES:,}" for p in (*kernel.operands, *kernel.results)[:9])
        raise PlacementError(
            f"the kernel needs {needed:,} bytes on every PE from (0, 0) on, but a PE of {machine.name} has "
            f"{machine.usable_bytes_per_pe:,} usable bytes; bytes of the tiles: {tiles}",
            hint="Use more PEs or smaller matrices.",
        )
    memory = scatter(kernel, values)
    for placed in kernel.operands:
        shape = np.shape(values[placed.name]) if placed.is_given else ()
        extents = placed.rows, placed.columns * placed.depth
        # A transposed matrix has the right number of elements. Vectors and arrays of more axes may have any shape.
        if len(shape) == len(extents) and 1 not in (*shape, *extents) and shape != extents:
            raise ShapeError(f"operand {placed.name!r} has shape {shape}", hint=f"Give a matrix of shape {extents}.")
    verify_phase(kernel.phase, *memory.shape)
    return memory


def as_data(
    kernel: MeshKernel, values: Mapping[str, Any], machine: Machine | str | None = None
) -> dict[str, np.ndarray]:
    """Return the results of a kernel, by name, computed with NumPy for the global matrices `values`; see `apply`.

    `values` are as in `scatter`. `machine` is a machine, its name or None. Raises the errors of `verified_memory`.

    >>> from wse_sim import Allocator, Broadcast, MeshKernel, Rect, as_data
    >>> memory, rect = Allocator(), Rect(0, 0, 2, 1)
    >>> x, y = memory.place("x", rect, 1, 2, "float32"), memory.place("y", rect, 1, 2, "float32")
    >>> kernel = MeshKernel(Broadcast(rect, "x", 1, take=x.address, put=y.address), (x,), (y,), memory.words)
    >>> as_data(kernel, {"x": [[3, 4]]})["y"]
    array([[3., 3.]], dtype=float32)
    """
    machine = None if machine is None else Machine.of(machine)
    return gather(kernel, apply(kernel.phase, verified_memory(kernel, values, machine), machine))


def as_wavelets(
    kernel: MeshKernel, values: Mapping[str, Any], machine: Machine | str
) -> tuple[dict[str, np.ndarray], RunResult]:
    """Run a kernel cycle by cycle for the global matrices `values`, as in `scatter`.

    `machine` is a machine or its name. Return (results by name, result of the run). Raises the errors of
    `verified_memory`, and LazyError if the run does not finish.

    >>> from wse_sim import Allocator, Broadcast, MeshKernel, Rect, as_wavelets
    >>> memory, rect = Allocator(), Rect(0, 0, 2, 1)
    >>> x, y = memory.place("x", rect, 1, 2, "float32"), memory.place("y", rect, 1, 2, "float32")
    >>> kernel = MeshKernel(Broadcast(rect, "x", 1, take=x.address, put=y.address), (x,), (y,), memory.words)
    >>> results, run = as_wavelets(kernel, {"x": [[3, 4]]}, "wse2")
    >>> results["y"].tolist(), run.status
    ([[3.0, 3.0]], 'finished')
    """
    machine = Machine.of(machine)
    done = simulate_phase(kernel.phase, machine, verified_memory(kernel, values, machine)).expect_finished()
    return gather(kernel, done.memory), done


def _ring_index(length: int, position: int) -> int:
    """Return the index of a position in the order of the folded ring, 0, 2, 4, ..., 5, 3, 1."""
    return length - 1 - position // 2 if position % 2 else position // 2


def _scatter(placed: Placed, values: np.ndarray, memory: np.ndarray) -> None:
    """Copy a global matrix to the tiles of `placed` in `memory`, in place; padding elements get the fill value.

    Values are rounded to the element type. Raises LazyError for a wrong number of elements.
    """
    if values.size != placed.rows * placed.columns * placed.depth:
        extents = f"{placed.rows} x {placed.columns * placed.depth}"
        raise LazyError(f"operand {placed.name!r} has shape {values.shape}", hint=f"Give {extents} elements.")
    matrix = to_bits(values.reshape(placed.rows, placed.columns, placed.depth), placed.dtype)
    fill = to_bits(np.full(1, placed.fill, np.float32), placed.dtype)
    for x, y, tile in tiles_of(placed, memory):
        rows, columns = placed.tile_of(x, y)
        # Padding elements must not change a sum or a maximum.
        tile[:] = fill
        tile[: len(rows), : len(columns)] = matrix[np.ix_(rows, columns)]


def _gather(placed: Placed, memory: np.ndarray) -> np.ndarray:
    """Return the global matrix of `placed`, float32 [rows, columns x depth], from the tiles in `memory`.

    Of an element on several PEs, the one of the last PE counts.
    """
    result = np.zeros((placed.rows, placed.columns, placed.depth), np.float32)
    for x, y, tile in tiles_of(placed, np.ascontiguousarray(memory)):
        rows, columns = placed.tile_of(x, y)
        result[np.ix_(rows, columns)] = decode_bits(tile[: len(rows), : len(columns)], placed.dtype)
    return result.reshape(placed.rows, -1)


def tiles_of(placed: Placed, memory: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield (x, y, view of the tile's raw elements) for every PE of the rectangle, row after row.

    x and y count within the rectangle. The view is [tile rows, tile columns, depth] of unsigned integers, and writing
    to it changes `memory`.
    """
    flat = view_elements(memory, placed.dtype)[..., placed.base : placed.base + placed.elements]
    for y in range(placed.rect.height):
        for x in range(placed.rect.width):
            tile = flat[placed.rect.y + y, placed.rect.x + x]
            yield x, y, tile.reshape(placed.tile_rows, placed.tile_columns, placed.depth)
