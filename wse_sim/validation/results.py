"""Results of the model for every row, and errors of groups of rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from lazytensor.errors import LazyError
from wse_sim.machine import Machine
from wse_sim.validation.models import MODELS
from wse_sim.validation.near_names import near_names
from wse_sim.validation.reading import CycleReading, closed_form_cycles
from wse_sim.validation.row_model import find_machine
from wse_sim.validation.rows import FITTED, HELD_OUT, TRAINING_RUN, MeasuredRow
from wse_sim.validation.whole_runs import PlannedRun, WholeRun, load_planned_runs

LARGE_ERROR_RATIO = 0.30


@dataclass(frozen=True)
class RowResult:
    """A row with the model's figures in the row's unit, None if there is no figure.

    - `row`: the measured row
    - `closed`: the figure of the closed forms
    - `simulated`: the figure of the simulated fabric
    - `reason`: why the row is not predicted, or why its error is large
    - `gap`: why the row is predicted but could not be simulated, if a simulation was requested
    - `run`: for a whole training run, its plan instead of the two figures

    Whole runs are judged by a factor, because releases of one compiler differ by more than any error here.
    """

    row: MeasuredRow
    closed: float | None = None
    simulated: float | None = None
    reason: str = ""
    gap: str = ""
    run: PlannedRun | None = None

    @property
    def fitted(self) -> str:
        """Return the constants that were fitted on the row, "" if none."""
        return self.row.fitted_constants

    @property
    def is_covered(self) -> bool:
        """Return whether a model or a plan gives a figure for the row."""
        return self.closed is not None or self.run is not None

    @property
    def closed_error(self) -> float | None:
        """Return the signed relative error of the closed form, or None if there is none."""
        return _relative_error(self.closed, self.row)

    @property
    def simulated_error(self) -> float | None:
        """Return the signed relative error of the simulation, or None if there is none."""
        return _relative_error(self.simulated, self.row)

    @property
    def is_large(self) -> bool:
        """Return whether the absolute error of either figure exceeds `LARGE_ERROR_RATIO`, 30 %."""
        return any(abs(error or 0) > LARGE_ERROR_RATIO for error in (self.closed_error, self.simulated_error))

    @property
    def is_within_tolerance(self) -> bool | None:
        """Return whether the closed form's error is at most the row's tolerance, or None without one of the two."""
        if self.closed_error is None or self.row.tolerance is None:
            return None
        return abs(self.closed_error) <= self.row.tolerance


def _relative_error(value: float | None, row: MeasuredRow) -> float | None:
    return value / row.value - 1 if value is not None and isinstance(row.value, int | float) else None


def results(
    rows: Iterable[MeasuredRow],
    simulated: CycleReading | None = None,
    runs: Mapping[str, PlannedRun | LazyError] | None = None,
    machines: Mapping[str, Machine] | None = None,
) -> list[RowResult]:
    """Return the result of each row: by the closed forms, and by the reading `simulated` if it is given.

    A reading is a function (phase, machine) that returns cycles. A row without a prediction has the reason in its
    result, and a row that the reading cannot price has the reason in `gap`. Whole training runs are taken from `runs`
    (row id -> plan), by default from those recorded last.

    `machines` holds other machines to the rows: name in a row -> machine. Recorded runs are plans for the presets, so a
    run on another machine has no result without `runs`.

    >>> from dataclasses import replace
    >>> from wse_sim import WSE2
    >>> from wse_sim.validation import load
    >>> chain = [row for row in load() if row.id == "reduce_chain_P512_B4096"]
    >>> slow = replace(WSE2, hop_cycles=2)
    >>> [round(result.closed) for m in ({}, {"wse2": slow}) for result in results(chain, machines=m)]
    [7168, 7679]
    """
    others = dict(machines or {})
    recorded = {run.id: run for run in load_planned_runs()} if runs is None else None
    return [
        _whole_run_result(row, runs, recorded, others) if row.is_whole_run else _row_result(row, simulated, others)
        for row in rows
    ]


def _whole_run_result(
    row: MeasuredRow,
    runs: Mapping[str, PlannedRun | LazyError] | None,
    recorded: Mapping[str, PlannedRun] | None,
    machines: Mapping[str, Machine],
) -> RowResult:
    """Return the result of a whole training run with its plan, or with a reason if there is none.

    Without `runs`, the plan is one of `recorded`, unless `machines` replaces the machine of the run.
    """
    try:
        run = WholeRun.of(row, machines)
    except LazyError as e:
        return RowResult(row, reason=e.what)
    outcome: PlannedRun | LazyError | None
    if runs is not None:
        outcome = runs.get(row.id)
    else:
        known = (recorded or {}).get(row.id)
        is_same = known is not None and known.machine == run.machine.name and known.published == row.value
        outcome = known if is_same and not machines and not row.machine_fields else None
    if outcome is None:
        return RowResult(row, reason=f"no plan of {run.script} is recorded; plan it with `lazywafer validate`")
    if isinstance(outcome, LazyError):
        return RowResult(row, reason=str(outcome.what).splitlines()[0])
    # Without a published rate there is no factor, so the plan is a prediction like that of a kernel.
    if row.value is None:
        return RowResult(row, closed=outcome.planned) if outcome.planned else RowResult(row, reason=outcome.verdict)
    return RowResult(row, run=outcome)


def _row_result(row: MeasuredRow, simulated: CycleReading | None, machines: Mapping[str, Machine]) -> RowResult:
    """Return the result of a row by the model of its kernel, or with the reason if there is no prediction."""
    if not row.kernel:
        return RowResult(row, reason=row.note or "the row has no kernel")
    if row.kernel not in MODELS:
        known = (*MODELS, TRAINING_RUN)
        return RowResult(row, reason=f"kernel {row.kernel!r} is unknown; use {near_names(row.kernel, known)}")
    model = MODELS[row.kernel]
    try:
        machine = find_machine(row, machines)
        verdict = RowResult(row, model.figure(row, machine, closed_form_cycles))
    # A row whose experiment no kernel can run is not an error of the program.
    except LazyError as e:
        return RowResult(row, reason=e.what)
    if simulated is not None and not model.is_simulated:
        verdict = replace(verdict, gap=f"the kernel {row.kernel!r} has closed forms only")
    elif simulated is not None:
        try:
            verdict = replace(verdict, simulated=model.figure(row, machine, simulated))
        except LazyError as e:
            verdict = replace(verdict, gap=e.what)
    return replace(verdict, reason=row.note) if verdict.is_large else verdict


@dataclass(frozen=True)
class ErrorGroup:
    """Absolute errors of a group of predicted rows.

    - `name`: the group
    - `rows`, `test_rows`: number of rows, and of those that no constant was fitted on
    - `median`, `largest`: errors
    """

    name: str
    rows: int
    test_rows: int
    median: float
    largest: float


def _is_new(row: MeasuredRow) -> bool:
    return row.split == HELD_OUT


# Half of all rows come from one repository, so the others get a separate median.
GROUPS: Mapping[str, Callable[[MeasuredRow], bool]] = {
    "all": lambda row: True,
    "all but spmm": lambda row: row.family != "spmm",
    "all but spmm and new": lambda row: row.family != "spmm" and not _is_new(row),
    "new": _is_new,
    "new stencils": lambda row: row.family == "stencil" and _is_new(row),
    "test": lambda row: row.split != FITTED,
}
"""Name of a group that combines families -> function (row) that returns whether the row belongs to it."""


def summary(verdicts: Sequence[RowResult], column: str = "closed") -> list[ErrorGroup]:
    """Return the errors of each family, then of `GROUPS`.

    `column` is "closed" or "simulated". Rows without an error in this column are left out, and so are empty groups.
    """
    covered = [r for r in verdicts if getattr(r, f"{column}_error") is not None]
    families = dict.fromkeys(r.row.family for r in covered)
    parts = {family: [r for r in covered if r.row.family == family] for family in families}
    parts |= {name: [r for r in covered if belongs(r.row)] for name, belongs in GROUPS.items()}
    return [_error_group(name, rows, column) for name, rows in parts.items() if rows]


def _error_group(name: str, rows: Sequence[RowResult], column: str) -> ErrorGroup:
    errors = [abs(getattr(r, f"{column}_error")) for r in rows]
    return ErrorGroup(name, len(rows), sum(r.row.split != FITTED for r in rows), median(errors), max(errors))
