"""Prices of published programs for stars on a plane, with a tile of float32 cells on every PE.

A star of radius r adds up a cell and the r next cells in each of four directions, each with a weight. The borders of a
tile are exchanged before each step. Sources: Jorineg/cerebras at 911a327 (`tiled_star`, `single_cell_star`) and
Elia-Belli/stencil-cerebras at cd54d0e (`row_and_column_star`), public programs for the WSE-2 and the WSE-3.
"""

from statistics import fmean

from lazytensor.errors import LazyError
from wse_sim.isa.core_program import Instruction, LoopEnd, LoopStart, Memory, Vector
from wse_sim.isa.issue_rates import vector_rate
from wse_sim.kernels.collective import scalar
from wse_sim.kernels.solvers.stencil import DIRECTIONS
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import Compute, Local, Par, Phase, Seq, Shift

_WORD_BYTES = 4
_WEIGHT = 0.5
_MOVES = 2 * len(DIRECTIONS)
# Counted in the source, a cycle each: load a counter, add, compare, store, branch.
_CALLBACK_CYCLES = 5
# ALCF: the back edge of a counted loop takes 9 to 10 cycles on WSE-3.
_BACK_EDGE_CYCLES = 10
# Counted in the source, a cycle each: load the base of a descriptor, add, store.
_INCREMENT_CYCLES = 3
# Counted in the source, a cycle each: load, increment and write a counter, multiply, scale, load a pointer, add, write
# two half words, compare, branch.
_STORE_CYCLES = 11
# In the source, a program that does not wait for its borders needs a tile of at least 4 x 4 cells.
_MIN_OVERLAP_SIDE = 4


def tiled_star(rect: Rect, width: int, height: int, radius: int, machine: Machine, overlaps: bool = False) -> Phase:
    """Return a phase, for pricing only, of one step of a star on tiles of `width` x `height` cells.

    Each PE starts four sends and four receives, which run beside its tasks. Each of them activates a task that counts.
    With radius 1 the step is then a product, four sums and a product on operands whose descriptors stay loaded, with
    one set-up. The distance between the sources of a sum determines its rate. With a larger radius it is a product and
    4 `radius` multiply-adds, each with a set-up, on two arrays from address 0 on. If `overlaps`, a step of radius 1 on
    tiles of at least 4 x 4 cells does not wait for its borders, and no tasks count.

    Raise LazyError for a radius above a side of the tile, which would need the tiles after the neighbours, and for two
    arrays that do not fit the memory of a PE.
    """
    if radius > min(width, height):
        raise LazyError(
            f"a star of radius {radius} reaches beyond the neighbours of a tile of {width} x {height} cells",
            hint="Use a radius of at most the shorter side.",
        )
    needed = 2 * _WORD_BYTES * _pitch(width, radius) * (height + 2 * radius)
    if needed > machine.usable_bytes_per_pe:
        raise LazyError(
            f"two arrays of a tile take {needed:,} bytes, a PE has {machine.usable_bytes_per_pe:,}",
            hint="Use a smaller tile or radius.",
        )
    # Columns leave to the left and right, rows up and down.
    sides = {"x": height * radius, "y": width * radius}
    moves = [Shift(rect, axis=axis, words=sides[axis], hops=hop, put=sides[axis]) for axis, hop in DIRECTIONS]
    starts = scalar(rect, _MOVES, machine.dsd_setup_cycles)
    tasks = scalar(rect, 2, machine.task_start_cycles)
    sums = _sums(rect, width, height, radius, machine)
    if overlaps and radius == 1 and min(width, height) >= _MIN_OVERLAP_SIDE:
        return Seq((tasks, starts, Par((*moves, sums))))
    counts = scalar(rect, _MOVES, machine.task_start_cycles + _CALLBACK_CYCLES)
    return Seq((tasks, starts, Par((*moves, counts)), sums))


def _pitch(width: int, radius: int) -> int:
    """Return the words from row to row of an array with borders; the source adds a word."""
    return width + 2 * radius + 1


def _sums(rect: Rect, width: int, height: int, radius: int, machine: Machine) -> Phase:
    """Return the phase of the arithmetic of a step of `tiled_star`."""
    cells, pitch = width * height, _pitch(width, radius)
    array = pitch * (height + 2 * radius)
    if radius == 1:
        # The tile and the sums are arrays of one shape, one after the other.
        apart = [None, None, *(array + step for step in (-pitch, pitch, -1, 1))]
        full = machine.per_cycle("add", _WORD_BYTES)
        slowdown = fmean(full / vector_rate("add", _WORD_BYTES, words, machine) for words in apart)
        return Compute(rect, "add", vectors=1, length=len(apart) * cells, itemsize=_WORD_BYTES, slowdown=slowdown)
    own = radius * (pitch + 1)
    buffer = own + array

    def tile(base: int) -> Memory:
        return Memory(base, outer=((height, pitch),))

    # Above, below, left, right at each distance. The first product overwrites the sum.
    offsets = [step * distance for distance in range(1, radius + 1) for step in (-pitch, pitch, -1, 1)]
    first = Vector("mul", operands=(tile(own), tile(buffer + offsets[0]), _WEIGHT), length=cells)
    others = [
        Vector("fmac", operands=(tile(own), tile(buffer + offset), _WEIGHT, tile(own)), length=cells)
        for offset in offsets[1:]
    ]
    last = Vector("fmac", operands=(tile(buffer), tile(buffer), _WEIGHT, tile(own)), length=cells)
    return Local(rect, (first, *others, last))


def single_cell_star(rect: Rect, machine: Machine) -> Phase:
    """Return a phase, for pricing only, of one step of a star of radius 1 with one cell on every PE.

    A step is six operations of one element on descriptors that stay loaded: a product that is sent to all neighbours,
    a product, and four sums that receive the neighbours' products. The sums wait for the products, and a loop repeats
    the step.
    """
    # A product is sent in the first cycle; the sums start when those of the neighbours have arrived.
    arrival = machine.depth_step_cycles + machine.hop_cycles
    return scalar(rect, 1, max(2, arrival) + len(DIRECTIONS) + max(machine.loop_cycles, _BACK_EDGE_CYCLES))


def row_and_column_star(rect: Rect, rows: int, columns: int, machine: Machine) -> Phase:
    """Return a phase, for pricing only, of one step of a star of radius 1 on tiles of `rows` x `columns` cells.

    Borders are sent to all four sides at the same time, and every received word starts a task that stores it. Each row
    then has a multiply-add with the row above and one with the row below, and each column one with the column on the
    left, itself and the column on the right. Raise LazyError for two arrays that do not fit the memory of a PE.
    """
    pitch, words = columns + 2, (rows + 2) * (columns + 2)
    needed = 2 * _WORD_BYTES * words
    if needed > machine.usable_bytes_per_pe:
        raise LazyError(
            f"two arrays of a tile take {needed:,} bytes, a PE has {machine.usable_bytes_per_pe:,}",
            hint="Use more PEs.",
        )
    sides = {"x": rows, "y": columns}
    moves = Par(tuple(Shift(rect, axis=axis, words=sides[axis], hops=hop, put=sides[axis]) for axis, hop in DIRECTIONS))
    across, down = min(2, rect.width - 1), min(2, rect.height - 1)
    stored = scalar(rect, across * rows + down * columns, machine.task_start_cycles + _STORE_CYCLES)
    first = pitch + 1

    def fmac(base: int, offset: int, stride: int, step: int, length: int) -> Vector:
        total, cells = (Memory(start, stride, steps=(step,)) for start in (words + base, base + offset))
        return Vector("fmac", operands=(total, cells, _WEIGHT, total), length=length)

    by_row: list[Instruction] = [fmac(first, offset, 1, pitch, columns) for offset in (-pitch, pitch)]
    by_column: list[Instruction] = [fmac(first, offset, pitch, 1, rows) for offset in (-1, 0, 1)]
    body = (LoopStart(rows), *by_row, LoopEnd(), LoopStart(columns), *by_column, LoopEnd())
    # A descriptor is incremented after each operation, and that of the sums after each round.
    increments = scalar(rect, 3 * rows + 4 * columns, _INCREMENT_CYCLES)
    return Seq((moves, stored, Local(rect, body), increments))
