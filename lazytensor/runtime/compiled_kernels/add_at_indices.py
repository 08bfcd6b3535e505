"""Scatter-add along the last dimension, the gradient of `read_at_indices`. The sums are in double precision."""

from typing import Any

import numpy as np

from lazytensor.runtime.language import typed


@typed("boolean(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], int64[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, grad: Any, places: Any, x: Any) -> bool:
    """Set x[row] to zeros and add grad[row, k] at places[row, k], for the rows of a part.

    `part` is the number of the part. `g` holds the number of rows, rows per part, elements of a row of x, and places
    per row. Return True at the first place that is negative or too large; its row of x is then not written. `phase`,
    `shared` and `own` are unused.
    """
    extent, count = g[2], g[3]
    total = np.empty(extent, np.float64)
    for row in range(part * g[1], min((part + 1) * g[1], g[0])):
        for k in range(extent):
            total[k] = 0
        for k in range(row * count, (row + 1) * count):
            if places[k] < 0 or places[k] >= extent:
                return True
            total[places[k]] += grad[k]
        for k in range(extent):
            x[row * extent + k] = total[k]
    return False
