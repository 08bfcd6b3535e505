"""The executor's counting: checkpoint steps, rates, forms of batches."""

import json
import math
import time
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cstorch_compat.cerebras.pytorch.utils.data import DataExecutor, DataLoader
from cstorch_compat.cerebras.pytorch.utils.step_ranges import Schedule
from cstorch_compat.profiling.rates import Activity, Profiler, RateTracker, RateTrackerActivity
from cstorch_compat.run import process, steps
from lazytensor.functional import creation
from tests.cstorch_compat.cerebras.pytorch.utils.data.test_batch_stream import csx, numbered, stream

Range = Schedule.Range


@pytest.fixture
def cpu(monkeypatch, tmp_path):
    monkeypatch.setattr(process.RUN, "backend", None)
    process.make_backend("CPU", tmp_path)


def executor(num_steps=5, sizes=(4,), **options):
    return DataExecutor(DataLoader(lambda: [creation.zeros(n, 3) for n in sizes]), num_steps=num_steps, **options)


# -- schedules -------------------------------------------------------------------------------------------------------


@st.composite
def schedules(draw):
    ranges, start = [], 0
    for _ in range(draw(st.integers(0, 3))):
        start += draw(st.integers(0, 5))
        end = start + draw(st.integers(1, 12))
        ranges.append(Range(start, end, draw(st.integers(1, 15)), draw(st.booleans())))
        start = end
    return Schedule(ranges)


@given(schedules())
def test_a_schedule_is_the_steps_that_match(schedule):
    steps = [i for i in range(60) if schedule.match(i)]
    assert list(schedule) == steps
    assert len(schedule) == len(steps)
    assert (schedule.start, schedule.final_step) == ((steps[0], steps[-1]) if steps else (None, None))
    for target in range((schedule.final_step or 0) + 1):
        assert schedule.next_immediate_step(target) == next((i for i in steps if i >= target), None)


def test_schedules_as_recorded():
    assert list(Schedule([Range(2, 8, 2, False), Range(10, 20, 5, True)])) == [2, 4, 6, 10, 15, 19]
    assert list(Schedule([Range(0, 10, 20, True)])) == [0, 9]
    with pytest.raises(ValueError, match="Target 10 exceeds the last interval step 9"):
        Schedule([Range(0, 10, 3, True)]).next_immediate_step(10)


@pytest.mark.parametrize("wrong", [(5, 5, 1, True), (-1, 5, 1, True), (0, 1.5, 1, True), (0, 4, 0, True), (0, 9, 3, 1)])
def test_wrong_ranges_are_refused(wrong):
    with pytest.raises(ValueError, match=r"must"):
        Range(*wrong)


def test_overlapping_ranges_are_refused():
    with pytest.raises(ValueError, match="non-overlapping"):
        Schedule([Range(10, 20, 5, True), Range(2, 8, 2, False)])


# -- checkpoint steps ------------------------------------------------------------------------------------------------


@given(st.integers(0, 12), st.integers(1, 12))
def test_every_so_many_steps_and_after_the_last(every, num_steps):
    with csx():
        found = executor(num_steps, checkpoint_steps=every)
    steps = [step for step in range(1, num_steps + 1) if found.fetches_after(step)]
    assert steps == ([s for s in range(1, num_steps + 1) if s % every == 0 or s == num_steps] if every else [])


@pytest.mark.parametrize(
    "schedule, expected",
    [([Range(2, 7, 2, True)], [3, 5, 7]), ([Range(1, 4, 1, True)], [2, 3, 4]), ([Range(0, 7, 3, False)], [1, 4, 7])],
)
def test_a_schedule_of_checkpoints_counts_from_0_as_recorded(cpu, schedule, expected):
    seen = []
    save = steps.make_closure(seen.append, needs_checkpoint=True)
    loop = executor(7, checkpoint_steps=Schedule(schedule))
    for _ in loop:
        save(loop.user_iteration)
    assert seen == expected


@pytest.mark.parametrize("wrong", [2.0, "a"])
def test_other_checkpoint_steps_are_refused(cpu, wrong):
    with pytest.raises(ValueError, match="checkpoint_steps must be None, integer, or a Schedule"):
        executor(checkpoint_steps=wrong)


# -- forms of batches ------------------------------------------------------------------------------------------------


def test_another_batch_size_is_a_warning_on_the_cpu(cpu):
    with pytest.warns(UserWarning, match=r"between batches \(4 vs 2\)"):
        for _ in executor(2, (4, 2)):
            pass


def test_a_line_warns_once_for_all_its_batches(cpu):
    uneven = DataLoader(lambda: [(creation.zeros(4, 3), creation.zeros(2)) for _ in range(3)])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in DataExecutor(uneven, num_steps=3):
            pass
        assert len(seen) == 1
        warnings.simplefilter("always")
        for _ in DataExecutor(uneven, num_steps=3):
            pass
    assert len(seen) == 4
    assert all("within the same batch" in str(w.message) and w.filename == __file__ for w in seen)


def test_another_batch_size_is_an_error_on_csx():
    with csx():
        loop = iter(executor(2, (4, 2)))
        batch = next(loop)
        trace = steps.trace_function(lambda b: b.sum())
        steps.make_closure(lambda loss: None, needs_checkpoint=False)(trace(batch))
        with pytest.raises(
            RuntimeError,
            match=r"the first batch has the shapes and dtypes batch float32\[4, 3\], but this one has batch float32",
        ):
            next(loop)


def test_a_loader_that_cannot_begin_anew_is_an_error(cpu):
    loader = DataLoader(lambda: (creation.zeros(2) for _ in range(2)))
    with pytest.raises(RuntimeError, match="did not return any values"):
        list(DataExecutor(loader, num_steps=3))


# -- rates -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(0.1, 5), st.integers(0, 50)), min_size=1, max_size=6))
def test_rates_are_counts_by_time(parts):
    """By a clock of our own: the smoothed rate weighs the one before by 0.4, as recorded."""
    now = [0.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: now[0])
        tracker, smooth = RateTracker(), 0.0
        for seconds, count in parts:
            now[0] += seconds
            tracker.add(count)
            smooth = 0.6 * count / seconds + 0.4 * smooth
            assert math.isclose(tracker.rate(), smooth, abs_tol=1e-9)
        assert tracker.total_count == sum(count for _, count in parts)
        assert math.isclose(tracker.global_rate(), tracker.total_count / now[0])


def test_the_clock_starts_when_the_first_step_is_over(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    rates = RateTrackerActivity()
    for now[0] in (10.0, 11.0, 12.0):
        rates.update(4)
    assert (rates.total_samples, rates.total_time, rates.global_rate) == (12, 2.0, 6.0)


def test_the_profiler_follows_the_loop(cpu):
    class Steps(Activity):
        def __init__(self):
            self.sizes = []

        def update(self, batch_size):
            self.sizes.append(batch_size)

        def compute(self):
            return len(self.sizes)

    loop = executor(3, profiler_activities=[Steps, RateTrackerActivity])
    assert loop.profiler is None
    totals = [loop.profiler.total_samples() for _ in loop]
    assert totals == [0, 4, 8]
    assert (loop.profiler.Steps(), loop.profiler.Steps.sizes) == (3, [4, 4, 4])
    assert loop.profiler.rate_tracker.total_samples == 12
    assert loop.profiler.global_rate() > 0
    assert {"rate", "total_time", "flops_utilization", "waits"} < loop.profiler.as_dict().keys()
    with pytest.raises(TypeError, match="subclass of Activity"):
        list(executor(profiler_activities=[int]))


def test_an_execution_has_a_folder(cpu, tmp_path):
    loops = [executor(2), executor(2)]
    with pytest.raises(RuntimeError, match="iterated before"):
        _ = loops[0].artifact_dir
    for loop in loops:
        for _ in loop:
            (loop.artifact_dir / "note.txt").write_text("note")
    assert [loop.artifact_dir for loop in loops] == [tmp_path / "executors" / name for name in ("000001", "000002")]
    rates = json.loads((loops[0].artifact_dir / "performance.json").read_text())
    assert (rates["total_samples"], rates["steps"]) == (8, 2)


def test_the_report_names_the_worker_that_is_waited_for():
    profiler = Profiler()
    for _ in range(4):
        profiler.step(5)
    profiler.end([0.1, 0.3, 0.0])
    first, *workers = profiler.text().splitlines()
    assert first.startswith("input: 4 steps, 20 samples, ")
    assert workers[0] == "  worker 1: 0.30 s, 75% of the waiting"
    assert [line.split(":")[0].split()[-1] for line in workers] == ["1", "0", "2"]


@pytest.mark.process
def test_a_slow_worker_stands_out():
    with csx(1, 3), stream(numbered(sleep=lambda rank, i: 0.03 * (rank == 2)), 12) as opened:
        assert len(list(opened)) == 12
    assert opened.waits[2] > 0.8 * sum(opened.waits)
