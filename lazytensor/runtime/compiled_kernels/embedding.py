"""The rows of a table that numbers name: an embedding."""

from typing import Any

from lazytensor.runtime.language import typed


@typed("boolean(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], int64[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, table: Any, numbers: Any, rows: Any) -> bool:
    """g: numbers, rows of the table, columns, numbers of a part. True if a number is that of no row."""
    for k in range(part * g[3], min((part + 1) * g[3], g[0])):
        # Counted from the end, as an index of an array may be.
        r = numbers[k] + g[1] if numbers[k] < 0 else numbers[k]
        if r < 0 or r >= g[1]:
            return True
        for c in range(g[2]):
            rows[k * g[2] + c] = table[r * g[2] + c]
    return False
