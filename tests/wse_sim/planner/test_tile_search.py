"""Parts of a mesh: on a larger mesh a kernel finds a part that is about as fast or faster."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wse_sim.programs import machines, mlp
from wse_sim.machine import TINY
from wse_sim.planner.dataflow import wire
from wse_sim.planner.modes import plan
from wse_sim.planner.prices import Prices
from wse_sim.planner.tile_search import find_best_tile

few = settings(deadline=None, max_examples=5, print_blob=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "batch", "mesh", "larger"), [((105, 52), 2, (21, 16), (30, 16)), ((3, 109), 5, (15, 17), (24, 20))]
)
def test_streamed_step_is_at_most_5_percent_slower_on_a_larger_mesh(sizes, batch, mesh, larger):
    program = mlp(sizes, batch)
    before, after = (
        plan(program, replace(TINY, width=width, height=height), "streaming").report.streaming.step_cycles
        for width, height in (mesh, larger)
    )
    assert after <= 1.05 * before


@few
@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 64), machines(), st.data())
def test_best_part_is_no_slower_than_the_whole_mesh_or_a_single_pe(rows, columns, batch, machine, data):
    program = mlp((rows, columns), batch)
    dataflow, prices = wire(program), Prices(machine)
    kernel = data.draw(st.sampled_from(dataflow.kernels))
    mesh = data.draw(st.tuples(st.integers(1, 800), st.integers(1, 1200)))
    cycles, part = find_best_tile(prices, dataflow, kernel, mesh)
    assert cycles == prices.kernel(dataflow, kernel, *part).cycles
    assert part[0] <= mesh[0] and part[1] <= mesh[1]
    assert cycles <= min(prices.kernel(dataflow, kernel, *size).cycles for size in (mesh, (1, 1)))
