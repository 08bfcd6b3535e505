"""Convolution in which each channel has one window, and its adjoint, tap by tap over an image that stays in the cache.

The register tiles of `convolution` would compute several result channels from each image, of which there is one.
"""

from typing import Any

import numpy as np

from lazytensor.runtime.language import inline, typed


@inline
def _first(tap: int, padding: int, stride: int) -> int:
    """Return the first window for which the tap, `tap` elements from its start, is not padding."""
    before = padding - tap
    return 0 if before <= 0 else (before + stride - 1) // stride


@inline
def _last(tap: int, padding: int, stride: int, extent: int, count: int) -> int:
    """Return the end of the windows (one past the last of `count`) for which the tap is not padding."""
    reach = extent - 1 + padding - tap
    return 0 if reach < 0 else min(count, reach // stride + 1)


@inline
def _add(y: Any, to: int, over: int, weight: Any, x: Any, at: int, step: int, first: int, last: int) -> None:
    """Add `weight` times elements of x, `step` apart from x[at] on, to elements of y, `over` apart from y[to] on."""
    # A separate loop for contiguous elements, which LLVM vectorises.
    if over == 1 and step == 1:
        for k in range(first, last):
            y[to + k] += weight * x[at + k]
    else:
        for k in range(first, last):
            y[to + k * over] += weight * x[at + k * step]


@typed("void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, w: Any, y: Any) -> None:
    """Compute y from x and the weights w for the images of a part. An image is one channel of one sample.

    `g` holds the number of images, images per part, then three numbers each for the extents, the number of windows, the
    kernel size, the stride, the padding and the dilation, whether x holds values to add under the windows (the
    adjoint), and the number of channels.
    """
    e0, e1, e2, n0, n1, n2 = g[2], g[3], g[4], g[5], g[6], g[7]
    size, count, spreads = e0 * e1 * e2, n0 * n1 * n2, g[20]
    result = size if spreads == 1 else count
    for image in range(part * g[1], min((part + 1) * g[1], g[0])):
        for k in range(image * result, (image + 1) * result):
            y[k] = np.float32(0)
        place = image % g[21] * g[8] * g[9] * g[10]
        for t0 in range(g[8]):
            d0 = t0 * g[17]
            for t1 in range(g[9]):
                d1 = t1 * g[18]
                for t2 in range(g[10]):
                    d2 = t2 * g[19]
                    weight = w[place + (t0 * g[9] + t1) * g[10] + t2]
                    first, last = _first(d2, g[16], g[13]), _last(d2, g[16], g[13], e2, n2)
                    for o0 in range(_first(d0, g[14], g[11]), _last(d0, g[14], g[11], e0, n0)):
                        i0 = image * e0 + o0 * g[11] + d0 - g[14]
                        for o1 in range(_first(d1, g[15], g[12]), _last(d1, g[15], g[12], e1, n1)):
                            at = (i0 * e1 + o1 * g[12] + d1 - g[15]) * e2 + d2 - g[16]
                            to = image * count + (o0 * n1 + o1) * n2
                            if spreads == 1:
                                _add(y, at, g[13], weight, x, to, 1, first, last)
                            else:
                                _add(y, to, 1, weight, x, at, g[13], first, last)
