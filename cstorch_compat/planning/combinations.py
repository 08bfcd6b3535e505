"""The table of `lazywafer plan`: a row for each combination of batch, machine, systems, input workers and mode."""

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from wse_sim.planner.resource_shares import shares_text

SCHEMA_NAME = "lazywafer-plan"
"""The name of the JSON document's schema."""
DOCUMENT_VERSION = 3
"""Version of the document of `to_json_document`, which `plan.schema.json` describes.

It is increased when a field is removed or changes its meaning.
"""
PLAN_MODES = ("all", "auto", *MODE_PLANNERS)
"""The values of `--mode`. "auto" takes the fastest mode, "all" has a row for each."""
_SWEEP_ONLY_FIELDS = ("program", "digest", "asked_mode", "error")
"""Fields of a SweepRecord that are left out of the document, because it has one program and no failed rows."""
TEXT_WIDTH, MAX_EXPLAINED_ROWS, MAX_REASON_LENGTH = 110, 4, 50
"""Three limits of the text output.

TEXT_WIDTH: width of the sentences under a table, in characters
MAX_EXPLAINED_ROWS: maximum number of rows of a table with such sentences
MAX_REASON_LENGTH: maximum length of a reason in the table, in characters
"""


@dataclass(frozen=True)
class PlanRequest:
    """The requested combinations. Empty `batches` and `systems` stand for those of the script.

    `workers` are numbers of input workers of one system. If it is empty, plans have the default of `wse_sim.host` and
    the table has no column of workers. With `has_resources` each row has the shares of the resources.
    """

    batches: tuple[int, ...] = ()
    machines: tuple[str, ...] = ("wse2",)
    systems: tuple[int, ...] = ()
    workers: tuple[int, ...] = ()
    mode: str = "auto"
    precision_level: int | None = None
    has_resources: bool = False

    def named(self, batch_size: int) -> list[str]:
        """Return a description of each row, in order. `batch_size` is that of the script."""
        batches, modes = self.batches or (batch_size,), _expand_mode(self.mode)
        systems = self.systems or ("the script's",)
        workers = [f", {_format_workers(count)}" for count in self.workers] or [""]
        points = itertools.product(*map(dict.fromkeys, (batches, self.machines, systems, workers, modes)))
        return [f"batch {batch:,} on {count} {machine}{fed}, {mode}" for batch, machine, count, fed, mode in points]


def _expand_mode(mode: str) -> tuple[str, ...]:
    """Return the modes with a row for the requested mode."""
    return tuple(MODE_PLANNERS) if mode == "all" else (mode,)


def plan_rows(
    family: StepFamily, wanted: PlanRequest, on_row: Callable[[SweepRecord], object] = lambda row: None
) -> list[SweepRecord]:
    """Return a row for each combination. `on_row` is called with each row as soon as it is planned.

    Raises LazyError for an unknown machine or mode, and for the first batch size whose step cannot be recorded.
    """
    if wanted.mode not in PLAN_MODES:
        raise LazyError(f"unknown mode {wanted.mode!r}", hint=f"Use one of {', '.join(PLAN_MODES)}.")

    def checked(row: SweepRecord) -> None:
        # The user has requested these batch sizes, so one that cannot be recorded is an error.
        if row.error:
            raise LazyError(row.error)
        on_row(row)

    return sweep(
        {"step": family},
        wanted.machines,
        _expand_mode(wanted.mode),
        wanted.batches,
        wanted.systems,
        workers=wanted.workers,
        precision_level=wanted.precision_level,
        has_routes=True,
        has_resources=wanted.has_resources,
        has_digests=False,
        on_record=checked,
    )


def to_json_document(script: str, family: StepFamily, rows: Sequence[SweepRecord]) -> dict[str, Any]:
    """Return the rows as a dict for JSON, as described by `plan.schema.json`."""
    return {
        "schema": SCHEMA_NAME,
        "version": DOCUMENT_VERSION,
        "script": script,
        "batch_size": family.batch_size,
        "rows": [
            {name: value for name, value in row.as_dict().items() if name not in _SWEEP_ONLY_FIELDS} for row in rows
        ],
    }


def format_rows(rows: Sequence[SweepRecord], has_workers: bool = False) -> str:
    """Return the rows as a text table. If there are few rows, sentences on their limits follow.

    The table has the column of workers if `has_workers`.
    """
    columns = _choose_columns(has_workers)
    return "\n\n".join([Table(columns, [_table_cells(columns, row) for row in rows]).text(), *explain_rows(rows)])


def _choose_columns(has_workers: bool) -> tuple[Column, ...]:
    """Return COLUMNS, without the one of workers unless `has_workers`."""
    return tuple(column for column in COLUMNS if has_workers or column.head != "workers")


def make_columns(wanted: PlanRequest, batch_size: int) -> tuple[Column, ...]:
    """Return the columns of a table that is printed row by row, with widths for the requested combinations."""
    batches = wanted.batches or (batch_size,)
    widths = {
        "batch": max(len(f"{n:,}") for n in batches),
        "machine": max(map(len, wanted.machines)),
        "systems": max((len(str(n)) for n in wanted.systems), default=len("systems")),
        "workers": max((len(f"{n:,}") for n in wanted.workers), default=0),
        "mode": max(map(len, MODE_PLANNERS)),
        "samples/s": len("1,000,000,000"),
        "bytes a PE": len("44,976 (100%)"),
    }
    columns = _choose_columns(bool(wanted.workers))
    return tuple(replace(column, width=widths.get(column.head, 0)) for column in columns)


def format_row(columns: tuple[Column, ...], row: SweepRecord) -> str:
    """Return a row as one line of a table with the columns of `make_columns`."""
    table = Table(columns, [_table_cells(columns, row)])
    return table.line(table.cells()[0])


def explain_rows(rows: Sequence[SweepRecord]) -> list[str]:
    """Return the sentences below a table: what limits each row, why a WSE-3 is slower, and the error bands.

    More than `MAX_EXPLAINED_ROWS` rows get no sentence each; the JSON document has them.
    """
    told = []
    has_workers = len({row.workers for row in rows}) > 1
    if len(rows) <= MAX_EXPLAINED_ROWS:
        reasons = [row.verdict if row.fits else row.reason for row in rows]
        # The same sentence for all rows is printed once.
        told = [f"{_row_name(row, has_workers)}: {reason}" for row, reason in zip(rows, reasons, strict=True)]
        if len(rows) > 1 and len(set(reasons)) == 1:
            told = [f"All rows: {reasons[0]}"]
        asked = (row for row in rows if row.fits and (row.asked_micro_batch_size or row.explored))
        told += [f"{_row_name(row, has_workers)}: {micro_batch_text(row)}" for row in asked]
    told += _explain_slower_wse3(rows)
    return [
        *(fill(text, TEXT_WIDTH, subsequent_indent="    ") for text in told),
        *_format_resources(rows, has_workers),
        *(fill(text, TEXT_WIDTH, subsequent_indent="    ") for text in _format_bands(rows)),
    ]


def _format_resources(rows: Sequence[SweepRecord], has_workers: bool) -> list[str]:
    """Return the table of resources of each row that has one, under a line with the row's name."""
    return [
        f"{_row_name(row, has_workers)}, with one resource twice as fast:\n\n{shares_text(row.resources)}"
        for row in rows
        if row.resources
    ]


def _format_bands(rows: Sequence[SweepRecord]) -> list[str]:
    """Return the error bands of the rows, once each. With several, each names its rows by mode and machine."""
    bands: dict[str, dict[str, dict[str, None]]] = {}
    for row in rows:
        if row.error_band:
            bands.setdefault(row.error_band, {}).setdefault(row.mode, {})[row.machine] = None
    if len(bands) < 2:
        return list(bands)
    return [band.replace("Error band:", f"Error band of {_format_band_rows(of)}:", 1) for band, of in bands.items()]


def _format_band_rows(machines: Mapping[str, Iterable[str]]) -> str:
    """Return the rows of a band as text, such as "streaming on wse2 and wse3", from the machines of each mode."""
    return "; ".join(f"{mode} on {' and '.join(names)}" for mode, names in machines.items())


def _explain_slower_wse3(rows: Sequence[SweepRecord]) -> list[str]:
    """Return one sentence if a step is slower on the WSE-3 than on the WSE-2, which surprises most readers."""
    fitting = [row for row in rows if row.fits]
    rates = {(row.machine, row.batch_size, row.systems, row.workers, row.mode): row.samples_per_s for row in fitting}
    older = {key[1:]: rate for key, rate in rates.items() if key[0] == WSE2.name}
    if not any(rate < older.get(key[1:], 0) for key, rate in rates.items() if key[0] == WSE3.name):
        return []
    return [
        f"wse3 is slower than wse2 in some rows because its numbers are measured on silicon: "
        f"{WSE3.fma_f16_per_cycle:g} 16-bit multiply-adds a cycle and PE outside of products, "
        f"{WSE3.loaded_setup_cycles:g} cycles before a vector operation outside of loops starts and "
        f"{WSE3.wavelet_cycles:g} cycles a wavelet. For wse2 only the published peaks are known: "
        f"{WSE2.fma_f16_per_cycle:g}, {WSE2.loaded_setup_cycles:g} and {WSE2.wavelet_cycles:g}."
    ]


def _row_name(row: SweepRecord, has_workers: bool) -> str:
    """Return a description of a row, with its input workers if `has_workers`."""
    fed = f", {_format_workers(row.workers)}" if has_workers else ""
    return f"batch {row.batch_size:,} on {row.systems} {row.machine}{fed}, {row.mode}"


def _format_workers(count: int) -> str:
    """Return the number with its noun, as in "5 workers"."""
    return f"{count:,} worker{'' if count == 1 else 's'}"


def _table_cells(columns: Sequence[Column], row: SweepRecord) -> list[Any]:
    """Return the values of a row, one for each of `columns`."""
    memory = (
        f"{row.peak_bytes_per_pe:,} ({format_percent(row.peak_bytes_per_pe / row.usable_bytes_per_pe)})"
        if row.fits
        else "-"
    )
    rate = format_estimate(row.samples_per_s)
    words = _format_limit(row) if row.fits else f"does not fit: {_format_misfit(row)}"
    values = {
        "batch": row.batch_size,
        "machine": row.machine,
        "systems": row.systems,
        "workers": row.workers,
        "mode": row.mode,
        "samples/s": rate if row.fits else "-",
        "bytes a PE": memory,
        "what limits": words,
    }
    return [values[column.head] for column in columns]


def _format_limit(row: SweepRecord) -> str:
    """Return the limiting resource of a row and its place in the script, in short form.

    With shares of resources it is the one with the largest share.
    """
    if row.resources:
        largest = max(row.resources, key=lambda one: one.share)
        return f"{largest.resource}, {format_percent(largest.share)} of the step"
    # The base name is enough: the file is the script or a module in its folder.
    bound = next((b for b in row.bounds if b.kind == row.limit), None)
    if bound is None:
        return row.limit
    place = f" ({os.path.basename(bound.where)})" if bound.where else ""
    return f"{row.limit} of {bound.what}{place}" if bound.what else row.limit


def _format_misfit(row: SweepRecord) -> str:
    """Return the largest batch that fits, if there is one, or the shortened reason why the step does not fit."""
    # Prefer the remedy to the reason, which is long for large models.
    if row.largest_batch:
        return f"the largest batch that fits is {row.largest_batch:,}"
    return row.reason if len(row.reason) <= MAX_REASON_LENGTH else row.reason[: MAX_REASON_LENGTH - 3].rstrip() + "..."


COLUMNS = (
    Column("batch", "{:,}".format),
    Column("machine", is_words=True),
    Column("systems"),
    Column("workers", "{:,}".format),
    Column("mode", is_words=True),
    Column("samples/s"),
    Column("bytes a PE"),
    Column("what limits", is_words=True),
)
"""The columns of the table."""
