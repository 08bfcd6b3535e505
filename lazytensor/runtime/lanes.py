"""The lanes of a reduction as one number: the first half takes the second one, until one lane is left.

`lazytensor.native` writes these functions with vector registers; their text here is for Numba.
"""

from typing import Any

from numba import njit

from lazytensor.runtime.intrinsics import max_f4, min_f4


@njit
def lanes_add(lanes: Any, count: int) -> Any:
    """The sum of the first `count` lanes, a multiple of 16."""
    while count > 1:
        half = (count + 1) // 2 if count <= 32 else 32
        for lane in range(count - half):
            lanes[lane] = lanes[lane] + lanes[lane + half]
        count = half
    return lanes[0]


@njit
def lanes_mul(lanes: Any, count: int) -> Any:
    """The product of the first `count` lanes."""
    while count > 1:
        half = (count + 1) // 2 if count <= 32 else 32
        for lane in range(count - half):
            lanes[lane] = lanes[lane] * lanes[lane + half]
        count = half
    return lanes[0]


@njit
def lanes_maximum(lanes: Any, count: int) -> Any:
    """The largest of the first `count` lanes; NaN if one is NaN."""
    most = lanes[0]
    for lane in range(1, count):
        most = max_f4(most, lanes[lane])
    return most


@njit
def lanes_minimum(lanes: Any, count: int) -> Any:
    """The smallest of the first `count` lanes; NaN if one is NaN."""
    least = lanes[0]
    for lane in range(1, count):
        least = min_f4(least, lanes[lane])
    return least
