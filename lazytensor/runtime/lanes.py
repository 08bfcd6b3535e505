"""Reduce the lanes of a vector to one number: the second half is combined with the first until one lane is left.

These Python functions define the meaning. The compiler replaces a call by vector instructions; see
`lazytensor.llvm.lane_totals`.
"""

from collections.abc import Callable
from operator import add, mul
from typing import Any

from lazytensor.runtime.intrinsics import max_f4, min_f4


def _total(lanes: Any, count: int, step: Callable[[Any, Any], Any]) -> Any:
    """Reduce the first `count` elements of `lanes` by `step`, in place, and return the result.

    In each round, the second half is combined with the first; the first half has 32 lanes while there are more.
    """
    while count > 1:
        half = (count + 1) // 2 if count <= 32 else 32
        for lane in range(count - half):
            lanes[lane] = step(lanes[lane], lanes[lane + half])
        count = half
    return lanes[0]


def lanes_add(lanes: Any, count: int) -> Any:
    """Return the sum of the first `count` lanes, a multiple of 16. In Python, overwrites lanes."""
    return _total(lanes, count, add)


def lanes_mul(lanes: Any, count: int) -> Any:
    """Return the product of the first `count` lanes, a multiple of 16. In Python, overwrites lanes."""
    return _total(lanes, count, mul)


def lanes_maximum(lanes: Any, count: int) -> Any:
    """Return the maximum of the first `count` lanes, a multiple of 16; NaN if one is NaN.

    In Python, overwrites lanes.
    """
    return _total(lanes, count, max_f4)


def lanes_minimum(lanes: Any, count: int) -> Any:
    """Return the minimum of the first `count` lanes, a multiple of 16; NaN if one is NaN.

    In Python, overwrites lanes.
    """
    return _total(lanes, count, min_f4)
