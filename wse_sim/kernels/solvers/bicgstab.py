"""BiCGSTAB for a 7-point stencil in mixed precision (Rocki et al., SC20), with a column of cells on every PE.

`bicgstab_iteration` is the price of the published program, and `bicgstab` is a kernel with operands. Vectors have the
element type, sums of products are float32. An iteration is two products with the matrix, four dot products, six vector
updates and three rounds of all-reduce, one of which is of two words.
"""

from dataclasses import dataclass

from wse_sim.cost_model.cost import wavelet_count
from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory
from wse_sim.kernels.collective import centred_all_reduce
from wse_sim.kernels.kernel import WIDE, Allocator, MeshKernel, Placed
from wse_sim.kernels.solvers.stencil import DIRECTIONS, hand_on
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import AllReduce, Broadcast, Compute, Local, Par, Phase, Repeat, Seq

NEIGHBOURS = ("west", "east", "north", "south", "above", "below")
"""Names of the operands with the matrix: the coefficient of that neighbour for each cell. The diagonal is 1."""
DOTS, UPDATES, PRODUCTS, ALL_REDUCES = 4, 6, 2, 3


def scalar_all_reduce(rect: Rect, machine: Machine) -> Phase:
    """Return an all-reduce of one word: along the rows to their middle, along the middle column, and back."""
    return Seq(tuple(centred_all_reduce(rect, axis, 1, machine) for axis in ("x", "y")))


def bicgstab_iteration(rect: Rect, cells: int, machine: Machine) -> Phase:
    """Return a phase, for pricing only, of one iteration on columns of `cells` cells.

    It has two products with the matrix, four dot products, six vector updates, and three rounds of all-reduce. The
    columns of the four neighbours are multiplied as they arrive, two elements a cycle. Of three consecutive PEs of a
    line, one after the other sends its column to both sides; the authors' program sends once, in all four directions.
    At the same time each cell has two products and six additions. Dot products multiply in half precision and add in
    float32, at two elements a cycle, the rate of the 64-bit write port.
    """
    column = wavelet_count(cells, 2, machine)
    streams = (_to_both_sides(rect, "x", rect.width, column), _to_both_sides(rect, "y", rect.height, column))
    product = Par((*streams, Compute(rect, op="add", vectors=2 + 6, length=cells, itemsize=2)))
    local = (
        Compute(rect, op="fma", vectors=UPDATES, length=cells, itemsize=2),
        Compute(rect, op="add", vectors=DOTS, length=cells, itemsize=4),
    )
    return Seq((*(product,) * PRODUCTS, *local, *(scalar_all_reduce(rect, machine),) * ALL_REDUCES))


def _to_both_sides(rect: Rect, axis: str, length: int, count: int) -> Phase:
    """Return broadcasts, for pricing only, in which every PE of a line sends `count` words to both neighbours.

    There are three in turn, or fewer on a line of `length` < 3 PEs. In each of them every third PE sends.
    """
    turns = min(3, length)
    return Repeat(turns, Broadcast(rect, axis=axis, words=count, groups=length // turns, source=turns // 2))


@dataclass(frozen=True)
class _Columns:
    """The vectors of a solver on all PEs: a column of `cells` cells each."""

    rect: Rect
    room: Allocator
    cells: int
    dtype: str

    def vector(self, name: str, bank: int) -> Placed:
        return self.room.place(name, self.rect, self.rect.height, self.rect.width * self.cells, self.dtype, bank)

    def ghosted(self, name: str, bank: int) -> Placed:
        """Allocate a vector `name` with a cell before and after the column, for the cells outside.

        These cells are never written: they are zero because memories start as zeros.
        """
        # A zero before and after the column stands for the cells outside.
        self.room.take(1, self.dtype)
        column = self.vector(name, bank)
        self.room.take(2, self.dtype)
        return column

    def number(self) -> Memory:
        """Allocate a float32 number; as an operand of a vector operation it has stride 0."""
        return Memory(self.room.take(1, WIDE), 0)

    def local(self, builder: Builder) -> Local:
        return Local(self.rect, builder.body())

    def dots(self, into: Memory, *pairs: tuple[Placed, Placed]) -> Phase:
        """Return a phase that computes the dot products of `pairs` over all cells, in float32, on all PEs.

        They are stored in consecutive words from `into` on.
        """
        build = self.room.builder()
        for i, (a, b) in enumerate(pairs):
            total = Memory(into.base + i, 0)
            # A destination with stride 0 accumulates, so a dot product is one operation.
            build.move(total, 0.0, 1)
            build.fmac(total, a.vector(), b.vector(), total, self.cells)
        return Seq((self.local(build), AllReduce(self.rect, axis="xy", words=len(pairs), at=into.base)))


def bicgstab(rect: Rect, cells: int, iterations: int, dtype: str = "float32") -> MeshKernel:
    """Return a kernel that runs `iterations` iterations of BiCGSTAB for A x = b, from x = 0.

    Operands are b and the coefficients of the six neighbours (see `NEIGHBOURS`); the diagonal of A is 1. Results are x
    and the residual r. All are [height, width, cells], with a column of cells on each PE. Cells outside are zero.
    Convergence is not tested.
    """
    on = _Columns(rect, Allocator(), cells, dtype)
    matrix = [on.vector(name, 0) for name in NEIGHBOURS]
    halos = [on.vector("halo", 1) for _ in DIRECTIONS]
    p, s = on.ghosted("p", 1), on.ghosted("s", 1)
    b, x, r, v, t = (on.vector(name, bank) for name, bank in (("b", 2), ("x", 2), ("r", 3), ("v", 2), ("t", 2)))
    rho, alpha, omega, beta = (on.number() for _ in range(4))
    # (t, s) and (t, t) are adjacent and are reduced in one round.
    pair = Memory(on.room.take(2, WIDE), 0)
    # x is zero at first, so the first residual and direction are b itself, and (b, b) is the first rho.
    start = on.room.builder()
    for to, source in ((x, None), (r, b), (p, b)):
        start.move(to.vector(), source.vector() if source else 0.0, cells)
    body = (
        _product(on, matrix, halos, p, v),
        on.dots(pair, (b, v)),
        _half_step(on, (rho, alpha, pair), r, v, s),
        _product(on, matrix, halos, s, t),
        on.dots(pair, (t, s), (t, t)),
        _whole_step(on, (alpha, omega, pair), (p, s, t), (x, r)),
        on.dots(pair, (b, r)),
        _direction(on, (rho, alpha, omega, beta, pair), (r, v), p),
    )
    phase = Seq((on.local(start), on.dots(rho, (b, b)), Repeat(iterations, Seq(body))))
    return MeshKernel(phase, (b, *matrix), (x, r), on.room.words)


def _product(on: _Columns, matrix: list[Placed], halos: list[Placed], u: Placed, out: Placed) -> Phase:
    """Return the phase out = A u: the columns of four neighbours arrive in `halos`, and six products are added to u.

    `matrix` has the coefficients in the order of `NEIGHBOURS`.
    """
    build = on.room.builder()
    # The neighbours above and below are in the same column, one element away.
    values = [*(halo.vector() for halo in halos), u.vector(start=-1), u.vector(start=1)]
    total = u.vector()
    for factor, value in zip(matrix, values, strict=True):
        build.fmac(out.vector(), factor.vector(), value, total, on.cells)
        total = out.vector()
    return Seq((hand_on(on.rect, [u] * len(DIRECTIONS), halos), on.local(build)))


def _half_step(on: _Columns, numbers: tuple[Memory, ...], r: Placed, v: Placed, s: Placed) -> Local:
    """Return the phase alpha = rho / (b, v); s = r - alpha v. `numbers` are the places of rho, alpha and (b, v)."""
    (rho, alpha, dots), build = numbers, on.room.builder()
    build.special("reciprocal", alpha, dots, 1)
    build.mul(alpha, alpha, rho, 1)
    build.mul(s.vector(), v.vector(), alpha, on.cells)
    build.sub(s.vector(), r.vector(), s.vector(), on.cells)
    return on.local(build)


def _whole_step(
    on: _Columns, numbers: tuple[Memory, ...], vectors: tuple[Placed, ...], results: tuple[Placed, Placed]
) -> Local:
    """Return the phase omega = (t, s) / (t, t); x += alpha p + omega s; r = s - omega t.

    `numbers` are the places of alpha, omega, and (t, s) followed by (t, t).
    """
    (alpha, omega, dots), (p, s, t), (x, r), build = numbers, vectors, results, on.room.builder()
    build.special("reciprocal", omega, Memory(dots.base + 1, 0), 1)
    build.mul(omega, omega, dots, 1)
    build.fmac(x.vector(), p.vector(), alpha, x.vector(), on.cells)
    build.fmac(x.vector(), s.vector(), omega, x.vector(), on.cells)
    build.mul(r.vector(), t.vector(), omega, on.cells)
    build.sub(r.vector(), s.vector(), r.vector(), on.cells)
    return on.local(build)


def _direction(on: _Columns, numbers: tuple[Memory, ...], vectors: tuple[Placed, Placed], p: Placed) -> Local:
    """Return the phase beta = (b, r) alpha / (rho omega); p = r + beta (p - omega v); rho = (b, r).

    `numbers` are the places of rho, alpha, omega, beta and (b, r); `vectors` those of r and v. Overwrites v by
    omega v.
    """
    (rho, alpha, omega, beta, dots), (r, v), build = numbers, vectors, on.room.builder()
    build.mul(beta, rho, omega, 1)
    build.special("reciprocal", beta, beta, 1)
    build.mul(beta, beta, dots, 1)
    build.mul(beta, beta, alpha, 1)
    build.move(rho, dots, 1)
    build.mul(v.vector(), v.vector(), omega, on.cells)
    build.sub(p.vector(), p.vector(), v.vector(), on.cells)
    build.fmac(p.vector(), p.vector(), beta, r.vector(), on.cells)
    return on.local(build)
