"""The validation as text, as Markdown and as data for JSON."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from wse_sim.validation.cut import CORNER_PES, RELAY_HOPS
from wse_sim.validation.results import ErrorGroup, RowResult, summary

_NONE = "-"
_WIDTH = 118
FITTED_MARK = "* a constant of the model was fitted on this row"
SIMULATED_CAPTION = (
    "Simulated is each part of a row's program wavelet by wavelet, and not the whole mesh at once: a move on one of "
    "its lines at full length, work on one PE, equal rounds once and multiplied. What runs beside each other takes as "
    f"long as its longest move alone or as all of it on a corner of {CORNER_PES} x {CORNER_PES} PEs (the products in "
    f"gemm and of prefill, the solver); shifts by more than {RELAY_HOPS} PEs are relayed (fft)."
)


def figure(value: Any) -> str:
    """Four digits of a number; lists and None as they are read best."""
    if value is None:
        return _NONE
    if isinstance(value, list):
        return " to ".join(figure(v) for v in value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def percent(error: float | None) -> str:
    return _NONE if error is None else f"{100 * error:+.1f} %"


def text(found: Sequence[RowResult]) -> str:
    """The covered rows, the groups, what is large and why, and the rows without a figure with their reasons."""
    covered = [r for r in found if r.is_covered]
    notes = [FITTED_MARK, *(wrap(SIMULATED_CAPTION, _WIDTH) if _has_simulated(found) else [])]
    lines = [
        *(f"{r.row.id}: {_both_errors(r)}. {r.reason}" for r in covered if r.reason),
        *_gaps(covered),
        "Not covered:",
        *(f"  {r.row.id}  {figure(r.row.value)} {r.row.unit}: {r.reason}" for r in found if not r.is_covered),
    ]
    tables = (_columns(_row_lines(found), left=2), "\n".join(notes), _columns(_group_lines(found), left=1))
    return "\n\n".join((*tables, "\n".join(lines)))


def _gaps(covered: Sequence[RowResult]) -> list[str]:
    """Why rows that should have been simulated are not."""
    gaps = [f"  {r.row.id}: {r.gap}" for r in covered if r.gap]
    return ["Not simulated:", *gaps] if gaps else []


def _has_simulated(found: Sequence[RowResult]) -> bool:
    return any(r.simulated is not None for r in found)


def _both_errors(r: RowResult) -> str:
    """The error of the closed form, and that of the simulation where there is one."""
    simulated = f" (simulated {percent(r.simulated_error)})" if r.simulated is not None else ""
    return percent(r.closed_error) + simulated


_HEADS = ("row", "unit", "measured", "closed form", "error", "simulated", "error")
_GROUP_HEADS = ("rows", "covered", "of them test", "median error", "largest", "simulated", "median", "largest")
_CLOSED_HEADS = 5  # columns before the simulated ones, in both tables

Lines = list[tuple[str, ...]]


def _row_lines(found: Sequence[RowResult]) -> Lines:
    """Heads and rows; without the columns of the simulation if nothing was simulated."""
    lines = [_HEADS, *(_cells(r) for r in found if r.is_covered)]
    return lines if _has_simulated(found) else [line[:_CLOSED_HEADS] for line in lines]


def _cells(r: RowResult) -> tuple[str, ...]:
    mark = "*" if r.fitted else ""
    closed = (figure(r.closed), percent(r.closed_error))
    return r.row.id + mark, r.row.unit, figure(r.row.value), *closed, figure(r.simulated), percent(r.simulated_error)


def _group_lines(found: Sequence[RowResult]) -> Lines:
    """As `_row_lines`, for the groups."""
    simulated = {g.name: g for g in summary(found, "simulated")}
    lines = [_GROUP_HEADS, *((*_closed_cells(g), *_simulated_cells(simulated.get(g.name))) for g in summary(found))]
    return lines if simulated else [line[:_CLOSED_HEADS] for line in lines]


def _closed_cells(group: ErrorGroup) -> tuple[str, ...]:
    return group.name, str(group.rows), str(group.test_rows), *_errors(group)


def _simulated_cells(group: ErrorGroup | None) -> tuple[str, ...]:
    return (str(group.rows), *_errors(group)) if group else (_NONE,) * 3


def _errors(group: ErrorGroup) -> tuple[str, str]:
    return f"{100 * group.median:.1f} %", f"{100 * group.largest:.1f} %"


def _columns(table: Lines, left: int) -> str:
    """The first `left` columns are words and stand to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = (c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def markdown(found: Sequence[RowResult]) -> str:
    """The groups as a table, and below it every row that is off by more than 30 % with its reason."""
    head, *rows = ["| " + " | ".join(line) + " |" for line in _group_lines(found)]
    lines = [head, "|---" + "|---:" * (head.count("|") - 2) + "|", *rows, ""]
    if _has_simulated(found):
        lines += [SIMULATED_CAPTION, *(f"`{r.row.id}` is not simulated: {r.gap}." for r in found if r.gap), ""]
    lines += [f"- `{r.row.id}`, {_both_errors(r)}: {r.reason}." for r in found if r.is_large]
    return "\n".join(lines)


def as_dict(found: Sequence[RowResult]) -> dict[str, Any]:
    """Rows in full, and the groups of both columns."""
    columns = ("closed", "simulated")
    return {"rows": [_row(r) for r in found], **{c: [vars(g) for g in summary(found, c)] for c in columns}}


def _row(r: RowResult) -> dict[str, Any]:
    return {
        **vars(r.row),
        "closed": r.closed,
        "closed_error": r.closed_error,
        "simulated": r.simulated,
        "simulated_error": r.simulated_error,
        "fitted": r.fitted,
        "reason": r.reason,
        "gap": r.gap,
    }
