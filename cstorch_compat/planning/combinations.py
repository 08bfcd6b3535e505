"""What a script's step takes on systems: a row for each batch, machine, number of systems and mode."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lazytensor.abstract import StepFamily
from lazytensor.errors import LazyError
from lazytensor.table import Column, Table
from wse_sim import Machine, ModeReport, Prices, plan

SCHEMA = "lazywafer-plan"
VERSION = 1
"""Of the document that `as_document` makes; `plan.schema.json` describes it. A field that goes or changes raises it."""
MODES = ("all", "auto", "pipelined", "streaming")
_WORDS = 60


@dataclass(frozen=True)
class Wanted:
    """The combinations that are asked for; without batches that of the script."""

    batches: tuple[int, ...] = ()
    machines: tuple[str, ...] = ("wse2",)
    systems: tuple[int, ...] = (1,)
    mode: str = "auto"


@dataclass(frozen=True)
class PlannedRow:
    """One combination. Where it does not fit, `reason` says why and the figures are zero."""

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
        for row in _rows(family, size, prices[machine.name], systems, wanted.mode)
    ]


def _rows(family: StepFamily, size: int, prices: Prices, systems: int, mode: str) -> Iterator[PlannedRow]:
    chosen = "auto" if mode == "all" else mode
    report = plan(family, prices.machine, chosen, batch_size=size, systems=systems, prices=prices).report
    # One plan knows both modes.
    for one in (report.pipelined, report.streaming) if mode == "all" else (report.chosen,):
        yield _row(one, size, prices.machine, systems)


def _row(report: ModeReport, size: int, machine: Machine, systems: int) -> PlannedRow:
    return PlannedRow(
        batch_size=size,
        machine=machine.name,
        systems=systems,
        mode=report.mode,
        fits=report.fits,
        samples_per_s=report.samples_per_s,
        step_cycles=report.step_cycles,
        step_seconds=report.step_cycles / machine.clock_hz,
        limit=report.limit,
        verdict=report.verdict,
        peak_bytes_per_pe=report.peak_bytes_per_pe,
        usable_bytes_per_pe=machine.usable_bytes_per_pe,
        reason=report.reason,
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


def as_table(rows: Sequence[PlannedRow]) -> Table:
    """The rows for people: what limits each, or why it does not fit."""
    # A limit may be a long sentence: the table keeps its lines, and JSON has the whole of it.
    return Table(_COLUMNS, [_shown(row) for row in rows])


def _shown(row: PlannedRow) -> tuple[Any, ...]:
    memory = f"{row.peak_bytes_per_pe:,} ({row.peak_bytes_per_pe / row.usable_bytes_per_pe:.0%})" if row.fits else "-"
    rate = f"{row.samples_per_s:,.4g}" if row.samples_per_s < 1000 else f"{row.samples_per_s:,.0f}"
    words = row.verdict if row.fits else f"does not fit: {row.reason}"
    return row.batch_size, row.machine, row.systems, row.mode, rate if row.fits else "-", memory, _cut(words)


def _cut(words: str) -> str:
    return words if len(words) <= _WORDS else words[: _WORDS - 3].rstrip() + "..."


_COLUMNS = (
    Column("batch", "{:,}".format),
    Column("machine", is_words=True),
    Column("systems"),
    Column("mode", is_words=True),
    Column("samples/s"),
    Column("bytes a PE"),
    Column("what limits", is_words=True),
)
