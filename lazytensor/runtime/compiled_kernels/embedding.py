"""Embedding: copy the rows of a table at given indices."""

from typing import Any

from lazytensor.runtime.language import typed


@typed("boolean(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], int64[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, table: Any, numbers: Any, rows: Any) -> bool:
    """Set rows[k] = table[numbers[k]] for the indices of a part. Return True at the first index that is out of range.

    `part` is the number of the part. `g` holds the number of indices, rows of the table, columns, and indices per part.
    A negative index counts from the end. `phase`, `shared` and `own` are unused.
    """
    for k in range(part * g[3], min((part + 1) * g[3], g[0])):
        # Negative indices count from the end.
        r = numbers[k] + g[1] if numbers[k] < 0 else numbers[k]
        if r < 0 or r >= g[1]:
            return True
        for c in range(g[2]):
            rows[k * g[2] + c] = table[r * g[2] + c]
    return False
