"""Parts of a mesh: a larger one has none that is slower."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import machines, mlp

from wse_sim.machine import TINY
from wse_sim.plan.best_part import best_part
from wse_sim.plan.modes import plan
from wse_sim.plan.prices import Prices
from wse_sim.plan.wiring import wire

few = settings(deadline=None, max_examples=3, print_blob=False)
"""Each example is priced on four meshes."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "batch", "mesh", "larger"), [((105, 52), 2, (21, 16), (30, 16)), ((3, 109), 5, (15, 17), (24, 20))]
)
def test_a_search_on_a_larger_mesh_ends_in_no_worse_part(sizes, batch, mesh, larger):
    program = mlp(sizes, batch)
    before, after = (
        plan(program, replace(TINY, width=width, height=height), "streaming").report.streaming.step_cycles
        for width, height in (mesh, larger)
    )
    assert after <= before


@few
@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 64), machines(), st.integers(0, 40), st.data())
def test_the_best_part_of_a_larger_mesh_is_no_slower(rows, columns, batch, machine, more, data):
    """Of each kernel, and of a share of the batch, up to the sides of wafers."""
    program = mlp((rows, columns), batch)
    wiring, prices = wire(program), Prices(machine)
    kernel, share = data.draw(st.sampled_from(wiring.kernels)), data.draw(st.sampled_from([0.1, 0.5, 1.0]))
    width, height = data.draw(st.tuples(st.integers(1, 800), st.integers(1, 1200)))
    sides = [(width, height), (width + more, height), (width, height + more), (width + more, height + more)]
    one, wide, tall, both = (best_part(prices, wiring, kernel, mesh, share)[0] for mesh in sides)
    assert both <= min(wide, tall)
    assert max(wide, tall) <= one
