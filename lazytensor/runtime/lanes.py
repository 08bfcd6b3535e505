"""The lanes of a reduction as one number: the first half takes the second one, until one lane is left.

The compiler writes these functions with vector registers; see `lazytensor.llvm.lane_totals`.
"""

from collections.abc import Callable
from operator import add, mul
from typing import Any

from lazytensor.runtime.intrinsics import max_f4, min_f4


def _total(lanes: Any, count: int, step: Callable[[Any, Any], Any]) -> Any:
    while count > 1:
        half = (count + 1) // 2 if count <= 32 else 32
        for lane in range(count - half):
            lanes[lane] = step(lanes[lane], lanes[lane + half])
        count = half
    return lanes[0]


def lanes_add(lanes: Any, count: int) -> Any:
    """Return the sum of the first `count` lanes, a multiple of 16."""
    return _total(lanes, count, add)


def lanes_mul(lanes: Any, count: int) -> Any:
    """Return the product of the first `count` lanes, a multiple of 16."""
    return _total(lanes, count, mul)


def lanes_maximum(lanes: Any, count: int) -> Any:
    """Return the largest of the first `count` lanes, a multiple of 16; NaN if one is NaN."""
    return _total(lanes, count, max_f4)


def lanes_minimum(lanes: Any, count: int) -> Any:
    """Return the smallest of the first `count` lanes, a multiple of 16; NaN if one is NaN."""
    return _total(lanes, count, min_f4)
