"""Sweeps: every point once, in a file that outlives a stop; a point that fails leaves the others."""

import json
import pickle
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from dataclasses import replace

import pytest

from lazytensor.errors import ExecutorLost, LazyError
from tests.wse_sim.programs import mlp
from wse_sim import TINY, SweepRecord, plan, sweep, to_frame
from wse_sim.host import APPLIANCE
from wse_sim.planner.modes import mode_plan
from wse_sim.sweeps import sweep as sweeping
from wse_sim.sweeps import tasks
from wse_sim.sweeps.digest import content_digest
from wse_sim.sweeps.sweep_file import SweepFile
from wse_sim.sweeps.sweep_record import SweepPoint

SMALL, LARGE = mlp((8, 4)), mlp((16, 8, 4))
PROGRAMS = {"small": SMALL, "large": LARGE}
MODES = ("auto", "pipelined", "streaming")


@pytest.fixture
def planned(monkeypatch):
    """The points that were planned, in their order."""
    points, own = [], sweeping.plan_task

    def counted(task):
        points.append(task.point)
        return own(task)

    monkeypatch.setattr(sweeping, "plan_task", counted)
    return points


@pytest.mark.slow
def test_record_says_what_plan_says():
    records = sweep({"small": SMALL}, [TINY], MODES)
    assert [r.asked_mode for r in records] == list(MODES)
    for r in records:
        report = plan(SMALL, TINY, r.asked_mode).report
        assert (r.mode, r.samples_per_s, r.verdict) == (report.mode, report.samples_per_s, report.verdict)
        assert r.step_seconds == report.step_cycles / TINY.clock_hz


@pytest.mark.slow
def test_step_is_looked_up_once_for_all_that_plan_it(monkeypatch):
    looks, own = [], mode_plan.wire

    def counted(program):
        looks.append(program)
        return own(program)

    monkeypatch.setattr(mode_plan, "wire", counted)
    records = sweep(PROGRAMS, ["tiny"], ["pipelined", "streaming"], systems=[1, 2])
    assert len(looks) == len(PROGRAMS)
    for r in records:
        report = plan(PROGRAMS[r.program], r.machine, r.asked_mode, systems=r.systems).report
        assert (r.samples_per_s, r.verdict) == (report.samples_per_s, report.verdict)


def test_combinations_come_in_their_order_and_once():
    records = sweep(PROGRAMS, ["tiny", TINY], ["streaming", "streaming"], systems=[1, 2, 1])
    assert [(r.program, r.machine, r.systems) for r in records] == [
        (name, "tiny", count) for name in PROGRAMS for count in (1, 2)
    ]


@pytest.mark.slow
def test_record_of_some_workers_is_the_plan_of_a_host_with_them():
    records = sweep({"small": SMALL}, [TINY], ["pipelined", "streaming"], systems=[1, 2], workers=[1, 7])
    assert [(r.systems, r.workers) for r in records[::2]] == [(1, 1), (1, 7), (2, 1), (2, 7)]
    for r in records:
        report = plan(SMALL, TINY, r.mode, systems=r.systems, host=replace(APPLIANCE, workers=r.workers)).report
        assert (r.samples_per_s, r.verdict) == (report.samples_per_s, report.verdict)


def test_workers_of_a_sweep_without_any_are_those_of_its_host():
    (record,) = sweep(SMALL, [TINY], ["streaming"], host=replace(APPLIANCE, workers=3))
    assert record.workers == 3


def test_line_of_before_workers_has_the_default_number_and_the_sweep_goes_on(tmp_path, planned):
    path = tmp_path / "points.jsonl"
    (record,) = sweep(SMALL, [TINY], ["streaming"], path=path)
    head, line = path.read_text().splitlines()
    old = {name: value for name, value in json.loads(line).items() if name != "workers"}
    path.write_text(f"{head}\n{json.dumps(old)}\n")
    default, other = sweep(SMALL, [TINY], ["streaming"], workers=[APPLIANCE.workers, 1], path=path)
    assert default == record
    assert [point.workers for point in planned] == [APPLIANCE.workers, other.workers]


def test_record_survives_json():
    (record,) = sweep({"small": SMALL}, ["tiny"])
    assert SweepRecord.from_dict(json.loads(json.dumps(record.as_dict()))) == record


def test_point_that_fails_is_a_record_and_the_others_go_on():
    records = sweep({"small": SMALL}, ["tiny"], ["streaming"], batches=[32, 64])
    assert "cannot be planned for 32" in records[0].error
    assert (records[0].fits, records[0].samples_per_s) == (False, 0)
    assert records[1].samples_per_s > 0 and not records[1].error


def test_step_that_raises_anything_is_a_record_with_the_place():
    class Faulty:
        batch_size = 4

        def program(self, batch_size):
            if batch_size != 4:
                raise KeyError("rows")
            return SMALL

    (record,) = sweep({"faulty": Faulty()}, ["tiny"], batches=[5])
    assert record.error.startswith("KeyError: 'rows' (")
    assert "test_sweep.py:" in record.error


@pytest.mark.slow
@pytest.mark.parametrize("stop", range(4))
def test_stopped_sweep_goes_on_with_its_file(tmp_path, planned, monkeypatch, stop):
    path, counted = tmp_path / "points.jsonl", sweeping.plan_task

    def stopping(task):
        if len(planned) == stop:
            raise KeyboardInterrupt
        return counted(task)

    monkeypatch.setattr(sweeping, "plan_task", stopping)
    with pytest.raises(KeyboardInterrupt):
        sweep(PROGRAMS, ["tiny"], ["streaming"], systems=[1, 2], path=path)
    monkeypatch.setattr(sweeping, "plan_task", counted)
    records = sweep(PROGRAMS, ["tiny"], ["streaming"], systems=[1, 2], path=path)
    assert len(planned) == len(set(planned)) == len(records) == 4
    assert records == sweep(PROGRAMS, ["tiny"], ["streaming"], systems=[1, 2])
    lines = path.read_text().splitlines()
    assert [SweepRecord.from_dict(json.loads(line)) for line in lines[1:]] == records


@pytest.mark.slow
def test_torn_last_line_is_planned_again(tmp_path, planned):
    path = tmp_path / "points.jsonl"
    records = sweep(PROGRAMS, ["tiny"], ["streaming"], path=path)
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    # Anywhere: in the header, between lines, in the last one.
    for cut in (0, 1, 20, last - 1, last, last + 1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert sweep(PROGRAMS, ["tiny"], ["streaming"], path=path) == records
        assert path.read_bytes() == whole


def test_file_that_is_no_sweep_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "thesis.txt"
    for text in ("two years of work", '{"schema": "other"}\n', "[1]\n"):
        path.write_text(text)
        with pytest.raises(LazyError, match="is not a file of a sweep"):
            sweep({"small": SMALL}, ["tiny"], path=path)
        assert path.read_text() == text


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"precision_level": 2}, "its header differs in precision_level"),
        ({"host": replace(APPLIANCE, workers=1)}, "its header differs in host"),
        ({"machines": [replace(TINY, clock_hz=1e9)]}, "its header differs in machines.tiny"),
        ({"programs": {"large": LARGE}}, "small in batches of"),
        ({"modes": ["pipelined"]}, "which this sweep does not include"),
    ],
)
def test_file_of_another_sweep_is_refused(tmp_path, changed, words):
    path = tmp_path / "points.jsonl"
    asked = {"programs": {"small": SMALL}, "machines": ["tiny"], "modes": ["streaming"], "path": path}
    sweep(**asked)
    before = path.read_bytes()
    with pytest.raises(LazyError, match="another sweep") as caught:
        sweep(**{**asked, **changed})
    assert words in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.slow
def test_wider_sweep_goes_on_with_the_file(tmp_path, planned):
    path = tmp_path / "points.jsonl"
    sweep({"small": SMALL}, ["tiny"], ["streaming"], path=path)
    assert len(sweep(PROGRAMS, ["tiny", "wse2"], ["streaming"], path=path)) == 4
    assert len(planned) == 4


def test_line_that_is_broken_is_named(tmp_path):
    path = tmp_path / "points.jsonl"
    sweep(PROGRAMS, ["tiny"], ["streaming"], path=path)
    head, first, second = path.read_text().splitlines()
    path.write_text(f"{head}\n{first[:30]}\n{second}\n")
    with pytest.raises(LazyError, match=r"points.jsonl:2: the line is not a record"):
        sweep(PROGRAMS, ["tiny"], ["streaming"], path=path)
    path.write_text(f"{head}\n{first}\n{first}\n")
    with pytest.raises(LazyError, match=r"line 3 has small .* again"):
        sweep(PROGRAMS, ["tiny"], ["streaming"], path=path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"machines": ["wse9"]},
        {"modes": ["fast"]},
        {"batches": [0]},
        {"systems": [0]},
        {"workers": [0]},
        {"programs": {"a": SMALL, "b": SMALL}},
    ],
)
def test_names_that_there_are_not_are_refused_at_once(wrong, planned):
    with pytest.raises(LazyError):
        sweep(**{"programs": {"small": SMALL}, "machines": ["tiny"], **wrong})
    assert planned == []


def test_digest_is_of_the_content():
    assert content_digest(SMALL) == content_digest(mlp((8, 4))) != content_digest(LARGE)
    assert content_digest((1, 2)) == content_digest([1, 2]) != content_digest([1, (2,)])
    with pytest.raises(LazyError, match="has no digest"):
        content_digest(print)


def test_frame_has_a_row_for_each_record():
    pytest.importorskip("pandas", reason="the extra scale brings it")
    records = sweep(PROGRAMS, ["tiny"], ["streaming"])
    frame = to_frame(records)
    assert list(frame["program"]) == ["small", "large"]
    assert list(frame["samples_per_s"]) == [r.samples_per_s for r in records]


class Dying(Executor):
    """Plans in this thread, and ends after some groups as a broken pool does: the ones it has, and those to come."""

    def __init__(self, groups):
        self.groups = groups

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        self.groups -= 1
        if self.groups >= 0:
            future.set_result(fn(*args, **kwargs))
        else:
            future.set_exception(BrokenExecutor("a process ended"))
        return future


@pytest.mark.parametrize("groups", [0, 1, 3])
def test_executor_that_dies_is_an_error_after_what_it_finished_is_safe(tmp_path, groups, monkeypatch):
    # Of one point each.
    monkeypatch.setattr(tasks, "MAX_GROUP_TASKS", 1)
    path = tmp_path / "points.jsonl"
    asked = {"programs": PROGRAMS, "machines": ["tiny"], "modes": ["streaming"], "systems": [1, 2], "path": path}
    with pytest.raises(ExecutorLost, match="BrokenExecutor: a process ended"):
        sweep(**asked, executor=Dying(groups))
    assert len(path.read_text().splitlines()) == 1 + groups
    assert sweep(**asked, executor=Dying(4 - groups)) == sweep(**{**asked, "path": None})


class Pure(Executor):
    """Takes equal calls for one, as a cluster does, also where that was cancelled; runs what is waited for."""

    def __init__(self):
        self.known = {}

    def submit(self, fn, /, *args):
        key = pickle.dumps(args)
        if key not in self.known:
            self.known[key] = future = Future()
            # The first two are done at once, and the others wait until somebody cancels them.
            if len(self.known) <= 2 or any(f.cancelled() for f in self.known.values()):
                future.set_result(fn(*args))
        elif self.known[key].cancelled():
            self.known[key].set_running_or_notify_cancel()
        return self.known[key]


def test_what_is_asked_for_again_does_not_wait_for_what_was_cancelled(tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "MAX_GROUP_TASKS", 1)
    asked = {"programs": PROGRAMS, "machines": ["tiny"], "modes": ["streaming"], "systems": [1, 2]}
    asked |= {"path": tmp_path / "points.jsonl", "executor": Pure()}
    append = SweepFile.append

    def stop(file, record):
        append(file, record)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(SweepFile, "append", stop)
        sweep(**asked)
    assert len(sweep(**asked)) == 4


def test_points_that_ask_for_the_same_prices_are_planned_by_one_process():
    points = [
        SweepPoint(program="step", digest=digest, machine="tiny", mode=mode, batch_size=batch, systems=systems)
        for digest in "ab"
        for batch in (3, 8, 12, 16)
        for systems in (1, 2, 4)
        for mode in ("pipelined", "streaming")
    ]
    groups = tasks.group_tasks([tasks.SweepTask(point, SMALL, TINY, APPLIANCE, None) for point in points])
    assert [len(group) for group in groups] == [6] * 8
    # 3 and 12 are three times a power of two, 8 and 16 are powers of two.
    asked = [{(task.point.digest, task.point.mode, task.point.batch_size) for task in group} for group in groups]
    assert {frozenset(one) for one in asked} == {
        frozenset({(d, m, x), (d, m, y)})
        for d in "ab"
        for m in ("pipelined", "streaming")
        for x, y in ((3, 12), (8, 16))
    }
    assert sorted(map(str, points)) == sorted(str(task.point) for group in groups for task in group)


def test_executor_that_takes_nothing_more_is_an_error():
    with ThreadPoolExecutor(1) as pool:
        pass
    with pytest.raises(ExecutorLost, match="shutdown"):
        sweep({"small": SMALL}, ["tiny"], executor=pool)


def test_threads_plan_what_one_does():
    two = [TINY, replace(TINY, name="slow", clock_hz=1e6)]
    with ThreadPoolExecutor(3) as pool:
        records = sweep(PROGRAMS, two, ["streaming"], systems=[1, 2], executor=pool)
    assert records == sweep(PROGRAMS, two, ["streaming"], systems=[1, 2])


def test_source_that_cannot_be_sent_is_refused_by_name():
    class Local:
        batch_size = 64

        def program(self, batch_size):
            return SMALL

    with ThreadPoolExecutor(1) as pool, pytest.raises(LazyError, match="local cannot be sent"):
        sweep({"local": Local()}, ["tiny"], executor=pool)


class Slow(Executor):
    """Finishes the first call, and begins none of the others."""

    def __init__(self):
        self.futures = []

    def submit(self, function, /, *arguments):
        future = Future()
        if not self.futures:
            future.set_result(function(*arguments))
        self.futures.append(future)
        return future


def test_stop_takes_back_what_the_executor_has_not_begun(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(SweepFile, "append", stop)
    executor = Slow()
    asked = {"systems": range(1, 40), "path": tmp_path / "points.jsonl"}
    with pytest.raises(KeyboardInterrupt):
        sweep({"small": SMALL}, ["tiny"], ["streaming"], executor=executor, **asked)
    _, *others = executor.futures
    assert others
    assert all(future.cancelled() for future in others)


def test_digest_of_a_lone_program_can_be_left_out_where_nothing_is_told_by_it(tmp_path):
    (whole,) = sweep(SMALL, ["tiny"])
    (record,) = sweep(SMALL, ["tiny"], has_digests=False)
    assert whole.digest and not record.digest
    assert replace(whole, digest="") == record
    for told in (
        sweep(SMALL, ["tiny"], has_digests=False, path=tmp_path / "records.jsonl"),
        sweep(PROGRAMS, ["tiny"], has_digests=False),
    ):
        assert whole.digest == told[0].digest
