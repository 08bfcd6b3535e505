"""Compares what two runs of a program showed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.campaign.programs.drawing import Drawn

Rows = list[list[Any]]
TOLERANCE = {"float64": 1e-4, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
"""Relative to the largest element: a value in a coarse type makes all that follows as coarse."""


@dataclass(frozen=True)
class Difference:
    """The first difference of two runs: its kind, the label where it is, and both sides."""

    kind: str
    label: str
    left: Any
    right: Any

    def __str__(self) -> str:
        return f"{self.kind} at {self.label}: {str(self.left)[:300]} and {str(self.right)[:300]}"


def difference(left: Rows, right: Rows, program: Drawn | None = None) -> Difference | None:
    """Return the first difference of two runs; None if there is none. See `differences`."""
    return next(differences(left, right, program), None)


def differences(left: Rows, right: Rows, program: Drawn | None = None) -> Iterator[Difference]:
    """Yield the differences of two runs, up to the first operation that one of them refused.

    Without `program`, each bit is compared. Otherwise values that have one right result in each bit are compared so,
    and others relative to the largest element of their tensor.
    """
    for one, other in zip(left, right, strict=False):
        label = str(one[0])
        if "error" in (one[0], other[0]) and one[:2] != other[:2]:
            refused = min((row for row in (one, other) if row[0] == "error"), key=lambda row: row[1])
            side, accepted = ("first", other) if refused is one else ("second", one)
            yield Difference(f"refused by the {side}", f"statement {refused[1]}", refused[3], accepted[1:])
            return
        if one[0] != other[0]:
            yield Difference("labels", label, one[0], other[0])
            return
        if label == "error":
            if one[2][0] not in other[2] and other[2][0] not in one[2]:
                yield Difference("error class", f"statement {one[1]}", one[3], other[3])
            continue
        tolerance = TOLERANCE[program.coarsest.get(label, "bfloat16")] if program is not None else None
        if program is not None and label in program.exact:
            tolerance = 0.0
        if (found := _unlike(one[1], other[1], tolerance, label)) is not None:
            yield found
    if len(left) != len(right):
        yield Difference("rows", "the end", len(left), len(right))


TENSOR = ("type", "type", "shape", "requires_grad", "value", "gradient")
"""The names of the entries of a list that shows a tensor: the word "tensor", its dtype, and so on; see `runner`."""


def _unlike(left: Any, right: Any, tolerance: float | None, label: str) -> Difference | None:
    """Return the first difference of two values; the label of an entry is that of the whole with its place."""
    if isinstance(left, list) and isinstance(right, list):
        if left and all(isinstance(v, float | int) and not isinstance(v, bool) for v in (*left, *right)):
            is_far = len(left) != len(right) or _is_far(left, right, tolerance)
            return Difference("value", label, left, right) if is_far else None
        if len(left) != len(right):
            return Difference("length", label, left, right)
        is_tensor = bool(left) and left[0] == "tensor"
        for k, (a, b) in enumerate(zip(left, right, strict=True)):
            place = TENSOR[k] if is_tensor else str(k)
            # A gradient is a sum, whose order is free.
            bound = max(tolerance, TOLERANCE["float32"]) if place == "gradient" and tolerance is not None else tolerance
            found = _unlike(a, b, bound, f"{label}.{place}")
            if found is not None:
                return replace(found, kind=place) if is_tensor and place in TENSOR[1:4] else found
    elif isinstance(left, dict) and isinstance(right, dict):
        if list(left) != list(right):
            return Difference("names", label, list(left), list(right))
        return next((d for k in left if (d := _unlike(left[k], right[k], tolerance, f"{label}.{k}"))), None)
    elif type(left) is not type(right):
        return Difference("class", label, left, right)
    elif left != right and (isinstance(left, bool | str) or _is_far([left], [right], tolerance)):
        return Difference("value", label, left, right)
    return None


def _is_far(left: list[float], right: list[float], tolerance: float | None) -> bool:
    tolerance = tolerance or 0.0
    scale = max((abs(v) for v in (*left, *right) if math.isfinite(v)), default=0.0)
    for a, b in zip(left, right, strict=True):
        if a == b or (a != a and b != b):
            continue
        if not math.isfinite(a) or not math.isfinite(b) or abs(a - b) > tolerance * max(scale, tolerance):
            return True
    return False


def distance(left: Any, right: Any) -> float:
    """Return the largest difference of two numbers at the same place."""
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return max((distance(a, b) for a, b in zip(left, right, strict=True)), default=0.0)
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        return max((distance(left[k], right[k]) for k in left), default=0.0)
    if isinstance(left, float) and isinstance(right, float):
        return (
            abs(left - right)
            if left == left and right == right
            else 0.0
            if left != left and right != right
            else math.inf
        )
    return 0.0 if left == right else math.inf
