"""Convolution with 3 x 3 windows, its adjoint, and the gradient of its weight, by Winograd's algorithm F(2x2, 3x3).

A tile is 2 x 2 results, computed from 4 x 4 inputs. In the transformed domain a window is one product for each of 16
places, so a convolution is 16 matrix products with 4/9 of the multiplications. Images are stored with channels last: a
register holds some channels of one pixel.
"""

from typing import Any

import numpy as np

from lazytensor.kernels.convolution_geometry import (
    ACROSS,
    BAND,
    CHANNELS,
    DOWN,
    EXTENTS,
    IMAGES,
    LOW,
    OUT_EXTENTS,
    PIECES,
    RESULTS,
    ROWS_EACH,
    SUMS,
    TAP,
    TILES,
    WEIGHT_CHANNEL,
    WEIGHT_RESULT,
)
from lazytensor.runtime.intrinsics import sum_f4
from lazytensor.runtime.language import inline, typed
from lazytensor.runtime.panels import (
    LANES,
    PAIR,
    ROWS,
    address,
    block,
    block_more,
    from_image,
    from_result,
    from_weight,
    to_result,
    to_weight,
    turned,
)

PLACES = 16
EACH = 8  # channels of a weight that a part transforms
SLACK = 16  # elements of padding, so that rows and planes do not share cache sets


@inline
def _sizes(g: Any) -> Any:
    """Return four numbers: the result channels rounded up to whole blocks, and the elements per place of images,
    results and weights.

    A place is one of the 16 elements of a transformed tile.
    """
    wide = (g[RESULTS] + PAIR - 1) // PAIR * PAIR
    images = g[TILES] * (g[CHANNELS] + SLACK) + SLACK
    return wide, images, g[TILES] * wide + SLACK, g[CHANNELS] * wide + SLACK


@inline
def _lay(
    x: Any, image: int, channels: int, height: int, width: int, first: int, left: int, rows: int, across: int, own: Any
) -> None:
    """Copy `rows` rows of an image, from row `first` on, into `own` with channels last.

    Each row is `across` pixels long, and the image begins `left` pixels into it. Pixels outside of the image are zeros.
    """
    for u in range(rows):
        line, i = u * across * channels, first + u
        is_inside = 0 <= i < height
        for k in range(left * channels if is_inside else across * channels):
            own[line + k] = 0
        if is_inside:
            for k in range((left + width) * channels, across * channels):
                own[line + k] = 0
            for column in range(0, width, LANES):
                for c in range(0, channels, LANES):
                    source = address(x) + 4 * (((image * channels + c) * height + i) * width + column)
                    target = address(own) + 4 * (line + (left + column) * channels + c)
                    turned(source, height * width, target, channels, min(LANES, width - column), LANES)


@inline
def _spread(g: Any, x: Any, grad: Any, first: int, last: int, own: Any, images: int, grads: int) -> int:
    """Transform the rows of tiles `first` to `last` - 1 of the images, and return the number of tiles.

    Rows of tiles are numbered through all images. For a weight gradient, transform the gradient of the results too.
    `images` and `grads` are the addresses to write to.
    """
    channels, results, across = g[CHANNELS], g[RESULTS], 2 * g[ACROSS] + 2
    _, plane, result_plane, _ = _sizes(g)
    # Rows of tiles are numbered through all images. Rows of one image are laid out together.
    count, row = 0, first
    while row < last:
        image, down = row // g[DOWN], row % g[DOWN]
        rows = min(g[DOWN] - down, last - row)
        top = 2 * down - g[LOW]
        _lay(x, image, channels, g[EXTENTS], g[EXTENTS + 2], top, g[LOW + 2], 2 * rows + 2, across, own)
        for k in range(rows * g[ACROSS]):
            source = address(own) + 8 * (k // g[ACROSS] * across + k % g[ACROSS]) * channels
            target = images + 4 * (count + k) * (channels + SLACK)
            from_image(source, across * channels, channels, target, 4 * plane, plane, channels)
        if g[SUMS]:
            wide = across - 2
            _lay(grad, image, results, g[OUT_EXTENTS], g[OUT_EXTENTS + 2], 2 * down, 0, 2 * rows, wide, own)
            for k in range(rows * g[ACROSS]):
                for panel in range(0, results, PAIR):
                    pixel = 2 * (k // g[ACROSS] * wide + k % g[ACROSS])
                    source = address(own) + 4 * (pixel * results + panel)
                    target = grads + 4 * (panel * g[TILES] + (count + k) * PAIR)
                    lanes = min(PAIR, results - panel)
                    from_result(source, wide * results, results, target, 4 * result_plane, result_plane, lanes)
        count += rows * g[ACROSS]
        row += rows
    return count


@inline
def _weights(g: Any, part: int, w: Any, own: Any, panels: int) -> None:
    """Transform the weights of some channels: for each of the 16 elements of a tile (places) and each PAIR results, a
    panel of channels.

    `part` selects EACH channels. `own` is a scratch buffer, and `panels` the address to write to.
    """
    wide, _, _, plane = _sizes(g)
    for c in range(part * EACH, min((part + 1) * EACH, g[CHANNELS])):
        for m in range(wide):
            for t in range(9):
                # The adjoint reads the window from its last tap: TAP is 8 for it, and 0 otherwise.
                at = m * g[WEIGHT_RESULT] + c * g[WEIGHT_CHANNEL] + abs(g[TAP] - t)
                own[t * wide + m] = w[at] if m < g[RESULTS] else 0
        for panel in range(0, wide, PAIR):
            target = panels + 4 * (panel * g[CHANNELS] + c * PAIR)
            from_weight(address(own) + 4 * panel, 3 * wide, wide, target, 4 * plane, plane, PAIR)


@inline
def _directly(g: Any, image: int, i: int, x: Any, w: Any, y: Any) -> None:
    """Compute row `i` of results of an image, for all result channels, by direct multiplication, into y."""
    width, length = g[EXTENTS + 2], g[OUT_EXTENTS + 2]
    for m in range(g[RESULTS]):
        to = ((image * g[RESULTS] + m) * g[OUT_EXTENTS] + i) * length
        for k in range(length):
            y[to + k] = 0
        for c in range(g[CHANNELS]):
            for t in range(9):
                factor = w[m * g[WEIGHT_RESULT] + c * g[WEIGHT_CHANNEL] + abs(g[TAP] - t)]
                row, shift = i + t // 3 - g[LOW], t % 3 - g[LOW + 2]
                if 0 <= row < g[EXTENTS]:
                    at = ((image * g[CHANNELS] + c) * g[EXTENTS] + row) * width + shift
                    for k in range(max(0, -shift), min(length, width - shift)):
                        y[to + k] += factor * x[at + k]


@inline
def _results(g: Any, row: int, sums: int, lines: int, x: Any, w: Any, y: Any) -> None:
    """Transform one row of tiles back into two rows of results in y.

    `sums` is the address of the transformed results, and `lines` that of a scratch buffer. If a result is not finite,
    the row is computed again directly from x and w.
    """
    results, pixels, length = g[RESULTS], 2 * g[ACROSS] + LANES, g[OUT_EXTENTS + 2]
    wide, _, plane, _ = _sizes(g)
    for k in range(g[ACROSS]):
        to_result(sums + 4 * k * wide, 4 * plane, plane, lines + 8 * k * results, pixels * results, results, results)
    image, size = row // g[DOWN], g[OUT_EXTENTS] * length
    for u in range(2):
        i = row % g[DOWN] * 2 + u
        if i < g[OUT_EXTENTS]:
            at = image * results * size + i * length
            for column in range(0, length, LANES):
                for m in range(0, results, LANES):
                    source, target = (u * pixels + column) * results + m, at + m * size + column
                    lanes = min(LANES, length - column)
                    turned(lines + 4 * source, results, address(y) + 4 * target, size, LANES, lanes)
            # Zero times a non-finite number is NaN, so the sum is NaN if any result is not finite.
            total = np.float32(0)
            for m in range(results):
                for k in range(length):
                    total = sum_f4(total, y[at + m * size + k] * np.float32(0))
            # A non-finite value in the transformed domain spreads over its tile, where results should be finite.
            if total != 0:
                _directly(g, image, i, x, w, y)


@inline
def _tiles(g: Any, part: int, shared: Any, own: Any, x: Any, w: Any, y: Any) -> None:
    """Compute the results y of some rows of tiles, or for a weight gradient a partial sum of some channels, in
    `shared`.

    `own` is a scratch buffer. `part` selects the rows of tiles and, for a gradient, the channels.
    """
    wide, plane, result_plane, weight_plane = _sizes(g)
    box = (2 * min(g[BAND], g[DOWN]) + 2) * (2 * g[ACROSS] + 2) * max(g[CHANNELS], g[RESULTS])
    images, pitch = address(own) + 4 * box, g[CHANNELS] + SLACK
    sums = images + 4 * PLACES * plane
    # A part of a gradient is some rows of tiles, and of a wide one some channels. No other part writes its sum.
    number, each = part // g[PIECES], (g[CHANNELS] // ROWS + g[PIECES] - 1) // g[PIECES] * ROWS
    low = part % g[PIECES] * each
    high = min(low + each, g[CHANNELS])
    to = number * PLACES * weight_plane if g[SUMS] else 0
    if g[SUMS]:
        for place in range(PLACES):
            for k in range(to + place * weight_plane + low * wide, to + place * weight_plane + high * wide):
                shared[k] = 0
    end = min((number + 1) * g[ROWS_EACH], g[IMAGES] * g[DOWN])
    for first in range(number * g[ROWS_EACH], end, g[BAND]):
        last = min(first + g[BAND], end)
        count = _spread(g, x, w, first, last, own, images, sums)
        for place in range(PLACES):
            a, weight = images + 4 * place * plane, address(shared) + 4 * (to + place * weight_plane)
            for panel in range(0, wide, PAIR):
                if g[SUMS]:
                    b = sums + 4 * (place * result_plane + panel * g[TILES])
                    for c in range(low, high, ROWS):
                        block_more(a + 4 * c, 1, pitch, count, b, weight + 4 * (c * wide + panel), wide)
                else:
                    b = weight + 4 * panel * g[CHANNELS]
                    for r in range(0, count, ROWS):
                        out = sums + 4 * (place * result_plane + r * wide + panel)
                        block(a + 4 * r * pitch, pitch, 1, g[CHANNELS], b, out, wide)
        if not g[SUMS]:
            for row in range(first, last):
                lines = sums + 4 * PLACES * result_plane
                _results(g, row, sums + 4 * (row - first) * g[ACROSS] * wide, lines, x, w, y)


@inline
def _weight(g: Any, part: int, shared: Any, own: Any, w: Any) -> None:
    """Add all partial sums in `shared` in order, and transform them back into the weight gradient `w` of some
    channels.
    """
    wide, _, _, plane = _sizes(g)
    for c in range(part * EACH, min((part + 1) * EACH, g[CHANNELS])):
        for place in range(PLACES):
            to, at = place * wide, place * plane + c * wide
            for m in range(wide):
                own[to + m] = shared[at + m]
            for s in range(1, g[SUMS]):
                for m in range(wide):
                    own[to + m] += shared[s * PLACES * plane + at + m]
        out = PLACES * wide
        to_weight(address(own), 4 * wide, wide, address(own) + 4 * out, 3 * wide, wide, wide)
        for m in range(g[RESULTS]):
            for t in range(9):
                w[(m * g[CHANNELS] + c) * 9 + t] = own[out + t * wide + m]


@typed("void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, w: Any, y: Any) -> None:
    """Compute the convolution y of x with w. Phase 0 transforms the weight; a part of phase 1 computes some rows of
    tiles.

    For a weight gradient (g[SUMS] is not 0), w is the gradient of the results and y that of the weight: phase 0
    computes partial sums, and a part of phase 1 adds them for some channels. `shared` and `own` are scratch buffers.
    """
    if phase == 0 and not g[SUMS]:
        _weights(g, part, w, own, address(shared))
    elif phase == 0 or not g[SUMS]:
        _tiles(g, part, shared, own, x, w, y)
    else:
        _weight(g, part, shared, own, y)
