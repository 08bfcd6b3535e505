"""Published rates of serving next to those of the model: WaferLLM's tables, and services on the WSE-3."""

import json
import pathlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from lazytensor.display.table import Column, Table
from lazytensor.system.output_files import write_file_atomically
from wse_sim.error_bands import SERVED_RATES_FILE, error_factor, load_served_rates
from wse_sim.serving.decoder import PRESETS
from wse_sim.validation.results import RowResult, results
from wse_sim.validation.rows import FITTED, MeasuredRow, load

RATE_KINDS: Mapping[str, str] = {
    "decode": "decoding",
    "inference_service": "decoding",
    "prefill": "prefill",
    "request": "requests",
}
"""Kernel of a row -> the kind of its rate."""
_FAMILY = "llm"


@dataclass(frozen=True)
class ServedRate:
    """A published rate with the rate of the model, in tokens/s.

    - `id`: name of the row
    - `kind`: "decoding", "prefill" or "requests"
    - `machine`: name of the machine
    - `has_experts`: whether the model is a mixture of experts
    - `published`, `planned`: the two rates
    - `is_test`: whether no constant was fitted on the row
    - `note`: what the source leaves open
    """

    id: str
    kind: str
    machine: str
    has_experts: bool
    published: float
    planned: float
    is_test: bool
    note: str = ""


def plan_served_rates() -> tuple[list[ServedRate], list[RowResult]]:
    """Return the published rates of serving with those of the model, and the rows that no model predicts."""
    found = results(row for row in load() if row.family == _FAMILY)
    rates = [_served_rate(result.row, result.closed) for result in found if result.closed is not None]
    return rates, [result for result in found if result.closed is None]


def _served_rate(row: MeasuredRow, planned: float) -> ServedRate:
    assert isinstance(row.value, int | float)
    has_experts = PRESETS[row.params["model"]][0].experts > 1
    is_test = row.split != FITTED
    return ServedRate(row.id, RATE_KINDS[row.kernel], row.machine, has_experts, row.value, planned, is_test, row.note)


def write_served_rates(rates: Iterable[ServedRate], path: pathlib.Path = SERVED_RATES_FILE) -> None:
    """Write the rates to the file that error bands are read from, and clear the cache of recorded rates."""
    write_file_atomically(path, json.dumps({"rates": [asdict(rate) for rate in rates]}, indent=1) + "\n")
    load_served_rates.cache_clear()


def served_rates_table(rates: Iterable[ServedRate]) -> Table:
    """Return the table of rates; an asterisk marks rows that a constant was fitted on."""
    columns = (
        *(Column(head, is_words=True) for head in ("rate", "kind", "machine")),
        *(Column(head, "{:,.0f}".format) for head in ("published", "planned")),
        Column("factor", "{:.2f}".format),
        Column("note", is_words=True),
    )
    rows = [
        (
            *(rate.id + "*" * (not rate.is_test), rate.kind, rate.machine, rate.published, rate.planned),
            *(error_factor(rate.published, rate.planned), rate.note),
        )
        for rate in rates
    ]
    return Table(columns, rows)
