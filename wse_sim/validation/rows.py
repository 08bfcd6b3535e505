"""The measured rows: published figures with their sources, read from a JSON file."""

import json
import pathlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lazytensor.errors import LazyError

MEASURED_FILE = pathlib.Path(__file__).parent / "measured.json"
_TEXT_FIELDS = ("id", "category", "platform", "workload", "unit", "source", "kind")


@dataclass(frozen=True)
class MeasuredRow:
    """One published figure.

    - `id`: unique name of the row
    - `category`: group of the row in summaries
    - `platform`: the machine or simulator of the measurement
    - `workload`: what was measured
    - `params`: extents of the experiment
    - `value`, `unit`: the figure
    - `source`: the publication
    - `kind`: how the figure was published
    """

    id: str
    category: str
    platform: str
    workload: str
    params: Mapping[str, Any]
    value: Any
    unit: str
    source: str
    kind: str


def load(path: pathlib.Path = MEASURED_FILE) -> list[MeasuredRow]:
    """Return the rows of a JSON file {"points": [...]}. Extra fields of a point are ignored.

    Raise LazyError if the file is missing or invalid.
    """
    try:
        points = json.loads(path.read_text(encoding="utf-8"))["points"]
        return [
            MeasuredRow(params=p["params"], value=p["value"], **{name: str(p[name]) for name in _TEXT_FIELDS})
            for p in points
        ]
    except (OSError, ValueError, LookupError, TypeError) as e:
        hint = f'Pass a JSON file {{"points": [...]}}, each point with params, value, {", ".join(_TEXT_FIELDS)}.'
        raise LazyError(f"{path} is not a table of measurements ({type(e).__name__}: {e})", hint=hint) from e


def longest_prefix(row: MeasuredRow, names: Iterable[str]) -> str:
    """Return the longest of `names` that the row's id starts with, or "" if none matches."""
    return max((name for name in names if row.id.startswith(name)), key=len, default="")
