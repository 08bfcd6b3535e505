"""Convolution over images that are cut into tiles of pixels, with an exchange of borders between neighbouring PEs.

Borders are exchanged along the rows first. Then the rows above and below are exchanged along the columns, borders
included, so that corners arrive by way of the neighbour between. Pixels outside the image are zero.
"""

from dataclasses import dataclass

from lazytensor.errors import LazyError
from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Instruction, Memory
from wse_sim.isa.packing import word_count
from wse_sim.kernels.kernel import Allocator, MeshKernel, Placed, operand_at
from wse_sim.layout import Rect
from wse_sim.phase import Local, Par, Phase, Seq, Shift


@dataclass(frozen=True)
class _Frame:
    """Rows of pixels in memory, each `width` pixels of `channels` elements."""

    address: int
    width: int
    channels: int
    dtype: str

    def block(self, row: int, column: int, rows: int, columns: int) -> Memory:
        """Return all channels of a block of pixels as an operand, row after row."""
        line = self.width * self.channels
        outer = ((rows, line),) if columns != self.width else ()
        return operand_at(self.address, self.dtype, row * line + column * self.channels, outer=outer)

    def plane(self, row: int, rows: int, steps: tuple[int, ...]) -> Memory:
        """Return one channel of the pixels of some rows as an operand, from the pixel that `steps` of enclosing loops
        select.
        """
        line = self.width * self.channels
        return operand_at(self.address, self.dtype, row * line, self.channels, steps, ((rows, line),))


def convolution(
    rect: Rect, height: int, width: int, channels: int, outputs: int, radius: int = 1, dtype: str = "float32"
) -> MeshKernel:
    """Return a kernel that computes a convolution of stride 1 with a window of 2 radius + 1 pixels in each dimension.

    x is [height, width x channels], y is [height, width x outputs], and weights are [window x window x channels,
    outputs]. Pixels outside the image are zero. Raises LazyError unless rows and pixels divide evenly over the
    rectangle, into tiles of at least `radius` in each dimension.
    """
    rows, columns = height // rect.height, width // rect.width
    if rows * rect.height != height or columns * rect.width != width or min(rows, columns) < radius:
        what = f"an image of {width} x {height} pixels cannot be cut into tiles for {rect.width} x {rect.height} PEs"
        hint = f"Choose extents that give equal tiles of at least {radius} pixels in each dimension."
        raise LazyError(what, hint=hint)
    room, window = Allocator(), 2 * radius + 1
    x = room.place("x", rect, height, width * channels, dtype)
    weights = room.whole("weights", rect, window * window * channels, outputs, dtype)
    y = room.place("y", rect, height, width * outputs, dtype)
    # The tile with a border around it, in a separate buffer: windows are then plain strides, without special cases at
    # edges.
    wide = columns + 2 * radius
    frame = _Frame(room.take((rows + 2 * radius) * wide * channels, dtype), wide, channels, dtype)
    build = room.builder()
    build.move(operand_at(frame.address, dtype), 0.0, (rows + 2 * radius) * wide * channels)
    build.move(frame.block(radius, radius, rows, columns), x.vector(), x.elements)
    borders = _Borders(rect, room, frame, radius)
    exchange: tuple[Phase, ...] = ()
    if radius:
        exchange += borders.exchange("x", (radius, rows), (radius, columns))
        # In the full width, with the borders that have just arrived: the corners are included.
        exchange += borders.exchange("y", (radius, rows), (0, wide))
    work = Local(rect, _windows(room, frame, weights, y, radius))
    return MeshKernel(Seq((Local(rect, build.body()), *exchange, work)), (x, weights), (y,), room.words)


@dataclass(frozen=True)
class _Borders:
    """The exchange of strips of a frame with both neighbours along an axis.

    Received strips are stored around the tile.
    """

    rect: Rect
    room: Allocator
    frame: _Frame
    radius: int

    def exchange(self, axis: str, rows: tuple[int, int], columns: tuple[int, int]) -> tuple[Phase, Phase, Phase]:
        """Return the phases of an exchange with both neighbours along `axis`: pack, shift, unpack. Allocates the
        buffers.

        `rows` and `columns` are (first, count) of the tile in the frame, without the borders along `axis`. Without a
        neighbour, a border is overwritten by zeros.
        """
        (row, height), (column, width), radius = rows, columns, self.radius
        if axis == "x":
            size = height, radius
            first, last = (row, column), (row, column + width - radius)
            before, after = (row, column - radius), (row, column + width)
        else:
            size = radius, width
            first, last = (row, column), (row + height - radius, column)
            before, after = (row - radius, column), (row + height, column)
        count, dtype = size[0] * size[1] * self.frame.channels, self.frame.dtype
        # Moves need contiguous words, and strips are not: they are packed before and unpacked after.
        buffers = [self.room.take(count, dtype) for _ in range(4)]
        out, back = self.room.builder(), self.room.builder()
        flat = [operand_at(address, dtype) for address in buffers]
        for pixels, buffer in zip((last, first), flat[:2], strict=True):
            out.move(buffer, self.frame.block(*pixels, *size), count)
        for pixels, buffer in zip((before, after), flat[2:], strict=True):
            back.move(self.frame.block(*pixels, *size), buffer, count)
        words = word_count(count, dtype)
        moves = [
            Shift(self.rect, axis=axis, words=words, hops=hop, take=take, put=put)
            for hop, take, put in zip((1, -1), buffers[:2], buffers[2:], strict=True)
        ]
        return Local(self.rect, out.body()), Par(tuple(moves)), Local(self.rect, back.body())


def _windows(room: Allocator, frame: _Frame, weights: Placed, y: Placed, radius: int) -> tuple[Instruction, ...]:
    """Return the instructions that compute y in place: for each tap, channel and output, all pixels of the tile times
    one weight.

    `frame` has the tile with its borders. y is set to zero first.
    """
    window, channels, outputs = 2 * radius + 1, frame.channels, weights.columns
    rows, pixels = y.tile_rows, y.tile_columns // outputs
    build: Builder = room.builder()
    build.move(y.vector(), 0.0, y.elements)
    line = frame.width * channels
    # Four loops, the maximum of a core; pixels are the vector, since there are more of them than of anything else.
    with build.loop(window), build.loop(window), build.loop(channels), build.loop(outputs):
        target = Memory(y.base, stride=outputs, dtype=y.dtype, steps=(0, 0, 0, 1), outer=((rows, y.tile_columns),))
        seen = frame.plane(0, rows, (line, channels, 1, 0))
        steps = (window * channels * outputs, channels * outputs, outputs, 1)
        build.fmac(target, weights.vector(0, steps), seen, target, rows * pixels)
    return build.body()
