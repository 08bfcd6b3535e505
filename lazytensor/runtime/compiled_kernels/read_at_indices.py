"""Gather along the last dimension: each row of the result holds elements of the same row of the input."""

from typing import Any

from lazytensor.runtime.language import typed


@typed("boolean(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], int64[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, places: Any, y: Any) -> bool:
    """Set y[row, k] = x[row, places[row, k]] for the rows of a part. Return True at the first place that is out of
    range.

    `g` holds the number of rows, rows per part, elements of a row of x, and places per row. A negative place counts
    from the end. `phase`, `shared` and `own` are unused.
    """
    extent, count = g[2], g[3]
    for row in range(part * g[1], min((part + 1) * g[1], g[0])):
        for k in range(row * count, (row + 1) * count):
            # Negative indices count from the end.
            place = places[k] + extent if places[k] < 0 else places[k]
            if place < 0 or place >= extent:
                return True
            y[k] = x[row * extent + place]
    return False
