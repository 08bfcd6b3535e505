"""Copy images into the layout of register tiles: rows with padding, the phases of a stride separated."""

from typing import Any

from lazytensor.kernels.convolution_geometry import BOX, CHANNELS, EXTENTS, PHASES, STARTS, STEPS, TOGETHER
from lazytensor.runtime.language import inline
from lazytensor.runtime.panels import address, copied


@inline
def _row(x: Any, at: int, extent: int, start: int, step: int, out: Any, to: int, length: int) -> None:
    """Copy every `step`-th element of a row, from element `start` on, to out[to]; zeros where that is outside of the
    row.

    The row begins at x[at] and has `extent` elements; `length` elements are written.
    """
    first = 0 if start >= 0 else (-start + step - 1) // step
    last = 0 if extent <= start else (extent - start + step - 1) // step
    last = min(last, length)
    first = min(first, length)
    for k in range(first):
        out[to + k] = 0
    if step == 1:
        if last > first:
            copied(address(x) + 4 * (at + start + first), address(out) + 4 * (to + first), last - first)
    else:
        for k in range(first, last):
            out[to + k] = x[at + start + k * step]
    for k in range(max(first, last), length):
        out[to + k] = 0


@inline
def gather(x: Any, at: int, g: Any, skip: int, out: Any, number: int) -> None:
    """Copy the channels of one image, from x[at] on, into `out`: one box for each channel and phase, in order.

    A phase is the elements that a stride reads from one start, and a box its elements for a band of results, with zeros
    for padding. A box begins at the start of its phase, moved by `skip` steps along the first dimension. If several
    images are laid out together, the boxes of a phase follow each other, and this image is number `number` of them.
    """
    e0, e1, e2 = g[EXTENTS], g[EXTENTS + 1], g[EXTENTS + 2]
    size = g[BOX] * g[BOX + 1] * g[BOX + 2]
    to = number * size
    for c in range(g[CHANNELS]):
        for p in range(g[PHASES]):
            start = g[STARTS] + 3 * p
            for u0 in range(g[BOX]):
                i0 = g[start] + (skip + u0) * g[STEPS]
                for u1 in range(g[BOX + 1]):
                    i1 = g[start + 1] + u1 * g[STEPS + 1]
                    # A row outside of the image is all padding.
                    extent = e2 if 0 <= i0 < e0 and 0 <= i1 < e1 else 0
                    row = at + ((c * e0 + i0) * e1 + i1) * e2
                    _row(x, row, extent, g[start + 2], g[STEPS + 2], out, to, g[BOX + 2])
                    to += g[BOX + 2]
            to += (g[TOGETHER] - 1) * size
