"""Running sums, products and sums of exponentials along one dimension, kept in float64 and rounded once each."""

import math
from typing import Any

import numpy as np

from lazytensor.runtime.language import inline, typed


@inline
def _start(kind: int) -> Any:
    """Return the running value before the first element: 0, 1 or -infinity for a kind of 0, 1 or 2."""
    return 0.0 if kind == 0 else (1.0 if kind == 1 else -np.inf)


@inline
def _log_sum(a: Any, b: Any) -> Any:
    """Return log(exp(a) + exp(b)) in float64."""
    high = a if a > b else b
    low = b if a > b else a
    # Equal infinities have no difference.
    gap = low - high if low != high else 0.0
    return high + np.log1p(math.exp(gap))


@typed("void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, y: Any) -> None:
    """Set y[t, k] to the sum of the rows x[t, 0] to x[t, k], or their product or log of the sum of exponentials.

    `g` holds the number of tables, rows of a table and columns, the tables and the columns of a part, the kind (0 for a
    sum, 1 for a product, 2 for the sum of exponentials), and whether the last row is the first. `phase`, `shared` and
    `own` are unused.
    """
    height, columns, kind = g[1], g[2], g[5]
    totals = np.empty(64, np.float64)
    strips = (columns + g[4] - 1) // g[4]
    begin = part // strips * g[3]
    first, last = part % strips * g[4], min((part % strips + 1) * g[4], columns)
    for t in range(begin, min(begin + g[3], g[0])):
        for strip in range(first, last, 64):
            # The running values of up to 64 columns are in a local array.
            width = min(last - strip, 64)
            for c in range(width):
                totals[c] = _start(kind)
            for k in range(height):
                row = height - 1 - k if g[6] == 1 else k
                at = (t * height + row) * columns + strip
                if kind == 0:
                    for c in range(width):
                        totals[c] += np.float64(x[at + c])
                        y[at + c] = np.float32(totals[c])
                elif kind == 1:
                    for c in range(width):
                        totals[c] *= np.float64(x[at + c])
                        y[at + c] = np.float32(totals[c])
                else:
                    for c in range(width):
                        totals[c] = _log_sum(totals[c], np.float64(x[at + c]))
                        y[at + c] = np.float32(totals[c])
