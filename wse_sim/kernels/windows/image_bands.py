"""Images distributed over a column of PEs: some samples on each PE, or a band of a sample's rows.

A band needs rows of the bands above and below, as many as a window reaches beyond it. A line has the same row of all
channels, one channel after the other, so that rows for a neighbour are contiguous.
"""

from dataclasses import dataclass

import numpy as np

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES, Memory
from wse_sim.isa.packing import word_count
from wse_sim.kernels.kernel import Allocator, operand_at
from wse_sim.kernels.windows.window import Pair, Window
from wse_sim.layout import Rect, ceil_div
from wse_sim.phase import Local, Par, Phase, Shift


@dataclass(frozen=True)
class Bands:
    """A distribution of images over a column of PEs.

    - `groups`: groups of samples, one after the other along the column
    - `samples`: samples of a group
    - `parts`: PEs of a group, each with a band of every sample of the group
    - `rows_in`: rows of pixels in a band
    - `rows_out`: rows of outputs in a band
    - `above`, `below`: further rows that a PE reads above and below its band; with one part they are padding
    """

    groups: int
    samples: int
    parts: int
    rows_in: int
    rows_out: int
    above: int
    below: int

    @property
    def height(self) -> int:
        """PEs of a column that are used."""
        return self.groups * self.parts

    @property
    def rows(self) -> int:
        """Rows of pixels of a sample that a PE reads."""
        return self.above + self.rows_in + self.below

    def lines_of(self, images: np.ndarray, rows: int) -> np.ndarray:
        """Return images [samples, channels, down, across] as lines [samples, down, channels, across].

        Samples are padded with zeros to those of all groups, and `down` to `rows` for each part. `rows` is `rows_in`
        for pixels and `rows_out` for outputs.
        """
        samples, _, down, _ = images.shape
        missing = self.groups * self.samples - samples, rows * self.parts - down
        padded = np.pad(images, ((0, missing[0]), (0, 0), (0, missing[1]), (0, 0)))
        return padded.transpose(0, 2, 1, 3)

    def images_of(self, lines: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Return images of `shape` [samples, channels, down, across] from their lines, without padding samples and
        rows.
        """
        samples, channels, down, across = shape
        whole = lines.reshape(self.groups * self.samples, -1, channels, across)
        return whole[:samples, :down].transpose(0, 2, 1, 3)


def cut(height: int, samples: int, extents: Pair, window: Window) -> Bands:
    """Return a distribution of images over at most `height` PEs of a column.

    If there are more PEs than samples, a sample is cut into as many bands as possible, each with at least the rows that
    the window reaches beyond it. Otherwise each PE has whole samples.
    """
    (down, _), (places, _) = extents, window.places(extents)
    (top, bottom), stride = window.padding[0], window.stride[0]
    each = ceil_div(samples, min(height, samples))
    groups = ceil_div(samples, each)
    reach = window.dilation[0] * (window.kernel[0] - 1)
    below = max(0, reach - stride + 1 - top)
    for parts in range(height // groups, 1, -1):
        # Bands of pixels start where windows do. The last rows may be beyond every window, and belong to a band too.
        rows_out = max(ceil_div(places, parts), ceil_div(down, parts * stride))
        rows_in = rows_out * stride
        used = max(ceil_div(places, rows_out), ceil_div(down, rows_in))
        # A band is at least as high as the rows that it gets from each side, so all come from the next PE.
        if used > 1 and max(top, below) <= rows_in:
            return Bands(groups, each, parts=used, rows_in=rows_in, rows_out=rows_out, above=top, below=below)
    return Bands(groups, each, parts=1, rows_in=down, rows_out=places, above=top, below=bottom)


@dataclass(frozen=True)
class Lines:
    """The lines that a PE reads, in memory, with padding to the left and right of every channel.

    - `address`: address in words
    - `bands`: the distribution of images
    - `channels`: channels of a line
    - `across`: pixels of a row without padding
    - `window`: the window
    - `dtype`: element type
    """

    address: int
    bands: Bands
    channels: int
    across: int
    window: Window
    dtype: str

    @property
    def width(self) -> int:
        """Pixels of a row of a channel, with padding."""
        return self.across + sum(self.window.padding[1])

    @property
    def line(self) -> int:
        """Elements of a line, rounded up to whole words."""
        in_word = WORD_BYTES // ITEM_BYTES[self.dtype]
        return ceil_div(self.channels * self.width, in_word) * in_word

    @property
    def elements(self) -> int:
        """Elements of all lines."""
        return self.bands.samples * self.bands.rows * self.line

    @property
    def words(self) -> int:
        """Words of all lines."""
        return word_count(self.elements, self.dtype)

    def own(self) -> Memory:
        """Return the pixels of the PE's own rows, without padding, as an operand."""
        bands, left = self.bands, self.window.padding[1][0]
        start = bands.above * self.line + left
        outer = ((bands.samples, bands.rows * self.line), (bands.rows_in, self.line), (self.channels, self.width))
        return operand_at(self.address, self.dtype, start, outer=outer)

    def seen(self) -> Memory:
        """Return the pixels that one tap reads for all outputs of all samples, as an operand.

        It is for use within loops over output channels, channels of a line, and the window's taps down and across.
        """
        bands, (down, across) = self.bands, self.window.stride
        steps = 0, self.width, self.window.dilation[0] * self.line, self.window.dilation[1]
        outer = ((bands.samples, bands.rows * self.line), (bands.rows_out, down * self.line))
        return operand_at(self.address, self.dtype, stride=across, steps=steps, outer=outer)

    def row(self, row: int) -> int:
        """Return the address, in words, of a row of the first sample."""
        return self.address + word_count(row * self.line, self.dtype)


class Neighbours:
    """The exchange of rows that overlapping bands share with the PEs above and below."""

    def __init__(self, rect: Rect, room: Allocator, lines: Lines):
        self.rect, self.room, self.lines, bands = rect, room, lines, lines.bands
        last = bands.above + bands.rows_in
        # Rows of other bands, and own rows that other bands read: above, below.
        self.counts = bands.above, bands.below
        self.foreign, self.shared = (0, last), (bands.rows_in, bands.above)

    @property
    def _is_alone(self) -> bool:
        return self.lines.bands.parts == 1

    def fetch(self) -> tuple[Phase, ...]:
        """Return the phases that copy the neighbours' rows around the own ones, and zeros at the borders of an image.

        There are none if no sample is cut into bands.
        """
        if self._is_alone:
            return ()
        places = [self.lines.row(row) for row in self.foreign]
        return self._moves((1, -1), [self.lines.row(row) for row in self.shared], places), *self._borders()

    def give_back(self) -> tuple[Phase, ...]:
        """Return the phases that add the values accumulated in neighbours' rows to the rows of their bands.

        There are none if no sample is cut into bands. Memory for the arriving rows is allocated.
        """
        if self._is_alone:
            return ()
        lines = self.lines
        rooms = [self.room.take(max(1, count) * lines.line, lines.dtype) for count in self.counts]
        clear, add = self.room.builder(), self.room.builder()
        for room, count, row in zip(rooms, self.counts, self.shared, strict=True):
            length = count * lines.line
            if count:
                arrived, own = (operand_at(at, lines.dtype) for at in (room, lines.row(row)))
                clear.move(arrived, 0.0, length)
                add.add(own, own, arrived, length)
        # The rows above a band go up and are added to the last own rows of the PE there.
        moves = self._moves((-1, 1), [lines.row(row) for row in self.foreign], rooms)
        return *self._borders(), Local(self.rect, clear.body()), moves, Local(self.rect, add.body())

    def _moves(self, hops: Pair, sources: list[int], targets: list[int]) -> Phase:
        """Return a phase with two shifts along y at the same time: of the rows above a band and of those below it.

        `hops`, `sources` and `targets` (addresses in words) have a number for each of the two. Shifts of no rows are
        left out.
        """
        counts = [word_count(count * self.lines.line, self.lines.dtype) for count in self.counts]
        every = zip(counts, hops, sources, targets, strict=True)
        return Par(
            tuple(Shift(self.rect, "y", words=words, hops=hop, take=a, put=b) for words, hop, a, b in every if words)
        )

    def _borders(self) -> tuple[Phase, ...]:
        """Return a phase with zeros above the first band of each group and below its last one; nothing if no rows are
        shared.
        """
        bands, parts = self.lines.bands, []
        for group in range(bands.groups):
            for side, (row, count) in enumerate(zip(self.foreign, self.counts, strict=True)):
                build, at = self.room.builder(), group * bands.parts + side * (bands.parts - 1)
                if count:
                    self._clear(build, row, count)
                    parts.append(Local(Rect(self.rect.x, self.rect.y + at, self.rect.width, 1), build.body()))
        return (Par(tuple(parts)),) if parts else ()

    def _clear(self, build: Builder, row: int, count: int) -> None:
        lines = self.lines
        build.move(operand_at(lines.row(row), lines.dtype), 0.0, count * lines.line)
