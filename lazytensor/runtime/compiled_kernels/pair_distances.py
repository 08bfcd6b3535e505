"""Euclidean distances of all pairs of rows of two matrices."""

from typing import Any

import numpy as np

from lazytensor.runtime.intrinsics import sqrt_f4
from lazytensor.runtime.language import typed


@typed("void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, a: Any, b: Any, y: Any) -> None:
    """Set y[t, i, j] to the distance of a[t, i] and b[t, j]; the squares are added in order.

    Phase 0 transposes each matrix of b into `shared`, and phase 1 computes the rows of a part. `g` holds the number of
    rows of all matrices of a, the rows of one, of b and the columns, the number of matrices, and the rows of a part.
    `own` is unused.
    """
    rows, others, columns = g[1], g[2], g[3]
    totals = np.empty(64, np.float32)
    if phase == 0:
        for t in range(g[4]):
            for j in range(others):
                for k in range(columns):
                    shared[(t * columns + k) * others + j] = b[(t * others + j) * columns + k]
    else:
        for row in range(part * g[5], min((part + 1) * g[5], g[0])):
            at = row // rows * columns * others
            for strip in range(0, others, 64):
                width = min(others - strip, 64)
                for lane in range(64):
                    totals[lane] = np.float32(0)
                for k in range(columns):
                    x = a[row * columns + k]
                    to = at + k * others + strip
                    for lane in range(width):
                        d = x - shared[to + lane]
                        totals[lane] += d * d
                for lane in range(width):
                    y[row * others + strip + lane] = sqrt_f4(totals[lane])
