"""Placements: on the mesh, without overlap, within the memory of a PE, no more area than pays."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import nn
from lazytensor.core import abstract_step
from lazytensor.nn import functional as F
from tests.wse_sim.programs import Builder, machines, mlp, mlps
from wse_sim.layout import Rect
from wse_sim.machine import TINY, WSE2
from wse_sim.planner.dataflow import wire
from wse_sim.planner.floorplan import min_memory_pes
from wse_sim.planner.layers import fold
from wse_sim.planner.modes import plan
from wse_sim.planner.stages import computed_again, stages_of

few = settings(deadline=None, max_examples=3)


def pipelined(program, machine):
    return plan(program, machine).pipelined


def stages(program):
    dataflow = wire(program)
    layers = fold(dataflow)
    return stages_of(dataflow, layers, computed_again(dataflow, layers))


def assert_disjoint(placed):
    for n, one in enumerate(placed):
        assert not any(one.overlaps(other) for other in placed[n + 1 :])


@few
@given(mlps(), machines())
def test_pipelined_placements_are_sound(program, machine):
    placement = pipelined(program, machine).placement
    assume(placement is not None)
    placed, whole = stages(program), Rect.whole(machine)
    assert len(placement.rects) == len(placed)
    assert all(whole.contains(r) for r in placement.rects)
    assert_disjoint(placement.rects)
    for stage, rect, (width, height), held in zip(
        placed, placement.rects, placement.parts, placement.bytes_per_pe, strict=True
    ):
        assert held * rect.area >= stage.held_bytes
        assert held <= machine.usable_bytes_per_pe
        assert width <= rect.width
        assert height <= rect.height


@few
@given(mlps(), machines(), st.integers(1, 8))
def test_more_memory_never_makes_a_step_unfit(program, machine, factor):
    small, large = (plan(program, replace(machine, usable_bytes_per_pe=256 * f)) for f in (1, factor))
    assert large.streaming.report.fits or not small.streaming.report.fits
    assert large.pipelined.report.fits or not small.pipelined.report.fits


@few
@given(mlps(), machines())
def test_with_ample_memory_every_program_fits_the_pipeline(program, machine):
    assume(len(stages(program)) <= machine.usable_pes)
    assert pipelined(program, replace(machine, usable_bytes_per_pe=10**12)).report.fits


def test_stages_of_equal_work_get_equal_parts():
    b = Builder()
    x = b.input((64, 512))
    for n in range(4):
        x = b.matmul(x, b.weight(f"w{n}", (512, 512)))
    b.fetches.append(x)
    first, *others = pipelined(b.program(), WSE2).placement.parts
    # The first and the last stage have the batch and the fetch as neighbours, so that their links carry the same.
    assert others == [first] * 3


@pytest.mark.slow
def test_the_heavier_stage_gets_more_pes():
    b = Builder()
    x = b.matmul(b.input((64, 512)), b.weight("small", (512, 512)))
    b.fetches.append(b.matmul(x, b.weight("large", (512, 4096))))
    small, large = pipelined(b.program(), replace(WSE2, width=107, height=102)).placement.rects
    assert large.area > small.area


def test_a_scalar_gets_no_area_that_it_does_not_use():
    b = Builder()
    x = b.input((64, 64))
    b.fetches.append(b.matmul(x, b.weight("w", (64, 64))))
    b.fetches.append(b.pointwise("exp", (b.input((1,)),)))
    report = pipelined(b.program(), WSE2).report
    assert sum(row.rect[2] * row.rect[3] for row in report.rows) < WSE2.usable_pes // 2


def test_layers_without_a_product_share_the_next_ones_rectangle():
    b = Builder()
    x = b.pointwise("relu", (b.input((8, 16)),))
    b.fetches.append(b.matmul(x, b.weight("w", (16, 4))))
    (stage,) = stages(b.program())
    assert [layer.has_product for layer in stage.layers] == [False, True]


def test_activations_wait_as_many_samples_as_stages_lie_between():
    """Two products and a third of both: the first result passes one stage until it is read again."""
    b = Builder()
    x = b.input((10, 8))
    first = b.matmul(x, b.weight("w", (8, 8)))
    second = b.matmul(first, b.weight("v", (8, 8)))
    b.fetches.append(b.matmul(b.pointwise("add", (first, second)), b.weight("u", (8, 8))))
    row = 8 * 4
    assert [stage.waiting_bytes for stage in stages(b.program())] == [row, row, 0]
    assert [stage.state_bytes for stage in stages(b.program())] == [8 * 8 * 4] * 3


def test_states_gradients_and_slots_lie_with_their_layer():
    one, two = stages(mlp((12, 8, 4), batch=4))
    for stage, (k, m) in ((one, (12, 8)), (two, (8, 4))):
        # The weight and the bias, each with its momentum and its gradient.
        assert stage.state_bytes == 3 * 4 * (k * m + m)


def test_a_program_too_large_is_refused_with_numbers_and_a_way_out():
    program = mlp((784, 512, 10))
    report = pipelined(program, TINY).report
    assert not report.fits
    assert report.step_cycles == 0
    for text in ("bytes over", "44,976", "weight-streaming"):
        assert text in report.reason
    assert sum(min_memory_pes(stage, TINY) for stage in stages(program)) > TINY.usable_pes


def test_a_sample_too_large_is_refused_in_streaming_mode_with_numbers():
    b = Builder()
    b.fetches.append(b.pointwise("relu", (b.input((2, 1_000_000)),)))
    report = plan(b.program(), TINY).streaming.report
    assert not report.fits
    assert "one sample needs" in report.reason
    assert "bytes over" in report.reason


@pytest.mark.slow
def test_a_batch_too_large_is_cut_into_micro_batches():
    report = plan(mlp((784, 256, 10), batch=4096), TINY).streaming.report
    assert report.fits
    assert report.micro_batches > 1
    assert report.peak_bytes_per_pe <= TINY.usable_bytes_per_pe


@pytest.mark.parametrize("side", [(2, 2), (1, 1)])
def test_more_stages_than_pes_do_not_stand(side):
    machine = replace(TINY, width=side[0], height=side[1])
    report = pipelined(mlp((4, 4, 4, 4, 4, 4), 2), machine).report
    assert not report.fits
    assert "5" in report.reason


def test_a_step_whose_samples_read_each_other_is_refused_in_micro_batches_and_planned_whole():
    """Scores of all pairs of samples, as contrastive losses have them: a part of the batch is another step."""
    with abstract_step.mode():
        model = nn.Linear(256, 256)

    def step(x):
        y = model(x)
        return F.cross_entropy(y @ y.T, lt.arange(x.shape[0]))

    family = abstract_step.record(step, [abstract_step.tensor((512, 256))])
    small = replace(TINY, usable_bytes_per_pe=1500)
    whole, parts = (plan(family, machine, "streaming", other=False).report.streaming for machine in (WSE2, small))
    assert whole.fits
    assert not parts.fits
    for text in ("only in micro-batches", "grows with the square of the batch", "test_placement.py", "smaller batch"):
        assert text in parts.reason
