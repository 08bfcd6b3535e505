"""What a script's step takes on systems: a row for each batch, machine, number of systems and mode."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from lazytensor.abstract import StepFamily
from lazytensor.errors import LazyError
from lazytensor.table import Column, Table
from wse_sim import SweepRecord, sweep
from wse_sim.number_format import figure, percent
from wse_sim.plan.modes import EXECUTION

SCHEMA = "lazywafer-plan"
VERSION = 3
"""Of the document that `as_document` makes; `plan.schema.json` describes it. A field that goes or changes raises it."""
MODES = ("all", "auto", *EXECUTION)
_OF_SWEEPS = ("program", "digest", "asked_mode", "error")
"""What a record of a sweep has beside a row: of one step, whose rows are all planned."""
WIDTH, TOLD, SHORT = 110, 4, 50
"""Of the sentences under a table, the most rows that get them, and the letters of a reason in the table."""


@dataclass(frozen=True)
class Wanted:
    """The combinations that are asked for; without batches that of the script."""

    batches: tuple[int, ...] = ()
    machines: tuple[str, ...] = ("wse2",)
    systems: tuple[int, ...] = (1,)
    mode: str = "auto"
    precision_level: int | None = None


def planned(family: StepFamily, wanted: Wanted) -> list[SweepRecord]:
    """A row for each combination. Raises LazyError for an unknown machine or mode, and where a batch has no program."""
    if wanted.mode not in MODES:
        raise LazyError(f"there is no mode {wanted.mode!r}", hint=f"Use one of {', '.join(MODES)}.")
    rows = sweep(
        {"step": family},
        wanted.machines,
        tuple(EXECUTION) if wanted.mode == "all" else (wanted.mode,),
        wanted.batches,
        wanted.systems,
        precision_level=wanted.precision_level,
        has_routes=True,
        has_digests=False,
    )
    # A table is asked for, and not what may come of it: a batch that the script has not is a mistake.
    for row in rows:
        if row.error:
            raise LazyError(row.error)
    return rows


def as_document(script: str, family: StepFamily, rows: Sequence[SweepRecord]) -> dict[str, Any]:
    """Plain data for JSON, as `plan.schema.json` describes it."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "script": script,
        "batch_size": family.batch_size,
        "rows": [{name: value for name, value in row.as_dict().items() if name not in _OF_SWEEPS} for row in rows],
    }


def as_text(rows: Sequence[SweepRecord]) -> str:
    """A table for people; of a few rows also the whole sentences, which say where, and what would help."""
    table = Table(_COLUMNS, [_shown(row) for row in rows]).text()
    # Beyond a few rows sentences would bury the table; JSON has them all.
    if len(rows) > TOLD:
        return table
    told = [f"{_name(row)}: {row.verdict if row.fits else row.reason}" for row in rows]
    bands = [band for band in dict.fromkeys(row.error_band for row in rows) if band]
    return "\n\n".join([table, *(fill(text, WIDTH, subsequent_indent="    ") for text in (*told, *bands))])


def _name(row: SweepRecord) -> str:
    return f"batch {row.batch_size:,} on {row.systems} {row.machine}, {row.mode}"


def _shown(row: SweepRecord) -> tuple[Any, ...]:
    memory = (
        f"{row.peak_bytes_per_pe:,} ({percent(row.peak_bytes_per_pe / row.usable_bytes_per_pe)})" if row.fits else "-"
    )
    rate = figure(row.samples_per_s)
    words = _limit(row) if row.fits else f"does not fit: {_way_out(row)}"
    return row.batch_size, row.machine, row.systems, row.mode, rate if row.fits else "-", memory, words


def _limit(row: SweepRecord) -> str:
    """What limits, and where, as short as a column has it."""
    # The file's own name is enough: it is the script that was asked about, or one beside it.
    bound = next((b for b in row.bounds if b.kind == row.limit), None)
    if bound is None:
        return row.limit
    place = f" ({os.path.basename(bound.where)})" if bound.where else ""
    return f"{row.limit} of {bound.what}{place}" if bound.what else row.limit


def _way_out(row: SweepRecord) -> str:
    # What to do comes before why: the reason of a large model is long.
    if row.largest_batch:
        return f"a batch of {row.largest_batch:,} does"
    return row.reason if len(row.reason) <= SHORT else row.reason[: SHORT - 3].rstrip() + "..."


_COLUMNS = (
    Column("batch", "{:,}".format),
    Column("machine", is_words=True),
    Column("systems"),
    Column("mode", is_words=True),
    Column("samples/s"),
    Column("bytes a PE"),
    Column("what limits", is_words=True),
)
