"""Stars on tiles take their published cycles."""

import pytest

from wse_sim.cost_model.cost import cost
from wse_sim.kernels.solvers.tiled_stencil import tiled_star
from wse_sim.layout import Rect
from wse_sim.machine import MACHINES

# Jorineg/cerebras at 911a327, tiled-stencil: (machine, columns, rows, radius, cycles), in the vendor's simulator. The
# rates of the WSE-3 for additions were fitted on some of the square tiles with radius 1.
LARGE_TILES = [
    ("wse3", 20, 20, 2, 4570),
    ("wse3", 25, 25, 1, 2852),
    ("wse3", 40, 40, 1, 6748),
    ("wse3", 50, 50, 1, 10627),
    ("wse3", 50, 50, 6, 85330),
    ("wse3", 60, 60, 1, 14907),
    ("wse3", 60, 60, 4, 81445),
    ("wse3", 64, 64, 1, 16924),
    ("wse3", 86, 14, 1, 5299),
    ("wse3", 86, 14, 4, 27253),
    ("wse2", 86, 14, 2, 16678),
    ("wse2", 86, 14, 6, 42663),
]


def step_cycles(name, columns, rows, radius):
    machine = MACHINES[name]
    # The programs for the WSE-3 with radius 1 do not wait for borders.
    overlaps = name == "wse3" and radius == 1
    return cost(tiled_star(Rect(0, 0, 8, 8), columns, rows, radius, machine, overlaps), machine).cycles


@pytest.mark.parametrize("name, columns, rows, radius, published", LARGE_TILES)
def test_step_of_a_star_on_a_large_tile_takes_the_published_cycles(name, columns, rows, radius, published):
    assert step_cycles(name, columns, rows, radius) == pytest.approx(published, rel=0.15)


def test_tile_of_50_cells_takes_longer_for_each_cell_than_one_of_60():
    """Its lines are of 55 words, so twice as many shifted operands start in the banks of the sums."""
    each = [step_cycles("wse3", n, n, 2) / n**2 for n in (50, 60)]
    assert each[0] > 1.2 * each[1]
