"""Gradient of an embedding: add rows to those of a table at given indices, in order."""

from typing import Any

from lazytensor.runtime.language import typed


@typed(
    "boolean(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], int64[::1],"
    " float32[::1])",
)
def kernel(
    phase: int, part: int, g: Any, shared: Any, own: Any, table: Any, rows: Any, numbers: Any, total: Any
) -> bool:
    """Set total = table, then add rows[k] to total[numbers[k]] for all k. Return True at the first index out of range.

    `g` holds the number of indices, rows of the table, columns, and columns per part. Part `part` computes some
    columns. A negative index counts from the end. `phase`, `shared` and `own` are unused.
    """
    first, last = part * g[3], min((part + 1) * g[3], g[2])
    for r in range(g[1]):
        for c in range(first, last):
            total[r * g[2] + c] = table[r * g[2] + c]
    for k in range(g[0]):
        # Negative indices count from the end.
        r = numbers[k] + g[1] if numbers[k] < 0 else numbers[k]
        if r < 0 or r >= g[1]:
            return True
        for c in range(first, last):
            total[r * g[2] + c] += rows[k * g[2] + c]
    return False
