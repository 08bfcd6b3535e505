"""Indices of maximum pooling: the first largest element under each window; the last NaN wins, as in PyTorch."""

from typing import Any

from lazytensor.runtime.language import inline, typed


@inline
def _argmax(x: Any, at: int, g: Any, i0: int, i1: int, i2: int) -> int:
    """Return the index in its image of the largest element under the window that starts at (i0, i1, i2), padding
    excluded.

    The image begins at x[at]. The first of equal elements counts, but the last NaN. Return -1 if there is only padding.
    """
    e0, e1, e2, d0, d1, d2 = g[2], g[3], g[4], g[17], g[18], g[19]
    best, place = x[at], -1
    for t0 in range(g[8]):
        p0 = i0 + t0 * d0
        if p0 < 0 or p0 >= e0:
            continue
        for t1 in range(g[9]):
            p1 = i1 + t1 * d1
            if p1 < 0 or p1 >= e1:
                continue
            row = (p0 * e1 + p1) * e2
            for t2 in range(g[10]):
                p2 = i2 + t2 * d2
                # Padding never counts, even if all elements are the lowest number.
                if 0 <= p2 < e2:
                    value = x[at + row + p2]
                    # Selects instead of a branch, which the processor could not predict.
                    is_next = (place < 0) | (value > best) | (value != value)
                    best, place = value if is_next else best, row + p2 if is_next else place
    return place


@typed("void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], int64[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, places: Any) -> None:
    """Set places[image, window] to the flat index in the image of the largest element under the window.

    Part `part` computes some images. `g` holds the number of images, images per part, then three numbers each for the
    extents, the results, the kernel size, the stride, the padding and the dilation. The first of equal elements counts,
    but the last NaN.
    """
    size = g[2] * g[3] * g[4]
    to = part * g[1] * g[5] * g[6] * g[7]
    for image in range(part * g[1], min((part + 1) * g[1], g[0])):
        for o0 in range(g[5]):
            for o1 in range(g[6]):
                for o2 in range(g[7]):
                    i0, i1, i2 = o0 * g[11] - g[14], o1 * g[12] - g[15], o2 * g[13] - g[16]
                    places[to] = _argmax(x, image * size, g, i0, i1, i2)
                    to += 1
