"""Rows written to a table at given indices, in order; the gradient of an embedding adds them. There may be several
tables.
"""

from typing import Any

from lazytensor.runtime.language import typed


@typed(
    "boolean(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], int64[::1],"
    " float32[::1])",
)
def kernel(
    phase: int, part: int, g: Any, shared: Any, own: Any, table: Any, rows: Any, numbers: Any, total: Any
) -> bool:
    """Set total = table, then add rows[t, k] to total[t, numbers[k]], or write it there, for all k in order.

    Return True at the first index out of range. `g` holds the number of tables, of indices, rows of a table and
    columns, the tables and the columns of a part, and whether rows are added. A negative index counts from the end.
    `phase`, `shared` and `own` are unused.
    """
    count, height, columns = g[1], g[2], g[3]
    strips = (columns + g[5] - 1) // g[5]
    begin = part // strips * g[4]
    first = part % strips * g[5]
    last = min(first + g[5], columns)
    for t in range(begin, min(begin + g[4], g[0])):
        for r in range(t * height, (t + 1) * height):
            for c in range(first, last):
                total[r * columns + c] = table[r * columns + c]
        for k in range(count):
            # Negative indices count from the end.
            r = numbers[k] + height if numbers[k] < 0 else numbers[k]
            if r < 0 or r >= height:
                return True
            to, at = (t * height + r) * columns, (t * count + k) * columns
            if g[6] == 1:
                for c in range(first, last):
                    total[to + c] += rows[at + c]
            else:
                for c in range(first, last):
                    total[to + c] = rows[at + c]
    return False
