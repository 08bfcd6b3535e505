"""Rows of tables at fixed indices: sums of none, one or several rows each. Padding and resampling use it."""

from typing import Any

from lazytensor.runtime.language import typed


@typed("void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, y: Any) -> None:
    """Set y[t, k] to the sum of the rows x[t, r] with r in list k, in its order, for the tables t of a part.

    `g` holds the number of tables, of lists, rows of a table and columns, and the tables per part. After these follow
    the place of the first entry of each list and the end of the last, and the entries. `phase`, `shared` and `own` are
    unused.
    """
    count, height, columns = g[1], g[2], g[3]
    entries = 6 + count
    for t in range(part * g[4], min((part + 1) * g[4], g[0])):
        for k in range(count):
            to = (t * count + k) * columns
            first, last = entries + g[5 + k], entries + g[6 + k]
            if first == last:
                for c in range(columns):
                    y[to + c] = 0
            else:
                at = (t * height + g[first]) * columns
                for c in range(columns):
                    y[to + c] = x[at + c]
                for entry in range(first + 1, last):
                    at = (t * height + g[entry]) * columns
                    for c in range(columns):
                        y[to + c] += x[at + c]
