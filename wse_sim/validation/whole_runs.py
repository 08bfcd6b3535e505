"""Whole training runs: plan the scripts of published runs and compare the rates.

A row of a run has a script, its arguments, a mode, and the systems that it ran on. Recording a script's step is
implemented in a package above this one, so the command line passes in the recorder.
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
from wse_sim.validation.near_names import near_names
from wse_sim.validation.row_model import RowParam, RowRefused, check_params, find_machine, whole_number
from wse_sim.validation.rows import FITTED, MeasuredRow, load

_FOLDER_PATTERN = re.compile(r"[^\s(]*/(?=[^\s/]+\.py:\d)")
RUN_MODES = ("pipelined", "streaming")
RUN_UNIT = "samples/s"

StepRecorder = Callable[[str, tuple[str, ...]], Source]
"""A function (script, arguments) that returns the recorded step."""


def _check_arguments(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        raise ValueError("a list of texts")
    return tuple(value)


RUN_PARAMS: Mapping[str, RowParam] = {
    "batch": whole_number("samples of a step on all systems"),
    "systems": whole_number("number of systems", default=1),
    "workers": whole_number("input workers", default=APPLIANCE.workers),
    "args": RowParam("arguments of the script, a list of texts", _check_arguments, ()),
}
"""Parameters of a row of a whole training run."""


@dataclass(frozen=True)
class WholeRun:
    """A training run to plan.

    - `script`: the script
    - `machine`: the machine
    - `mode`: "pipelined" or "streaming"
    - `batch_size`: samples on all systems
    - `systems`: number of systems
    - `workers`: number of input workers
    - `args`: arguments of the script
    """

    script: str
    machine: Machine
    mode: str
    batch_size: int
    systems: int
    workers: int
    args: tuple[str, ...]

    @classmethod
    def of(cls, row: MeasuredRow, machines: Mapping[str, Machine]) -> "WholeRun":
        """Return the run of a row. `machines` replaces presets by name.

        Raise LazyError, with the reason, if the row has no script, an unknown mode, machine or unit, a range as its
        figure, or parameters that do not fit `RUN_PARAMS`.
        """
        # Up to release 1.8 the log of a run says whether it was pipelined. From 1.9 on streaming is the only mode.
        if not row.script:
            raise RowRefused("field 'script' is empty: a whole run needs its script")
        if row.mode not in RUN_MODES:
            raise RowRefused(f"field 'mode' is {row.mode!r}; use {' or '.join(RUN_MODES)}")
        if row.unit != RUN_UNIT:
            raise RowRefused(f"a whole run has no figure in {row.unit!r}; use {near_names(row.unit, [RUN_UNIT])}")
        if isinstance(row.value, tuple):
            raise RowRefused("field 'value' is a range; give one rate, or null to plan without comparing")
        params = check_params(row, RUN_PARAMS)
        machine = find_machine(row, machines)
        return cls(row.script, machine, row.mode, params["batch"], *(params[n] for n in ("systems", "workers", "args")))


@dataclass(frozen=True)
class PlannedRun:
    """The plan of a published run.

    - `id`: row id
    - `machine`, `mode`, `systems`, `batch_size`: the configuration
    - `published`, `planned`: samples per second on all systems; `published` is 0 if the row has no figure, and
      `planned` if the run does not fit
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


def plan_runs(
    rows: Iterable[MeasuredRow], record: StepRecorder, machines: Mapping[str, Machine] | None = None
) -> dict[str, PlannedRun | LazyError]:
    """Return row id -> plan, or the error that prevents it, for the whole runs among `rows`, in order.

    Each script is recorded once, and runs on one machine share prices. `machines` replaces presets by name. Any
    exception of a user's script, also an exit, is an error of its rows only.
    """
    steps: dict[tuple[str, tuple[str, ...]], Source | LazyError] = {}
    prices: dict[Machine, Prices] = {}
    planned: dict[str, PlannedRun | LazyError] = {}
    for row in rows:
        if not row.is_whole_run:
            continue
        try:
            run = WholeRun.of(row, machines or {})
            # Record each script once: it takes seconds for a large model, and rows often differ only in machine.
            if (run.script, run.args) not in steps:
                steps[run.script, run.args] = _record_step(run, record)
            step = steps[run.script, run.args]
            if isinstance(step, LazyError):
                raise step
            planned[row.id] = plan_run(row, run, step, prices.setdefault(run.machine, Prices(run.machine)))
        except LazyError as e:
            planned[row.id] = e
    return planned


def _record_step(run: WholeRun, record: StepRecorder) -> Source | LazyError:
    """Return the recorded step of a run, or the error of its script."""
    try:
        return record(run.script, run.args)
    except LazyError as e:
        return e
    # A script is the user's code and may raise anything.
    except (Exception, SystemExit) as e:
        return LazyError(f"{run.script} failed: {type(e).__name__}: {e}", hint="Run the script by itself first.")


def plan_run(row: MeasuredRow, run: WholeRun, step: Source, prices: Prices) -> PlannedRun:
    """Return the plan of one run in its published mode, on the machine of `prices`.

    If it does not fit, `planned` is 0 and `verdict` has the reason. Folders are removed from script lines.
    """
    machine, host = prices.machine, replace(APPLIANCE, workers=run.workers)
    published = row.value if isinstance(row.value, int | float) else 0.0
    report = plan(step, machine, run.mode, run.batch_size, run.systems, host, prices, other=False).report
    words = report.verdict if report.fits else report.chosen.reason
    return PlannedRun(
        id=row.id,
        machine=machine.name,
        mode=run.mode,
        systems=run.systems,
        batch_size=run.batch_size,
        published=published,
        planned=report.samples_per_s if report.fits else 0.0,
        limit=report.limit if report.fits else "does not fit",
        # Strip folders from script lines, because the record is read on other machines.
        verdict=_FOLDER_PATTERN.sub("", words),
        peak_share=peak_share(published, step.program(run.batch_size), run, machine),
        is_fitted=row.split == FITTED,
    )


def peak_share(samples_per_s: float, program: Program, run: WholeRun, machine: Machine) -> float:
    """Return the share of the peak of all systems that `samples_per_s` needs; above 1 if it is impossible.

    The peak counts two operations for each 16-bit multiply-add of every PE. The operations are those of `program`,
    whose batch is that of the run.
    """
    # All products of the published log ran in 16 bits, so use that peak rate.
    peak = machine.usable_pes * 2 * machine.product_f16_per_cycle * machine.clock_hz
    return samples_per_s * program.work.flops / run.batch_size / (run.systems * peak)


def load_planned_runs() -> list[PlannedRun]:
    """Return the planned runs of the package's record file, as they were written last. Derived entries are ignored."""
    # Ignore derived entries of the file, such as `is_test`.
    names = PlannedRun.__dataclass_fields__
    return [PlannedRun(**{key: value for key, value in run.items() if key in names}) for run in load_recorded_runs()]


def write_runs(runs: Iterable[PlannedRun], path: pathlib.Path = WHOLE_RUNS_FILE) -> None:
    """Write the runs to the file that error bands are read from, in the order of the package's rows.

    Runs in the package's record file that are not in `runs` are kept. Runs of unknown rows are dropped. The cache of
    recorded runs is cleared.
    """
    # Keep the figures of other runs, so that a single run can be recorded.
    latest = {run.id: run for run in (*load_planned_runs(), *runs)}
    data: list[dict[str, Any]] = [
        {**asdict(latest[row.id]), "is_test": latest[row.id].is_test} for row in load() if row.id in latest
    ]
    write_file_atomically(path, json.dumps({"runs": data}, indent=1) + "\n")
    load_recorded_runs.cache_clear()
