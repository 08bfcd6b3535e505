"""Models of stencils: a star on columns of cells, and stars and boxes on tiles of a plane."""

from wse_sim.kernels.solvers import stencil, tiled_stencil
from wse_sim.layout import ceil_div
from wse_sim.validation.row_model import GRID, RowCase, RowModel, RowRefused, extents, one_of, whole_number

_FLOPS_PER_CELL = 51  # Operations per cell of the 25-point stencil, as its authors count.
_STENCIL_TAPS = {"star": lambda radius: 4 * radius + 1, "box": lambda radius: (2 * radius + 1) ** 2}


def _acoustic_cycles(case: RowCase, slowdown: float = 0) -> float:
    """Return the cycles of a step of the 25-point stencil.

    A nonzero `slowdown` replaces the machine's factor for bank conflicts.
    """
    return case.cycles(stencil.acoustic_step(case.rect(), case["nz"], case.machine, slowdown))


def _acoustic_cells_per_s(case: RowCase) -> float:
    return case.rect().area * int(case["nz"]) * case.machine.clock_hz / _acoustic_cycles(case)


def _acoustic_flops(case: RowCase) -> float:
    return _FLOPS_PER_CELL * _acoustic_cells_per_s(case)


def _acoustic_stall_percent(case: RowCase) -> float:
    """Return the percentage of a step that bank conflicts add, by comparing it with a step without them."""
    return 100 * (1 - _acoustic_cycles(case, 1) / _acoustic_cycles(case))


def plane_cycles(case: RowCase) -> float:
    """Return the cycles of `iterations` steps of a stencil on a plane of float32 cells."""
    side, radius = case["tile_side"], case["radius"]
    taps = _STENCIL_TAPS[case["shape"]](radius)
    return int(case["iterations"]) * case.cycles(stencil.plane_step(case.rect(), side, radius, taps, case.machine))


def tiled_star_cycles(case: RowCase) -> float:
    """Return the cycles of one step of a star on rectangular tiles."""
    width, height = case["tile"]
    overlaps = case["overlaps"]
    return case.cycles(tiled_stencil.tiled_star(case.rect(), width, height, case["radius"], case.machine, overlaps))


def single_cell_cycles(case: RowCase) -> float:
    """Return the cycles of one step of a star of radius 1 with one cell on every PE."""
    rect = case.rect()
    if min(rect.width, rect.height) < 2:
        raise RowRefused(f"the star needs neighbours in both directions, got grid [{rect.width}, {rect.height}]")
    return case.cycles(tiled_stencil.single_cell_star(rect, case.machine))


def row_and_column_cycles(case: RowCase) -> float:
    """Return the cycles of one step of a star of radius 1 that works by rows and by columns."""
    rect, (columns, rows) = case.rect(), case["cells"]
    part = ceil_div(rows, rect.height), ceil_div(columns, rect.width)
    return case.cycles(tiled_stencil.row_and_column_star(rect, *part, case.machine))


_RADIUS = whole_number("cells that the stencil reaches in each direction")

MODELS = {
    "acoustic_star": RowModel(
        "a step of a 25-point star in float32, with a column of cells on every PE",
        {"grid": GRID, "nz": whole_number("cells of a column")},
        {
            "cycles/step": _acoustic_cycles,
            "Gcell/s": lambda case: _acoustic_cells_per_s(case) / 1e9,
            "TFLOP/s": lambda case: _acoustic_flops(case) / 1e12,
            "MFLOP/s/PE": lambda case: _acoustic_flops(case) / case.rect().area / 1e6,
            "% idle on memory": _acoustic_stall_percent,
            "% cycles busy": lambda case: 100 - _acoustic_stall_percent(case),
        },
    ),
    "plane_stencil": RowModel(
        "steps of a stencil on square tiles of float32 cells, where each received word starts a task",
        {
            "grid": GRID,
            "tile_side": whole_number("rows and columns of cells on a PE"),
            "shape": one_of("shape", *_STENCIL_TAPS),
            "radius": _RADIUS,
            "iterations": whole_number("steps", default=1),
        },
        {"cycles": plane_cycles},
    ),
    "tiled_star": RowModel(
        "a step of a star on tiles of float32 cells, where borders are received by vector operations",
        {
            "tile": extents("columns and rows of cells on a PE"),
            "radius": _RADIUS,
            "grid": extents("columns and rows of PEs", default=(8, 8)),
            "overlaps": one_of("the step does not wait for its borders", False, True, default=False),
        },
        {"cycles/iteration": tiled_star_cycles},
    ),
    "single_cell_star": RowModel(
        "a step of a star of radius 1 with one float32 cell on every PE",
        {"grid": GRID},
        {"cycles/iteration": single_cell_cycles},
    ),
    "row_and_column_star": RowModel(
        "a step of a star of radius 1 by rows and by columns, where each received word starts a task",
        {"grid": GRID, "cells": extents("columns and rows of cells on all PEs")},
        {"cycles (max over PEs)": row_and_column_cycles},
    ),
}
