"""Prints of two runs beside each other: the same words, and numbers that are equal or nearly so."""

import math
import re
from dataclasses import dataclass

FIRST = 20
"""How many prints of each command are compared."""
TOLERANCE = 1e-4
NUMBER = re.compile(r"(?<![A-Za-z_0-9.])[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|inf|nan)\b")
VOLATILE = (
    # Times of day, durations, process numbers, addresses, rates, and files named after them.
    re.compile(r"\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4}"),
    re.compile(r"\d{4}-\d\d-\d\d[_ ]\d\d[-:]\d\d[-:]\d\d"),
    re.compile(r"(?i)\b(?:time|data|ms/batch|mfu)\b:? +[-\d.]+(?:ms|s|%)?(?: +\( *[-\d.]+\))?"),
    re.compile(r"\([\d.]+s\)"),
    re.compile(r"^\d+\tTrain"),
    re.compile(r"^\[\d+\]"),
    re.compile(r"0x[0-9a-f]+"),
)


@dataclass(frozen=True)
class Verdict:
    """How far two runs agree: how many prints were compared, and what differs first; empty if nothing does."""

    compared: int
    difference: str
    largest: float
    """The largest difference of two numbers, relative where they are above 1, in prints that PyTorch gives again."""
    parted: int = 0
    """How many prints come after PyTorch's own runs part from each other."""
    astray: float = 0.0
    """The largest difference in those."""


def prints(output: str) -> list[str]:
    """The lines that hold anything, without what no two runs share."""
    lines = []
    for line in output.splitlines():
        plain = line
        for pattern in VOLATILE:
            plain = pattern.sub("~", plain)
        if plain.strip():
            lines.append(plain.rstrip())
    return lines


def numbers(line: str) -> list[float]:
    """The numbers of a line."""
    return [float(n) for n in NUMBER.findall(line)]


def distance(a: float, b: float) -> float:
    """The difference of two numbers, relative where they are above 1."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    return abs(a - b) / max(1.0, abs(a), abs(b)) if math.isfinite(a) and math.isfinite(b) else math.inf


def spread(theirs: list[str], others: list[list[str]]) -> list[float]:
    """How far runs that differ by roundings are from `theirs`, print by print: never less than before."""
    # Runs that have parted come near each other by accident alone.
    largest, apart = 0.0, []
    for k, line in enumerate(theirs):
        for other in others:
            largest = max(largest, *map(distance, numbers(line), numbers(other[k])), 0.0)
        apart.append(largest)
    return apart


def compared(ours: list[str], theirs: list[str], apart: list[float] | None = None) -> Verdict:
    """Our prints beside theirs; `apart` is how far theirs are from themselves where roundings differ."""
    largest = astray = 0.0
    parted = 0
    for k, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        if NUMBER.sub("#", mine) != NUMBER.sub("#", other):
            return Verdict(k, f"print {k + 1}: {mine!r}, not {other!r}", largest)
        difference = max(map(distance, numbers(mine), numbers(other)), default=0.0)
        allowed = max(TOLERANCE, apart[k] if apart else 0.0)
        if difference > allowed:
            return Verdict(k, f"print {k + 1}: {mine!r}, not {other!r}", largest)
        if allowed > TOLERANCE:
            parted, astray = parted + 1, max(astray, difference)
        else:
            largest = max(largest, difference)
    if len(ours) != len(theirs):
        return Verdict(min(len(ours), len(theirs)), f"{len(ours)} prints, not {len(theirs)}", largest)
    return Verdict(len(theirs), "", largest, parted, astray)
