"""Whole training runs: plan the scripts of published runs and compare the rates.

A run is a script of `notebooks/scripts/published` with arguments, and the systems that it ran on. Recording a script's
step is implemented in a package above this one, so the command line passes in the recorder.
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
"""A function (script name, arguments) that returns the recorded step."""


@dataclass(frozen=True)
class WholeRun:
    """A published run.

    - `script`: the script
    - `machine`: name of the machine
    - `mode`: "pipelined" or "streaming"
    - `batch_size`: samples on all systems
    - `systems`: number of systems
    - `workers`: number of input workers
    - `args`: arguments of the script
    """

    script: str
    machine: str
    mode: str
    batch_size: int
    systems: int = 1
    workers: int = APPLIANCE.workers
    args: tuple[str, ...] = ()


# Up to release 1.8 the log of a run says whether it was pipelined. From 1.9 on weight streaming is the only mode.
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
"""Row id -> its run."""


@dataclass(frozen=True)
class PlannedRun:
    """The plan of a published run.

    - `id`: row id
    - `machine`, `mode`, `systems`, `batch_size`: the configuration
    - `published`, `planned`: samples per second on all systems; `planned` is 0 if the run does not fit
    - `limit`: the kind of the bound that decides
    - `verdict`: the sentence about the limit, or the reason why it does not fit
    - `peak_share`: the published rate, in the program's own operations, over the peak of the machine record
    - `is_fitted`: whether a constant was fitted on the run

    A `peak_share` above 1 means that the record or an extent of the script is wrong; the run is then no test.
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
        """Return whether the run tests the model: no constant was fitted on it, and its published rate is possible."""
        return not self.is_fitted and self.peak_share <= 1

    @property
    def factor(self) -> float:
        """Return the ratio of the larger to the smaller of the two rates, or infinity if the run does not fit."""
        return error_factor(self.published, self.planned)


def plan_runs(rows: Iterable[MeasuredRow], record: StepRecorder, fitted: Iterable[str] = ()) -> list[PlannedRun]:
    """Return the planned runs among `rows`, in order. Rows that are no whole run are skipped.

    Each script is recorded once, and runs on one machine share prices. `fitted` are the ids of rows that a constant was
    fitted on.
    """
    steps: dict[tuple[str, tuple[str, ...]], Source] = {}
    prices: dict[str, Prices] = {}
    planned = []
    for row in rows:
        if row.id not in WHOLE_RUNS:
            continue
        run = WHOLE_RUNS[row.id]
        # Record each script once: it takes seconds for a large model, and rows often differ only in machine and batch.
        if (run.script, run.args) not in steps:
            steps[run.script, run.args] = record(run.script, run.args)
        known = prices.setdefault(run.machine, Prices(Machine.by_name(run.machine)))
        outcome = plan_run(row, run, steps[run.script, run.args], known)
        planned.append(replace(outcome, is_fitted=row.id in fitted))
    return planned


def plan_run(row: MeasuredRow, run: WholeRun, step: Source, prices: Prices) -> PlannedRun:
    """Return the plan of one run in its published mode, on the machine of `prices`.

    If it does not fit, `planned` is 0 and `verdict` has the reason. Folders are removed from script lines.
    """
    machine, host = prices.machine, replace(APPLIANCE, workers=run.workers)
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
        # Strip folders from script lines, because the record is read on other machines.
        verdict=_FOLDER_PATTERN.sub("", words),
        peak_share=peak_share(row.value, step.program(run.batch_size), run, machine),
    )


def peak_share(samples_per_s: float, program: Program, run: WholeRun, machine: Machine) -> float:
    """Return the share of the peak of all systems that `samples_per_s` needs; above 1 if it is impossible.

    The peak counts two operations for each 16-bit multiply-add of every PE. The operations are those of `program`,
    whose batch is that of the run.
    """
    # All products of the published log ran in 16 bits, so use that peak rate.
    peak = machine.usable_pes * 2 * machine.fma_f16_per_cycle * machine.clock_hz
    return samples_per_s * program.work.flops / run.batch_size / (run.systems * peak)


def load_planned_runs() -> list[PlannedRun]:
    """Return the planned runs of the package's record file, as they were written last. Derived entries are ignored."""
    # Ignore derived entries of the file, such as `is_test`.
    names = PlannedRun.__dataclass_fields__
    return [PlannedRun(**{key: value for key, value in run.items() if key in names}) for run in load_recorded_runs()]


def write_runs(runs: Iterable[PlannedRun], path: pathlib.Path = WHOLE_RUNS_FILE) -> None:
    """Write the runs to the file that error bands are read from, in the order of `WHOLE_RUNS`.

    Runs in the package's record file that are not in `runs` are kept. Runs of unknown rows are dropped. The cache of
    recorded runs is cleared.
    """
    # Keep the figures of other runs, so that a single run can be recorded.
    latest = {run.id: run for run in (*load_planned_runs(), *runs)}
    data: list[dict[str, Any]] = [
        {**asdict(latest[i]), "is_test": latest[i].is_test} for i in WHOLE_RUNS if i in latest
    ]
    write_file_atomically(path, json.dumps({"runs": data}, indent=1) + "\n")
    load_recorded_runs.cache_clear()


def choose_rows(rows: Iterable[MeasuredRow], names: Iterable[str]) -> list[MeasuredRow]:
    """Return the rows whose id starts with one of `names`, or whose category is one of them; all rows without names.

    Rows keep their order. Raise LazyError for a name that matches no row.
    """
    listed, wanted = list(rows), list(names)
    for name in wanted:
        if not any(_is_named(row, name) for row in listed):
            known = ", ".join(dict.fromkeys(row.category for row in listed))
            raise LazyError(
                f"no row has the id or category {name!r}", hint=f"Use a prefix of a row's id, or one of {known}."
            )
    return [row for row in listed if not wanted or any(_is_named(row, name) for name in wanted)]


def _is_named(row: MeasuredRow, name: str) -> bool:
    return row.id.startswith(name) or row.category == name
