"""Results of the model for every row, and errors of groups of rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from wse_sim.validation.coverage import FITTED_ROWS, LARGE_ERROR_ROWS, UNCOVERED_ROWS
from wse_sim.validation.models import MODELS, Model
from wse_sim.validation.reading import CycleReading, UnsupportedPhaseError, closed_form_cycles
from wse_sim.validation.rows import MeasuredRow, longest_prefix
from wse_sim.validation.whole_runs import WHOLE_RUNS, PlannedRun, load_planned_runs

LARGE_ERROR_RATIO = 0.30
UNKNOWN_FAMILY = "no model covers rows of this name"


@dataclass(frozen=True)
class RowResult:
    """A row with the model's figures in the row's unit, None if there is no figure.

    - `row`: the measured row
    - `closed`: the figure of the closed forms
    - `simulated`: the figure of the simulated fabric
    - `fitted`: the constants that were fitted on the row, "" if none
    - `reason`: why the row is not covered, or why its error is large
    - `gap`: why the row is covered but could not be simulated, if a simulation was requested
    - `run`: for a whole training run, its plan instead of the two figures

    Whole runs are judged by a factor, because releases of one compiler differ by more than any error here.
    """

    row: MeasuredRow
    closed: float | None = None
    simulated: float | None = None
    fitted: str = ""
    reason: str = ""
    gap: str = ""
    run: PlannedRun | None = None

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


def _relative_error(value: float | None, row: MeasuredRow) -> float | None:
    return value / row.value - 1 if value is not None and isinstance(row.value, int | float) else None


def results(
    rows: Iterable[MeasuredRow], simulated: CycleReading | None = None, runs: Iterable[PlannedRun] | None = None
) -> list[RowResult]:
    """Return the result of each row: by the closed forms, and by the reading `simulated` if it is given.

    A reading is a function (phase, machine) that returns cycles. Whole training runs are taken from `runs`, by default
    from those recorded last. A row without a model or a recorded run has the reason in its result. A row that the
    reading cannot price has the reason in `gap`.
    """
    planned = {run.id: run for run in (load_planned_runs() if runs is None else runs)}
    return [_whole_run_result(row, planned) if row.id in WHOLE_RUNS else _row_result(row, simulated) for row in rows]


def _whole_run_result(row: MeasuredRow, planned: Mapping[str, PlannedRun]) -> RowResult:
    """Return the result of a whole training run with its plan, or with a reason if no plan of it is recorded.

    `planned` maps row ids to plans.
    """
    if row.id not in planned:
        return RowResult(
            row, reason=f"no plan of {WHOLE_RUNS[row.id].script} is recorded; run `lazywafer validate` to plan it"
        )
    return RowResult(row, run=planned[row.id], fitted=FITTED_ROWS.get(row.id, ""))


def _row_result(row: MeasuredRow, simulated: CycleReading | None) -> RowResult:
    """Return the result of a row by its model, with a reason if no model covers it or if the error is large."""
    # Search both tables at once: a longer prefix among the uncovered rows excludes a row from a model's family.
    name = longest_prefix(row, [*MODELS, *UNCOVERED_ROWS])
    if name not in MODELS:
        return RowResult(row, reason=UNCOVERED_ROWS.get(name, UNKNOWN_FAMILY))
    model = MODELS[name]
    try:
        closed = model(row, closed_form_cycles)
    # A row with other parameters than its family is not an error of the program.
    except KeyError as e:
        return RowResult(row, reason=f"the model needs {e}, which the row does not have")
    verdict = _add_simulated(model, RowResult(row, closed, fitted=FITTED_ROWS.get(row.id, "")), simulated)
    return (
        replace(verdict, reason=LARGE_ERROR_ROWS.get(longest_prefix(row, LARGE_ERROR_ROWS), ""))
        if verdict.is_large
        else verdict
    )


def _add_simulated(model: Model, verdict: RowResult, reading: CycleReading | None) -> RowResult:
    """Return the result with the simulated figure, or with the reason why there is none.

    Without a `reading` the result is unchanged.
    """
    if reading is None:
        return verdict
    try:
        return replace(verdict, simulated=model(verdict.row, reading))
    except UnsupportedPhaseError as e:
        return replace(verdict, gap=e.what)


@dataclass(frozen=True)
class ErrorGroup:
    """Absolute errors of a group of covered rows.

    - `name`: the group
    - `rows`, `test_rows`: number of rows, and of those that no constant was fitted on
    - `median`, `largest`: errors
    """

    name: str
    rows: int
    test_rows: int
    median: float
    largest: float


def summary(verdicts: Sequence[RowResult], column: str = "closed") -> list[ErrorGroup]:
    """Return the errors of each category, then of "all", "all but spmm" and "test" (rows no constant was fitted on).

    `column` is "closed" or "simulated". Rows without an error in this column are left out, and so are empty groups.
    """
    covered = [r for r in verdicts if getattr(r, f"{column}_error") is not None]
    categories = list(dict.fromkeys(r.row.category for r in covered))
    parts = {c: [r for r in covered if r.row.category == c] for c in categories}
    parts["all"] = covered
    # Half of all rows come from one repository, so the others get a separate median.
    parts["all but spmm"] = [r for r in covered if r.row.category != "spmm"]
    parts["test"] = [r for r in covered if not r.fitted]
    return [_error_group(name, rows, column) for name, rows in parts.items() if rows]


def _error_group(name: str, rows: Sequence[RowResult], column: str) -> ErrorGroup:
    errors = [abs(getattr(r, f"{column}_error")) for r in rows]
    return ErrorGroup(name, len(rows), sum(not r.fitted for r in rows), median(errors), max(errors))
