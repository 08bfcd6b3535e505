"""What a script's step takes on systems: a row for each batch, machine, number of systems and mode."""

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from textwrap import fill
from typing import Any

from lazytensor.core.abstract_step import StepFamily
from lazytensor.display.table import Column, Table
from lazytensor.errors import LazyError
from wse_sim import WSE2, WSE3, SweepRecord, sweep
from wse_sim.number_format import format_estimate, format_percent
from wse_sim.planner.micro_batches import micro_batch_text
from wse_sim.planner.modes import MODE_PLANNERS

SCHEMA_NAME = "lazywafer-plan"
DOCUMENT_VERSION = 3
"""Of the document that `to_json_document` makes; `plan.schema.json` describes it.

A field that goes or changes raises it.
"""
PLAN_MODES = ("all", "auto", *MODE_PLANNERS)
_SWEEP_ONLY_FIELDS = ("program", "digest", "asked_mode", "error")
"""What a record of a sweep has beside a row: of one step, whose rows are all planned."""
TEXT_WIDTH, MAX_EXPLAINED_ROWS, MAX_REASON_LENGTH = 110, 4, 50
"""Of the sentences under a table, the most rows that get them, and the letters of a reason in the table."""


@dataclass(frozen=True)
class PlanRequest:
    """The combinations that are asked for. Without batches, or systems, those of the script."""

    batches: tuple[int, ...] = ()
    machines: tuple[str, ...] = ("wse2",)
    systems: tuple[int, ...] = ()
    mode: str = "auto"
    precision_level: int | None = None

    def named(self, batch_size: int) -> list[str]:
        """Return what each row is about, in the order of the rows; `batch_size` is that of the script."""
        batches, modes = self.batches or (batch_size,), _expand_mode(self.mode)
        systems = self.systems or ("the script's",)
        points = itertools.product(*map(dict.fromkeys, (batches, self.machines, systems, modes)))
        return [f"batch {batch:,} on {count} {machine}, {mode}" for batch, machine, count, mode in points]


def _expand_mode(mode: str) -> tuple[str, ...]:
    return tuple(MODE_PLANNERS) if mode == "all" else (mode,)


def plan_rows(
    family: StepFamily, wanted: PlanRequest, on_row: Callable[[SweepRecord], object] = lambda row: None
) -> list[SweepRecord]:
    """Return a row for each combination; `on_row` is called with each row when it is known.

    Raises LazyError for an unknown machine or mode, and for the first batch that has no program.
    """
    if wanted.mode not in PLAN_MODES:
        raise LazyError(f"there is no mode {wanted.mode!r}", hint=f"Use one of {', '.join(PLAN_MODES)}.")

    def checked(row: SweepRecord) -> None:
        # A table is asked for, and not what may come of it: a batch that the script has not is a mistake.
        if row.error:
            raise LazyError(row.error)
        on_row(row)

    return sweep(
        {"step": family},
        wanted.machines,
        _expand_mode(wanted.mode),
        wanted.batches,
        wanted.systems,
        precision_level=wanted.precision_level,
        has_routes=True,
        has_digests=False,
        on_record=checked,
    )


def to_json_document(script: str, family: StepFamily, rows: Sequence[SweepRecord]) -> dict[str, Any]:
    """Plain data for JSON, as `plan.schema.json` describes it."""
    return {
        "schema": SCHEMA_NAME,
        "version": DOCUMENT_VERSION,
        "script": script,
        "batch_size": family.batch_size,
        "rows": [
            {name: value for name, value in row.as_dict().items() if name not in _SWEEP_ONLY_FIELDS} for row in rows
        ],
    }


def format_rows(rows: Sequence[SweepRecord]) -> str:
    """Return a table for people; of a few rows also the whole sentences, which say where, and what would help."""
    return "\n\n".join([Table(COLUMNS, [_table_cells(row) for row in rows]).text(), *explain_rows(rows)])


def make_columns(wanted: PlanRequest, batch_size: int) -> tuple[Column, ...]:
    """Return the columns of a table that is printed row by row, as wide as the combinations need."""
    batches = wanted.batches or (batch_size,)
    widths = {
        "batch": max(len(f"{n:,}") for n in batches),
        "machine": max(map(len, wanted.machines)),
        "systems": max((len(str(n)) for n in wanted.systems), default=len("systems")),
        "mode": max(map(len, MODE_PLANNERS)),
        "samples/s": len("1,000,000,000"),
        "bytes a PE": len("44,976 (100%)"),
    }
    return tuple(replace(column, width=widths.get(column.head, 0)) for column in COLUMNS)


def format_row(columns: tuple[Column, ...], row: SweepRecord) -> str:
    """Return a row as one line of a table with `make_columns`."""
    table = Table(columns, [_table_cells(row)])
    return table.line(table.cells()[0])


def explain_rows(rows: Sequence[SweepRecord]) -> list[str]:
    """Return the sentences below a table: what limits each row, why a WSE-3 is slower, and the error bands.

    More than `MAX_EXPLAINED_ROWS` rows get no sentence each; the JSON document has them.
    """
    told = []
    if len(rows) <= MAX_EXPLAINED_ROWS:
        reasons = [row.verdict if row.fits else row.reason for row in rows]
        # The same sentence for all rows is printed once.
        told = [f"{_row_name(row)}: {reason}" for row, reason in zip(rows, reasons, strict=True)]
        if len(rows) > 1 and len(set(reasons)) == 1:
            told = [f"All rows: {reasons[0]}"]
        asked = (row for row in rows if row.fits and (row.asked_micro_batch_size or row.explored))
        told += [f"{_row_name(row)}: {micro_batch_text(row)}" for row in asked]
    told += _explain_slower_wse3(rows)
    bands = [band for band in dict.fromkeys(row.error_band for row in rows) if band]
    return [fill(text, TEXT_WIDTH, subsequent_indent="    ") for text in (*told, *bands)]


def _explain_slower_wse3(rows: Sequence[SweepRecord]) -> list[str]:
    """Return one sentence if a step is slower on the WSE-3 than on the WSE-2, which surprises most readers."""
    rates = {(row.machine, row.batch_size, row.systems, row.mode): row.samples_per_s for row in rows if row.fits}
    older = {key[1:]: rate for key, rate in rates.items() if key[0] == WSE2.name}
    if not any(rate < older.get(key[1:], 0) for key, rate in rates.items() if key[0] == WSE3.name):
        return []
    return [
        f"wse3 is slower than wse2 in some rows because its numbers are measured on silicon: "
        f"{WSE3.fma_f16_per_cycle:g} 16-bit multiply-adds a cycle and PE, {WSE3.dsd_setup_cycles:g} cycles before a "
        f"vector operation starts and {WSE3.wavelet_cycles:g} cycles a wavelet. For wse2 only the published peaks "
        f"are known: {WSE2.fma_f16_per_cycle:g}, {WSE2.dsd_setup_cycles:g} and {WSE2.wavelet_cycles:g}."
    ]


def _row_name(row: SweepRecord) -> str:
    return f"batch {row.batch_size:,} on {row.systems} {row.machine}, {row.mode}"


def _table_cells(row: SweepRecord) -> tuple[Any, ...]:
    memory = (
        f"{row.peak_bytes_per_pe:,} ({format_percent(row.peak_bytes_per_pe / row.usable_bytes_per_pe)})"
        if row.fits
        else "-"
    )
    rate = format_estimate(row.samples_per_s)
    words = _format_limit(row) if row.fits else f"does not fit: {_format_misfit(row)}"
    return row.batch_size, row.machine, row.systems, row.mode, rate if row.fits else "-", memory, words


def _format_limit(row: SweepRecord) -> str:
    """What limits, and where, as short as a column has it."""
    # The file's own name is enough: it is the script that was asked about, or one beside it.
    bound = next((b for b in row.bounds if b.kind == row.limit), None)
    if bound is None:
        return row.limit
    place = f" ({os.path.basename(bound.where)})" if bound.where else ""
    return f"{row.limit} of {bound.what}{place}" if bound.what else row.limit


def _format_misfit(row: SweepRecord) -> str:
    # What to do comes before why: the reason of a large model is long.
    if row.largest_batch:
        return f"a batch of {row.largest_batch:,} does"
    return row.reason if len(row.reason) <= MAX_REASON_LENGTH else row.reason[: MAX_REASON_LENGTH - 3].rstrip() + "..."


COLUMNS = (
    Column("batch", "{:,}".format),
    Column("machine", is_words=True),
    Column("systems"),
    Column("mode", is_words=True),
    Column("samples/s"),
    Column("bytes a PE"),
    Column("what limits", is_words=True),
)
