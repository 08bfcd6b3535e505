"""Models of solvers: an iteration of BiCGSTAB and a three-dimensional Fourier transform."""

from wse_sim.kernels.solvers import fft
from wse_sim.kernels.solvers.bicgstab import bicgstab_iteration
from wse_sim.validation.row_model import GRID, RowCase, RowModel, RowRefused, whole_number


def bicgstab_microseconds(case: RowCase) -> float:
    """Return the microseconds of an iteration."""
    return 1e6 * case.seconds(bicgstab_iteration(case.rect(), case["nz"], case.machine))


def fft_microseconds(case: RowCase) -> float:
    """Return the microseconds of a transform along all three axes."""
    points = case["points"]
    if points < 2 or points & (points - 1):
        raise RowRefused(f"the transform needs a power of two, got {points} points")
    return 1e6 * case.seconds(fft.transform(case.rect(), points, case.machine))


MODELS = {
    "bicgstab": RowModel(
        "an iteration of BiCGSTAB on a 7-point operator in mixed precision, with a column of cells on every PE",
        {"grid": GRID, "nz": whole_number("cells of a column")},
        {"us/iteration": bicgstab_microseconds},
    ),
    "fft3d": RowModel(
        "a three-dimensional Fourier transform in complex float32, with a pencil on every PE",
        {"grid": GRID, "points": whole_number("points of a pencil, a power of two")},
        {"us": fft_microseconds},
    ),
}
