"""Normalizations with their gradients: of rows, with or without their mean, and of channels over a batch.

Rows are cut along y and their elements along x: a row's sums go along x, and those of its parameters along y. For a
batch norm samples are cut along y and channels along x, so that all its sums go along y. Statistics and sums are in
float32. Gradients are given x again, and no statistic is kept.
"""

from dataclasses import dataclass

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory
from wse_sim.kernels.kernel import WIDE, MeshKernel, Placed, Room
from wse_sim.layout import Rect
from wse_sim.phase import AllReduce, Local, Phase, Seq

EPS = 1e-5


@dataclass(frozen=True)
class _Layout:
    """Slices of a tile that share a statistic, over `shared` elements of all PEs along `axis`.

    There are `slices`, each of `parts` stretches of `length` elements; `step` is from one slice to the next and `far`
    from one stretch to the next.
    """

    axis: str
    shared: int
    slices: int
    length: int
    step: int
    parts: int = 1
    far: int = 0

    @property
    def elements(self) -> int:
        """Of a slice."""
        return self.parts * self.length

    def of(self, placed: Placed) -> Memory:
        """The slice of this round of a loop."""
        outer = ((self.parts, self.far),) if self.parts > 1 else ()
        return Memory(placed.base, dtype=placed.dtype, steps=(self.step,), outer=outer)


class _Norm:
    """Tiles of a normalization on every PE, and the phases so far."""

    def __init__(self, rect: Rect):
        self.rect, self.room = rect, Room()
        self.phases: list[Phase] = []

    def lay(self, layout: _Layout, eps: float) -> None:
        """How the tiles are cut, and room for the statistics."""
        self.layout, self.eps = layout, eps
        # Two behind each other go through one all-reduce, whose latency is most of its price.
        self.first = self.room.vector(2 * layout.slices)
        self.second = Memory(self.first.base + layout.slices)
        self.scale = self.room.vector(layout.slices)

    def run(self, build: Builder) -> None:
        self.phases.append(Local(self.rect, build.body()))

    def combine(self, address: int, words: int, axis: str) -> None:
        """Sums of the PEs of a line, on all of them."""
        self.phases.append(AllReduce(self.rect, axis=axis, words=words, at=address, dtype=WIDE))

    def each(self, build: Builder, op: str, *operands: Memory | float) -> None:
        """An operation over every slice."""
        with build.loop(self.layout.slices):
            getattr(build, op)(*operands, self.layout.elements)

    def one(self, statistic: Memory) -> Memory:
        """That of the slice of this round."""
        return Memory(statistic.base, stride=0, dtype=WIDE, steps=(1,))

    def normalize(self, x: Placed, unit: Placed, real: Memory, is_centred: bool) -> None:
        """unit = (x - mean) / sqrt(variance + eps) in every slice, with `scale` the factor.

        `first` has the mean then, and `second` the variance. `real` is one for what is no fill of a tile, and zero
        there: fill must not count as far from the mean.
        """
        layout, build = self.layout, self.room.builder()
        if is_centred:
            # Two passes, first the mean: the difference of two large sums would lose the variance of wide rows.
            build.move(self.first, 0.0, layout.slices)
            self.each(build, "add", self.one(self.first), self.one(self.first), layout.of(x))
            self.run(build)
            self.combine(self.first.base, layout.slices, layout.axis)
            build = self.room.builder()
            build.mul(self.first, self.first, 1 / layout.shared, layout.slices)
            self.each(build, "sub", layout.of(unit), layout.of(x), self.one(self.first))
            self.each(build, "mul", layout.of(unit), layout.of(unit), real)
        else:
            build.convert(unit.vector(), x.vector(), x.elements)
        build.move(self.scale, 0.0, layout.slices)
        self.each(build, "fmac", self.one(self.scale), layout.of(unit), layout.of(unit), self.one(self.scale))
        self.run(build)
        self.combine(self.scale.base, layout.slices, layout.axis)
        build = self.room.builder()
        build.mul(self.second, self.scale, 1 / layout.shared, layout.slices)
        build.add(self.scale, self.second, self.eps, layout.slices)
        # Cores have no reciprocal root in one; a number for each slice costs little either way.
        build.special("sqrt", self.scale, self.scale, layout.slices)
        build.special("reciprocal", self.scale, self.scale, layout.slices)
        self.each(build, "mul", layout.of(unit), layout.of(unit), self.one(self.scale))
        self.run(build)

    def pull(self, h: Placed, unit: Placed) -> None:
        """h = scale (h - first - unit second), with the means of a slice that both statistics hold."""
        build, layout = self.room.builder(), self.layout
        # Both statistics lie behind each other, so that one operation makes sums means, with the sign they are used in.
        build.mul(self.first, self.first, -1 / layout.shared, 2 * layout.slices)
        self.each(build, "add", layout.of(h), layout.of(h), self.one(self.first))
        self.each(build, "fmac", layout.of(h), layout.of(unit), self.one(self.second), layout.of(h))
        self.each(build, "mul", layout.of(h), layout.of(h), self.one(self.scale))
        self.run(build)

    def rounded(self, result: Placed, value: Placed) -> None:
        build = self.room.builder()
        build.convert(result.vector(), value.vector(), result.elements)
        self.run(build)

    def kernel(self, operands: tuple[Placed, ...], results: tuple[Placed, ...]) -> MeshKernel:
        return MeshKernel(Seq(tuple(self.phases)), operands, results, self.room.words)


class _Rows(_Norm):
    """Over the elements of each row."""

    def __init__(self, rect: Rect, rows: int, columns: int, dtype: str, eps: float):
        super().__init__(rect.trimmed(columns, rows))
        self.x, self.unit = self.tile("x", rows, columns, dtype), self.tile("unit", rows, columns, WIDE)
        self.real = self.along("real", columns, WIDE, constant=1)
        self.mask = self.real.vector()
        tall, wide = self.x.tile_rows, self.x.tile_columns
        self.lay(_Layout("x", shared=columns, slices=tall, length=wide, step=wide), eps)

    def tile(self, name: str, rows: int, columns: int, dtype: str) -> Placed:
        return self.room.place(name, self.rect, rows, columns, dtype)

    def along(self, name: str, columns: int, dtype: str, constant: float | None = None) -> Placed:
        """One row for all."""
        return self.room.place(name, self.rect, 1, columns, dtype, row_kind="replicated", constant=constant)


def rms_norm(rect: Rect, rows: int, columns: int, dtype: str = "float32", eps: float = EPS) -> MeshKernel:
    """y = x / sqrt(mean of x^2 + eps) gain over each row of x [rows, columns]; gain is [1, columns]."""
    on = _Rows(rect, rows, columns, dtype, eps)
    y, gain = on.tile("y", rows, columns, dtype), on.along("gain", columns, dtype)
    on.normalize(on.x, on.unit, on.mask, is_centred=False)
    build = on.room.builder()
    on.each(build, "mul", on.layout.of(y), on.layout.of(on.unit), gain.vector())
    on.run(build)
    return on.kernel((on.x, gain, on.real), (y,))


def rms_norm_gradient(rect: Rect, rows: int, columns: int, dtype: str = "float32", eps: float = EPS) -> MeshKernel:
    """dx and dgain of `rms_norm` from dy, x and gain."""
    return _row_gradient(rect, rows, columns, dtype, eps, is_centred=False)


def layer_norm_gradient(rect: Rect, rows: int, columns: int, dtype: str = "float32", eps: float = EPS) -> MeshKernel:
    """dx, dgain and dbias of `layer_norm` from dy, x [rows, columns] and gain [1, columns]."""
    return _row_gradient(rect, rows, columns, dtype, eps, is_centred=True)


def _row_gradient(rect: Rect, rows: int, columns: int, dtype: str, eps: float, is_centred: bool) -> MeshKernel:
    on = _Rows(rect, rows, columns, dtype, eps)
    dy, dx = (on.tile(name, rows, columns, dtype) for name in ("dy", "dx"))
    h = on.tile("h", rows, columns, WIDE)
    gain = on.along("gain", columns, dtype)
    sums = [on.along(name, columns, WIDE) for name in ("dgain", "dbias")[: 1 + is_centred]]
    on.normalize(on.x, on.unit, on.mask, is_centred)
    build, layout = on.room.builder(), on.layout
    build.move(on.first, 0.0, 2 * layout.slices)
    on.each(build, "mul", layout.of(h), layout.of(dy), gain.vector())
    if is_centred:
        on.each(build, "add", on.one(on.first), on.one(on.first), layout.of(h))
    on.each(build, "fmac", on.one(on.second), layout.of(h), layout.of(on.unit), on.one(on.second))
    # Gradients of the parameters go over all rows, and so down the columns, while the statistics went along them.
    for total in sums:
        build.move(total.vector(), 0.0, total.elements)
    on.each(build, "fmac", sums[0].vector(), layout.of(dy), layout.of(on.unit), sums[0].vector())
    for total in sums[1:]:
        on.each(build, "add", total.vector(), total.vector(), layout.of(dy))
    on.run(build)
    on.combine(on.first.base, 2 * layout.slices, "x")
    for total in sums:
        on.combine(total.address, total.words, "y")
    on.pull(h, on.unit)
    on.rounded(dx, h)
    return on.kernel((on.x, dy, gain, on.real), (dx, *sums))


class _Channels(_Norm):
    """Over all samples and pixels of each channel."""

    def __init__(self, rect: Rect, samples: int, channels: int, pixels: int, dtype: str, eps: float):
        super().__init__(rect.trimmed(channels, samples))
        self.extents = samples, channels, pixels
        self.x, self.unit = self.tile("x", dtype), self.tile("unit", WIDE)
        self.real = self.room.place("real", rect, samples, 1, WIDE, column_kind="replicated", constant=1)
        parts, slices = self.x.tile_rows, self.x.tile_columns
        # One number for all elements of a sample.
        self.mask = Memory(self.real.base, stride=0, outer=((parts, 1),))
        layout = _Layout(
            "y",
            shared=samples * pixels,
            slices=slices,
            length=pixels,
            step=pixels,
            parts=parts,
            far=slices * pixels,
        )
        self.lay(layout, eps)

    def tile(self, name: str, dtype: str) -> Placed:
        samples, channels, pixels = self.extents
        return self.room.place(name, self.rect, samples, channels, dtype, depth=pixels)

    def parameter(self, name: str, dtype: str, at: Memory | None = None) -> Placed:
        """A number for each channel, on all PEs of a column; `at` a statistic."""
        placed = self.room.place(name, self.rect, 1, self.extents[1], dtype, row_kind="replicated")
        return placed.moved(at.base) if at else placed

    def own(self, parameter: Placed) -> Memory:
        """That of the channel of this round."""
        return parameter.vector(stride=0, steps=(1,))


def batch_norm(
    rect: Rect, samples: int, channels: int, pixels: int, dtype: str = "float32", eps: float = EPS
) -> MeshKernel:
    """y = (x - mean) / sqrt(variance + eps) gain + bias of each channel of x [samples, channels x pixels].

    gain and bias are [1, channels]; so are the results `mean` and `variance`, in float32 and without a correction.
    """
    on = _Channels(rect, samples, channels, pixels, dtype, eps)
    y, gain, bias = on.tile("y", dtype), on.parameter("gain", dtype), on.parameter("bias", dtype)
    mean, variance = on.parameter("mean", WIDE, on.first), on.parameter("variance", WIDE, on.second)
    on.normalize(on.x, on.unit, on.mask, is_centred=True)
    build, unit = on.room.builder(), on.layout.of(on.unit)
    on.each(build, "fmac", unit, unit, on.own(gain), on.own(bias))
    build.convert(y.vector(), on.unit.vector(), y.elements)
    on.run(build)
    return on.kernel((on.x, gain, bias, on.real), (y, mean, variance))


def batch_norm_gradient(
    rect: Rect, samples: int, channels: int, pixels: int, dtype: str = "float32", eps: float = EPS
) -> MeshKernel:
    """dx, dgain and dbias of `batch_norm` from dy, x and gain; the last two are in float32."""
    on = _Channels(rect, samples, channels, pixels, dtype, eps)
    dy, dx, gain, h = on.tile("dy", dtype), on.tile("dx", dtype), on.parameter("gain", dtype), on.tile("h", WIDE)
    dbias, dgain = on.parameter("dbias", WIDE), on.parameter("dgain", WIDE)
    on.normalize(on.x, on.unit, on.mask, is_centred=True)
    build, layout = on.room.builder(), on.layout
    build.move(on.first, 0.0, 2 * layout.slices)
    on.each(build, "add", on.one(on.first), on.one(on.first), layout.of(dy))
    on.each(build, "fmac", on.one(on.second), layout.of(dy), layout.of(on.unit), on.one(on.second))
    on.run(build)
    on.combine(on.first.base, 2 * layout.slices, "y")
    # Both sums are the gradients of the parameters; the gain goes into the factor, not into every element.
    build = on.room.builder()
    build.move(dbias.vector(), on.first, layout.slices)
    build.move(dgain.vector(), on.second, layout.slices)
    build.mul(on.scale, on.scale, gain.vector(), layout.slices)
    build.convert(h.vector(), dy.vector(), h.elements)
    on.run(build)
    on.pull(h, on.unit)
    on.rounded(dx, h)
    return on.kernel((on.x, dy, gain, on.real), (dx, dgain, dbias))
