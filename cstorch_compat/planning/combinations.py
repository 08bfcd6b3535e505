"""What a script's step takes on systems: a row for each batch, machine, number of systems and mode."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from textwrap import fill
from typing import Any

from lazytensor.abstract import StepFamily
from lazytensor.errors import LazyError
from lazytensor.table import Column, Table
from wse_sim import Machine, ModeReport, Prices, Report, plan
from wse_sim.bands import error_band
from wse_sim.plan.report import Bound

SCHEMA = "lazywafer-plan"
VERSION = 1
"""Of the document that `as_document` makes; `plan.schema.json` describes it. A field that goes or changes raises it."""
MODES = ("all", "auto", "pipelined", "streaming")
WIDTH, TOLD, SHORT = 110, 4, 50
"""Of the sentences under a table, the most rows that get them, and the letters of a reason in the table."""


@dataclass(frozen=True)
class Wanted:
    """The combinations that are asked for; without batches that of the script."""

    batches: tuple[int, ...] = ()
    machines: tuple[str, ...] = ("wse2",)
    systems: tuple[int, ...] = (1,)
    mode: str = "auto"
    precision_level: int = 1


@dataclass(frozen=True)
class PlannedRow:
    """One combination. Where it does not fit, `reason` says why and the figures are zero.

    `largest_batch` is the largest that fits where this one does not, or 0 if none is known to. `micro_batches` are the
    parts that a system's batch is cut into; with `has_recompute` activations are computed again for the backward sweep.
    `bounds` are all that limit, each with its rate and source; `error_band` says how far such figures were off.
    """

    batch_size: int
    machine: str
    systems: int
    mode: str
    fits: bool
    samples_per_s: float
    step_cycles: int
    step_seconds: float
    limit: str
    verdict: str
    peak_bytes_per_pe: int
    usable_bytes_per_pe: int
    reason: str
    largest_batch: int
    micro_batches: int
    has_recompute: bool
    bounds: tuple[Bound, ...]
    error_band: str


def planned(family: StepFamily, wanted: Wanted) -> list[PlannedRow]:
    """A row for each combination. Raises LazyError for an unknown machine or mode, and where a batch has no program."""
    if wanted.mode not in MODES:
        raise LazyError(f"there is no mode {wanted.mode!r}", hint=f"Use one of {', '.join(MODES)}.")
    machines = [Machine.by_name(name) for name in wanted.machines]
    prices = {machine.name: Prices(machine) for machine in machines}
    return [
        row
        for size in wanted.batches or (family.batch_size,)
        for machine in machines
        for systems in wanted.systems
        for row in _rows(family, wanted, size, systems, prices[machine.name])
    ]


def _rows(family: StepFamily, wanted: Wanted, size: int, systems: int, prices: Prices) -> Iterator[PlannedRow]:
    has_all = wanted.mode == "all"
    report = plan(
        family,
        prices.machine,
        "auto" if has_all else wanted.mode,
        batch_size=size,
        systems=systems,
        prices=prices,
        precision_level=wanted.precision_level,
    ).report
    # One plan knows both modes.
    for one in (report.pipelined, report.streaming) if has_all else (report.chosen,):
        band = report.error_band if one.mode == report.mode else ""
        yield _row(one, report, band or _band_of(one.mode, report.machine))


def _band_of(mode: str, machine: str) -> str:
    band = error_band(mode, machine)
    return band.text() if band is not None else ""


def _row(report: ModeReport, whole: Report, band: str) -> PlannedRow:
    return PlannedRow(
        batch_size=whole.batch_size,
        machine=whole.machine,
        systems=whole.systems,
        mode=report.mode,
        fits=report.fits,
        samples_per_s=report.samples_per_s,
        step_cycles=report.step_cycles,
        step_seconds=report.step_cycles / whole.clock_hz,
        limit=report.limit,
        verdict=report.verdict,
        peak_bytes_per_pe=report.peak_bytes_per_pe,
        usable_bytes_per_pe=whole.usable_bytes_per_pe,
        reason=report.reason,
        largest_batch=report.largest_batch,
        micro_batches=report.micro_batches,
        has_recompute=report.has_recompute,
        bounds=report.bounds,
        error_band=band if report.fits else "",
    )


def as_document(script: str, family: StepFamily, rows: Sequence[PlannedRow]) -> dict[str, Any]:
    """Plain data for JSON, as `plan.schema.json` describes it."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "script": script,
        "batch_size": family.batch_size,
        "rows": [asdict(row) for row in rows],
    }


def as_text(rows: Sequence[PlannedRow]) -> str:
    """A table for people; of a few rows also the whole sentences, which say where, and what would help."""
    table = Table(_COLUMNS, [_shown(row) for row in rows]).text()
    # Beyond a few rows sentences would bury the table; JSON has them all.
    if len(rows) > TOLD:
        return table
    told = [f"{_name(row)}: {row.verdict if row.fits else row.reason}" for row in rows]
    bands = [f"Error band: {band}" for band in dict.fromkeys(row.error_band for row in rows) if band]
    return "\n\n".join([table, *(fill(text, WIDTH, subsequent_indent="    ") for text in (*told, *bands))])


def _name(row: PlannedRow) -> str:
    return f"batch {row.batch_size:,} on {row.systems} {row.machine}, {row.mode}"


def _shown(row: PlannedRow) -> tuple[Any, ...]:
    memory = f"{row.peak_bytes_per_pe:,} ({row.peak_bytes_per_pe / row.usable_bytes_per_pe:.0%})" if row.fits else "-"
    rate = f"{row.samples_per_s:,.4g}" if row.samples_per_s < 1000 else f"{row.samples_per_s:,.0f}"
    words = _limit(row) if row.fits else f"does not fit: {_way_out(row)}"
    return row.batch_size, row.machine, row.systems, row.mode, rate if row.fits else "-", memory, words


def _limit(row: PlannedRow) -> str:
    """What limits, and where, as short as a column has it."""
    # The file's own name is enough: it is the script that was asked about, or one beside it.
    bound = next((b for b in row.bounds if b.kind == row.limit), None)
    if bound is None:
        return row.limit
    place = f" ({os.path.basename(bound.where)})" if bound.where else ""
    return f"{row.limit} of {bound.what}{place}" if bound.what else row.limit


def _way_out(row: PlannedRow) -> str:
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
