"""Whole training runs: their scripts planned as a user's are, beside the published rates.

A run is a script of `notebooks/scripts/published` with arguments, and the systems that it ran on. What records a
script's step is above this package, so it is given by the command line that does both.
"""

import json
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from lazytensor.errors import LazyError
from lazytensor.ir.program import Program
from lazytensor.system.output_files import write_file_atomically
from wse_sim.error_bands import WHOLE_RUNS_FILE, error_factor, load_recorded_runs
from wse_sim.host import APPLIANCE
from wse_sim.machine import Machine
from wse_sim.planner.modes import Source, plan
from wse_sim.planner.prices import Prices
from wse_sim.validation.rows import MeasuredRow

_FOLDER_PATTERN = re.compile(r"[^\s(]*/(?=[^\s/]+\.py:\d)")

StepRecorder = Callable[[str, tuple[str, ...]], Source]
"""From the name of a script and its arguments to its recorded step."""


@dataclass(frozen=True)
class WholeRun:
    """A published run: which script, and on what it ran; `batch_size` is that of all systems together."""

    script: str
    machine: str
    mode: str
    batch_size: int
    systems: int = 1
    workers: int = APPLIANCE.workers
    args: tuple[str, ...] = ()


# Up to release 1.8 a run was pipelined if its log says so; from 1.9 on weight streaming is the only mode.
WHOLE_RUNS: Mapping[str, WholeRun] = {
    "fcmnist_cs1": WholeRun(script="fc_mnist.py", machine="wse1", mode="pipelined", batch_size=256),
    "fcmnist_cs2_a": WholeRun(script="fc_mnist.py", machine="wse2", mode="pipelined", batch_size=256),
    "fcmnist_cs2_b": WholeRun(script="fc_mnist.py", machine="wse2", mode="pipelined", batch_size=256),
    "bert_r171": WholeRun(script="bert_large.py", machine="wse2", mode="pipelined", batch_size=1024, workers=1),
    "bert_r192": WholeRun(script="bert_large.py", machine="wse2", mode="streaming", batch_size=1024, workers=1),
    "bert_r203": WholeRun(script="bert_large.py", machine="wse2", mode="streaming", batch_size=1024, workers=1),
    "bert_eval_cs3": WholeRun(
        script="bert_large.py", machine="wse3", mode="streaming", batch_size=256, args=("--mode", "eval")
    ),
    "gpt2s_cs2": WholeRun(script="gpt2.py", machine="wse2", mode="streaming", batch_size=112, workers=1),
    "gptj_cs2_1": WholeRun(script="gptj.py", machine="wse2", mode="streaming", batch_size=66, workers=1),
    "gptj_cs2_2": WholeRun(script="gptj.py", machine="wse2", mode="streaming", batch_size=120, systems=2),
    "gptj_cs2_2_r171": WholeRun(script="gptj.py", machine="wse2", mode="streaming", batch_size=130, systems=2),
    "gptj_cs2_2_r192": WholeRun(script="gptj.py", machine="wse2", mode="streaming", batch_size=130, systems=2),
    "gptj_cs3": WholeRun(script="gptj.py", machine="wse3", mode="streaming", batch_size=120),
    "llama7_cs2": WholeRun(script="llama2_7b.py", machine="wse2", mode="streaming", batch_size=99),
    "llama7_cs3": WholeRun(script="llama2_7b.py", machine="wse3", mode="streaming", batch_size=1024),
}
"""Row -> its run."""


@dataclass(frozen=True)
class PlannedRun:
    """What `plan` says about a published run: samples/s of all systems, 0 where it does not fit, and why no more.

    `peak_share` is what the published rate would take of the peak of the machine record, counting the program's own
    operations. Above 1 the record or an extent of the script is wrong, and the run is no test.
    """

    id: str
    machine: str
    mode: str
    systems: int
    batch_size: int
    published: float
    planned: float
    limit: str
    verdict: str
    peak_share: float
    is_fitted: bool = False

    @property
    def is_test(self) -> bool:
        """Whether the run can tell how good the model is: no constant was fitted on it, and it is possible."""
        return not self.is_fitted and self.peak_share <= 1

    @property
    def factor(self) -> float:
        """How many times the planned rate is off."""
        return error_factor(self.published, self.planned)


def plan_runs(rows: Iterable[MeasuredRow], record: StepRecorder, fitted: Iterable[str] = ()) -> list[PlannedRun]:
    """Plan the runs among `rows`; those of one script are recorded once, those of one machine share their prices."""
    steps: dict[tuple[str, tuple[str, ...]], Source] = {}
    prices: dict[str, Prices] = {}
    planned = []
    for row in rows:
        if row.id not in WHOLE_RUNS:
            continue
        run = WHOLE_RUNS[row.id]
        # Recording a large model takes seconds, and rows of one script differ in machine and batch alone.
        if (run.script, run.args) not in steps:
            steps[run.script, run.args] = record(run.script, run.args)
        known = prices.setdefault(run.machine, Prices(Machine.by_name(run.machine)))
        outcome = plan_run(row, run, steps[run.script, run.args], known)
        planned.append(replace(outcome, is_fitted=row.id in fitted))
    return planned


def plan_run(row: MeasuredRow, run: WholeRun, step: Source, prices: Prices) -> PlannedRun:
    """Plan one run, in the mode that it was published in, on the machine of `prices`."""
    machine, host = prices.machine, replace(APPLIANCE, workers=run.workers)
    # The published mode, and not the faster one: the row says how the run was made.
    report = plan(step, machine, run.mode, run.batch_size, run.systems, host, prices, other=False).report
    words = report.verdict if report.fits else report.chosen.reason
    return PlannedRun(
        id=row.id,
        machine=run.machine,
        mode=run.mode,
        systems=run.systems,
        batch_size=run.batch_size,
        published=row.value,
        planned=report.samples_per_s if report.fits else 0.0,
        limit=report.limit if report.fits else "does not fit",
        # Lines are named by the script alone: what is recorded is read on other machines.
        verdict=_FOLDER_PATTERN.sub("", words),
        peak_share=peak_share(row.value, step.program(run.batch_size), run, machine),
    )


def peak_share(samples_per_s: float, program: Program, run: WholeRun, machine: Machine) -> float:
    """What a rate takes of the peak of all systems: two operations for each multiply-add of 16 bits of a PE."""
    # In the published log all products ran in 16 bits, whatever rate a kernel of ours reaches.
    peak = machine.usable_pes * 2 * machine.fma_f16_per_cycle * machine.clock_hz
    return samples_per_s * program.work.flops / run.batch_size / (run.systems * peak)


def load_planned_runs() -> list[PlannedRun]:
    """The runs as they were planned when they were last recorded."""
    # What the file has besides, such as whether a run is a test, follows from these.
    names = PlannedRun.__dataclass_fields__
    return [PlannedRun(**{key: value for key, value in run.items() if key in names}) for run in load_recorded_runs()]


def write_runs(runs: Iterable[PlannedRun], path: pathlib.Path = WHOLE_RUNS_FILE) -> None:
    """Record the runs, for the error bands of reports; runs of before that are not among them stay."""
    # Runs that were not planned now keep their figures, so that one of them can be recorded alone.
    latest = {run.id: run for run in (*load_planned_runs(), *runs)}
    data: list[dict[str, Any]] = [
        {**asdict(latest[i]), "is_test": latest[i].is_test} for i in WHOLE_RUNS if i in latest
    ]
    write_file_atomically(path, json.dumps({"runs": data}, indent=1) + "\n")
    load_recorded_runs.cache_clear()


def choose_rows(rows: Iterable[MeasuredRow], names: Iterable[str]) -> list[MeasuredRow]:
    """The rows whose ids, or categories, begin with one of `names`; all without any. Raises LazyError for unknown."""
    listed, wanted = list(rows), list(names)
    for name in wanted:
        if not any(_is_named(row, name) for row in listed):
            known = ", ".join(dict.fromkeys(row.category for row in listed))
            raise LazyError(f"no row is called {name!r}", hint=f"Give the beginning of a row's id, or one of {known}.")
    return [row for row in listed if not wanted or any(_is_named(row, name) for name in wanted)]


def _is_named(row: MeasuredRow, name: str) -> bool:
    return row.id.startswith(name) or row.category == name
