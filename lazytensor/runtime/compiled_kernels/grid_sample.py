"""Samples of images at the coordinates of a grid, and the transposed operation, the gradient by the images."""

from typing import Any

import numpy as np

from lazytensor.runtime.grid_taps import BLOCK, fill_block
from lazytensor.runtime.language import inline, typed


@inline
def _read(x: Any, start: int, places: Any, weights: Any, taps: int, width: int, outside: int, y: Any, to: int) -> None:
    """Set `width` elements of y, from number `to` on, to the weighted sums of the pixels of the channel at x[start]."""
    # Points first: gathering pixels of several points into a vector is slower than reading them one by one.
    for i in range(width):
        total = np.float32(0)
        if outside == 0:
            for k in range(taps):
                total += weights[k * BLOCK + i] * x[start + places[k * BLOCK + i]]
        else:
            for k in range(taps):
                place = places[k * BLOCK + i]
                if place >= 0:
                    total += weights[k * BLOCK + i] * x[start + place]
                else:
                    total += weights[k * BLOCK + i] * np.float32(0)
        y[to + i] = total


@inline
def _add(x: Any, start: int, places: Any, weights: Any, taps: int, width: int, outside: int, y: Any, to: int) -> None:
    """Add `width` elements of x, from number `start` on, times the weights to the pixels of the channel at y[to]."""
    for k in range(taps):
        if outside == 0:
            for i in range(width):
                y[to + places[k * BLOCK + i]] += weights[k * BLOCK + i] * x[start + i]
        else:
            for i in range(width):
                place = places[k * BLOCK + i]
                if place >= 0:
                    y[to + place] += weights[k * BLOCK + i] * x[start + i]


@typed("void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, grid: Any, y: Any) -> None:
    """Compute a part of y from x: samples of the images x if g[14] is 0, else images from the samples x.

    `g` holds the number of images, the channels of one, the channels of a part, the points of an image, and what
    `fill_block` reads, and in place 13 the images of a part. A part is some channels of these images. `phase`, `shared`
    and `own` are unused.
    """
    index, weight, slope = np.empty(12, np.int64), np.empty(12, np.float32), np.empty(12, np.float32)
    places, weights = np.empty(16 * BLOCK, np.int64), np.empty(16 * BLOCK, np.float32)
    slopes = np.empty(48 * BLOCK, np.float32)
    channels, points, size, taps = g[1], g[3], g[4] * g[5] * g[6], g[7] * g[8] * g[9]
    strips = (channels + g[2] - 1) // g[2]
    group = part // strips * g[13]
    first, last = part % strips * g[2], min((part % strips + 1) * g[2], channels)
    for image in range(group, min(group + g[13], g[0])):
        if g[14] == 1:
            for k in range((image * channels + first) * size, (image * channels + last) * size):
                y[k] = 0
        for block in range(0, points, BLOCK):
            width = min(points - block, BLOCK)
            outside = fill_block(g, grid, image * points + block, width, index, weight, slope, places, weights, slopes)
            for c in range(image * channels + first, image * channels + last):
                if g[14] == 1:
                    _add(x, c * points + block, places, weights, taps, width, outside, y, c * size)
                else:
                    _read(x, c * size, places, weights, taps, width, outside, y, c * points + block)
