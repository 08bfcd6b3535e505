"""Every row with what the model says about it, and the errors of groups of rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from wse_sim.validation.coverage import FITTED_ROWS, LARGE_ERROR_ROWS, UNCOVERED_ROWS
from wse_sim.validation.models import MODELS, Model
from wse_sim.validation.reading import CycleReading, UnsupportedPhaseError, closed_form_cycles
from wse_sim.validation.rows import MeasuredRow, longest_prefix
from wse_sim.validation.whole_runs import WHOLE_RUNS, PlannedRun, load_planned_runs

LARGE_ERROR_RATIO = 0.30
UNKNOWN_FAMILY = "no model is known for a row of this name"


@dataclass(frozen=True)
class RowResult:
    """A row beside the closed form and the simulated fabric, in the row's unit; None where there is no such figure.

    `fitted` names the constants that the row went into, `reason` says why it is not covered or why an error is large,
    `gap` why it is covered but not simulated, if a simulation was asked for. A whole training run has a plan in the
    place of both figures: it is judged by a factor, and releases of one compiler differ by more than any error here.
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
        """Whether a model or a plan gives the row a figure."""
        return self.closed is not None or self.run is not None

    @property
    def closed_error(self) -> float | None:
        """Relative to the measurement, with its sign."""
        return _relative_error(self.closed, self.row)

    @property
    def simulated_error(self) -> float | None:
        """As `closed_error`, of the simulation."""
        return _relative_error(self.simulated, self.row)

    @property
    def is_large(self) -> bool:
        """Whether either figure is far from the measurement."""
        return any(abs(error or 0) > LARGE_ERROR_RATIO for error in (self.closed_error, self.simulated_error))


def _relative_error(value: float | None, row: MeasuredRow) -> float | None:
    return value / row.value - 1 if value is not None and isinstance(row.value, int | float) else None


def results(
    rows: Iterable[MeasuredRow], simulated: CycleReading | None = None, runs: Iterable[PlannedRun] | None = None
) -> list[RowResult]:
    """Each row priced by the closed forms, and by the reading `simulated` where one is given and can.

    Whole training runs are as in `runs`, or as they were planned when they were last recorded.
    """
    planned = {run.id: run for run in (load_planned_runs() if runs is None else runs)}
    return [_whole_run_result(row, planned) if row.id in WHOLE_RUNS else _row_result(row, simulated) for row in rows]


def _whole_run_result(row: MeasuredRow, planned: Mapping[str, PlannedRun]) -> RowResult:
    if row.id not in planned:
        return RowResult(
            row, reason=f"no plan of {WHOLE_RUNS[row.id].script} is recorded; `lazywafer validate` makes one"
        )
    return RowResult(row, run=planned[row.id], fitted=FITTED_ROWS.get(row.id, ""))


def _row_result(row: MeasuredRow, simulated: CycleReading | None) -> RowResult:
    # Both lists are searched at once: a longer beginning among the rows not covered takes a row out of a model's
    # family.
    name = longest_prefix(row, [*MODELS, *UNCOVERED_ROWS])
    if name not in MODELS:
        return RowResult(row, reason=UNCOVERED_ROWS.get(name, UNKNOWN_FAMILY))
    model = MODELS[name]
    try:
        closed = model(row, closed_form_cycles)
    # A row of a covered family that gives other parameters is no failure of the program.
    except KeyError as e:
        return RowResult(row, reason=f"the model needs {e}, which the row does not give")
    verdict = _add_simulated(model, RowResult(row, closed, fitted=FITTED_ROWS.get(row.id, "")), simulated)
    return (
        replace(verdict, reason=LARGE_ERROR_ROWS.get(longest_prefix(row, LARGE_ERROR_ROWS), ""))
        if verdict.is_large
        else verdict
    )


def _add_simulated(model: Model, verdict: RowResult, reading: CycleReading | None) -> RowResult:
    """The same with the simulated figure, or with the reason why there is none."""
    if reading is None:
        return verdict
    try:
        return replace(verdict, simulated=model(verdict.row, reading))
    except UnsupportedPhaseError as e:
        return replace(verdict, gap=e.what)


@dataclass(frozen=True)
class ErrorGroup:
    """Absolute errors of the covered rows of one name: how many, how many of them a test, the median, the largest."""

    name: str
    rows: int
    test_rows: int
    median: float
    largest: float


def summary(verdicts: Sequence[RowResult], column: str = "closed") -> list[ErrorGroup]:
    """A group for each category, then "all", "all but spmm" and "test" (rows that no constant was fitted on)."""
    covered = [r for r in verdicts if getattr(r, f"{column}_error") is not None]
    categories = list(dict.fromkeys(r.row.category for r in covered))
    parts = {c: [r for r in covered if r.row.category == c] for c in categories}
    parts["all"] = covered
    # Half of all rows are of one repository; the others have a median of their own.
    parts["all but spmm"] = [r for r in covered if r.row.category != "spmm"]
    parts["test"] = [r for r in covered if not r.fitted]
    return [_error_group(name, rows, column) for name, rows in parts.items() if rows]


def _error_group(name: str, rows: Sequence[RowResult], column: str) -> ErrorGroup:
    errors = [abs(getattr(r, f"{column}_error")) for r in rows]
    return ErrorGroup(name, len(rows), sum(not r.fitted for r in rows), median(errors), max(errors))
