"""The measured rows: figures and their sources, read from a file."""

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
    """One published figure. `params` are the extents of the experiment, `kind` is how the figure was published."""

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
    """The rows of a JSON file {"points": [...]}, each with the fields of `MeasuredRow`; further fields are ignored.

    Raises LazyError if the file is missing or no such table.
    """
    try:
        points = json.loads(path.read_text(encoding="utf-8"))["points"]
        return [
            MeasuredRow(params=p["params"], value=p["value"], **{name: str(p[name]) for name in _TEXT_FIELDS})
            for p in points
        ]
    except (OSError, ValueError, LookupError, TypeError) as e:
        hint = f'Give a JSON file {{"points": [...]}}, each point with params, value, {", ".join(_TEXT_FIELDS)}.'
        raise LazyError(f"{path} holds no table of measurements ({type(e).__name__}: {e})", hint=hint) from e


def longest_prefix(row: MeasuredRow, names: Iterable[str]) -> str:
    """The longest of `names` that the row's id begins with; empty if there is none."""
    return max((name for name in names if row.id.startswith(name)), key=len, default="")
