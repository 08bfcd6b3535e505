"""The gradient of grid_sample by the grid."""

from typing import Any

import numpy as np

from lazytensor.runtime.grid_taps import BLOCK, fill_block
from lazytensor.runtime.language import typed


@typed(
    "void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1])"
)
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, samples: Any, x: Any, grid: Any, y: Any) -> None:
    """Set y, in the shape of the grid, to the gradient by the coordinates of a part's points.

    `samples` is the gradient by the samples of the images `x`. `g` holds the number of images, the channels of one, the
    points of a part, the points of an image, what `fill_block` reads, and in place 13 the images of a part. `phase`,
    `shared` and `own` are unused.
    """
    index, weight, slope = np.empty(12, np.int64), np.empty(12, np.float32), np.empty(12, np.float32)
    places, weights = np.empty(16 * BLOCK, np.int64), np.empty(16 * BLOCK, np.float32)
    slopes, sums = np.empty(48 * BLOCK, np.float32), np.empty(16 * BLOCK, np.float32)
    channels, points, size, taps, rank = g[1], g[3], g[4] * g[5] * g[6], g[7] * g[8] * g[9], g[12]
    strips = (points + g[2] - 1) // g[2]
    group = part // strips * g[13]
    first, last = part % strips * g[2], min((part % strips + 1) * g[2], points)
    for image in range(group, min(group + g[13], g[0])):
        for block in range(first, last, BLOCK):
            width = min(last - block, BLOCK)
            fill_block(g, grid, image * points + block, width, index, weight, slope, places, weights, slopes)
            # 1. The gradient by each tap's weight: sums over the channels. Pixels are read one by one, because
            # gathering those of several points into a vector is slower.
            for i in range(width):
                for k in range(taps):
                    place, total = places[k * BLOCK + i], np.float32(0)
                    if place >= 0:
                        for c in range(image * channels, (image + 1) * channels):
                            total += samples[c * points + block + i] * x[c * size + place]
                    else:
                        for c in range(image * channels, (image + 1) * channels):
                            total += samples[c * points + block + i] * np.float32(0)
                    sums[k * BLOCK + i] = total
            # 2. The gradient by the coordinates. The last dimension has the first coordinate.
            for i in range(width):
                for d in range(3 - rank, 3):
                    total = np.float32(0)
                    for k in range(taps):
                        total += sums[k * BLOCK + i] * slopes[(16 * d + k) * BLOCK + i]
                    y[(image * points + block + i) * rank + 2 - d] = total
