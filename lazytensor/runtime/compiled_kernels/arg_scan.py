"""Indices of running maxima or minima along one dimension."""

from typing import Any

from lazytensor.runtime.language import typed


@typed("void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], int64[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, places: Any) -> None:
    """Set places[t, k] to the index of the largest of the rows x[t, 0] to x[t, k], or of the smallest.

    The last of equal elements counts, and after a NaN the last NaN. `g` holds the number of tables, rows of a table and
    columns, the tables and the columns of a part, and whether the smallest is sought. `phase`, `shared` and `own` are
    unused.
    """
    height, columns = g[1], g[2]
    strips = (columns + g[4] - 1) // g[4]
    begin = part // strips * g[3]
    first, last = part % strips * g[4], min((part % strips + 1) * g[4], columns)
    for t in range(begin, min(begin + g[3], g[0])):
        top = t * height * columns
        for c in range(first, last):
            places[top + c] = 0
        for k in range(1, height):
            at = top + k * columns
            for c in range(first, last):
                place = places[at - columns + c]
                value, best = x[at + c], x[top + place * columns + c]
                is_next = value <= best if g[5] == 1 else value >= best
                places[at + c] = k if is_next or value != value else place
