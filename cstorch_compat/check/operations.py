"""The recorded table of operations: what the real stack answered for each public function."""

import functools
import pathlib
from dataclasses import dataclass

from lazytensor.plain_files import text_of

TABLE_FILE = pathlib.Path(__file__).parent / "operations.txt"
OPERATORS = {
    **{n: n for n in "add sub mul pow matmul getitem neg abs gt ge lt le eq ne".split()},
    "truediv": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "invert": "bitwise_not",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}
"""The function behind an operator of Python."""


@dataclass(frozen=True)
class RecordedAnswer:
    """The answer for one public name; `argument` narrows it to calls with that keyword, as in "mode=reflect"."""

    name: str
    rule: str
    says: str
    argument: str = ""


@functools.cache
def table() -> dict[str, list[RecordedAnswer]]:
    """The refused names, by name."""
    rows: dict[str, list[RecordedAnswer]] = {}
    for line in _lines():
        if line[1] == "ok":
            continue
        # A row for calls with one argument stands beside the one for the name.
        name, _, argument = line[0].partition(":")
        rows.setdefault(name, []).append(RecordedAnswer(name, line[1], line[2], argument))
    return rows


@functools.cache
def _good() -> frozenset[str]:
    return frozenset(line[0] for line in _lines() if line[1] in ("ok", "no gradient"))


def _lines() -> list[list[str]]:
    text = text_of(TABLE_FILE)
    return [[*line.split("\t"), ""][:3] for line in text.splitlines() if line and not line.startswith("#")]


def public_name(short: str) -> str:
    """The name that a row of the table has: one serves the function, the method, its in-place form and its operator."""
    if not short.startswith("__"):
        return short.removesuffix("_")
    # Reflected and in-place operators, __radd__ and __iadd__, are spelled with one letter more.
    bare = short.strip("_")
    return OPERATORS.get(bare) or OPERATORS.get(bare[1:], bare)


def is_known_good(names: set[str]) -> bool:
    """Whether something that was called on a line was seen to be lowered by the original."""
    return any(public_name(n) in _good() for n in names)
