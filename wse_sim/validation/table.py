"""The validation results as text, as Markdown and as data for JSON."""

from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from typing import Any

from lazytensor.display.table import Column, Table
from wse_sim import number_format
from wse_sim.error_bands import ErrorBand, make_error_band
from wse_sim.validation.cut import CORNER_SIDE_PES, MAX_RELAY_HOPS
from wse_sim.validation.models import MODELS
from wse_sim.validation.results import GROUPS, ErrorGroup, RowResult, summary
from wse_sim.validation.row_model import REQUIRED, RowParam
from wse_sim.validation.rows import HELD_OUT, TRAINING_RUN
from wse_sim.validation.whole_runs import RUN_PARAMS, RUN_UNIT, PlannedRun

_MISSING_TEXT = "-"
_TEXT_WIDTH = 118
FITTED_MARK = "* a constant of the model was fitted to this row"
NEW_MARK = "+ a new row: neither a constant nor a program was adapted to its figure"
OUTSIDE_MARK = "! the error of the closed form is above the row's tolerance"
GOALS: Mapping[str, tuple[float, float | None]] = {"all but spmm and new": (0.03, 0.20), "new stencils": (0.15, None)}
"""Group of rows -> goals of the project for the median and for the largest error, as shares; None without a goal."""
SIMULATED_CAPTION = (
    "The simulation runs each part of a program wavelet by wavelet on a small mesh, not the whole mesh at once: a move "
    "on one line of full length, work on one PE, and one of several equal rounds, whose cycles are multiplied. "
    "Concurrent parts take the longer of two times: that of the longest move by itself, and that of all parts on a "
    f"corner of {CORNER_SIDE_PES} x {CORNER_SIDE_PES} PEs (the products in gemm and of prefill, the solver). Shifts "
    f"by more than {MAX_RELAY_HOPS} PEs are relayed (fft)."
)


def format_figure(value: Any) -> str:
    """Return a number with four digits, a list as "A to B", and None as "-"."""
    if value is None:
        return _MISSING_TEXT
    if isinstance(value, list | tuple):
        return " to ".join(format_figure(v) for v in value)
    return number_format.format_number(value)


def format_signed_percent(error: float | None) -> str:
    """Return a relative error in percent with its sign, or "-" for None."""
    return _MISSING_TEXT if error is None else f"{100 * error:+.1f} %"


def format_error_share(error: float | None) -> str:
    """Return an absolute error in percent, or "-" for None."""
    return _MISSING_TEXT if error is None else f"{100 * error:.1f} %"


def text(verdicts: Sequence[RowResult]) -> str:
    """Return the tables of predicted rows, families and bars, whole runs, and lines with reasons.

    The lines name large errors, rows that were not simulated, and rows without a prediction. Tables are left out if
    they have no rows.
    """
    # Whole runs have a separate table: their figures are rates, with factors and not percentages as errors.
    covered = [r for r in verdicts if r.is_covered and r.run is None]
    notes = [*_marks(covered), *(wrap(SIMULATED_CAPTION, _TEXT_WIDTH) if _has_simulated(verdicts) else [])]
    lines = [
        *(f"{r.row.id}: {_errors_text(r)}. {r.reason}" for r in covered if r.reason),
        *_simulation_gap_lines(covered),
        *_uncovered_lines(verdicts),
    ]
    tables = [_row_table(verdicts).text(), "\n".join(notes)] if covered else []
    if summary(verdicts):
        tables += [_family_table(verdicts).text(), _bar_table(verdicts).text()]
    sections = (*tables, *run_sections(planned_runs(verdicts), Table.text), "\n".join(lines))
    return "\n\n".join(part for part in sections if part)


def _marks(covered: Sequence[RowResult]) -> list[str]:
    """Return an explanation of each mark that the table of rows has."""
    marks = "".join(_row_marks(covered).values())
    return [line for line in (FITTED_MARK, NEW_MARK, OUTSIDE_MARK) if line[0] in marks]


def _row_marks(verdicts: Sequence[RowResult]) -> dict[str, str]:
    """Return row id -> marks: "*" fitted, "+" new, "!" outside of its tolerance.

    No row has the mark of a new one if all are new, as in a user's file.
    """
    has_others = any(r.row.split != HELD_OUT for r in verdicts)
    return {
        r.row.id: "*" * bool(r.fitted)
        + "+" * (has_others and r.row.split == HELD_OUT)
        + "!" * (r.is_within_tolerance is False)
        for r in verdicts
    }


def _simulation_gap_lines(covered: Sequence[RowResult]) -> list[str]:
    """Return a heading and a line with the reason for each covered row that was not simulated; empty if none."""
    gaps = [f"  {r.row.id}: {r.gap}" for r in covered if r.gap]
    return ["Not simulated:", *gaps] if gaps else []


def _uncovered_lines(verdicts: Sequence[RowResult]) -> list[str]:
    """Return a heading and a line for each row without a prediction, with figure and reason; empty if there is none."""
    reasons = [
        f"  {r.row.id}  {format_figure(r.row.value)} {r.row.unit}: {r.reason}" for r in verdicts if not r.is_covered
    ]
    return ["Not predicted:", *reasons] if reasons else []


def _has_simulated(verdicts: Sequence[RowResult]) -> bool:
    """Return whether any row was simulated."""
    return any(r.simulated is not None for r in verdicts)


def _errors_text(r: RowResult) -> str:
    """Return the signed error of the closed form in percent, and that of the simulation, if any, in parentheses."""
    simulated = f" (simulated {format_signed_percent(r.simulated_error)})" if r.simulated is not None else ""
    return format_signed_percent(r.closed_error) + simulated


_ROW_COLUMNS = (
    *(Column(head, is_words=True) for head in ("row", "unit")),
    *(Column("measured", format_figure), Column("closed form", format_figure), Column("error", format_signed_percent)),
    *(Column("simulated", format_figure), Column("error", format_signed_percent)),
)
_GROUP_COLUMNS = (
    Column("family", is_words=True),
    *(
        Column("rows"),
        Column("of them test"),
        Column("median error", format_error_share),
        Column("largest", format_error_share),
    ),
    *(Column("simulated", format_figure), Column("median", format_error_share), Column("largest", format_error_share)),
)
_BAR_COLUMNS = (
    *(Column("bar", is_words=True), Column("rows")),
    *(Column(head, format_error_share) for head in ("median error", "largest", "goal, median", "goal, largest")),
    Column("within tolerance", is_words=True),
    *(Column("simulated", format_figure), Column("median", format_error_share), Column("largest", format_error_share)),
)
_CLOSED_BAR_COLUMNS = 7
_CLOSED_COLUMNS = 5  # Number of columns before those of the simulation, in both tables.


def _make_table(columns: tuple[Column, ...], rows: Sequence[tuple[Any, ...]], has_simulated: bool) -> Table:
    """Return a table. Unless `has_simulated`, only the first `_CLOSED_COLUMNS` columns are included."""
    count = len(columns) if has_simulated else _CLOSED_COLUMNS
    return Table(columns[:count], [row[:count] for row in rows])


def _row_table(verdicts: Sequence[RowResult]) -> Table:
    """Return the table of predicted rows without whole runs, with the marks of `_row_marks` after the ids."""
    marks = _row_marks(verdicts)
    rows = [
        (
            r.row.id + marks[r.row.id],
            *(r.row.unit, r.row.value, r.closed, r.closed_error, r.simulated, r.simulated_error),
        )
        for r in verdicts
        if r.is_covered and r.run is None
    ]
    return _make_table(_ROW_COLUMNS, rows, _has_simulated(verdicts))


def _family_table(verdicts: Sequence[RowResult]) -> Table:
    """Return the table of the errors of each family, by closed forms and, if any row was simulated, by simulation."""
    simulated = {g.name: g for g in summary(verdicts, "simulated")}
    # The medians may come from different rows if some were not simulated.
    rows = [
        (g.name, g.rows, g.test_rows, g.median, g.largest, *_simulated_columns(simulated.get(g.name)))
        for g in summary(verdicts)
        if g.name not in GROUPS
    ]
    return _make_table(_GROUP_COLUMNS, rows, bool(simulated))


def _bar_table(verdicts: Sequence[RowResult]) -> Table:
    """Return the table of the groups that combine families, with their goals and the rows within their tolerance."""
    simulated = {g.name: g for g in summary(verdicts, "simulated")}
    rows = [
        (
            *(
                g.name,
                g.rows,
                g.median,
                g.largest,
                *GOALS.get(g.name, (None, None)),
                _within_tolerance(verdicts, g.name),
            ),
            *_simulated_columns(simulated.get(g.name)),
        )
        for g in summary(verdicts)
        if g.name in GROUPS
    ]
    count = len(_BAR_COLUMNS) if simulated else _CLOSED_BAR_COLUMNS
    return Table(_BAR_COLUMNS[:count], [row[:count] for row in rows])


def _within_tolerance(verdicts: Sequence[RowResult], group: str) -> str:
    """Return how many rows of a group are within their tolerance, as "3 of 4", or "-" if no row has one."""
    judged = [r.is_within_tolerance for r in verdicts if GROUPS[group](r.row) and r.is_within_tolerance is not None]
    return f"{sum(judged)} of {len(judged)}" if judged else _MISSING_TEXT


def _simulated_columns(group: ErrorGroup | None) -> tuple[int | None, float | None, float | None]:
    return (group.rows, group.median, group.largest) if group else (None, None, None)


def markdown(verdicts: Sequence[RowResult]) -> str:
    """Return the tables of families and bars, and below them the seen rows with an error above 30 %, with reasons.

    If any row was simulated, a caption and the rows that could not be simulated are between them.
    """
    lines = [_family_table(verdicts).markdown(), "", _bar_table(verdicts).markdown(), ""]
    if _has_simulated(verdicts):
        lines += [SIMULATED_CAPTION, *(f"`{r.row.id}` is not simulated: {r.gap}." for r in verdicts if r.gap), ""]
    lines += [f"- `{r.row.id}`, {_errors_text(r)}: {r.reason}." for r in verdicts if r.is_large and r.reason]
    return "\n".join(lines)


def runs_markdown(verdicts: Sequence[RowResult]) -> str:
    """Return the table of whole runs, and below it their error bands and notes; "" without runs."""
    return "\n\n".join(run_sections(planned_runs(verdicts), Table.markdown))


def planned_runs(verdicts: Sequence[RowResult]) -> list[PlannedRun]:
    """Return the planned runs among the results."""
    return [r.run for r in verdicts if r.run is not None]


_RUN_COLUMNS = (
    *(Column(head, is_words=True) for head in ("run", "mode", "systems")),
    *(
        Column("batch"),
        Column("published", format_figure),
        Column("planned", format_figure),
        Column("factor", "{:.2f}".format),
    ),
    *(Column("of peak", "{:.0%}".format), Column("limit", is_words=True)),
)


def run_sections(runs: Sequence[PlannedRun], form: Callable[[Table], str]) -> list[str]:
    """Return the table of the runs in samples/s, and a text with error bands and notes; empty without runs.

    `form` converts a table to text. An asterisk marks runs that a constant was fitted on.
    """
    if not runs:
        return []
    rows = [
        (
            run.id + ("*" if run.is_fitted else ""),
            *(run.mode, f"{run.systems} x {run.machine}", run.batch_size, run.published, run.planned, run.factor),
            *(run.peak_share, run.limit),
        )
        for run in runs
    ]
    return [form(Table(_RUN_COLUMNS, rows)), "\n".join([*_band_lines(runs), *_run_notes(runs)])]


def error_bands(runs: Sequence[PlannedRun]) -> list[ErrorBand]:
    """Return the error bands of the test runs: one for each mode, and one for "all". Empty without test runs."""
    # Exclude fitted runs and impossible ones: neither shows how good the model is.
    tests = [run for run in runs if run.is_test]
    modes = dict.fromkeys(run.mode for run in tests)
    families = [make_error_band(mode, (r.factor for r in tests if r.mode == mode)) for mode in modes]
    return [band for band in (*families, make_error_band("all", (r.factor for r in tests))) if band is not None]


def _band_lines(runs: Sequence[PlannedRun]) -> list[str]:
    return [
        f"{band.family}: {band.rows} runs, median factor {band.median:.2f}, worst {band.worst:.2f}"
        for band in error_bands(runs)
    ]


def _run_notes(runs: Sequence[PlannedRun]) -> list[str]:
    """Return notes on runs whose published rate exceeds the peak of the machine, and on runs that do not fit."""
    notes = [
        f"{run.id}: the published rate needs {run.peak_share:.0%} of the peak of the machine record, so the record or "
        f"an extent of the script is wrong; not a test"
        for run in runs
        if run.peak_share > 1
    ]
    # A run that does not fit has no meaningful factor, only a reason.
    return notes + [f"{run.id}: does not fit. {run.verdict}" for run in runs if not run.planned]


def as_dict(verdicts: Sequence[RowResult]) -> dict[str, Any]:
    """Return all rows, the groups of both columns, and the error bands as plain data for JSON."""
    columns = ("closed", "simulated")
    return {
        "rows": [_row_as_dict(r) for r in verdicts],
        **{c: [vars(g) for g in summary(verdicts, c)] for c in columns},
        "bands": [vars(band) for band in error_bands(planned_runs(verdicts))],
    }


def _row_as_dict(r: RowResult) -> dict[str, Any]:
    return {
        **r.row.as_dict(),
        "closed": r.closed,
        "closed_error": r.closed_error,
        "simulated": r.simulated,
        "simulated_error": r.simulated_error,
        "within_tolerance": r.is_within_tolerance,
        "reason": r.reason,
        "gap": r.gap,
        "run": {**vars(r.run), "factor": r.run.factor, "is_test": r.run.is_test} if r.run else None,
    }


def kernel_text() -> str:
    """Return every kernel that rows can have: its experiment, its units, and a line for each parameter."""
    parts = [
        f"{name}: {model.summary}\n  units: {', '.join(model.units)}" + _param_lines(model.params)
        for name, model in MODELS.items()
    ]
    run = "a whole training run, with fields script (a path next to the file of rows) and mode (pipelined, streaming)"
    parts.append(f"{TRAINING_RUN}: {run}\n  units: {RUN_UNIT}{_param_lines(RUN_PARAMS)}")
    return "\n".join(parts)


def _param_lines(params: Mapping[str, RowParam]) -> str:
    """Return a line for each parameter, with its default if it has one; each begins with a line break."""
    return "".join(f"\n  {name}: {param.meaning}{_default_text(param)}" for name, param in params.items())


def _default_text(param: RowParam) -> str:
    if param.default is REQUIRED or param.default is None:
        return "" if param.default is REQUIRED else "; optional"
    return f"; by default {list(param.default) if isinstance(param.default, tuple) else param.default}"
