"""Sums and maxima under windows over images, and the gradient of sums, without communication.

Samples are distributed along y and channels along x; each PE pads its own images.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory
from wse_sim.kernels.kernel import WIDE, Allocator, MeshKernel, Placed, round_to
from wse_sim.kernels.windows.window import Pair, Window
from wse_sim.layout import Rect
from wse_sim.phase import Local


class _Planes:
    """The images of each PE, a frame with the images and the padding of a window, and the window's outputs.

    The frame is float32 if `is_wide`, else of type `dtype`.
    """

    def __init__(
        self, rect: Rect, rows: int, columns: int, extents: Pair, window: Window, dtype: str, is_wide: bool = False
    ):
        self.extents, self.window, self.room = extents, window, Allocator()
        self.places = window.places(extents)
        self.x = self.room.place("x", rect, rows, columns, dtype, depth=extents[0] * extents[1])
        self.y = self.room.place("y", rect, rows, columns, dtype, depth=self.places[0] * self.places[1])
        self.planes = self.x.tile_rows * self.x.tile_columns
        down, self.line = (e + sum(p) for e, p in zip(extents, window.padding, strict=True))
        self.plane = down * self.line
        self.frame = self.room.vector(self.planes * self.plane, WIDE if is_wide else dtype)

    def _rows_in(self, frame: Memory, start: int, stride: int, rows: int, step: int) -> Memory:
        """Return `rows` rows of every image in a frame as an operand.

        They start at element `start` of the image, `step` elements apart; `stride` is within a row.
        """
        outer = (self.planes, self.plane), (rows, step)
        return replace(frame, base=frame.base + start, stride=stride, outer=outer)

    def inner(self) -> Memory:
        """Return the part of the frame with the images, without their padding, as an operand."""
        (top, _), (left, _) = self.window.padding
        return self._rows_in(self.frame, top * self.line + left, 1, self.extents[0], self.line)

    def fill(self, build: Builder, value: float) -> None:
        """Append an instruction that sets the frame to `value`."""
        build.move(self.frame, value, self.planes * self.plane)

    def padded(self, value: float) -> Builder:
        """Return a builder that starts with copying the images x into the frame, with `value` as padding."""
        build = self.room.builder()
        self.fill(build, value)
        build.move(self.inner(), self.x.vector(), self.x.elements)
        return build

    def seen(self, frame: Memory | None = None) -> Iterator[tuple[int, Memory]]:
        """Yield for each tap (offset of its pixel from the window's corner, the pixels that it reads for all
        outputs).

        The pixels are those in `frame`, by default in the frame with the images.
        """
        (high, broad), (down, across) = self.window.dilation, self.window.stride
        for i, j in product(*map(range, self.window.kernel)):
            start = i * high * self.line + j * broad
            memory = self._rows_in(frame or self.frame, start, across, self.places[0], down * self.line)
            yield i * high * self.extents[1] + j * broad, memory

    def nan_mask(self, build: Builder) -> Memory:
        """Append instructions that mark the NaNs of the frame, and return a frame of their marks: 1 for NaN, else 0."""
        length = self.planes * self.plane
        mask, smaller = (self.room.vector(length, self.frame.dtype) for _ in range(2))
        # Every number is above minus infinity or below infinity; a NaN is neither.
        build.greater(mask, self.frame, float("-inf"), length)
        build.greater(smaller, float("inf"), self.frame, length)
        build.max(mask, mask, smaller, length)
        build.sub(mask, 1.0, mask, length)
        return mask


def window_sum(
    rect: Rect, rows: int, columns: int, extents: Pair, window: Window, dtype: str = "float32"
) -> MeshKernel:
    """Return a kernel that computes y, the sum under the window at each position of images x.

    There are `rows` x `columns` images, each with the height and width `extents` and padded with zeros. x is [rows,
    columns x pixels]. Sums are in float32 and rounded to `dtype` once.
    """
    on = _Planes(rect, rows, columns, extents, window, dtype)
    total = on.room.wide(on.y)
    build = on.padded(0.0)
    build.move(total.vector(), 0.0, total.elements)
    for _, seen in on.seen():
        build.add(total.vector(), total.vector(), seen, total.elements)
    round_to(build, on.y, total)
    return MeshKernel(Local(rect, build.body()), (on.x,), (on.y,), on.room.words)


def window_spread(
    rect: Rect, rows: int, columns: int, extents: Pair, window: Window, dtype: str = "float32"
) -> MeshKernel:
    """Return a kernel that computes x, the gradient of `window_sum` by its images, from y, the gradient of the sums.

    Each position adds its value to all pixels under the window. The arguments are those of `window_sum`. Sums are in
    float32 and rounded to `dtype` once.
    """
    on = _Planes(rect, rows, columns, extents, window, dtype, is_wide=True)
    build = on.room.builder()
    on.fill(build, 0.0)
    for _, seen in on.seen():
        build.add(seen, seen, on.y.vector(), on.y.elements)
    build.convert(on.x.vector(), on.inner(), on.x.elements)
    return MeshKernel(Local(rect, build.body()), (on.y,), (on.x,), on.room.words)


def window_argmax(
    rect: Rect,
    rows: int,
    columns: int,
    extents: Pair,
    window: Window,
    dtype: str = "float32",
    is_first_nan: bool = False,
) -> MeshKernel:
    """Return a kernel that computes the index `places` of the first largest pixel under each window, and the pixel, y.

    The images x and the arguments are those of `window_sum`, with padding of minus infinity. Pixels are numbered row by
    row, without padding; `places` is float32. The operand `origins` has the numbers of the windows' corners, which may
    be in the padding, and `firsts` those of their first pixels; `window_numbers` returns both. If a window has NaNs, y
    is NaN and `places` is the last NaN, as in PyTorch's pooling, or the first NaN if `is_first_nan`, as in argmax.
    """
    on = _Planes(rect, rows, columns, extents, window, dtype)
    count = on.places[0] * on.places[1]
    origins, firsts = (on.room.whole(name, rect, 1, count, WIDE) for name in ("origins", "firsts"))
    places, better, number = (on.room.wide(on.y, name) for name in ("places", "better", "number"))
    build, count = on.padded(float("-inf")), on.y.elements
    nans = list(on.seen(on.nan_mask(build)))
    build.move(on.y.vector(), float("-inf"), count)
    build.move(places.vector(), _for_all(on, firsts), count)

    def replace_places(ahead: int, where: Memory) -> None:
        # The index becomes that of this tap where `where` is 1: all are integers, so sums of them are exact.
        build.add(number.vector(), _for_all(on, origins), float(ahead), count)
        build.sub(number.vector(), number.vector(), places.vector(), count)
        build.fmac(places.vector(), number.vector(), where, places.vector(), count)

    for (ahead, seen), (_, is_nan) in zip(on.seen(), nans, strict=True):
        build.greater(better.vector(), seen, on.y.vector(), count)
        build.max(on.y.vector(), on.y.vector(), seen, count)
        if not is_first_nan:
            build.max(better.vector(), better.vector(), is_nan, count)
        replace_places(ahead, better.vector())
    if is_first_nan:
        for ahead, is_nan in reversed(nans):
            replace_places(ahead, is_nan)
    operands = (on.x, origins, firsts)
    return MeshKernel(Local(rect, build.body()), operands, (places, on.y), on.room.words)


def _for_all(on: _Planes, one: Placed) -> Memory:
    """Return the numbers of one image as an operand that repeats for all images."""
    return Memory(one.base, dtype=one.dtype, outer=((on.planes, 0),))


def window_numbers(extents: Pair, window: Window) -> dict[str, np.ndarray]:
    """Return the operands `origins` and `firsts` of `window_argmax`, by name, for images of `extents` (down, across).

    Both are integers for each position of the window, [down, across].
    """
    places = window.places(extents)
    corners = [np.arange(n) * s - p[0] for n, s, p in zip(places, window.stride, window.padding, strict=True)]
    # Taps before the image are a multiple of the dilation away from the window's first pixel.
    inside = [c + -(np.minimum(c, 0) // d) * d for c, d in zip(corners, window.dilation, strict=True)]
    width = extents[1]
    origins, firsts = (np.add.outer(down * width, across) for down, across in (corners, inside))
    return {"origins": origins, "firsts": firsts}
