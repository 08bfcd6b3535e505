"""Weighted sums of the differences of rows: the gradient of their distances."""

from typing import Any

import numpy as np

from lazytensor.runtime.language import typed


@typed(
    "void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1])"
)
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, s: Any, a: Any, b: Any, y: Any) -> None:
    """Set y[t, i] to the sum over j of s[t, i, j] * (a[t, i] - b[t, j]), added in order, for the rows of a part.

    `g` holds the number of rows of all matrices of a, the rows of one, of b and the columns, the number of matrices,
    and the rows of a part. `phase`, `shared` and `own` are unused.
    """
    rows, others, columns = g[1], g[2], g[3]
    for row in range(part * g[5], min((part + 1) * g[5], g[0])):
        at, to = row // rows * others, row * columns
        for c in range(columns):
            y[to + c] = np.float32(0)
        for j in range(others):
            weight = s[row * others + j]
            place = (at + j) * columns
            for c in range(columns):
                y[to + c] += weight * (a[to + c] - b[place + c])
