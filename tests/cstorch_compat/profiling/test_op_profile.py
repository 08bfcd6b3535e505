"""Profiles: the trace of the wafer's kernels, and how fast a loader is by itself."""

import gzip
import json

import pytest

from cstorch_compat.cerebras.pytorch.utils.data import DataExecutor, DataLoader
from cstorch_compat.cerebras.pytorch.utils.data.dataloader_benchmark import benchmark_dataloader
from cstorch_compat.profiling import op_profile
from cstorch_compat.run import compile_model, process, steps
from lazytensor.functional import creation
from lazytensor.nn import Linear
from tests.cstorch_compat.cerebras.pytorch.utils.data.test_batch_stream import csx
from tests.cstorch_compat.profiling.trace_reader import read


def loop(num_steps=5):
    """A run of a linear layer on the CSX backend."""
    model = Linear(3, 4)
    compiled = compile_model.compile_model(model)
    step = steps.trace_function(lambda batch: compiled(batch).relu().sum())
    log = steps.make_closure(lambda loss: None, needs_checkpoint=False)
    for batch in DataExecutor(DataLoader(lambda: [creation.ones(2, 3)]), num_steps=num_steps):
        log(step(batch))


@pytest.fixture(scope="module", params=["pipelined", "streaming"])
def profiled(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("traces")
    handler = op_profile.tensorboard_trace_handler(str(folder), "me", use_gzip=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process.RUN.options, "mode", request.param)
        steps = op_profile.schedule(start_step=2, end_step=3)
        with csx(), op_profile.profile(schedule=steps, on_trace_ready=handler) as p:
            loop()
    (path,) = folder.iterdir()
    return p, path


def test_the_trace_has_the_report_s_kernels_in_every_profiled_step(profiled):
    profile, path = profiled
    assert path.name.startswith("me.")
    assert path.name.endswith(".pt.trace.json.gz")
    with gzip.open(path, "rt") as file:
        trace = json.load(file)
    report = profile.report
    rows = [row for row in report.rows if row.cycles]
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert [(e["args"]["step"], e["name"]) for e in events] == [(s, row.label) for s in (2, 3) for row in rows]
    assert [e["dur"] for e in events[: len(rows)]] == pytest.approx(
        [1e6 * r.cycles / report.clock_hz for r in rows], abs=2e-3
    )
    assert events[len(rows)]["ts"] - events[0]["ts"] == pytest.approx(
        1e6 * report.step_cycles / report.clock_hz, abs=2e-3
    )
    lanes, starts = {e["tid"] for e in events}, [e["ts"] for e in events[: len(rows)]]
    if report.mode == "pipelined":
        assert (len(lanes), set(starts)) == (len(rows), {0.0})
    else:
        ends = [e["ts"] + e["dur"] for e in events[: len(rows)]]
        assert len(lanes) == 1 and starts == pytest.approx([0.0, *ends[:-1]])
    # To the nanosecond, and on named lanes.
    assert sum(map(len, read(path).slices.values())) == len(events)


def test_the_summary_orders_kernels_by_cycles(profiled):
    summary = profiled[0].get_summary()
    assert [row["cycles"] for row in summary] == sorted((row["cycles"] for row in summary), reverse=True)
    assert sum(row["share"] for row in summary) == pytest.approx(1)


def test_nothing_was_profiled_without_a_run(tmp_path):
    with op_profile.profile(schedule=op_profile.schedule(start_step=1, end_step=1)) as profile:
        assert op_profile.ProfilerRegistry.get_profiler() is profile
    assert op_profile.ProfilerRegistry.get_profiler() is None
    assert profile.get_summary() is None
    profile.export_chrome_trace(tmp_path / "trace.json")
    assert not (tmp_path / "trace.json").exists()


@pytest.mark.parametrize("start, end", [(0, 3), (2, 5), (2, 30)])
def test_steps_that_a_run_has_not_are_refused(start, end):
    with csx(), op_profile.profile(schedule=op_profile.schedule(start_step=start, end_step=end)):
        text = rf"should be between 1\(inclusive\) and 5\(exclusive\), instead it is {start}:{end}"
        with pytest.raises(ValueError, match=text):
            loop()


def test_the_cpu_is_not_profiled(monkeypatch, tmp_path):
    monkeypatch.setattr(process.RUN, "backend", None)
    process.make_backend("CPU", tmp_path)
    steps = op_profile.schedule(start_step=1, end_step=2)
    with op_profile.profile(schedule=steps), pytest.raises(RuntimeError, match="Only CSX backend can be profiled"):
        loop()


def test_wrong_options_of_profiles_are_refused():
    with pytest.raises(ValueError, match="less than or equal to end_step"):
        op_profile.schedule(start_step=3, end_step=2)
    profile = op_profile.profile(schedule=op_profile.schedule(start_step=1, end_step=2), host_activities=["host"])
    with pytest.raises(ValueError, match="Incorrect host"):
        profile.configure_profiler(True, 5)


def test_a_benchmark_counts_steps_samples_and_forms(capsys):
    made = []

    def input_fn():
        made.append(1)
        return [(creation.ones(4, 3), creation.ones(4))] * 3 + [(creation.ones(2, 3), creation.ones(2))]

    metrics = benchmark_dataloader(input_fn, num_epochs=2, sampling_frequency=2)
    assert (len(made), metrics.total_steps, metrics.is_partial) == (1, 8, False)
    assert [[b.global_step for b in e.batch_metrics] for e in metrics.epoch_metrics] == [[1, 3], [5, 7]]
    forms = [(spec.batch_size, found.count, found.epoch_step) for spec, found in metrics.batch_specs.items()]
    assert forms == [(4, 6, 1), (2, 2, 4)]
    assert metrics.global_sample_rate == pytest.approx(metrics.global_rate * 28 / 8)
    assert "8 steps in" in capsys.readouterr().out


def test_a_benchmark_stops_where_it_is_told(capsys):
    stream = (creation.ones(1) for _ in range(100))
    assert benchmark_dataloader(lambda: stream, steps_per_epoch=5, print_metrics=False).total_steps == 5
    assert capsys.readouterr().out == ""
    for wrong in ({"num_epochs": 0}, {"steps_per_epoch": -1}, {"profile_activities": ["memory"]}):
        with pytest.raises(ValueError, match=r"must be positive|Invalid profile activity"):
            benchmark_dataloader(list, **wrong)
