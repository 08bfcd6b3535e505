"""Taps of grid_sample for compiled kernels: the pixels that a sample reads, with their weights and slopes.

A block is up to BLOCK points of one image. Its taps are stored tap by tap, so that loops over the points of a block are
contiguous.
"""

from typing import Any

import numpy as np

from lazytensor.runtime.intrinsics import abs_f4, floor_f4, round_f4
from lazytensor.runtime.language import inline

BLOCK = 32
"""The maximum number of points in a block. 16 bicubic taps of a block take 10 KiB, which fit in the first cache."""
_ZERO, _ONE, _HALF, _TWO = np.float32(0), np.float32(1), np.float32(0.5), np.float32(2)
_NEAR_CUBE, _NEAR_SQUARE = np.float32(1.25), np.float32(2.25)
_FAR_CUBE, _FAR_SQUARE, _FAR_LINE, _FAR = np.float32(-0.75), np.float32(3.75), np.float32(-6), np.float32(3)
"""The polynomials of the cubic kernel with the parameter -0.75, within one pixel and between one and two pixels."""


@inline
def _mirror_turns(at: Any, low: Any, span: Any) -> Any:
    """Return the number of whole spans between `low` and the pixel coordinate, 0 if the span is 0."""
    return floor_f4(abs_f4(at - low) / span) if span > _ZERO else _ZERO


@inline
def _mirrored(at: Any, low: Any, span: Any) -> Any:
    """Return the pixel coordinate `at` mirrored at `low` and at `low` + `span`; 0 if the span is 0."""
    turns = _mirror_turns(at, low, span)
    rest = abs_f4(at - low) - turns * span
    # Half of an odd number is not whole.
    is_odd = floor_f4(turns * _HALF) * _TWO != turns
    return ((span - rest if is_odd else rest) + low) if span > _ZERO else at * _ZERO


@inline
def _mirrored_slope(at: Any, low: Any, span: Any) -> Any:
    """Return the derivative of `_mirrored`: 1, -1 or 0."""
    turns = _mirror_turns(at, low, span)
    is_odd = floor_f4(turns * _HALF) * _TWO != turns
    offset = at - low
    sign = _ONE if offset > _ZERO else (-_ONE if offset < _ZERO else _ZERO)
    return (-sign if is_odd else sign) if span > _ZERO else _ZERO


@inline
def _inside(at: Any, top: Any) -> Any:
    """Return the pixel coordinate `at` limited to 0 to `top`; 0 for NaN."""
    return (at if at < top else top) if at > _ZERO else _ZERO


@inline
def _pixel(at: Any, top: Any) -> Any:
    """Return the number of the pixel at the whole coordinate `at`, or -1 if it is not in 0 to `top`."""
    is_inside = at >= _ZERO and at <= top
    return np.int64(at if is_inside else _ZERO) if is_inside else np.int64(-1)


@inline
def _near(u: Any) -> Any:
    """Return the cubic kernel at a distance `u` of at most 1."""
    return (_NEAR_CUBE * u - _NEAR_SQUARE) * u * u + _ONE


@inline
def _near_slope(u: Any) -> Any:
    """Return the derivative of `_near`."""
    return (np.float32(3) * _NEAR_CUBE * u - _TWO * _NEAR_SQUARE) * u


@inline
def _far(u: Any) -> Any:
    """Return the cubic kernel at a distance `u` of 1 to 2."""
    return ((_FAR_CUBE * u + _FAR_SQUARE) * u + _FAR_LINE) * u + _FAR


@inline
def _far_slope(u: Any) -> Any:
    """Return the derivative of `_far`."""
    return (np.float32(3) * _FAR_CUBE * u + _TWO * _FAR_SQUARE) * u + _FAR_LINE


@inline
def _axis(
    coordinate: Any, extent: int, taps: int, padding: int, is_aligned: int, base: int, index: Any, weight: Any,
    slope: Any,
) -> None:  # fmt: skip
    """Write the taps of one dimension to `index`, `weight` and `slope`, from element `base` on.

    `coordinate` is from -1 to 1. The number of taps is 1 for nearest, 2 for linear, 4 for cubic. `padding` is 0 for
    zeros, 1 for border, 2 for reflection. A pixel outside the image has the index -1. `slope` is the derivative of
    `weight` by the coordinate.
    """
    top = np.float32(extent - 1)
    scale = top * _HALF if is_aligned == 1 else np.float32(extent) * _HALF
    shift = _ZERO if is_aligned == 1 else _HALF
    span = top if is_aligned == 1 else np.float32(extent)
    raw = (coordinate + _ONE) * scale - shift
    if taps == 4:
        low = floor_f4(raw)
        t = raw - low
        weight[base], slope[base] = _far(t + _ONE), _far_slope(t + _ONE) * scale
        weight[base + 1], slope[base + 1] = _near(t), _near_slope(t) * scale
        weight[base + 2], slope[base + 2] = _near(_ONE - t), -_near_slope(_ONE - t) * scale
        weight[base + 3], slope[base + 3] = _far(_TWO - t), -_far_slope(_TWO - t) * scale
        for k in range(4):
            # Each neighbour is moved into the image separately, not the coordinate.
            at = low + np.float32(k - 1)
            at = _mirrored(at, -shift, span) if padding == 2 else at
            at = _inside(at, top) if padding > 0 else at
            index[base + k] = _pixel(at, top)
    else:
        turned = _mirrored(raw, -shift, span) if padding == 2 else raw
        steep = _mirrored_slope(raw, -shift, span) * scale if padding == 2 else scale
        # At the border and outside, the slope is 0.
        is_limited = padding > 0 and not (turned > _ZERO and turned < top)
        at = _inside(turned, top) if padding > 0 else turned
        steep = _ZERO if is_limited else steep
        if taps == 1:
            index[base], weight[base], slope[base] = _pixel(round_f4(at), top), at * _ZERO + _ONE, _ZERO
        else:
            low = floor_f4(at)
            index[base], weight[base], slope[base] = _pixel(low, top), low + _ONE - at, -steep
            index[base + 1], weight[base + 1], slope[base + 1] = _pixel(low + _ONE, top), at - low, steep


@inline
def fill_block(
    g: Any, grid: Any, first: int, width: int, index: Any, weight: Any, slope: Any, places: Any, weights: Any,
    slopes: Any,
) -> Any:  # fmt: skip
    """Write the taps of `width` points, from number `first` of all images on. Return the number of taps outside.

    Tap k of point i has its pixel in `places[k * BLOCK + i]`, -1 outside the image, and its weight in `weights`.
    `slopes` has the derivatives of the weight by the coordinates of depth, row and column, `16 * BLOCK` elements apart.
    `index`, `weight` and `slope` are scratch arrays of 12 elements.

    `g` holds in places 4 to 6 the extents of the image (the depth is 1 for images of two dimensions), in 7 to 9 the
    taps of each dimension, in 10 the padding, in 11 whether corners are aligned, in 12 the number of coordinates.
    """
    rank, outside = g[12], 0
    for i in range(width):
        at = (first + i) * rank
        for d in range(3):
            if d < 3 - rank:
                index[4 * d] = np.int64(0)
                weight[4 * d], slope[4 * d] = _ONE, _ZERO
            else:
                # The last dimension has the first coordinate.
                _axis(grid[at + 2 - d], g[4 + d], g[7 + d], g[10], g[11], 4 * d, index, weight, slope)
        k = 0
        for a in range(g[7]):
            for b in range(4, 4 + g[8]):
                for c in range(8, 8 + g[9]):
                    is_outside = index[a] < 0 or index[b] < 0 or index[c] < 0
                    pixel = (index[a] * g[5] + index[b]) * g[6] + index[c]
                    outside += 1 if is_outside else 0
                    to = k * BLOCK + i
                    places[to] = -1 if is_outside else pixel
                    weights[to] = weight[a] * weight[b] * weight[c]
                    slopes[to] = slope[a] * weight[b] * weight[c]
                    slopes[16 * BLOCK + to] = weight[a] * slope[b] * weight[c]
                    slopes[32 * BLOCK + to] = weight[a] * weight[b] * slope[c]
                    k += 1
    return outside
