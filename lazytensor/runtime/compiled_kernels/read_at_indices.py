"""Reading at places: each row of results holds elements of its row of values."""

from typing import Any

from lazytensor.runtime.language import typed


@typed("boolean(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], int64[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, places: Any, y: Any) -> bool:
    """g: rows, rows of a part, elements of a row, places of a row. True if a place is in no row."""
    extent, count = g[2], g[3]
    for row in range(part * g[1], min((part + 1) * g[1], g[0])):
        for k in range(row * count, (row + 1) * count):
            # Counted from the end, as an index of an array may be.
            place = places[k] + extent if places[k] < 0 else places[k]
            if place < 0 or place >= extent:
                return True
            y[k] = x[row * extent + place]
    return False
