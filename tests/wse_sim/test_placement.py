"""Placements: on the mesh, without overlap, within the memory of a PE, in proportion to the work."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from programs import Builder, machines, mlp, mlps, patient, quick

from lazytensor.errors import PlacementError
from wse_sim.layout import Rect
from wse_sim.machine import TINY, WSE2
from wse_sim.plan.modes.pipelined import demand_bytes, pipelined, stage_depths
from wse_sim.plan.modes.streaming import streaming
from wse_sim.plan.place import cut
from wse_sim.plan.wiring import wire


def assert_disjoint(placed):
    for n, one in enumerate(placed):
        assert not any(one.overlaps(other) for other in placed[n + 1 :])


@patient
@given(st.integers(1, 30), st.integers(1, 30), st.data())
def test_cut_fills_the_mesh_without_overlap(width, height, data):
    mesh = Rect(3, 2, width, height)
    n = data.draw(st.integers(1, min(40, mesh.area)))
    weights = data.draw(st.lists(st.floats(0.01, 1e6), min_size=n, max_size=n))
    slots = cut(mesh, range(n), dict(enumerate(weights)))
    assert set(slots) == set(range(n))
    assert all(mesh.contains(r) for r in slots.values())
    assert sum(r.area for r in slots.values()) == mesh.area
    assert_disjoint(list(slots.values()))


@patient
@given(st.lists(st.integers(1, 8), min_size=2, max_size=12))
def test_cut_areas_are_near_the_shares(shares):
    mesh = Rect(0, 0, 600, 600)
    slots = cut(mesh, range(len(shares)), {i: float(s) for i, s in enumerate(shares)})
    for i, share in enumerate(shares):
        assert slots[i].area / mesh.area == pytest.approx(share / sum(shares), rel=0.1)


def test_cut_keeps_the_least_areas_where_it_can():
    mesh, least = Rect(0, 0, 10, 10), {0: 60, 1: 20, 2: 20}
    slots = cut(mesh, range(3), {0: 1.0, 1: 50.0, 2: 49.0}, least)
    assert all(slots[i].area >= least[i] for i in least)


@quick
@given(mlps(), machines())
def test_pipelined_placements_are_sound(program, machine):
    placement = pipelined(wire(program), machine).placement
    assume(placement is not None)
    placed = [r for r in placement.rects if r is not None]
    assert len(placed) == len(program.instrs)
    assert all(Rect.whole(machine).contains(r) for r in placed)
    assert_disjoint(placed)
    assert placement.peak_bytes_per_pe <= machine.usable_bytes_per_pe


@quick
@given(mlps(), machines())
def test_what_is_held_fits_into_the_rectangles(program, machine):
    wiring = wire(program)
    placement = pipelined(wiring, machine).placement
    assume(placement is not None)
    for need, rect, per_pe in zip(demand_bytes(wiring), placement.rects, placement.bytes_per_pe, strict=True):
        assert per_pe * rect.area >= need


@quick
@given(mlps(), machines())
def test_streaming_kernels_stay_on_the_mesh(program, machine):
    placement = streaming(wire(program), machine).placement
    assert all(Rect.whole(machine).contains(r) for r in placement.rects if r)


@quick
@given(mlps(), machines(), st.integers(1, 8))
def test_more_memory_never_makes_a_streamed_program_unfit(program, machine, factor):
    wiring = wire(program)
    small, large = (replace(machine, usable_bytes_per_pe=256 * f) for f in (1, factor))
    assert streaming(wiring, large).report.fits or not streaming(wiring, small).report.fits


@quick
@given(mlps(), machines())
def test_with_ample_memory_every_program_fits_the_pipeline(program, machine):
    """The cuts are heuristic, so that near a full mesh a little more memory may not be enough; a lot always is."""
    assume(len(program.instrs) <= machine.usable_pes)
    assert pipelined(wire(program), replace(machine, usable_bytes_per_pe=10**12)).report.fits


def test_a_mesh_half_full_of_weights_is_still_cut():
    wiring = wire(mlp((96, 128, 64, 32), batch=16))
    machine = replace(TINY, width=40, height=30)
    needed = sum(demand_bytes(wiring)) / machine.usable_pes
    assert pipelined(wiring, replace(machine, usable_bytes_per_pe=int(needed / 0.5))).report.fits
    assert not pipelined(wiring, replace(machine, usable_bytes_per_pe=int(needed / 1.1))).report.fits


def test_stages_of_equal_work_get_equal_areas():
    b = Builder()
    x = b.input((64, 512))
    for n in range(4):
        x = b.matmul(x, b.weight(f"w{n}", (512, 512)))
    b.fetches.append(x)
    outcome = pipelined(wire(b.program()), WSE2)
    cycles = [c.cycles for c in outcome.placement.costs]
    assert max(cycles) <= 1.3 * min(cycles)


def test_the_heavier_stage_gets_more_pes():
    b = Builder()
    x = b.matmul(b.input((64, 512)), b.weight("small", (512, 512)))
    b.fetches.append(b.matmul(x, b.weight("large", (512, 4096))))
    small, large = pipelined(wire(b.program()), replace(WSE2, width=107, height=102)).placement.rects
    assert large.area > 4 * small.area


def test_views_take_no_area():
    b = Builder()
    x = b.view(b.input((8, 4, 4)), (8, 16))
    b.fetches.append(b.matmul(x, b.weight("w", (16, 4))))
    placement = pipelined(wire(b.program()), TINY).placement
    assert placement.rects[0] is None
    assert placement.rects[1] is not None


def test_demand_counts_weights_and_samples_in_flight():
    """Two products and their sum: the sum waits one stage for its second operand and two for its first."""
    b = Builder()
    x = b.input((10, 8))
    first = b.matmul(x, b.weight("w", (8, 8)))
    second = b.matmul(first, b.weight("v", (8, 8)))
    b.fetches.append(b.pointwise("add", (first, second)))
    wiring = wire(b.program())
    row, weights = 8 * 4, 8 * 8 * 4
    assert stage_depths(wiring) == [1, 2, 3]
    assert demand_bytes(wiring) == [weights + 2 * row, weights + 2 * row, (2 + 1 + 1) * row]


def test_gradients_of_weights_are_held_whole():
    program = mlp((12, 8), batch=4)
    wiring = wire(program)
    gradient = next(i for i in program.instrs if i.kernel == "matmul" and i.direction == "backward")
    assert gradient.writes[0] not in wiring.per_sample
    assert program.instrs[0].writes[0] in wiring.per_sample


def test_a_program_too_large_is_refused_with_numbers_and_a_way_out():
    report = pipelined(wire(mlp()), TINY).report
    assert not report.fits
    assert report.step_cycles == 0
    for text in ("1,605,632 bytes", "44,976", "momentum", "streaming"):
        assert text in report.reason


def test_too_many_kernels_for_the_mesh_are_refused():
    machine = replace(TINY, width=2, height=2)
    assert "4" in pipelined(wire(mlp((4, 4, 4), 2)), machine).report.reason
    with pytest.raises(PlacementError, match="5 kernels do not fit"):
        cut(Rect(0, 0, 2, 2), range(5), dict.fromkeys(range(5), 1.0))


def test_streaming_refuses_activations_that_do_not_fit():
    report = streaming(wire(mlp((784, 256, 10), batch=4096)), TINY).report
    assert not report.fits
    assert "smaller batch" in report.reason
    assert "44,976" in report.reason
