"""Gradient of a strided window: add each element where the window reads it."""

from typing import Any

from lazytensor.runtime.language import typed


@typed("void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, y: Any) -> None:
    """Set y to 0, then add the elements of x in order, each at its place in the window.

    `g` holds the number of elements of y, the offset of the window, and then six extents and six strides of the window,
    in elements of y. `phase`, `part`, `shared` and `own` are unused.
    """
    for k in range(g[0]):
        y[k] = 0
    at = 0
    for i0 in range(g[2]):
        for i1 in range(g[3]):
            for i2 in range(g[4]):
                for i3 in range(g[5]):
                    for i4 in range(g[6]):
                        to = g[1] + i0 * g[8] + i1 * g[9] + i2 * g[10] + i3 * g[11] + i4 * g[12]
                        for i5 in range(g[7]):
                            y[to + i5 * g[13]] += x[at + i5]
                        at += g[7]
