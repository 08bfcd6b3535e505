"""Solutions of triangular systems by substitution, with sums in float64."""

from typing import Any

import numpy as np

from lazytensor.runtime.language import typed


@typed("void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, a: Any, b: Any, x: Any) -> None:
    """Set x to the solutions of a x = b for some columns of some matrices, where only one triangle of a is read.

    `g` holds the number of matrices, matrices per part, the rows, the columns of b, the columns of a part, whether the
    triangle is the lower one, and whether a is transposed. `phase`, `shared` and `own` are unused.
    """
    n, columns = g[2], g[3]
    strips = (columns + g[4] - 1) // g[4]
    group, first = part // strips * g[1], part % strips * g[4]
    last = min(first + g[4], columns)
    # The distances of the elements of a row and of a column of the matrix that is solved.
    along = n if g[6] == 1 else 1
    down = 1 if g[6] == 1 else n
    goes_down = g[5] != g[6]
    totals = np.empty(64, np.float64)
    for matrix in range(group, min(group + g[1], g[0])):
        for strip in range(first, last, 64):
            width = min(last - strip, 64)
            for step in range(n):
                i = step if goes_down else n - 1 - step
                row = (matrix * n + i) * columns + strip
                for c in range(width):
                    totals[c] = np.float64(b[row + c])
                for k in range(step):
                    j = k if goes_down else n - 1 - k
                    factor = np.float64(a[matrix * n * n + i * down + j * along])
                    other = (matrix * n + j) * columns + strip
                    for c in range(width):
                        totals[c] -= factor * np.float64(x[other + c])
                pivot = np.float64(a[matrix * n * n + i * (n + 1)])
                for c in range(width):
                    x[row + c] = np.float32(totals[c] / pivot)
