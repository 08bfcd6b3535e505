"""Compares what two runs of a script printed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.campaign.loops.serving import Answer

FLOAT32_TOLERANCE = 2e-5
"""Relative to the largest value of a tensor: sums of some dozen elements in another order, over five steps."""


@dataclass(frozen=True)
class Difference:
    """One difference: its kind, where it is, and both sides."""

    kind: str
    where: str
    left: Any
    right: Any
    line: int = 0
    """The number of the printed line; of an error, one past the last line."""

    def __str__(self) -> str:
        return f"{self.kind} at {self.where}: {_short(self.left)} and {_short(self.right)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 400 else text[:400] + "..."


def difference(left: Answer, right: Answer, tolerance: float = FLOAT32_TOLERANCE) -> Difference | None:
    """Return the first difference of two answers, in lines and then in errors; None if there is none."""
    for number, (one, other) in enumerate(zip(left.lines, right.lines, strict=False)):
        label = str(one[0])
        if one[0] != other[0]:
            return Difference("order", f"line {number}", one, other, number)
        found = next(unequal(one[1:], other[1:], label, tolerance), None)
        if found:
            return replace(found, line=number)
    if len(left.lines) != len(right.lines):
        common = min(len(left.lines), len(right.lines))
        # An error that ended one of the two explains why lines are missing.
        if left.error is None and right.error is None:
            longer = max(left.lines, right.lines, key=len)
            sizes = len(left.lines), len(right.lines)
            return Difference("missing lines", f"line {common}", sizes, longer[common], common)
    found = error_difference(left, right)
    return replace(found, line=len(left.lines)) if found else None


def error_difference(left: Answer, right: Answer) -> Difference | None:
    """Return how the errors of two answers differ: one of them, their kinds, or their lines."""
    if left.error is None and right.error is None:
        return None
    if left.error is None or right.error is None:
        return Difference("accepted by one", "the end", left.text, right.text)
    if left.error["type"] not in right.error.get("kinds", []):
        return Difference("error type", "the end", left.text, right.text)
    if left.error["line"] != right.error["line"]:
        return Difference("error line", "the end", left.text, right.text)
    return None


def unequal(left: Any, right: Any, where: str, tolerance: float) -> Iterator[Difference]:
    """Yield the differences of two plain values. Numbers are compared relative to the largest one of their list."""
    if isinstance(left, dict) and isinstance(right, dict):
        yield from _unequal_names(left, right, where, tolerance)
    elif isinstance(left, list) and isinstance(right, list):
        yield from _unequal_lists(left, right, where, tolerance)
    elif isinstance(left, float) or isinstance(right, float):
        is_pair = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (left, right))
        yield from _far([left], [right], where, tolerance) if is_pair else [Difference("type", where, left, right)]
    elif left != right or type(left) is not type(right):
        kind = "value" if type(left) is type(right) else "type"
        yield Difference(kind, where, left, right)


def _unequal_names(left: Any, right: Any, where: str, tolerance: float) -> Iterator[Difference]:
    if list(left) != list(right):
        yield Difference("names", where, list(left), list(right))
        return
    for name in left:
        yield from unequal(left[name], right[name], f"{where}.{name}", tolerance)


def _unequal_lists(left: list[Any], right: list[Any], where: str, tolerance: float) -> Iterator[Difference]:
    numbers, others = _numbers(left), _numbers(right)
    if numbers is not None and others is not None and len(left) > 1:
        yield from _far(numbers, others, where, tolerance)
    elif len(left) != len(right):
        yield Difference("length", where, left, right)
    else:
        for n, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from unequal(one, other, f"{where}[{n}]", tolerance)


def _numbers(values: list[Any]) -> list[float] | None:
    """Return the numbers of a nested list of floats, in order; None if anything else is among them."""
    flat: list[float] = []
    for value in values:
        if isinstance(value, list):
            inner = _numbers(value)
            if inner is None:
                return None
            flat += inner
        elif isinstance(value, float):
            flat.append(value)
        else:
            return None
    return flat


def _far(left: list[float], right: list[float], where: str, tolerance: float) -> Iterator[Difference]:
    if len(left) != len(right):
        yield Difference("length", where, left, right)
        return
    largest = max((abs(v) for v in left if math.isfinite(v)), default=0.0)
    for one, other in zip(left, right, strict=True):
        if one == other or (math.isnan(one) and math.isnan(other)):
            continue
        # A comparison with NaN is false, so that a NaN on one side counts as far.
        if not abs(one - other) <= tolerance * max(largest, 1e-6):
            yield Difference("value", where, left, right)
            return


def deviation(left: Any, right: Any) -> float:
    """Return the largest difference of two plain values, relative to the largest number of its list.

    Values of other structure are infinitely far from each other.
    """
    low, high = 0.0, 1e9
    if next(unequal(left, right, "", high), None) is not None:
        return math.inf
    # The bound that just lets them pass, to a tenth: `unequal` knows how numbers are grouped.
    low, high = 1e-9, 1e9
    while high > 1.1 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if next(unequal(left, right, "", middle), None) is None else (middle, high)
    return high
