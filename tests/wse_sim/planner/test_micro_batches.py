"""Plans cut a batch into the micro-batches that a script asks for."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import nn
from lazytensor.core import abstract_step
from lazytensor.errors import PlacementError
from lazytensor.ir.micro_batching import MicroBatching
from lazytensor.nn import functional as F
from tests.wse_sim.programs import mlp
from wse_sim.backends.pipeline_backend import PipelineBackend
from wse_sim.machine import TINY, WSE2
from wse_sim.planner.modes import plan
from wse_sim.planner.report import Report

quick = settings(deadline=None, max_examples=10)


def asked(program, *micro_batching, **machine):
    """The streaming plan of a program that asks for micro-batches."""
    program = replace(program, micro_batching=MicroBatching(*micro_batching))
    return plan(program, replace(TINY, **machine), "streaming", other=False).report.streaming


@quick
@given(st.integers(1, 200), st.integers(1, 250), st.integers(1, 7))
def test_a_size_gives_its_number_of_even_micro_batches_on_each_system(batch, size, systems):
    program = replace(mlp((8, 4), batch), micro_batching=MicroBatching("size", size), systems=systems)
    report = plan(program, TINY, "streaming", other=False).report.streaming
    own = -(-batch // report.used_systems)
    assert report.micro_batches == -(-own // min(size, own))
    assert report.micro_batch_size <= size == report.asked_micro_batch_size
    assert (report.micro_batches - 1) * report.micro_batch_size < own <= report.micro_batches * report.micro_batch_size
    if own % size == 0:
        assert (report.micro_batch_size, report.micro_batches) == (size, own // size)


def test_systems_are_those_that_the_program_asks_for_unless_a_plan_names_others():
    program = replace(mlp((512, 2048, 512), 12), micro_batching=MicroBatching("size", 2), systems=2)
    # The example of the vendor's page: 12 samples on two systems in micro-batches of 2.
    own, one = plan(program, TINY, "streaming").report, plan(program, TINY, "streaming", systems=1).report
    assert (own.systems, own.streaming.used_systems, own.streaming.micro_batches) == (2, 2, 3)
    assert (one.systems, one.streaming.micro_batches) == (1, 6)


@quick
@given(st.integers(1, 100), st.integers(1, 40), st.integers(0, 40))
def test_a_search_tries_sizes_between_its_bounds_and_takes_the_fastest(batch, least, more):
    report = asked(mlp((32, 16, 4), batch), "explore", least, least + more)
    if least > batch:
        assert not report.fits and "the smallest size to explore is" in report.reason
        return
    sizes = [one.samples for one in report.explored]
    assert sizes == sorted(set(sizes), reverse=True)
    # A size is tried unless a smaller one comes to the same number of micro-batches.
    for size in range(least, min(least + more, batch) + 1):
        count = -(-batch // size)
        assert any(one.micro_batches == count for one in report.explored) or -(-batch // count) < least
    fastest = min(report.explored, key=lambda one: one.step_cycles)
    assert (report.step_cycles, report.micro_batches) == (fastest.step_cycles, fastest.micro_batches)


def test_each_size_of_a_search_takes_what_a_plan_with_that_size_takes():
    program = mlp((64, 256, 256, 64), 50)
    report = asked(program, "explore", 3, 30, usable_bytes_per_pe=1200)
    assert {one.fits for one in report.explored} == {True, False}
    for one in report.explored:
        alone = asked(program, "size", one.samples, usable_bytes_per_pe=1200)
        assert (alone.fits, alone.step_cycles) == (one.fits, one.step_cycles)
        assert (alone.samples_per_s, alone.has_recompute) == (one.samples_per_s, one.has_recompute)


@pytest.mark.slow
def test_a_search_is_no_slower_than_the_planners_own_choice():
    for batch in (33, 50, 128):
        program = mlp((64, 256, 256, 64), batch)
        found, own = (asked(program, kind, usable_bytes_per_pe=1200) for kind in ("explore", "auto"))
        assert own.micro_batches > 1
        assert found.step_cycles <= own.step_cycles


def test_a_batch_that_is_not_to_be_cut_fits_whole_or_is_refused_with_the_bytes():
    program = mlp((64, 256, 256, 64), 50)
    whole, refused = asked(program, "whole"), asked(program, "whole", usable_bytes_per_pe=700)
    assert (whole.micro_batches, whole.micro_batch_size) == (1, 50)
    assert asked(program, "auto", usable_bytes_per_pe=700).fits
    assert not refused.fits and "micro-batches of 50 samples need" in refused.reason
    assert 'Set micro_batch_size to "auto"' in refused.reason and refused.largest_batch is None


def test_a_size_that_is_too_large_is_refused_and_a_smaller_one_fits():
    program = mlp((64, 256, 256, 64), 50)
    assert not asked(program, "size", 50, usable_bytes_per_pe=700).fits
    assert asked(program, "size", 2, usable_bytes_per_pe=700).fits


def test_a_step_whose_samples_read_each_other_is_planned_whole_alone():
    with abstract_step.mode():
        model = nn.Linear(64, 64)

    def step(x):
        y = model(x)
        return F.cross_entropy(y @ y.T, lt.arange(x.shape[0]))

    family = abstract_step.record(step, [abstract_step.tensor((32, 64))])
    reports = []
    for kind in (MicroBatching("whole"), MicroBatching("size", 8)):
        own = replace(family, first=replace(family.first, micro_batching=kind))
        reports.append(plan(own, WSE2, "streaming", other=False).report.streaming)
    whole, cut = reports
    assert whole.fits and not cut.fits
    assert "requests micro-batches" in cut.reason and "test_micro_batches.py" in cut.reason


@pytest.mark.slow
def test_a_pipeline_of_closed_forms_has_no_micro_batches_so_that_streaming_is_chosen():
    program, machine = mlp((64, 32, 8), 64), replace(TINY, width=40, height=40)
    own = plan(replace(program, micro_batching=MicroBatching("size", 16)), machine).report
    assert not own.pipelined.fits and "single samples" in own.pipelined.reason
    assert (own.mode, own.chosen.micro_batches) == ("streaming", 4)
    # A batch that is not cut suits a pipeline.
    assert plan(replace(program, micro_batching=MicroBatching("whole")), machine, "pipelined", other=False).report.fits


@pytest.fixture
def chain():
    """A chain of layers that simulated cores of a tiny mesh run as a pipeline."""
    with abstract_step.mode():
        model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 4))
    return abstract_step.record(lambda x: (model(x) * 1.0).sum(), [abstract_step.tensor((16, 12))]).first


def pipelined(program, *micro_batching):
    return plan(replace(program, micro_batching=MicroBatching(*micro_batching)), TINY, "pipelined").report.pipelined


def test_simulated_cores_run_micro_batches_of_the_size_that_is_asked_for(chain):
    for size in (1, 4, 16):
        report = pipelined(chain, "size", size)
        assert report.is_as_run, report.reason or report.not_run
        assert (report.micro_batch_size, report.micro_batches * report.copies * size) == (size, 16)
    assert "divides the batch" in pipelined(chain, "size", 5).reason


def test_simulated_cores_explore_the_sizes_that_divide_a_batch(chain):
    report = pipelined(chain, "explore", 2, 8)
    assert {one.samples for one in report.explored} <= {2, 4, 8}
    assert report.step_cycles == min(one.step_cycles for one in report.explored)


def test_a_plan_with_a_size_runs_on_simulated_cores(chain):
    with pytest.raises(PlacementError, match="divides the batch"):
        PipelineBackend().compile(replace(chain, micro_batching=MicroBatching("size", 5)), {})


def test_what_was_asked_for_is_in_the_text_and_comes_back_from_json():
    program = replace(mlp((64, 256, 64), 50), micro_batching=MicroBatching("size", 12))
    report = plan(program, TINY, "streaming").report
    assert "5 micro-batches of 10 samples (adjusted from micro_batch_size 12)" in report.text()
    program = replace(program, micro_batching=MicroBatching("explore", 10, 25))
    report = plan(program, TINY, "streaming").report
    assert "explored micro-batch sizes: " in report.text()
    for one in report.streaming.explored:
        assert f"{one.samples}: {one.step_cycles:,} cycles a step" in " ".join(report.text().split())
    assert Report.from_dict(json.loads(json.dumps(report.as_dict()))) == report


def test_a_family_of_steps_asks_for_the_same_at_every_batch():
    with abstract_step.mode():
        model = nn.Linear(8, 4)
    family = abstract_step.record(lambda x: model(x).sum(), [abstract_step.tensor((16, 8))])
    own = MicroBatching("size", 4)

    def noted(program):
        return replace(program, micro_batching=own, systems=2)

    record = family.record
    family = replace(family, first=noted(family.first), record=lambda size: noted(record(size)))
    assert [(family.program(n).micro_batching, family.program(n).systems) for n in (16, 24, 64)] == [(own, 2)] * 3
