"""One index in place of two: the number of an element in a table of rows and columns."""

from typing import Any

from lazytensor.runtime.language import typed


@typed("boolean(int64, int64, int64[::1], float32[::1], float32[::1], int64[::1], int64[::1], int64[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, rows: Any, columns: Any, flat: Any) -> bool:
    """Set flat[k] = rows[k] * g[2] + columns[k] for the indices of a part. Return True at the first invalid index.

    `g` holds the number of indices, of rows and of columns, and the indices per part. Negative indices count from the
    end. `phase`, `shared` and `own` are unused.
    """
    for k in range(part * g[3], min((part + 1) * g[3], g[0])):
        r = rows[k] + g[1] if rows[k] < 0 else rows[k]
        c = columns[k] + g[2] if columns[k] < 0 else columns[k]
        if r < 0 or r >= g[1] or c < 0 or c >= g[2]:
            return True
        flat[k] = r * g[2] + c
    return False
