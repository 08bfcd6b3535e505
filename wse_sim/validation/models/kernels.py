"""Models of whole kernels: dense and sparse matrix products, stencils, a solver, and a Fourier transform."""

from wse_sim.kernels.matmul import gemm
from wse_sim.kernels.solvers import fft, stencil
from wse_sim.kernels.solvers.bicgstab import bicgstab_iteration
from wse_sim.kernels.sparse import sparse
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import WSE1, WSE2, WSE3, Machine
from wse_sim.validation.reading import CycleReading
from wse_sim.validation.rows import MeasuredRow

_FLOPS_PER_CELL = 51  # Operations per cell of the 25-point stencil, as its authors count.
_STENCIL_TAPS = {"star2d": lambda radius: 4 * radius + 1, "box2d": lambda radius: (2 * radius + 1) ** 2}


def _rect(row: MeasuredRow, name: str = "grid") -> Rect:
    """Return the rectangle at (0, 0) with the width and height that the parameter `name` of the row gives."""
    width, height = row.params[name]
    return Rect(0, 0, width, height)


def _spmm_tile(row: MeasuredRow) -> tuple[Rect, int, int]:
    """Return the mesh, and the most rows and columns of the sparse matrix A on one PE.

    A has N rows over the height of the mesh and K columns over its width, rounded up.
    """
    p = row.params
    return Rect(0, 0, p["width"], p["height"]), ceil_div(p["N"], p["height"]), ceil_div(p["K"], p["width"])


def compressed_spmm_cycles(row: MeasuredRow, cycles: CycleReading, axis: int) -> float:
    """Return the cycles with compressed rows (`axis` 0) or columns (1) on the WSE-2.

    Every PE has the average number of nonzeros. `cycles(phase, machine)` prices a program.
    """
    rect, *extents = _spmm_tile(row)
    # Nonzeros are distributed uniformly at random, so the average PE represents all.
    elements = extents[0] * extents[1] * row.params["density_pct"] / 100
    return cycles(sparse.spmm_loop(rect, elements, extents[axis], row.params["M"]), WSE2)


def padded_spmm_cycles(row: MeasuredRow, cycles: CycleReading, has_lines: bool) -> float:
    """Return the cycles on the WSE-2 if every PE processes the number of elements of the fullest one.

    This number follows from the operations that the row reports. `has_lines` adds a loop over the rows on a PE.
    """
    rect, rows, _ = _spmm_tile(row)
    # The reported operations include padding: two for each element and column of B.
    elements = row.params["flops"] / (2 * row.params["M"] * rect.area)
    return cycles(sparse.spmm_loop(rect, elements, rows if has_lines else 0, row.params["M"]), WSE2)


def dense_product_cycles(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the cycles on the WSE-2 of the dense product that sparse ones are compared with.

    Each PE multiplies a full tile of A.
    """
    rect, rows, columns = _spmm_tile(row)
    return cycles(sparse.dense_loop(rect, rows * columns, row.params["M"], WSE2), WSE2)


def summa_tflops(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the TFLOP/s of a square float32 product on the WSE-2, without padding against bank conflicts."""
    n: int = row.params["n"]
    pes: int = row.params["grid"]
    tile = gemm.Tile.of(n, n, n, pes, 4)
    product = gemm.summa(Rect(0, 0, pes, pes), tile, WSE2, WSE2.conflict_slowdown)
    return 2 * n**3 / _seconds(cycles(product, WSE2), WSE2) / 1e12


def _star_cycles(row: MeasuredRow, cycles: CycleReading, slowdown: float = 0) -> float:
    """Return the cycles of a step of the 25-point stencil.

    A nonzero `slowdown` replaces the machine's factor for bank conflicts.
    """
    return cycles(stencil.acoustic_step(_rect(row), row.params["nz"], WSE2, slowdown), WSE2)


def star_stencil_figure(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the figure of the 25-point stencil in the row's unit: cycles/step, Gcell/s, TFLOP/s or MFLOP/s/PE.

    Raise KeyError for another unit.
    """
    step_cycles, cells = _star_cycles(row, cycles), _rect(row).area * int(row.params["nz"])
    rate = cells / _seconds(step_cycles, WSE2)
    flops = _FLOPS_PER_CELL * rate
    units = {"cycles/step": step_cycles, "Gcell/s": rate / 1e9, "TFLOP/s": flops / 1e12}
    return {**units, "MFLOP/s/PE": flops / _rect(row).area / 1e6}[row.unit]


def star_stall_percent(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the percentage of a stencil step that bank conflicts add, by comparing it with a step without them."""
    return 100 * (1 - _star_cycles(row, cycles, 1) / _star_cycles(row, cycles))


def star_busy_percent(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the percentage of a stencil step that remains without bank conflicts: 100 minus the stalls."""
    return 100 - star_stall_percent(row, cycles)


def plane_stencil_cycles(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the cycles of the row's number of stencil steps on a plane of float32 cells on the WSE-3.

    The id of the row contains the shape and the radius of the stencil.
    """
    shape, radius = row.id.split("_")[1], int(row.id.split("r=")[1][0])
    side = row.params["grid"][0] // row.params["pe"][0]
    one = stencil.plane_step(_rect(row, "pe"), side, radius, _STENCIL_TAPS[shape](radius), WSE3)
    return int(row.params["iterations"]) * cycles(one, WSE3)


def bicgstab_microseconds(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the microseconds of an iteration at the assumed clock of the WSE-1."""
    return 1e6 * _seconds(cycles(bicgstab_iteration(_rect(row), row.params["nz"], WSE1), WSE1), WSE1)


def fft_microseconds(row: MeasuredRow, cycles: CycleReading) -> float:
    """Return the microseconds of a three-dimensional Fourier transform on the WSE-2."""
    width, height = row.params["PEs"]
    once = cycles(fft.transform(Rect(0, 0, width, height), row.params["pencil"], WSE2), WSE2)
    return 1e6 * _seconds(once, WSE2)


def _seconds(cycles: float, machine: Machine) -> float:
    return cycles / machine.clock_hz


MODELS = {
    "spmm_GEMM": dense_product_cycles,
    "spmm_CSR": lambda row, cycles: compressed_spmm_cycles(row, cycles, 0),
    "spmm_CSC": lambda row, cycles: compressed_spmm_cycles(row, cycles, 1),
    "spmm_COO": lambda row, cycles: padded_spmm_cycles(row, cycles, has_lines=False),
    "spmm_ELLPACK": lambda row, cycles: padded_spmm_cycles(row, cycles, has_lines=True),
    "gemm_miya": summa_tflops,
    "stencil25_": star_stencil_figure,
    "stencil25_busy": star_busy_percent,
    "stencil25_idle_mem": star_stall_percent,
    "wse3_star2d": plane_stencil_cycles,
    "wse3_box2d": plane_stencil_cycles,
    "bicgstab_": bicgstab_microseconds,
    "fft": fft_microseconds,
}
