"""Convolution with stride, padding and dilation, and both its gradients, of images in channels.

Samples are cut along y and channels along x. Each PE has the weights of its own output channels, for all input
channels, and PEs of a column have the same ones. What has input channels, images or their gradients, goes around the
rows on a folded ring, a block of channels at a time, with its number, by which a PE finds the weights that belong to
it. Sums are in float32 and rounded once. This takes any rectangle, of
which it uses no more columns than there are channels, and no more rows than samples.
"""

from dataclasses import dataclass, replace

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory
from wse_sim.kernels.kernel import MeshKernel, Placed, Room, base_of, body_of
from wse_sim.kernels.windows import Frame, Pair, Window
from wse_sim.layout import Rect, ceil_div
from wse_sim.phase import AllReduce, Local, Phase, Repeat, Seq, Shift

WIDE = "float32"
INDEX = "uint16"


@dataclass(frozen=True)
class Images:
    """Extents of a convolution: samples, input and output channels, and the pixels of an image down and across."""

    samples: int
    channels: int
    outputs: int
    extents: Pair


class _Channels:
    """Tiles of a convolution on every PE: weights, results, and the block of images that goes around."""

    def __init__(self, rect: Rect, images: Images, window: Window, dtype: str, turning: str):
        # Beyond the channels a longer ring has more rounds and no fewer products in each.
        self.rect = rect = rect.trimmed(images.channels, images.samples)
        self.images, self.window, self.dtype, self.room = images, window, dtype, Room()
        self.samples = ceil_div(images.samples, rect.height)
        self.block = ceil_div(images.channels, rect.width)
        self.number = self.room.place("number", rect, 1, rect.width, INDEX, row_kind="replicated", counts=1)
        # The number of a block lies before it, so that one move takes both along.
        frame = Frame(0, self.samples * self.block, images.extents, window, turning)
        self.first = self.room.take(1 + frame.words, WIDE)
        self.frame = replace(frame, address=self.first + 1)
        self.here = base_of(self.first, INDEX)

    @property
    def places(self) -> Pair:
        return self.window.places(self.images.extents)

    def inputs(self, name: str) -> Placed:
        """Images of input channels."""
        down, across = self.images.extents
        images = self.images
        return self.room.place(name, self.rect, images.samples, images.channels, self.dtype, depth=down * across)

    def outputs(self, name: str, dtype: str = "") -> Placed:
        """Images of output channels."""
        (down, across), images = self.places, self.images
        return self.room.place(
            name, self.rect, images.samples, images.outputs, dtype or self.dtype, depth=down * across
        )

    def weights(self, name: str, dtype: str = "") -> Placed:
        """Rows are output channels, along x; for every input channel all taps."""
        return self.room.place(
            name,
            self.rect,
            self.images.outputs,
            self.images.channels,
            dtype or self.dtype,
            column_kind="replicated",
            is_turned=True,
            depth=self.window.taps,
            # A block that goes beyond the last channel finds zeros there.
            least=self.block * self.rect.width,
        )

    def begin(self, x: Placed | None, cleared: Placed | None) -> Local:
        """The own block of images, or zeros to add to, with its number; and zeros in what is summed up in place."""
        build = self.room.builder()
        build.move(Memory(self.here, dtype=INDEX), self.number.vector(), 1)
        build.move(self.frame.whole(), 0.0, self.frame.elements)
        if x:
            build.move(self.frame.inner(), x.vector(), x.elements)
        if cleared:
            build.move(cleared.vector(), 0.0, cleared.elements)
        return Local(self.rect, body_of(build))

    def rounds(self, work: Local, comes_home: bool) -> Phase:
        """`work` with each block in turn; with `comes_home` a block ends where it began."""
        if self.rect.width == 1:
            return work
        turn = Shift(
            self.rect,
            axis="x",
            words=1 + self.frame.words,
            hops=-1,
            wrap="folded",
            take=self.first,
            put=self.first,
        )
        period = Seq((work, turn))
        # Equal rounds are one period, so that a long ring is written and priced as quickly as a short one.
        return Repeat(self.rect.width, period) if comes_home else Seq((Repeat(self.rect.width - 1, period), work))

    def products(self, build: Builder, operands: "_Operands") -> None:
        """For each output channel, channel of the block and tap: one operation over all places of all samples."""
        (down, across), (rows, columns) = self.places, self.window.kernel
        plane, taps = self.frame.plane, self.window.taps
        outputs = operands.weights.tile_rows
        with build.loop(outputs), build.loop(self.block), build.loop(rows), build.loop(columns):
            image = self.frame.seen(self.samples, self.block * plane, steps=(0, plane, *self.frame.tap_steps))
            result = Memory(
                operands.results.base,
                dtype=operands.results.dtype,
                steps=(down * across,),
                outer=((self.samples, outputs * down * across),),
            )
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
            build.fmac(target, one, other, target, self.samples * down * across)


@dataclass(frozen=True)
class _Operands:
    """Tiles that stay, and which of the three is the sum of products of the other two."""

    weights: Placed
    results: Placed
    sums: str


def channel_convolution(rect: Rect, images: Images, window: Window, dtype: str = "float32") -> MeshKernel:
    """y [samples, outputs x places] of x [samples, channels x pixels] and weights [outputs, channels x taps]."""
    on = _Channels(rect, images, window, dtype, turning=dtype)
    x, weights, y = on.inputs("x"), on.weights("weights"), on.outputs("y")
    total = y if dtype == WIDE else on.outputs("total", WIDE)
    build = on.room.builder()
    on.products(build, _Operands(weights, total, sums="results"))
    work = on.rounds(Local(on.rect, body_of(build)), comes_home=False)
    parts = (on.begin(x, total), work, *_rounded(on, y, total))
    return MeshKernel(Seq(parts), (on.number, x, weights), (y,), on.room.words)


def convolution_input_gradient(rect: Rect, images: Images, window: Window, dtype: str = "float32") -> MeshKernel:
    """x [samples, channels x pixels], the gradient by the images, of g, that by what came out, and the weights.

    Sums of a block of channels go around and come home.
    """
    on = _Channels(rect, images, window, dtype, turning=WIDE)
    g, weights, x = on.outputs("g"), on.weights("weights"), on.inputs("x")
    build = on.room.builder()
    on.products(build, _Operands(weights, g, sums="images"))
    work = on.rounds(Local(on.rect, body_of(build)), comes_home=True)
    build = on.room.builder()
    build.convert(x.vector(), on.frame.inner(), x.elements)
    parts = (on.begin(None, None), work, Local(on.rect, body_of(build)))
    return MeshKernel(Seq(parts), (on.number, g, weights), (x,), on.room.words)


def convolution_weight_gradient(rect: Rect, images: Images, window: Window, dtype: str = "float32") -> MeshKernel:
    """weights [outputs, channels x taps], their gradient, of the images x and g, the gradient by what came out.

    Each PE sums over its own samples; then columns of PEs do.
    """
    on = _Channels(rect, images, window, dtype, turning=dtype)
    x, g, weights = on.inputs("x"), on.outputs("g"), on.weights("weights")
    total = weights if dtype == WIDE else on.weights("total", WIDE)
    build = on.room.builder()
    on.products(build, _Operands(total, g, sums="weights"))
    work = on.rounds(Local(on.rect, body_of(build)), comes_home=False)
    over_samples = AllReduce(on.rect, axis="y", words=total.words, at=total.address)
    parts = (on.begin(x, total), work, over_samples, *_rounded(on, weights, total))
    return MeshKernel(Seq(parts), (on.number, x, g), (weights,), on.room.words)


def _rounded(on: _Channels, result: Placed, total: Placed) -> tuple[Phase, ...]:
    """Sums in the type of the result."""
    if total is result:
        return ()
    build = on.room.builder()
    build.convert(result.vector(), total.vector(), result.elements)
    return (Local(on.rect, body_of(build)),)
