"""Gradient of a convolution's weight: a dot product of shifted images for each pair of channels and each tap.

The image has the layout of `convolution`. The gradient of the result is stored in rows as long as the image's, with
zeros where there is no result, so that one run over all rows gives a dot product. Several small images are
concatenated, because a short run takes longer to sum up than to multiply. An infinity at the border of an image also
reaches taps that do not touch it; the neighbouring taps are not finite in that case either.
"""

from typing import Any

from lazytensor.kernels.convolution_geometry import (
    ALL_TAPS,
    BAND,
    BANDS,
    BOX,
    CHANNELS,
    CHUNKS,
    EXTENTS,
    GROUPS,
    IMAGE,
    IMAGES,
    IMAGES_EACH,
    OFFSETS,
    OUT_EXTENTS,
    PHASES,
    PITCH,
    RESULTS,
    RESULTS_EACH,
    ROWS_EACH,
    SUMS,
    TOGETHER,
)
from lazytensor.runtime.compiled_kernels.image_layout import gather
from lazytensor.runtime.language import inline, typed
from lazytensor.runtime.panels import DOTS, LANES, ROWS, address, copied, dots

SLACK = 64


@inline
def _clear(out: Any, start: int, count: int) -> None:
    for k in range(count):
        out[start + k] = 0


@inline
def _spread(grad: Any, at: int, channels: int, g: Any, first: int, out: Any, to: int) -> None:
    """Copy a band of the gradients of one image, from grad[at] on, into rows of the image's length in `out`.

    `first` is the band's first row, and out[to] the place of channel 0.
    """
    e0, e1, e2 = g[OUT_EXTENTS], g[OUT_EXTENTS + 1], g[OUT_EXTENTS + 2]
    reach = _reach(g)
    for m in range(channels):
        for o0 in range(min(e0 - first, g[BAND])):
            for o1 in range(e1):
                row = to + m * reach + (o0 * g[BOX + 1] + o1) * g[BOX + 2]
                source = at + ((m * e0 + first + o0) * e1 + o1) * e2
                copied(address(grad) + 4 * source, address(out) + 4 * row, e2)


@inline
def _reach(g: Any) -> int:
    """Return the elements between the gradients of two channels in the scratch buffer, from the geometry `g`."""
    reach: int = ((g[TOGETHER] - 1) * g[BOX] + g[BAND]) * g[BOX + 1] * g[BOX + 2] + SLACK
    return reach


@inline
def _images(g: Any, shared: Any, own: Any, x: Any, grad: Any, at: int, group: int, m0: int, m1: int, to: int) -> None:
    """Add the contribution of TOGETHER images, from image `at` on, to the partial sum at shared[to].

    It covers one group and the result channels m0 to m1 - 1. `own` is a scratch buffer for the padded images and
    gradients.
    """
    reach, pitch, box = _reach(g), g[PITCH], g[BOX] * g[BOX + 1] * g[BOX + 2]
    offsets, sums = address(g) + 8 * g[OFFSETS], address(shared) + 4 * to
    channels = (m1 - m0 + ROWS - 1) // ROWS * ROWS
    for band in range(g[BANDS]):
        first = band * g[BAND]
        _clear(own, g[CHANNELS] * g[PHASES] * g[TOGETHER] * box, SLACK)
        # Zeros between the rows, and zero channels after the last one to fill the tiles.
        _clear(own, g[IMAGE], channels * reach)
        for number in range(g[TOGETHER]):
            place = (at + number) * g[GROUPS] + group
            size = g[EXTENTS] * g[EXTENTS + 1] * g[EXTENTS + 2]
            gather(x, place * g[CHANNELS] * size, g, first, own, number)
            results = g[OUT_EXTENTS] * g[OUT_EXTENTS + 1] * g[OUT_EXTENTS + 2]
            source = (place * g[RESULTS] + m0) * results
            _spread(grad, source, m1 - m0, g, first, own, g[IMAGE] + number * box)
        rows = min(g[OUT_EXTENTS] - first, g[BAND]) - 1
        length = (
            (g[TOGETHER] - 1) * box + (rows * g[BOX + 1] + g[OUT_EXTENTS + 1] - 1) * g[BOX + 2] + g[OUT_EXTENTS + 2]
        )
        length += -length % LANES
        for k in range(0, pitch, DOTS):
            # Three shifts of one channel stay in the first-level cache while all gradient channels are read.
            for m in range(0, channels, ROWS):
                a, c = address(own) + 4 * (g[IMAGE] + m * reach), sums + 4 * (m * pitch + k)
                dots(a, reach, offsets + 8 * k, length, address(own), c, pitch)


@inline
def _added(g: Any, shared: Any, part: int, w: Any) -> None:
    """Compute some rows of the gradient `w` by adding the partial sums in `shared` in order. `part` selects the
    rows.
    """
    pitch, columns = g[PITCH], g[CHANNELS] * g[ALL_TAPS]
    height = (g[RESULTS] + ROWS - 1) // ROWS * ROWS
    for m in range(part * g[ROWS_EACH], min((part + 1) * g[ROWS_EACH], g[GROUPS] * g[RESULTS])):
        row = (m // g[RESULTS] * height + m % g[RESULTS]) * pitch
        for k in range(columns):
            w[m * columns + k] = shared[row + k]
        for s in range(1, g[SUMS]):
            other = s * g[GROUPS] * height * pitch + row
            for k in range(columns):
                w[m * columns + k] += shared[other + k]


@typed("void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, grad: Any, w: Any) -> None:
    """Compute the gradient w of the weight from the input x and the gradient of the result.

    A part of phase 0 computes a partial sum over some images, in `shared`; one of phase 1 adds them in order, for some
    rows of w. `own` is a scratch buffer. The geometry `g` is described in `kernels.convolution_geometry`.
    """
    if phase == 1:
        _added(g, shared, part, w)
        return
    height = (g[RESULTS] + ROWS - 1) // ROWS * ROWS
    chunk, batch = part % g[CHUNKS], part // g[CHUNKS]
    m0 = chunk * g[RESULTS_EACH]
    m1 = min(m0 + g[RESULTS_EACH], g[RESULTS])
    for group in range(g[GROUPS]):
        to = ((batch * g[GROUPS] + group) * height + m0) * g[PITCH]
        _clear(shared, to, (m1 - m0 + ROWS - 1) // ROWS * ROWS * g[PITCH])
        for image in range(batch * g[IMAGES_EACH], min((batch + 1) * g[IMAGES_EACH], g[IMAGES]), g[TOGETHER]):
            _images(g, shared, own, x, grad, image, group, m0, m1, to)
