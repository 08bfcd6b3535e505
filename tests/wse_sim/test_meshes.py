"""The meshes from which many stages are cut: hardly smaller than the machine, and in each other."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wse_sim.machine import MACHINES, TINY
from wse_sim.plan.known_meshes import SMALLER, of_known_sides, smaller_meshes


def mesh(width, height):
    return replace(TINY, width=width, height=height, reserved_columns=0, reserved_rows=0)


wafer_sides = st.integers(1, 1500)


@given(wafer_sides, wafer_sides, wafer_sides, wafer_sides)
def test_a_mesh_of_known_sides_is_nearly_all_of_a_machine_and_never_more_of_a_smaller_one(width, height, wider, higher):
    known = of_known_sides(mesh(width, height))
    assert 0.91 * width < known.usable_width <= width and 0.91 * height < known.usable_height <= height
    assert of_known_sides(known) is known
    larger = of_known_sides(mesh(max(width, wider), max(height, higher)))
    assert larger.usable_pes >= known.usable_pes


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda machine: machine.name)
def test_all_of_a_machine_is_of_known_sides(machine):
    assert of_known_sides(machine) is machine


@given(wafer_sides, wafer_sides, st.integers(1, 1 << 20))
def test_smaller_meshes_have_room_and_the_largest_comes_first(width, height, least_pes):
    smaller = list(smaller_meshes(mesh(width, height), least_pes))
    assert len(smaller) <= SMALLER
    assert all(w <= width and h <= height and least_pes <= w * h < width * height for w, h in smaller)
    assert smaller == sorted(smaller, key=lambda one: (-one[0] * one[1], one))


@given(st.integers(40, 1500), st.integers(40, 1500))
def test_both_meshes_beside_one_on_the_grid_are_among_the_smaller_ones(width, height):
    known = of_known_sides(mesh(width, height))
    beside = [
        of_known_sides(mesh(known.usable_width - 1, known.usable_height)),
        of_known_sides(mesh(known.usable_width, known.usable_height - 1)),
    ]
    smaller = list(smaller_meshes(known, 1))
    assert {(m.usable_width, m.usable_height) for m in beside} <= set(smaller)
