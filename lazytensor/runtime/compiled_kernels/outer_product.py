"""Products of a column and a row, which the general product computes many times slower."""

from typing import Any

from lazytensor.runtime.language import typed


@typed("void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, a: Any, b: Any, y: Any) -> None:
    """Set y[i, j] = a[i] * b[j] for some rows and columns.

    `g` holds the number of rows and columns, and the rows and the columns of a part. `phase`, `shared` and `own` are
    unused.
    """
    rows, columns = g[0], g[1]
    strips = (columns + g[3] - 1) // g[3]
    first, last = part % strips * g[3], min((part % strips + 1) * g[3], columns)
    for i in range(part // strips * g[2], min((part // strips + 1) * g[2], rows)):
        if columns == 1:
            y[i] = a[i] * b[0]
        else:
            factor = a[i]
            for j in range(first, last):
                y[i * columns + j] = factor * b[j]
