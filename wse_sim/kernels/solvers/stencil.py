"""Stencils on a column of cells, or a tile of a plane, on every PE, with an exchange of borders before each step."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise, product

from wse_sim.kernels.collective import scalar
from wse_sim.kernels.kernel import Allocator, MeshKernel, Placed
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import Broadcast, Compute, Local, Par, Phase, Repeat, Seq, Shift

STAR_RADIUS = 4
"""Cells that the 25-point star reaches in each direction."""
ADDITIONS_APART_WORDS = 1
"""Words, modulo the pairs of banks, between the columns that the 25-point star adds.

The paper does not state addresses. Its cycles of waiting for memory are those of the multiply-adds, so the columns of
additions start in different pairs.
"""
# Counted in the source: load a counter, divide, multiply, add twice, each of which waits for the one before (2 cycles,
# ALCF); load a pointer, increment and write the counter, a cycle each. The store is part of the move.
PLACE_CYCLES = 13
"""Cycles of scalar code that find the address of a received word."""
SOFTWARE_LOOP_CYCLES = 10
"""Cycles of the jump back in a loop over scalar code (ALCF: 9 to 10)."""


def acoustic_step(rect: Rect, cells: int, machine: Machine, slowdown: float = 0) -> Phase:
    """Return a phase, for pricing only, of one step of the 25-point star in float32, on columns of `cells` cells.

    Source: Jacquelin et al., arXiv:2204.03775. Of five consecutive PEs of a line, one after the other sends its column
    to the four others, in each of four directions. Then each cell has 17 multiplications with a constant, 17 additions,
    8 multiply-adds and 1 subtraction, as the paper counts them. The multiply-adds read one column at several offsets in
    the same bank, and the additions read columns that are `ADDITIONS_APART_WORDS` apart. `slowdown` replaces the
    slowdown of conflicts, if it is not 0. Raise LazyError for a rectangle with a side of fewer than 5 PEs.
    """
    # Broadcasts in turns: of five PEs one sends at a time, so each PE receives from each neighbour within reach once.
    turns = STAR_RADIUS + 1
    exchange = [Broadcast(rect, axis=axis, words=cells, groups=length // turns) for axis, length in _axes(rect)]
    scaled = Compute(rect, op="add", vectors=17, length=cells, itemsize=4)
    sums = Compute(rect, op="add", vectors=17 + 1, length=cells, itemsize=4, apart=ADDITIONS_APART_WORDS)
    fused = Compute(rect, op="fma", vectors=8, length=cells, itemsize=4, slowdown=slowdown or machine.conflict_slowdown)
    return Seq((*(Repeat(2 * turns, one) for one in exchange), scaled, sums, fused))


def _axes(rect: Rect) -> tuple[tuple[str, int], ...]:
    return ("x", rect.width), ("y", rect.height)


def plane_step(rect: Rect, side: int, radius: int, taps: int, machine: Machine) -> Phase:
    """Return a phase, for pricing only, of one step of a stencil on tiles of `side` x `side` float32 cells.

    Source: Elia-Belli/stencil-cerebras at 7789e51 and 2a04a54, src/wse, public code for the WSE-3. Borders of `radius`
    rows are sent to all four sides at the same time. If there are more than 4 `radius` + 1 `taps`, those of a star, the
    corners follow. Every received word starts a task, which finds its address and stores it. Then each tap is one
    vector operation over the whole tile: the first multiplies, the others multiply and add, and a loop moves the
    descriptor of the next tap. The tile and the sums are two arrays of one shape, one after the other, with a border of
    `radius` cells, so the distance of a tap determines its bank conflicts.
    """
    # A star has 4 r + 1 taps and needs no corners.
    is_star = taps <= 4 * radius + 1
    corners = [] if is_star else [_borders(rect, radius**2, True, machine)]
    line, reach = side + 2 * radius, range(-radius, radius + 1)
    offsets = [y * line + x for y, x in product(reach, reach) if (y or x) and not (is_star and y and x)]
    first = Compute(rect, op="add", vectors=1, length=side**2, itemsize=4)
    loaded = machine.descriptor_load_cycles + SOFTWARE_LOOP_CYCLES
    others = _taps(rect, "fma", [line**2 + offset for offset in offsets], side**2, machine, loaded)
    return Seq((_borders(rect, radius * side, False, machine), *corners, first, *others))


def _taps(
    rect: Rect, op: str, distances: Iterable[int], cells: int, machine: Machine, scalar_cycles: float = 0
) -> tuple[Compute, ...]:
    """Return phases of one vector operation over `cells` float32 cells for each of `distances`.

    A distance is the number of words from one source of an operation to the other. Each operation has `scalar_cycles`.
    """
    # Only the distance in pairs of banks counts.
    counts = Counter(distance % (machine.bank_pairs) for distance in distances)
    return tuple(
        Compute(rect, op, vectors=times, length=cells, itemsize=4, scalar_cycles=scalar_cycles, apart=apart)
        for apart, times in sorted(counts.items())
    )


def _borders(rect: Rect, words: int, is_corner: bool, machine: Machine) -> Phase:
    """Return the phase that sends `words` to the neighbours on all four sides and stores the received words.

    Each received word takes the start of a task and `PLACE_CYCLES`. With `is_corner` the shifts are the same, and the
    received words of all corners are counted instead of those of all sides. On an axis of one or two PEs a PE has fewer
    neighbours.
    """
    across, down = min(2, rect.width - 1), min(2, rect.height - 1)
    # Corners come by way of a side, so there are as many as pairs of sides.
    ways = across * down if is_corner else across + down
    moves = Par(tuple(Shift(rect, axis=axis, words=words, hops=hop, put=words) for axis, hop in DIRECTIONS))
    return Seq((moves, scalar(rect, ways * words, machine.task_start_cycles + PLACE_CYCLES)))


def star(rect: Rect, cells: int, weights: tuple[float, ...], dtype: str = "float32") -> MeshKernel:
    """Return a kernel that computes v = weights[0] u + the sum over d of weights[d] (the six cells of u at distance d).

    u and v are [height, width, cells], with a column of cells on every PE; cells outside are zero. Two weights are the
    7-point star, five the 25-point star. Columns are forwarded by one PE in four directions at the same time, once for
    each distance.
    """
    radius, room = len(weights) - 1, Allocator()
    # Zero cells before and after the column: the cells above and below are the same vector with another start.
    room.take(radius, dtype)
    u = room.place("u", rect, rect.height, rect.width * cells, dtype)
    room.take(radius + 1, dtype)
    v = room.place("v", rect, rect.height, rect.width * cells, dtype, bank=1)
    total = room.again(u, bank=2)
    halos = [[room.again(u, bank=3) for _ in DIRECTIONS] for _ in range(radius)]
    build = room.builder()
    build.mul(v.vector(), u.vector(), weights[0], cells)
    for distance, halo in enumerate(halos, 1):
        up, down = u.vector(start=-distance), u.vector(start=distance)
        build.add(total.vector(), up, down, cells)
        for side in halo:
            build.add(total.vector(), total.vector(), side.vector(), cells)
        build.fmac(v.vector(), total.vector(), weights[distance], v.vector(), cells)
    # A column travels one PE further in each exchange, so no route is longer than a hop.
    exchange = [hand_on(rect, near, far) for near, far in pairwise([[u] * len(DIRECTIONS), *halos])]
    return MeshKernel(Seq((*exchange, Local(rect, build.body()))), (u,), (v,), room.words)


DIRECTIONS = (("x", 1), ("x", -1), ("y", 1), ("y", -1))


def hand_on(rect: Rect, near: list[Placed], far: list[Placed]) -> Phase:
    """Return a phase that shifts columns by one PE in each of the four `DIRECTIONS`, at the same time.

    The tile `near[i]` of a PE is stored as `far[i]` of its neighbour in direction i. PEs at the border keep what they
    have in `far[i]` if no neighbour sends to them.
    """
    sides = zip(DIRECTIONS, near, far, strict=True)
    return Par(
        tuple(
            Shift(rect, axis=axis, words=a.words, hops=hop, take=a.address, put=b.address)
            for (axis, hop), a, b in sides
        )
    )
