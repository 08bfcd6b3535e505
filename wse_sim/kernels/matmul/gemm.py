"""Prices of dense matrix products on a square mesh: tiles of m x k and k x n on every PE, one step for each PE of a
line.

SUMMA broadcasts the tiles of one column and one row. Cannon's algorithm shifts tiles to the neighbour, and those at the
border along the whole line. The two-hop product of WaferLLM (OSDI 2025) folds the ring onto the line, so that no shift
is longer than two hops. Moves overlap with the products of the previous step.
"""

from collections.abc import Callable
from dataclasses import dataclass

from wse_sim.cost_model.cost import wavelet_count
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import Broadcast, Compute, Par, Phase, Repeat, Shift


@dataclass(frozen=True)
class Tile:
    """The extents of one step's product on one PE: m x k by k x n elements of `itemsize` bytes."""

    m: int
    k: int
    n: int
    itemsize: int

    @classmethod
    def of(cls, m: int, k: int, n: int, pes: int, itemsize: int) -> "Tile":
        """Return the largest tile of a product of m x k by k x n on a mesh of `pes` x `pes`."""
        return cls(ceil_div(m, pes), ceil_div(k, pes), ceil_div(n, pes), itemsize)


def products(rect: Rect, tile: Tile, machine: Machine, slowdown: float = 1) -> Compute:
    """Return the products of one step on every PE, for pricing only.

    They are vector operations along the longer side of the result, one for each pair of the other two indices.
    `slowdown` is the factor on the time of elements by bank conflicts.
    """
    short, long = sorted((tile.m, tile.n))
    return Compute(
        rect,
        "fma",
        vectors=tile.k * short,
        length=long,
        itemsize=tile.itemsize,
        scalar_cycles=machine.loop_cycles,
        slowdown=slowdown,
    )


# Counted in Wang-oss-tech/csl-experiments at f9bd326, a cycle each: multiply, add and scale an index, add the base of
# B, load two half words; load the base of a descriptor, add, store.
_INDEXED_LOAD_CYCLES = 9


def indexed_products(rect: Rect, tile: Tile, machine: Machine) -> Phase:
    """Return the products of all steps of SUMMA on a square `rect`, for pricing only, without the broadcasts.

    As in the public program of Wang-oss-tech, a multiply-add covers a column of the result. Before each one, scalar
    code loads an element of B by its index and moves the descriptor of the result on.
    """
    work = Compute(
        rect,
        "fma",
        vectors=tile.k * tile.n,
        length=tile.m,
        itemsize=tile.itemsize,
        scalar_cycles=machine.loop_cycles + _INDEXED_LOAD_CYCLES,
    )
    return Repeat(rect.width, work)


def summa(rect: Rect, tile: Tile, machine: Machine, slowdown: float = 1) -> Phase:
    """Return the phase of SUMMA for a tile of each PE, with one step for each PE of a row of the square `rect`.

    In each step there are two broadcasts, at the same time as the products. `slowdown` is the factor on the time of
    elements by bank conflicts.
    """
    a, b = _tile_words(tile, machine)
    moves = (Broadcast(rect, axis="x", words=a), Broadcast(rect, axis="y", words=b))
    return Repeat(rect.width, Par((*moves, products(rect, tile, machine, slowdown))))


def cannon(rect: Rect, tile: Tile, machine: Machine, slowdown: float = 1) -> Phase:
    """Return the phase of Cannon's algorithm: shifts by one PE, and from the border back along the whole line.

    `slowdown` is the factor on the time of elements by bank conflicts.
    """
    return _shifting(rect, tile, machine, slowdown, "line")


def two_hop(rect: Rect, tile: Tile, machine: Machine, slowdown: float = 1) -> Phase:
    """Return the phase of the interleaved product, in which all shifts are by at most two PEs.

    `slowdown` is the factor on the time of elements by bank conflicts.
    """
    return _shifting(rect, tile, machine, slowdown, "folded")


def _shifting(rect: Rect, tile: Tile, machine: Machine, slowdown: float, wrap: str) -> Phase:
    """Return the phase of a product by shifts, with one round for each PE of a row; `wrap` is as in `phase.Shift`.

    In each round tiles of a shift along x and those of b along y, at the same time as the products. Arriving tiles are
    stored after those that are multiplied.
    """
    a, b = _tile_words(tile, machine)
    # Two tiles and, after them, two that arrive: the lowering would copy overlapping words.
    moves = (
        Shift(rect, axis="x", words=a, hops=1, wrap=wrap, take=0, put=a + b),
        Shift(rect, axis="y", words=b, hops=1, wrap=wrap, take=a, put=a + b + a),
    )
    return Repeat(rect.width, Par((*moves, products(rect, tile, machine, slowdown))))


def _tile_words(tile: Tile, machine: Machine) -> tuple[int, int]:
    return wavelet_count(tile.m * tile.k, tile.itemsize, machine), wavelet_count(
        tile.k * tile.n, tile.itemsize, machine
    )


GEMM_ALGORITHMS: dict[str, Callable[[Rect, Tile, Machine], Phase]] = {
    "summa": summa,
    "cannon": cannon,
    "two_hop": two_hop,
}
"""Name of an algorithm -> function (rectangle, tile, machine) -> phase."""
