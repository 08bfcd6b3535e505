"""The gradient of a convolution's weight: for each pair of channels and each tap a dot product of shifted images.

The image lies as in `image_sums`, the gradient of the result in rows as long as the image's, with zeros where no
result is, so that one run over all rows gives a dot product. (An infinity at the end of a row of the image spreads to
taps that do not touch it; the taps beside them are not finite then either.)
"""

from typing import Any

from lazytensor.kernels.places import (
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
    PITCH,
    RESULTS,
    RESULTS_EACH,
    SUMS,
)
from lazytensor.machine_code import kept
from lazytensor.runtime.leaves.gather import gather, leaf
from lazytensor.runtime.panels import DOTS, LANES, ROWS, address, copied, dots

SLACK = 64


@leaf
def _spread(grad: Any, at: int, channels: int, g: Any, first: int, out: Any, to: int, reach: int) -> int:
    """A band of gradients in rows of the image's length, zeros between them; how far the last one reaches."""
    e0, e1, e2 = g[OUT_EXTENTS], g[OUT_EXTENTS + 1], g[OUT_EXTENTS + 2]
    rows = min(e0 - first, g[BAND])
    length: int = ((rows - 1) * g[BOX + 1] + e1 - 1) * g[BOX + 2] + e2
    length += -length % LANES
    # Tiles are full: behind the last channel lie channels of zeros.
    for m in range((channels + ROWS - 1) // ROWS * ROWS):
        line = to + m * reach
        for k in range(length):
            out[line + k] = 0
        if m < channels:
            for o0 in range(rows):
                for o1 in range(e1):
                    row = line + (o0 * g[BOX + 1] + o1) * g[BOX + 2]
                    source = at + ((m * e0 + first + o0) * e1 + o1) * e2
                    copied(address(grad) + 4 * source, address(out) + 4 * row, e2)
    return length


@leaf
def _image(g: Any, shared: Any, own: Any, x: Any, grad: Any, image: int, group: int, m0: int, m1: int, to: int) -> None:
    """Add what one image gives for one group and the channels m0 to m1 to the partial sum that begins at `to`."""
    reach, pitch = g[BAND] * g[BOX + 1] * g[BOX + 2] + SLACK, g[PITCH]
    at = (image * g[GROUPS] + group) * g[CHANNELS] * g[EXTENTS] * g[EXTENTS + 1] * g[EXTENTS + 2]
    source = ((image * g[GROUPS] + group) * g[RESULTS] + m0) * g[OUT_EXTENTS] * g[OUT_EXTENTS + 1] * g[OUT_EXTENTS + 2]
    offsets, b, sums = address(g) + 8 * g[OFFSETS], address(own), address(shared) + 4 * to
    a = b + 4 * g[IMAGE]
    for band in range(g[BANDS]):
        first = band * g[BAND]
        end: int = gather(x, at, g, first, own)
        for k in range(SLACK):
            own[end + k] = 0
        length: int = _spread(grad, source, m1 - m0, g, first, own, g[IMAGE], reach)
        for k in range(0, pitch, DOTS):
            # Three shifts of one channel stay in the first cache while the gradients pass by.
            for m in range(0, m1 - m0, ROWS):
                dots(a + 4 * m * reach, reach, offsets + 8 * k, length, b, sums + 4 * (m * pitch + k), pitch)


@kept(
    "void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1])", nogil=True
)
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, grad: Any, w: Any) -> None:
    """w from x and the gradient of the result; phase 0 gives partial sums over images, phase 1 adds them in order."""
    pitch, columns = g[PITCH], g[CHANNELS] * g[ALL_TAPS]
    height = (g[RESULTS] + ROWS - 1) // ROWS * ROWS
    size = g[GROUPS] * height * pitch
    if phase == 1:
        for m in range(g[GROUPS] * g[RESULTS]):
            row = (m // g[RESULTS] * height + m % g[RESULTS]) * pitch
            for k in range(columns):
                total = shared[row + k]
                for s in range(1, g[SUMS]):
                    total += shared[s * size + row + k]
                w[m * columns + k] = total
        return
    chunk, batch = part % g[CHUNKS], part // g[CHUNKS]
    m0 = chunk * g[RESULTS_EACH]
    m1 = min(m0 + g[RESULTS_EACH], g[RESULTS])
    for group in range(g[GROUPS]):
        to = batch * size + (group * height + m0) * pitch
        for k in range(to, to + (m1 - m0 + ROWS - 1) // ROWS * ROWS * pitch):
            shared[k] = 0
        for image in range(batch * g[IMAGES_EACH], min((batch + 1) * g[IMAGES_EACH], g[IMAGES])):
            _image(g, shared, own, x, grad, image, group, m0, m1, to)
