"""Adding at places: what read at places is given, summed where it was read. The sums are of double precision."""

from typing import Any

import numpy as np

from lazytensor.runtime.language import typed


@typed("boolean(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], int64[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, grad: Any, places: Any, x: Any) -> bool:
    """g: rows, rows of a part, elements of a row, places of a row. True if a place is in no row."""
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
