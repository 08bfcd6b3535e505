"""The trace of a run: host, input workers, closures and the simulated wafer, read by a strict reader of the format."""

import pytest

from tests.conftest import lazywafer, training
from tests.cstorch_compat.profiling.trace_reader import processor, processor_rows, read

HOST, WAFER = "host", "wse2, simulated"


def followed(script, tmp_path, backend="CSX", name="trace.json", more="", mode="auto", **kwargs):
    done = script(training(backend) + more, options=("--mode", mode, "--trace", str(tmp_path / name)), **kwargs)
    assert done.returncode == 0, done.stderr
    return read(tmp_path / name)


@pytest.mark.slow
def test_a_run_has_its_steps_its_closures_and_the_wafer_on_named_lanes(script, tmp_path):
    trace = followed(script, tmp_path, name="trace.json.gz", mode="pipelined")
    steps = [f"step {n}" for n in range(1, 6)]
    assert [n for n in trace.names(HOST, "steps") if n.startswith("step ")] == steps
    assert {"wait for input", "loop body", "trace", "lower", "compile", "execute on the host"} < set(
        trace.names(HOST, "steps")
    )
    assert trace.names(HOST, "closures") == ["log"] * 5
    assert trace.names(WAFER, "step") == steps
    # A step takes its cycles at the machine's clock, and begins when the one before it is over.
    for _, start, end, about in trace.slices[WAFER, "step"]:
        assert end - start == pytest.approx(about["cycles"] / 0.85e9 * 1e6, abs=2e-3)
    # A pipeline's lanes are its stages, and the routes between them with their ports.
    lanes = {lane for process, lane in trace.slices if process == WAFER}
    assert lanes == {"step", "routes", "adapters", "model.fc1", "model.fc2"}
    assert [c["so far"] for c in trace.counters[HOST, "samples"]] == [4, 8, 12, 16, 20]
    assert len(trace.counters[WAFER, "edge, bytes of a step"]) == 5
    names = [name for name, *_ in trace.arrows]
    assert (names.count("input"), names.count("hand over")) == (5, 5)


LANES = "select p.name, t.name from thread t join process p using(upid) where t.name is not null order by 1, 2"
COUNTERS = "select t.name, count(*) from counter c join counter_track t on c.track_id = t.id group by 1 order by 1"
FAULTS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(
    not processor(), reason="Perfetto's trace_processor_shell is not here; TRACE_PROCESSOR may name one"
)
@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_perfettos_processor_finds_all_slices_lanes_counters_and_arrows(script, tmp_path, name):
    trace = followed(script, tmp_path, name=name, mode="pipelined")
    queries = "select count(*) from slice", LANES, COUNTERS, "select count(*) from flow", FAULTS
    slices, lanes, counters, arrows, faults = processor_rows(tmp_path / name, *queries)
    assert faults == []
    assert int(slices[0][0]) == sum(map(len, trace.slices.values())) > 40
    assert list(map(tuple, lanes)) == sorted(trace.slices)
    edge = "edge, bytes of a step"
    assert counters == [[f"{edge} in", "5"], [f"{edge} out", "5"], ["samples so far", "5"]]
    assert int(arrows[0][0]) == len(trace.arrows) == 10


@pytest.mark.slow
def test_shares_of_input_workers_lead_to_the_steps_that_they_feed(script, tmp_path):
    workers = training().replace(
        "cstorch.backend('CSX')",
        'cstorch.backend("CSX", cluster_config=cstorch.distributed.ClusterConfig(num_workers_per_csx=2))',
    )
    done = script(workers, options=("--trace", str(tmp_path / "trace.json")))
    assert done.returncode == 0, done.stderr
    trace = read(tmp_path / "trace.json")
    assert trace.names(HOST, "input worker 0") == ["share of step 1", "share of step 3", "share of step 5"]
    assert trace.names(HOST, "input worker 1") == ["share of step 2", "share of step 4"]
    assert [name for name, *_ in trace.arrows].count("input") == 5


def test_a_script_that_asked_for_no_wafer_shows_its_planned_step_there(script, tmp_path):
    trace = followed(script, tmp_path, "CPU")
    assert trace.names(WAFER, "step") == ["step 1"]
    assert trace.names(HOST, "steps").count("execute on the host") == 5


@pytest.mark.slow
def test_a_run_that_fails_has_a_trace_up_to_there(script, tmp_path):
    failing = training().replace("print(loss.item())", "1 / 0")
    done = script(failing, options=("--trace", str(tmp_path / "trace.json")))
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr
    trace = read(tmp_path / "trace.json")
    assert trace.names(HOST, "closures") == ["log"] and trace.names(WAFER, "step") == ["step 1"]


def test_a_trace_is_asked_for_by_its_ending(tmp_path):
    (tmp_path / "train.py").write_text("")
    done = lazywafer("run", "--trace", "trace.txt", "train.py", cwd=tmp_path)
    assert done.returncode == 2 and ".json" in done.stderr
