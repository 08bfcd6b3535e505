"""The measured rows: published figures with their experiments and sources, read from JSON or CSV."""

import csv
import io
import json
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from lazytensor.errors import LazyError
from wse_sim.validation.near_names import near_names

MEASURED_FILE = pathlib.Path(__file__).parent / "measured.json"
FITTED, SEEN, HELD_OUT = SPLITS = ("fitted", "seen", "held out")
TRAINING_RUN = "training_run"
"""Kernel of the rows that are whole training runs."""
_HINT = 'Write {"rows": [...]}; `lazywafer validate --example` prints a file, and `--kernels` lists the parameters.'


@dataclass(frozen=True)
class MeasuredRow:
    """One measured figure and the experiment that gave it.

    - `id`: unique name of the row; no model reads it
    - `kernel`: name of the model that predicts the row (`models.MODELS`), or "" if none does
    - `machine`: name of the machine, in any spelling of `Machine.by_name`
    - `value`: the figure, two numbers for a range, or None for a row that is only predicted
    - `unit`: unit of the figure
    - `params`: extents and options of the experiment; `lazywafer validate --kernels` lists those of each kernel
    - `machine_fields`: numbers of the machine that differ in the experiment, for example the clock: field -> number
    - `script`, `mode`: of a whole training run, its script and "pipelined" or "streaming"
    - `family`: group of the row in summaries, by default the kernel
    - `workload`: what was measured, in words
    - `platform`: where it was measured, for example silicon or a simulator
    - `source`: the publication
    - `tolerance`: largest relative error that the prediction should have, or None
    - `split`: "fitted" if a constant of the model was fitted on the figure, "seen" if the kernel's program was written
      with the figure at hand, "held out" otherwise
    - `fitted_constants`: the constants that were fitted on a "fitted" row
    - `note`: why no kernel predicts the row, or why the error is large
    - `details`: more facts of the publication, which no model reads
    """

    id: str
    kernel: str
    machine: str
    value: float | tuple[float, float] | None
    unit: str
    params: Mapping[str, Any] = field(default_factory=dict)
    machine_fields: Mapping[str, Any] = field(default_factory=dict)
    script: str = ""
    mode: str = ""
    family: str = ""
    workload: str = ""
    platform: str = ""
    source: str = ""
    tolerance: float | None = None
    split: str = HELD_OUT
    fitted_constants: str = ""
    note: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_whole_run(self) -> bool:
        """Return whether the row is a whole training run, which is planned from its script."""
        return self.kernel == TRAINING_RUN

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data, in the form of a file of rows. Fields with their defaults are included."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in data.items()}


_FIELD_NAMES = tuple(f.name for f in fields(MeasuredRow))
_REQUIRED_FIELDS = tuple(
    f.name for f in fields(MeasuredRow) if f.default is MISSING and f.default_factory is MISSING and f.name != "value"
)
_TEXT_FIELDS = tuple(f.name for f in fields(MeasuredRow) if f.type is str)


def load(path: pathlib.Path = MEASURED_FILE) -> list[MeasuredRow]:
    """Return the rows of a file: JSON {"rows": [...]}, or CSV if the name ends in ".csv".

    Raise LazyError, with the file, the row and the field, if the file is missing, no such table, or has an invalid
    field, and for an id that is used twice. Rows that no model predicts are not errors.
    """
    try:
        text = path.read_text(encoding="utf-8")
        items = _csv_items(text) if path.suffix.lower() == ".csv" else _json_items(text)
    except (OSError, ValueError, TypeError, LookupError, RecursionError, csv.Error) as e:
        raise LazyError(f"{path} is not a table of measured rows ({type(e).__name__}: {e})", hint=_HINT) from e
    rows: list[MeasuredRow] = []
    used: dict[str, int] = {}
    for number, item in enumerate(items, 1):
        row = parse_row(item, f"{path}, row {number}")
        if row.id in used:
            raise LazyError(
                f"{path}, row {number}: id {row.id!r} is that of row {used[row.id]} too", hint="Give each row an id."
            )
        used[row.id] = number
        rows.append(row)
    return rows


def _json_items(text: str) -> list[Any]:
    items = json.loads(text)["rows"]
    if not isinstance(items, list):
        raise TypeError('"rows" is not a list')
    return items


def _csv_items(text: str) -> list[dict[str, Any]]:
    """Return the rows of a CSV file with a header. A column that is no field of a row is a parameter.

    An empty cell is left out. Numbers, lists, `true` and `false` are read as JSON, and `4x8` as [4, 8]. Raise
    ValueError for a row with more cells than the header.
    """
    items = []
    for number, cells in enumerate(csv.DictReader(io.StringIO(text, newline=""), restkey=""), 1):
        if "" in cells:
            raise ValueError(f"row {number} has more cells than the header")
        known = {name.strip(): cell.strip() for name, cell in cells.items() if cell and cell.strip()}
        item: dict[str, Any] = {n: c if n in _TEXT_FIELDS else _cell_value(c) for n, c in known.items()}
        params = {n: item.pop(n) for n in list(item) if n not in _FIELD_NAMES}
        # A column "params" has an object; if it has something else, the check of the row names it.
        given = item.setdefault("params", {})
        if isinstance(given, dict):
            item["params"] = given | params
        items.append(item)
    return items


def _cell_value(cell: str) -> Any:
    """Return the value of a CSV cell: JSON, whole numbers with x between them as a list, else the text."""
    parts = cell.split("x")
    if len(parts) > 1 and all(part.strip().isdecimal() for part in parts):
        return [int(part) for part in parts]
    try:
        return json.loads(cell)
    except ValueError:
        return cell


def parse_row(item: Any, where: str = "row") -> MeasuredRow:
    """Return the row of a mapping of field names to values, as JSON gives them.

    Raise LazyError, which begins with `where` and the row's id, for a missing or unknown field or an invalid value.
    """
    if not isinstance(item, Mapping):
        raise LazyError(f"{where} is {item!r:.80}, not an object with fields", hint=_HINT)
    if isinstance(item.get("id"), str):
        where = f"{where} ({item['id']})"
    for name in item:
        if name not in _FIELD_NAMES:
            raise LazyError(
                f"{where}: unknown field {name!r}", hint=f"Use {near_names(str(name), _FIELD_NAMES)}. {_HINT}"
            )
    for name in _REQUIRED_FIELDS:
        if name not in item:
            raise LazyError(f"{where}: field {name!r} is missing", hint=_HINT)
    values = dict(item)
    for name in _TEXT_FIELDS:
        if not isinstance(values.get(name, ""), str):
            raise LazyError(f"{where}: field {name!r} is {values[name]!r:.80}, not a text", hint="Put it in quotes.")
    for name in ("params", "machine_fields", "details"):
        if not isinstance(values.get(name, {}), Mapping):
            raise LazyError(f"{where}: field {name!r} is {values[name]!r:.80}, not an object", hint=_HINT)
    values["value"] = _parse_value(values.get("value"), where)
    if values.get("tolerance") is not None and not _is_positive_number(values["tolerance"]):
        raise LazyError(
            f"{where}: field 'tolerance' is {values['tolerance']!r:.80}",
            hint="Give a positive share, as 0.15 for 15 %.",
        )
    row = MeasuredRow(**values)
    row = row if row.family else MeasuredRow(**{**values, "family": row.kernel})
    _check_texts(row, where)
    return row


def _parse_value(value: Any, where: str) -> float | tuple[float, float] | None:
    """Return a figure: a positive number, a pair of them, or None. Raise LazyError for anything else."""
    if value is None or _is_positive_number(value):
        return value  # type: ignore[no-any-return]
    if isinstance(value, Sequence) and len(value) == 2 and all(_is_positive_number(v) for v in value):
        return value[0], value[1]
    raise LazyError(
        f"{where}: field 'value' is {value!r:.80}", hint="Give a positive number, two for a range, or null."
    )


def _is_positive_number(value: Any) -> bool:
    # `bool` is a subclass of int. Comparing first keeps integers beyond the range of floats from raising.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e300 and math.isfinite(value)


def _check_texts(row: MeasuredRow, where: str) -> None:
    """Raise LazyError for an empty id, an unknown split, and for a row without a kernel or a note that explains it."""
    if not row.id:
        raise LazyError(f"{where}: field 'id' is empty", hint="Give each row an id.")
    if row.split not in SPLITS:
        raise LazyError(f"{where}: field 'split' is {row.split!r}", hint=f"Use {', '.join(map(repr, SPLITS))}.")
    if bool(row.fitted_constants) != (row.split == FITTED):
        raise LazyError(
            f"{where}: field 'fitted_constants' is {row.fitted_constants!r} and 'split' is {row.split!r}",
            hint="Name the constants of a fitted row, and only of a fitted row.",
        )
    if not row.kernel and not row.note:
        raise LazyError(f"{where}: fields 'kernel' and 'note' are empty", hint="Explain a row without a kernel.")


def choose_rows(rows: Iterable[MeasuredRow], names: Iterable[str]) -> list[MeasuredRow]:
    """Return the rows whose id starts with one of `names`, or whose family or kernel is one of them.

    Return all rows without names. Rows keep their order. Raise LazyError for a name that matches no row.
    """
    listed, wanted = list(rows), list(names)
    for name in wanted:
        if not any(_is_named(row, name) for row in listed):
            known = ", ".join(dict.fromkeys(row.family for row in listed))
            raise LazyError(
                f"no row has the id, family or kernel {name!r}", hint=f"Use a prefix of a row's id, or one of {known}."
            )
    return [row for row in listed if not wanted or any(_is_named(row, name) for name in wanted)]


def _is_named(row: MeasuredRow, name: str) -> bool:
    return row.id.startswith(name) or name in (row.family, row.kernel)
