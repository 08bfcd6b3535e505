"""Rows read by one index and added at another: sums of bags of an embedding, and their gradient."""

from typing import Any

import numpy as np

from lazytensor.runtime.language import typed


@typed(
    "boolean(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], int64[::1], int64[::1], float32[::1])"
)
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, rows: Any, places: Any, y: Any) -> bool:
    """Set y to 0, then add x[rows[k]] to y[places[k]] for all k in order. Return True at the first index out of range.

    `g` holds the number of indices, the rows of x and of y, the columns, and the columns of a part. `phase`, `shared`
    and `own` are unused.
    """
    columns = g[3]
    first, last = part * g[4], min((part + 1) * g[4], columns)
    for r in range(g[2]):
        for c in range(first, last):
            y[r * columns + c] = np.float32(0)
    for k in range(g[0]):
        if rows[k] < 0 or rows[k] >= g[1] or places[k] < 0 or places[k] >= g[2]:
            return True
        at, to = rows[k] * columns, places[k] * columns
        for c in range(first, last):
            y[to + c] += x[at + c]
    return False
