"""What comes of bad calls: our own errors at the user's line, and none of NumPy's."""

import collections
import re
from collections.abc import Mapping
from typing import Any

from lazytensor.errors import LazyError
from tests.campaign.calls import asked, drawn, shown

NUMPY_WORDS = re.compile(
    r"numpy(?!\(\))|ufunc|ndarray|operands could not be broadcast|matmul: Input operand|axis \d+ is out of"
)
"""What only NumPy says; `tensor.numpy()` is PyTorch's own word."""

SIGNATURE_WORDS = re.compile(r"positional argument|unexpected keyword|multiple values for")
"""What Python says of one argument too many or too few, as PyTorch does."""


def judged(error: Exception | None) -> str:
    """Return why a user must not get this error, or "" for a LazyError that names the line of the call.

    Python's own TypeError about missing or unexpected arguments is let through: the wrappers raise it.
    """
    if error is None:
        return ""
    if NUMPY_WORDS.search(str(error)):
        return f"speaks of NumPy: {type(error).__name__}: {error}"
    if isinstance(error, LazyError):
        return "" if "calls.py:" in str(error) or not error.where else f"names another line: {error}"
    if isinstance(error, TypeError) and SIGNATURE_WORDS.search(str(error)):
        return ""
    return f"not ours: {type(error).__name__}: {error}"


def campaign(torch: Any, seed: int, cases: range) -> tuple[Mapping[str, int], list[str]]:
    """How many calls ran and how many were refused by what, and those that came out as none may."""
    counts: collections.Counter[str] = collections.Counter()
    bad = []
    for case in cases:
        call = drawn(seed, case)
        error = asked(torch, call)
        counts[type(error).__name__ if error is not None else "ran"] += 1
        fault = judged(error)
        if fault:
            bad.append(f"case {case}: {shown(call)}: {fault}")
    return counts, bad
