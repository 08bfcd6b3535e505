"""Sums under windows, and the reverse: add each value to all elements under its window. Average pooling uses both.

The loops go through the taps of the window one by one, over an image that stays in the cache. The inner loop runs along
a row.
"""

from typing import Any

from lazytensor.runtime.language import inline, typed


@inline
def _first(tap: int, padding: int, stride: int) -> int:
    """Return the first window for which tap number `tap` is not padding."""
    before = padding - tap
    return 0 if before <= 0 else (before + stride - 1) // stride


@inline
def _last(tap: int, padding: int, stride: int, extent: int, count: int) -> int:
    """Return the end of the windows (one past the last of `count`) for which tap number `tap` is not padding."""
    return min(count, (extent - 1 + padding - tap) // stride + 1)


@inline
def _add(y: Any, to: int, over: int, x: Any, at: int, step: int, first: int, last: int) -> None:
    """Add elements of x, `step` apart from x[at] on, to elements of y, `over` apart from y[to] on.

    `first` and `last` bound the element number.
    """
    # A separate loop for contiguous elements, which LLVM vectorises.
    if over == 1 and step == 1:
        for k in range(first, last):
            y[to + k] += x[at + k]
    else:
        for k in range(first, last):
            y[to + k * over] += x[at + k * step]


@typed("void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, y: Any) -> None:
    """Compute y from x for the images of a part.

    `g` holds the number of images, images per part, then three numbers each for the extents, the number of windows, the
    kernel size, the stride and the padding. g[17] is 1 if y has the image extents and x holds values to add under the
    windows, and 0 if y holds the sums of x under the windows.
    """
    e0, e1, e2, n0, n1, n2 = g[2], g[3], g[4], g[5], g[6], g[7]
    size, count, spreads = e0 * e1 * e2, n0 * n1 * n2, g[17]
    result = size if spreads == 1 else count
    for image in range(part * g[1], min((part + 1) * g[1], g[0])):
        for k in range(image * result, (image + 1) * result):
            y[k] = 0
        for t0 in range(g[8]):
            for t1 in range(g[9]):
                for t2 in range(g[10]):
                    first, last = _first(t2, g[16], g[13]), _last(t2, g[16], g[13], e2, n2)
                    for o0 in range(_first(t0, g[14], g[11]), _last(t0, g[14], g[11], e0, n0)):
                        i0 = image * e0 + o0 * g[11] + t0 - g[14]
                        for o1 in range(_first(t1, g[15], g[12]), _last(t1, g[15], g[12], e1, n1)):
                            at = (i0 * e1 + o1 * g[12] + t1 - g[15]) * e2 + t2 - g[16]
                            to = image * count + (o0 * n1 + o1) * n2
                            if spreads == 1:
                                _add(y, at, g[13], x, to, 1, first, last)
                            else:
                                _add(y, to, 1, x, at, g[13], first, last)
