"""Convolution with stride, padding and dilation, and both its gradients, of images that are distributed by channels.

Samples are distributed along y, in bands of rows if there are more PEs than samples, and channels along x. Each PE has
the weights of its own output channels for all input channels; the PEs of a column have the same weights. Blocks of
input channels, images or their gradients, shift around the rows on a folded ring. Each block carries its number, by
which a PE selects the weights. If there are fewer channels than PEs of a row, all PEs have all channels instead. Sums
are in float32 and rounded once. Any rectangle is allowed; at most as many columns are used as there are channels, of
images or of results.
"""

from dataclasses import dataclass, replace

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory
from wse_sim.kernels.kernel import INDEX, WIDE, Allocator, MeshKernel, Placed, base_of, operand_at
from wse_sim.kernels.windows.image_bands import Lines, Neighbours, cut
from wse_sim.kernels.windows.window import Pair, Window
from wse_sim.layout import Rect, ceil_div
from wse_sim.phase import AllReduce, Broadcast, Local, Phase, Reduce, Repeat, Seq, Shift


@dataclass(frozen=True)
class Images:
    """The extents of a convolution.

    - `samples`: samples of the batch
    - `channels`, `outputs`: input and output channels
    - `extents`: pixels of an image (down, across)
    """

    samples: int
    channels: int
    outputs: int
    extents: Pair


class _Channels:
    """The tiles of a convolution on every PE: weights, results, and the block of images that shifts.

    `turning` is the element type of that block. If there are fewer input channels than columns of PEs that outputs use
    (`is_shared`), no block shifts, and all PEs of a row have all input channels.
    """

    def __init__(self, rect: Rect, images: Images, window: Window, dtype: str, turning: str):
        self.bands = cut(rect.height, images.samples, images.extents, window)
        # With fewer channels than PEs of a row a ring would leave most PEs without work, so all get all channels.
        self.is_shared = images.channels < min(rect.width, images.outputs)
        widest = images.outputs if self.is_shared else images.channels
        self.rect = rect = rect.limit_size(widest, self.bands.height)
        self.images, self.window, self.dtype, self.room = images, window, dtype, Allocator()
        self.block = images.channels if self.is_shared else ceil_div(images.channels, rect.width)
        how = {"constant": 0.0} if self.is_shared else {"counts": 1}
        self.number = self.room.place("number", rect, 1, rect.width, INDEX, row_kind="replicated", **how)
        # The number of a block is stored before it, so that one move sends both.
        lines = Lines(0, self.bands, self.block, images.extents[1], window, turning)
        self.first = self.room.take(1 + lines.words, WIDE)
        self.lines = replace(lines, address=self.first + 1)
        self.here = base_of(self.first, INDEX)
        self.neighbours = Neighbours(rect, self.room, self.lines)

    @property
    def places(self) -> Pair:
        """Output extents (down, across)."""
        return self.window.places(self.images.extents)

    def inputs(self, name: str) -> Placed:
        """Allocate lines of input channels; if a row of PEs shares all channels, on its first PE."""
        rect = self.rect.limit_size(1, self.rect.height) if self.is_shared else self.rect
        return self._lines(name, rect, self.bands.rows_in, self.images.channels, self.images.extents[1])

    def outputs(self, name: str) -> Placed:
        """Allocate lines of output channels."""
        return self._lines(name, self.rect, self.bands.rows_out, self.images.outputs, self.places[1])

    def _lines(self, name: str, rect: Rect, rows: int, channels: int, across: int) -> Placed:
        rows *= self.bands.samples * self.bands.height
        return self.room.place(name, rect, rows, channels, self.dtype, depth=across)

    def weights(self, name: str) -> Placed:
        """Allocate weights: rows are output channels, along x; each has all taps of every input channel."""
        return self.room.place(
            name,
            self.rect,
            self.images.outputs,
            self.images.channels,
            self.dtype,
            column_kind="replicated",
            is_turned=True,
            depth=self.window.taps,
            # A block that extends beyond the last channel reads zeros there.
            least=self.block * (1 if self.is_shared else self.rect.width),
        )

    def begin(self, x: Placed | None, cleared: Placed | None) -> Local:
        """Return a phase that initializes the shifting block with its number and the images `x`, or zeros if `x` is
        None.

        It also clears `cleared`, unless that is None.
        """
        build = self.room.builder()
        build.move(Memory(self.here, dtype=INDEX), self.number.vector(), 1)
        build.move(operand_at(self.lines.address, self.lines.dtype), 0.0, self.lines.elements)
        if x:
            build.move(self.lines.own(), x.vector(), x.elements)
        if cleared:
            build.move(cleared.vector(), 0.0, cleared.elements)
        return Local(self.rect, build.body())

    def arriving(self) -> tuple[Phase, ...]:
        """Return the phases that fetch rows of neighbours and, if channels are shared, broadcast them along rows.

        There are none if each PE has whole samples and channels are not shared.
        """
        around, lines = self.neighbours.fetch(), self.lines
        if not self.is_shared:
            return around
        return *around, Broadcast(self.rect, axis="x", words=lines.words, take=lines.address, put=lines.address)

    def leaving(self) -> tuple[Phase, ...]:
        """Return the phases that sum shared channels over the PEs of a row, and add neighbours' rows to their bands.

        There are none if each PE has whole samples and channels are not shared.
        """
        back, lines = self.neighbours.give_back(), self.lines
        if not self.is_shared:
            return back
        return Reduce(self.rect, axis="x", words=lines.words, at=lines.address), *back

    def rounds(self, work: Local, comes_home: bool) -> Phase:
        """Return a phase that runs `work` once for each block, which shifts to the previous PE of the folded ring in
        between.

        With `comes_home` the blocks shift after the last time too, so that each ends on its first PE. If channels are
        shared or a row has one PE, it is `work` itself.
        """
        if self.rect.width == 1 or self.is_shared:
            return work
        turn = Shift(
            self.rect,
            axis="x",
            words=1 + self.lines.words,
            hops=-1,
            wrap="folded",
            take=self.first,
            put=self.first,
        )
        period = Seq((work, turn))
        # Equal rounds are one `Repeat`, so that a long ring is built and priced as quickly as a short one.
        return Repeat(self.rect.width, period) if comes_home else Seq((Repeat(self.rect.width - 1, period), work))

    def products(self, build: Builder, operands: "_Operands") -> None:
        """Append, for each output channel, channel of the block and tap, one operation over all positions of all
        samples.

        It adds products to the tensor `operands.sums`. The number of the block selects its weights.
        """
        across, (down, columns), taps = self.places[1], self.window.kernel, self.window.taps
        outputs, rows = operands.weights.tile_rows, self.bands.samples * self.bands.rows_out
        with build.loop(outputs), build.loop(self.block), build.loop(down), build.loop(columns):
            image, results = self.lines.seen(), operands.results
            outer = ((rows, outputs * across),)
            result = Memory(results.base, dtype=results.dtype, steps=(across,), outer=outer)
            weight = Memory(
                operands.weights.base,
                stride=0,
                dtype=operands.weights.dtype,
                steps=(operands.weights.tile_columns * taps, taps, columns, 1),
                index=self.here,
                index_step=self.block * taps,
            )
            target, one, other = {
                "results": (result, weight, image),
                "images": (image, weight, result),
                "weights": (weight, image, result),
            }[operands.sums]
            build.fmac(target, one, other, target, rows * across)


@dataclass(frozen=True)
class _Operands:
    """The stationary tiles, and the tensor ("results", "images" or "weights") that is the sum of products of the other
    two.
    """

    weights: Placed
    results: Placed
    sums: str


def channel_convolution(rect: Rect, images: Images, window: Window, dtype: str = "float32") -> MeshKernel:
    """Return a kernel that computes y, the convolution of images x with weights [outputs, channels x taps], without a
    bias.

    x and y are lines, as `Bands.lines_of` of the distribution `cut` makes them.
    """
    on = _Channels(rect, images, window, dtype, turning=dtype)
    x, weights, y = on.inputs("x"), on.weights("weights"), on.outputs("y")
    total = on.room.wide(y)
    build = on.room.builder()
    on.products(build, _Operands(weights, total, sums="results"))
    work = on.rounds(Local(on.rect, build.body()), comes_home=False)
    parts = (on.begin(x, total), *on.arriving(), work, *_rounded(on, y, total))
    return MeshKernel(Seq(parts), (on.number, x, weights), (y,), on.room.words)


def convolution_input_gradient(rect: Rect, images: Images, window: Window, dtype: str = "float32") -> MeshKernel:
    """Return a kernel that computes x, the gradient of the images, from g, the gradient of the outputs, and the
    weights.

    x and g are lines, and weights are, as in `channel_convolution`. Sums of a block of channels shift around the row
    and end on their first PE.
    """
    on = _Channels(rect, images, window, dtype, turning=WIDE)
    g, weights, x = on.outputs("g"), on.weights("weights"), on.inputs("x")
    build = on.room.builder()
    on.products(build, _Operands(weights, g, sums="images"))
    work = on.rounds(Local(on.rect, build.body()), comes_home=True)
    back = on.leaving()
    build = on.room.builder()
    build.convert(x.vector(), on.lines.own(), x.elements)
    parts = (on.begin(None, None), work, *back, Local(on.rect, build.body()))
    return MeshKernel(Seq(parts), (on.number, g, weights), (x,), on.room.words)


def convolution_weight_gradient(rect: Rect, images: Images, window: Window, dtype: str = "float32") -> MeshKernel:
    """Return a kernel that computes the gradient of the weights, from images x and g, the gradient of the outputs.

    x and g are lines as in `channel_convolution`. The result "weights" is [outputs, channels x taps]. Each PE sums over
    its own samples and rows; then columns of PEs are summed. Sums are in float32 and rounded to `dtype` once.
    """
    on = _Channels(rect, images, window, dtype, turning=dtype)
    x, g, weights = on.inputs("x"), on.outputs("g"), on.weights("weights")
    total = on.room.wide(weights)
    build = on.room.builder()
    on.products(build, _Operands(total, g, sums="weights"))
    work = on.rounds(Local(on.rect, build.body()), comes_home=False)
    over_samples = AllReduce(on.rect, axis="y", words=total.words, at=total.address)
    parts = (on.begin(x, total), *on.arriving(), work, over_samples, *_rounded(on, weights, total))
    return MeshKernel(Seq(parts), (on.number, x, g), (weights,), on.room.words)


def _rounded(on: _Channels, result: Placed, total: Placed) -> tuple[Phase, ...]:
    """Return a phase that converts sums to the type of the result, as a tuple, or () if they are the same tile."""
    if total is result:
        return ()
    build = on.room.builder()
    build.convert(result.vector(), total.vector(), result.elements)
    return (Local(on.rect, build.body()),)
