"""The recorded table of operations: what the real stack answered for each public function."""

import functools
import pathlib
from dataclasses import dataclass

TABLE_FILE = pathlib.Path(__file__).parent / "operations.txt"


@dataclass(frozen=True)
class Row:
    """The answer for one public name; `argument` narrows it to calls with that keyword, as in "mode=reflect"."""

    name: str
    rule: str
    says: str
    argument: str = ""


@functools.cache
def table() -> dict[str, list[Row]]:
    """The refused names, by name."""
    rows: dict[str, list[Row]] = {}
    for line in _lines():
        if line[1] == "ok":
            continue
        name, _, argument = line[0].partition(":")
        rows.setdefault(name, []).append(Row(name, line[1], line[2], argument))
    return rows


@functools.cache
def _good() -> frozenset[str]:
    return frozenset(line[0] for line in _lines() if line[1] == "ok")


def _lines() -> list[list[str]]:
    text = TABLE_FILE.read_text(encoding="utf-8")
    return [[*line.split("\t"), ""][:3] for line in text.splitlines() if line and not line.startswith("#")]


def is_known_good(names: set[str]) -> bool:
    """Whether all that was called on a line was seen to be lowered by the original."""
    return bool(names) and all(n.strip("_") in _good() and n not in table() for n in names)
