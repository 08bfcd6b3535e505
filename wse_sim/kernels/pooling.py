"""Windows over images whose places are sums or maxima, and the gradient of sums. No PE needs a word of another.

Samples are cut along y and channels along x; each PE pads its own images.
"""

from dataclasses import replace

import numpy as np

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory
from wse_sim.kernels.kernel import WIDE, MeshKernel, Placed, Room, operand_at
from wse_sim.kernels.windows import Frame, Pair, Window
from wse_sim.layout import Rect
from wse_sim.phase import Local


class _Planes:
    """Images of each PE, with a frame around them, and what the window gives at its places."""

    def __init__(self, rect: Rect, rows: int, columns: int, extents: Pair, window: Window, dtype: str, wide: bool):
        (down, across), (high, broad) = extents, window.places(extents)
        self.room, self.pixels, self.count = Room(), down * across, high * broad
        self.x = self.room.place("x", rect, rows, columns, dtype, depth=self.pixels)
        self.y = self.room.place("y", rect, rows, columns, dtype, depth=self.count)
        planes = self.x.tile_rows * self.x.tile_columns
        frame = Frame(0, planes, extents, window, WIDE if wide else dtype)
        self.frame = replace(frame, address=self.room.take(frame.elements, frame.dtype))

    def padded(self, value: float) -> Builder:
        """The images with `value` around them, which begins what comes after."""
        build = self.room.builder()
        build.move(operand_at(self.frame.address, self.frame.dtype), value, self.frame.elements)
        build.move(self.frame.inner(), self.x.vector(), self.x.elements)
        return build

    def seen(self, tap: int) -> Memory:
        """What the window sees at all places of all images."""
        return self.frame.seen(self.frame.planes, self.frame.plane, start=tap)


def window_sum(
    rect: Rect, rows: int, columns: int, extents: Pair, window: Window, dtype: str = "float32"
) -> MeshKernel:
    """y, the sum under the window at each place, of rows x columns images x; sums are in float32."""
    on = _Planes(rect, rows, columns, extents, window, dtype, wide=False)
    total = on.y if dtype == WIDE else replace(on.y, dtype=WIDE, address=on.room.take(on.y.elements, WIDE))
    build = on.padded(0.0)
    build.move(total.vector(), 0.0, total.elements)
    for tap in on.frame.taps():
        build.add(total.vector(), total.vector(), on.seen(tap), total.elements)
    if total is not on.y:
        build.convert(on.y.vector(), total.vector(), total.elements)
    return MeshKernel(Local(rect, build.body()), (on.x,), (on.y,), on.room.words)


def window_spread(
    rect: Rect, rows: int, columns: int, extents: Pair, window: Window, dtype: str = "float32"
) -> MeshKernel:
    """x, the gradient of rows x columns images by that of their sums, y: each place adds its own to all it saw."""
    on = _Planes(rect, rows, columns, extents, window, dtype, wide=True)
    build = on.room.builder()
    build.move(operand_at(on.frame.address, on.frame.dtype), 0.0, on.frame.elements)
    for tap in on.frame.taps():
        build.add(on.seen(tap), on.seen(tap), on.y.vector(), on.y.elements)
    build.convert(on.x.vector(), on.frame.inner(), on.x.elements)
    return MeshKernel(Local(rect, build.body()), (on.y,), (on.x,), on.room.words)


def window_argmax(
    rect: Rect, rows: int, columns: int, extents: Pair, window: Window, dtype: str = "float32"
) -> MeshKernel:
    """places, the number of the first largest pixel under the window at each place, and y, that pixel; of images x.

    Pixels are numbered row by row, without padding. `origins` are the numbers of the windows' corners, which may lie in
    the padding, and `firsts` those of their first pixels, as `window_numbers` gives them. A NaN is never the largest.
    """
    on = _Planes(rect, rows, columns, extents, window, dtype, wide=False)
    origins, firsts = (
        on.room.place(name, rect, 1, on.count, WIDE, row_kind="replicated", column_kind="replicated")
        for name in ("origins", "firsts")
    )
    places, better, number = (
        replace(on.y, name=name, dtype=WIDE, address=on.room.take(on.y.elements, WIDE))
        for name in ("places", "better", "number")
    )
    build, count = on.padded(float("-inf")), on.y.elements
    build.move(on.y.vector(), float("-inf"), count)
    build.move(places.vector(), _for_all(on, firsts), count)
    width = extents[1]
    for n, tap in enumerate(on.frame.taps()):
        row, column = divmod(n, window.kernel[1])
        ahead = row * window.dilation[0] * width + column * window.dilation[1]
        build.greater(better.vector(), on.seen(tap), on.y.vector(), count)
        build.max(on.y.vector(), on.y.vector(), on.seen(tap), count)
        # Where it is better the number becomes that of this tap: all are integers, so that sums of them are exact.
        build.add(number.vector(), _for_all(on, origins), float(ahead), count)
        build.sub(number.vector(), number.vector(), places.vector(), count)
        build.fmac(places.vector(), number.vector(), better.vector(), places.vector(), count)
    operands = (on.x, origins, firsts)
    return MeshKernel(Local(rect, build.body()), operands, (places, on.y), on.room.words)


def _for_all(on: _Planes, one: Placed) -> Memory:
    """One image of numbers for all images."""
    return Memory(one.base, dtype=one.dtype, outer=((on.frame.planes, 0),))


def window_numbers(extents: Pair, window: Window) -> dict[str, np.ndarray]:
    """For each place the number of the window's corner, and of the first pixel that is no padding."""
    places = window.places(extents)
    corners = [np.arange(n) * s - p[0] for n, s, p in zip(places, window.stride, window.padding, strict=True)]
    # Taps before the image are so many steps of the dilation from its first pixel.
    inside = [c + -(np.minimum(c, 0) // d) * d for c, d in zip(corners, window.dilation, strict=True)]
    width = extents[1]
    origins, firsts = (np.add.outer(down * width, across) for down, across in (corners, inside))
    return {"origins": origins, "firsts": firsts}
