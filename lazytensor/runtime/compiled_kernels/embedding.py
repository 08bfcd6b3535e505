"""Rows of a table at given indices, as an embedding reads them. Several tables may be read at the same indices."""

from typing import Any

from lazytensor.runtime.language import typed


@typed(
    "boolean(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], int64[::1], float32[::1])",
)
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, table: Any, numbers: Any, rows: Any) -> bool:
    """Set rows[t, k] = table[t, numbers[k]] for the rows of a part. Return True at the first index out of range.

    `part` is the number of the part. `g` holds the number of tables, of indices, rows of a table and columns, and the
    result's rows per part. A negative index counts from the end. `phase`, `shared` and `own` are unused.
    """
    count, height, columns = g[1], g[2], g[3]
    first, last = part * g[4], min((part + 1) * g[4], g[0] * count)
    for t in range(first // count, (last + count - 1) // count):
        for k in range(max(first - t * count, 0), min(last - t * count, count)):
            # Negative indices count from the end.
            r = numbers[k] + height if numbers[k] < 0 else numbers[k]
            if r < 0 or r >= height:
                return True
            for c in range(columns):
                rows[(t * count + k) * columns + c] = table[(t * height + r) * columns + c]
    return False
