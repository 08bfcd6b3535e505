"""Whole training runs: every published rate has its script, goes through `plan`, and gives reports their error band."""

import json
import re
from dataclasses import replace

import pytest

from cstorch_compat.__main__ import main
from cstorch_compat.planning.published_runs import PLACED_FILE, SCRIPTS, SHARED_FILE, record_run
from lazytensor.errors import LazyError
from tests.conftest import ROOT
from wse_sim import error_bands
from wse_sim.error_bands import error_band, error_factor, make_error_band
from wse_sim.validation import command, load, results, table, whole_runs
from wse_sim.validation.placements import MAX_BOUND_RATIO, NETS
from wse_sim.validation.rows import choose_rows, parse_row
from wse_sim.validation.whole_runs import PlannedRun, WholeRun, load_planned_runs, plan_runs

ROWS = {row.id: row for row in load()}
WHOLE_RUNS = {i: WholeRun.of(row, {}) for i, row in ROWS.items() if row.is_whole_run}

RUN = PlannedRun(
    id="bert_r203",
    machine="wse2",
    mode="streaming",
    systems=1,
    batch_size=1024,
    published=4000.0,
    planned=8000.0,
    limit="compute",
    verdict="Wafer compute limits.",
    peak_share=0.5,
)


def test_every_published_rate_has_its_script():
    rates = {i for i, row in ROWS.items() if row.family == "appliance" and row.unit == "samples/s"}
    assert WHOLE_RUNS.keys() == rates
    assert {run.script for run in WHOLE_RUNS.values()} == {path.name for path in SCRIPTS.glob("*.py")} - {
        SHARED_FILE,
        PLACED_FILE,
    }


def test_a_factor_is_the_same_both_ways():
    assert error_factor(10, 20) == error_factor(20, 10) == 2
    assert error_factor(10, 0) == float("inf")


def test_a_run_above_the_peak_says_so_and_is_no_test():
    impossible = replace(RUN, id="llama7_cs2", peak_share=1.36)
    assert RUN.is_test and not impossible.is_test and not replace(RUN, is_fitted=True).is_test
    verdicts = results([ROWS[RUN.id], ROWS["llama7_cs2"]], runs={RUN.id: RUN, impossible.id: impossible})
    for text in (table.text(verdicts), table.runs_markdown(verdicts)):
        assert "llama7_cs2: the published rate needs 136% of the peak of the machine record" in text
        assert "all: 1 runs, median factor 2.00, worst 2.00" in text


def test_a_refused_run_says_why():
    refused = replace(RUN, planned=0.0, verdict="a layer is 3 bytes over.")
    assert f"{RUN.id}: does not fit. a layer is 3 bytes over." in table.text(
        results([ROWS[RUN.id]], runs={RUN.id: refused})
    )


class Recorded:
    """A step that counts how often it is asked for."""

    batch_size = 1

    def __init__(self, script, args):
        self.name = script, args

    def program(self, batch_size):
        raise AssertionError("planned by a stand-in")


def test_a_script_is_recorded_once_for_all_its_rows(monkeypatch):
    recorded = []

    def plan_run(row, run, step, prices):
        assert step.name == (run.script, run.args) and prices.machine == run.machine
        return replace(RUN, id=row.id)

    def record(script, args):
        recorded.append((script, args))
        return Recorded(script, args)

    monkeypatch.setattr(whole_runs, "plan_run", plan_run)
    rows = [ROWS[i] for i in ("bert_r171", "bert_r192", "bert_eval_cs3", "gptj_cs2_1", "prog_dit")]
    assert list(plan_runs(rows, record)) == ["bert_r171", "bert_r192", "bert_eval_cs3", "gptj_cs2_1"]
    assert recorded == [("bert_large.py", ()), ("bert_large.py", ("--mode", "eval")), ("gptj.py", ())]


def test_recording_some_runs_keeps_the_others(tmp_path):
    path = tmp_path / "runs.json"
    whole_runs.write_runs([RUN], path)
    data = json.loads(path.read_text())["runs"]
    assert [run["id"] for run in data] == [i for i in WHOLE_RUNS if i in {RUN.id, *(r.id for r in load_planned_runs())}]
    assert next(run for run in data if run["id"] == RUN.id)["planned"] == RUN.planned


USER_SCRIPT = """
import torch
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.ones(4, 8)).sum()
loss.backward()
optimizer.step()
"""


@pytest.mark.slow
def test_runs_of_a_user_are_planned_or_have_their_reason(tmp_path, capsys):
    """Scripts are files next to the file of rows; what one of them raises is a reason, and the others are planned."""
    (tmp_path / "mine.py").write_text(USER_SCRIPT)
    (tmp_path / "wrong.py").write_text("raise ValueError('no data here')")
    run = {"kernel": "training_run", "machine": "CS-2", "params": {"batch": 64}, "unit": "samples/s", "value": 1e6}
    items = [
        run | {"id": "good", "script": "mine.py", "mode": "streaming"},
        run | {"id": "wrong", "script": "wrong.py", "mode": "streaming"},
        run | {"id": "missing", "script": "absent.py", "mode": "pipelined"},
        run | {"id": "planned", "script": "mine.py", "mode": "streaming", "value": None},
        run | {"id": "mode", "script": "mine.py", "mode": "fast"},
    ]
    file = tmp_path / "rows.json"
    file.write_text(json.dumps({"rows": items}))
    assert main(["validate", "--rows", str(file), "--json"]) == 0
    good, wrong, missing, planned, mode = json.loads(capsys.readouterr().out)["rows"]
    assert good["run"]["planned"] > 0 and good["run"]["batch_size"] == 64
    assert planned["closed"] == good["run"]["planned"] and planned["run"] is None
    assert "no data here" in wrong["reason"] and "absent.py" in missing["reason"]
    assert "use pipelined or streaming" in mode["reason"]


def test_run_with_a_field_that_does_not_fit_says_which():
    good = {"id": "x", "kernel": "training_run", "machine": "wse2", "script": "a.py", "mode": "streaming", "value": 1}
    for change, words in (
        ({"unit": "s"}, "use samples/s"),
        ({"value": [1, 2]}, "field 'value' is a range"),
        ({"params": {}}, "parameter 'batch' is missing"),
        ({"params": {"batch": 1, "args": "--x"}}, "not a list of texts"),
        ({"machine": "wse9"}, "machine 'wse9' is unknown"),
    ):
        row = parse_row(good | {"unit": "samples/s", "params": {"batch": 1}} | change)
        assert words in results([row])[0].reason


def runs(mode, machine, *planned):
    """Recorded runs with rates that were published as 1."""
    return [{"mode": mode, "machine": machine, "published": 1, "planned": p, "is_test": True} for p in planned]


def test_band_of_a_report_is_that_of_the_nearest_family(monkeypatch):
    known = (*runs("streaming", "wse2", 1, 2, 0.25), *runs("streaming", "wse3", 8), *runs("pipelined", "wse2", 16))
    monkeypatch.setattr(error_bands, "load_recorded_runs", lambda: known)
    assert error_band("streaming", "wse2") == make_error_band("streaming, wse2", [1, 2, 4])
    assert error_band("streaming", "wse3") == make_error_band("streaming", [1, 2, 4, 8])
    assert error_band("pipelined", "wse1") == make_error_band("all modes", [1, 2, 4, 8, 16])
    assert "off by a factor of 2.00 in the median and 4.00 at worst" in error_band("streaming", "wse2").text()
    monkeypatch.setattr(error_bands, "load_recorded_runs", tuple)
    assert error_band("streaming", "wse2") is None


def test_rows_are_chosen_by_beginning_or_category():
    rows = list(ROWS.values())
    assert choose_rows(rows, []) == rows
    assert choose_rows(rows, ["programming"]) == choose_rows(rows, ["prog_"])
    assert {row.id for row in choose_rows(rows, ["prog_", "fft"])} == {
        "prog_dit",
        "prog_esm2",
        "prog_llama3_8b",
        "fft512",
    }


@pytest.mark.parametrize("entry", [main, lambda argv: command.main(argv[1:])], ids=["lazywafer", "module"])
def test_unknown_row_is_refused_with_what_there_is(entry, capsys):
    assert entry(["validate", "novelty"]) == 2
    err = capsys.readouterr().err
    assert "no row has the id, family or kernel 'novelty'" in err and "appliance" in err
    with pytest.raises(LazyError, match="novelty"):
        choose_rows(ROWS.values(), ["novelty"])


# Later logs of the same pages: no part of the bar that the others were set.
ADDED = {"gptj_cs2_2_r171", "gptj_cs2_2_r192", "gptj_cs3", "llama7_cs3", "llama3_8b_cs3"}
WORST, MEDIAN = 1.8, 1.3


def test_every_run_is_recorded():
    assert [run.id for run in load_planned_runs()] == list(WHOLE_RUNS)
    fitted = [i for i in WHOLE_RUNS if ROWS[i].fitted_constants]
    assert [run.id for run in load_planned_runs() if run.is_fitted] == fitted


def test_published_runs_are_planned_within_the_bar():
    judged = [run for run in load_planned_runs() if run.id not in ADDED]
    assert [run.id for run in judged if run.factor > WORST] == []
    assert make_error_band("all", (run.factor for run in judged)).median <= MEDIAN


def test_no_published_run_needs_more_than_the_peak_of_its_machine():
    """A rate above the peak shows that a number of the machine, or an extent of the script, is wrong."""
    assert [run.id for run in load_planned_runs() if run.peak_share > 1] == []


def test_host_limits_fc_mnist_and_two_constants_give_its_rows():
    rows = [run for run in load_planned_runs() if run.id.startswith("fcmnist")]
    assert {run.limit for run in rows} == {"control", "weights"}
    assert max(run.factor for run in rows) <= 1.4


def test_input_workers_limit_published_runs_of_small_models():
    limits = {run.id: run.limit for run in load_planned_runs()}
    small = ("bert_eval_cs3", "esm2_35m_cs3", "vit_base_cs2", "vit_base_cs3")
    assert [limits[name] for name in small] == ["input"] * 4
    factors = {run.id: run.factor for run in load_planned_runs() if run.is_test}
    assert max(factors[name] for name in ("bert_eval_cs3", "vit_base_cs3")) <= 1.3


def test_recorded_runs_name_no_folder():
    assert [run.id for run in load_planned_runs() if re.search(r"/\S+\.py", run.verdict)] == []


def test_page_shows_the_runs_that_are_recorded():
    shown = (ROOT / "wse_sim/README.md").read_text(encoding="utf-8")
    assert table.runs_markdown(results(ROWS.values())) in shown


@pytest.mark.slow
def test_recording_is_what_a_plan_says_today():
    """Within a tenth: prices move by some percent as kernels are mended."""
    recorded = {run.id: run for run in load_planned_runs()}
    run = plan_runs([ROWS["gpt2s_cs2"]], record_run)["gpt2s_cs2"]
    assert run.planned == pytest.approx(recorded[run.id].planned, rel=0.1)


@pytest.mark.slow
def test_nets_are_placed_near_their_area_bound_with_colours_that_there_are(capsys):
    assert main(["validate", "--placement", "--json", "fc_mnist"]) == 0
    (net,) = json.loads(capsys.readouterr().out)["nets"]
    assert 1 <= net["ratio"] <= MAX_BOUND_RATIO
    assert 0 < net["router_colours"] <= net["machine_colours"]
    assert main(["validate", "--placement", "--markdown", "fc_mnist"]) == 0
    assert "| fc_mnist | wse2 | 256 |" in capsys.readouterr().out
    assert main(["validate", "--placement", "alexnet"]) == 2
    assert "unknown network 'alexnet'" in capsys.readouterr().err
    assert command.main(["--placement"]) == 2


def test_nets_that_are_placed_have_their_scripts():
    folders = {SCRIPTS, SCRIPTS.parent}
    assert all(any((folder / net.script).is_file() for folder in folders) for net in NETS.values())
