"""Normalizations and their gradients: layer norm and RMS norm of rows, and batch norm of channels.

For layer norm and RMS norm, rows are distributed along y and their elements along x. So the sums of a row go along x,
and the gradients of parameters along y. For batch norm, samples are distributed along y and channels along x, so that
all sums go along y. Statistics and sums are in float32. The gradient kernels get x again, and no statistic is kept from
the forward pass.
"""

from wse_sim.isa.builder import Builder
from wse_sim.isa.core_program import Memory
from wse_sim.kernels.kernel import WIDE, MeshKernel, Placed, round_to
from wse_sim.kernels.rows.softmax import Rows, Slices
from wse_sim.layout import Rect, ceil_div

EPS = 1e-5
"""Default value of `eps`, as in PyTorch's layer norm and batch norm."""


class Channels(Slices):
    """Slices that are channels: each has all samples and pixels of a channel.

    Samples are distributed along y and channels along x; `rect` is limited to as many PEs as there are of each.
    """

    def __init__(self, rect: Rect, samples: int, channels: int, pixels: int):
        rect = rect.limit_size(channels, samples)
        self.extents, self.parts = (samples, channels, pixels), ceil_div(samples, rect.height)
        slices, elements = ceil_div(channels, rect.width), self.parts * pixels
        super().__init__(rect, "y", slices=slices, elements=elements, shared=samples * pixels)

    def tile(self, name: str, dtype: str, fill: float = 0) -> Placed:
        """Allocate the pixels of all channels and samples of a PE."""
        samples, channels, pixels = self.extents
        return self.room.place(name, self.rect, samples, channels, dtype, depth=pixels, fill=fill)

    def parameter(self, name: str, dtype: str) -> Placed:
        """Allocate a number for each channel, on all PEs of a column."""
        return self.room.place(name, self.rect, 1, self.extents[1], dtype, row_kind="replicated")

    def mask(self) -> Placed:
        """Allocate an operand with a one for each sample, and zero for padding."""
        return self.room.place("real", self.rect, self.extents[0], 1, WIDE, column_kind="replicated", constant=1)

    def of(self, placed: Placed) -> Memory:
        """Return what belongs to the channel of the current round of a loop over channels, as an operand for its
        pixels.

        It is the pixels of all samples for a tile, the channel's number for a parameter, and for the mask the number of
        each sample, repeated for its pixels.
        """
        if placed.row_kind == "replicated":
            return placed.vector(stride=0, steps=(1,))
        if placed.column_kind == "replicated":
            return Memory(placed.base, stride=0, outer=((self.parts, 1),))
        pixels = self.extents[2]
        outer = ((self.parts, self.slices * pixels),) if self.parts > 1 else ()
        return Memory(placed.base, dtype=placed.dtype, steps=(pixels,), outer=outer)


class _Norm:
    """Slices to normalize: the operand `x`, the result `unit`, and their statistics.

    `is_centred` is False for a normalization without the mean.
    """

    def __init__(self, on: Slices, dtype: str, eps: float, is_centred: bool = True):
        self.on, self.eps, self.is_centred = on, eps, is_centred
        self.x, self.unit, self.real = on.tile("x", dtype), on.tile("unit", WIDE), on.mask()
        self.first, self.second = on.statistics(2)
        (self.scale,) = on.statistics(1)

    def normalize(self) -> Builder:
        """Add the phases of unit = (x - mean) / sqrt(variance + eps), and return the builder of the next phase.

        Afterwards `first` has the mean, `second` the variance and `scale` 1 / sqrt(variance + eps). Without centring
        there is no mean, and `second` is the mean of x^2.
        """
        on, scale = self.on, self.scale
        build = squares(on, self.x, self.unit, self.real, self.first if self.is_centred else None, scale)
        build.mul(self.second, scale, 1 / on.shared, on.slices)
        build.add(scale, self.second, self.eps, on.slices)
        times_root(on, build, self.unit, scale)
        return on.run(build)

    def pull(self, build: Builder, h: Placed) -> Builder:
        """Append h = scale (h - first - unit second), and return the builder of the next phase.

        `first` and `second` have sums over the slice, which are divided by its number of elements first. Both are
        overwritten. The instructions so far are added as a phase.
        """
        on = self.on
        # Both statistics are adjacent: one operation converts both sums to negative means.
        build.mul(self.first, self.first, -1 / on.shared, 2 * on.slices)
        on.each(build, "add", h, h, self.first)
        on.each(build, "fmac", h, self.unit, self.second, h)
        on.each(build, "mul", h, h, self.scale)
        return on.run(build)


def squares(on: Slices, x: Placed, unit: Placed, real: Placed, mean: Memory | None, total: Memory) -> Builder:
    """Add the phases of unit = x - mean, and of `total`, the sum of its squares. Return the builder of the next phase.

    `mean` is computed and stored too. If it is None, unit = x. The mask `real` is 1, and 0 for padding, which must not
    contribute to the sum. Both sums are over all PEs of a slice, one number for each slice.
    """
    build = on.room.builder()
    if mean:
        # Two passes, first the mean: the difference of two large sums would lose the variance of wide rows.
        build.move(mean, 0.0, on.slices)
        on.each(build, "add", mean, mean, x)
        build = on.run(build)
        on.combine(mean.base, on.slices)
        build.mul(mean, mean, 1 / on.shared, on.slices)
        on.each(build, "sub", unit, x, mean)
        on.each(build, "mul", unit, unit, real)
    else:
        build.convert(unit.vector(), x.vector(), x.elements)
    build.move(total, 0.0, on.slices)
    on.each(build, "fmac", total, unit, unit, total)
    build = on.run(build)
    on.combine(total.base, on.slices)
    return build


def times_root(on: Slices, build: Builder, unit: Placed, scale: Memory) -> None:
    """Append scale = 1 / sqrt(scale), one number for each slice, and unit = unit scale."""
    # Cores have no reciprocal square root; with one number for each slice the cost is small.
    build.special("sqrt", scale, scale, on.slices)
    build.special("reciprocal", scale, scale, on.slices)
    on.each(build, "mul", unit, unit, scale)


def layer_norm(
    rect: Rect, rows: int, columns: int, dtype: str = "float32", eps: float = EPS, groups: int = 1
) -> MeshKernel:
    """Return a kernel that computes y = (x - mean) / sqrt(variance + eps) * gain + bias, over each row.

    x and y are [rows, columns], gain and bias [1, columns]. The variance is the mean of squared differences. `groups`
    is as in `Rows`.
    """
    on = Rows(rect, rows, columns, groups)
    x, y = on.tile("x", dtype), on.tile("y", dtype)
    # For float32, the result is computed in its own tile.
    work = on.room.wide(y)
    gain, bias, real = on.parameter("gain", dtype), on.parameter("bias", dtype), on.mask()
    (mean,), (spread,) = on.statistics(1), on.statistics(1)
    build = squares(on, x, work, real, mean, spread)
    build.fmac(spread, spread, 1 / columns, eps, on.slices)
    times_root(on, build, work, spread)
    on.each(build, "fmac", work, work, gain, bias)
    return on.finish(round_to(build, y, work), (x, gain, bias, real), (y,))


def rms_norm(rect: Rect, rows: int, columns: int, dtype: str = "float32", eps: float = EPS) -> MeshKernel:
    """Return a kernel that computes y = x / sqrt(mean of x^2 + eps) gain over each row of x [rows, columns].

    `gain` is [1, columns]. At most `columns` x `rows` PEs are used.
    """
    on = Rows(rect.limit_size(columns, rows), rows, columns)
    norm = _Norm(on, dtype, eps, is_centred=False)
    y, gain = on.tile("y", dtype), on.parameter("gain", dtype)
    build = norm.normalize()
    on.each(build, "mul", y, norm.unit, gain)
    return on.finish(build, (norm.x, gain, norm.real), (y,))


def rms_norm_gradient(rect: Rect, rows: int, columns: int, dtype: str = "float32", eps: float = EPS) -> MeshKernel:
    """Return a kernel that computes dx and dgain of `rms_norm` from dy, x [rows, columns] and gain [1, columns].

    dgain is float32.
    """
    return _row_gradient(rect, rows, columns, dtype, eps, is_centred=False)


def layer_norm_gradient(rect: Rect, rows: int, columns: int, dtype: str = "float32", eps: float = EPS) -> MeshKernel:
    """Return a kernel that computes dx, dgain and dbias of `layer_norm` from dy, x and gain.

    dy, x and dx are [rows, columns]; gain, dgain and dbias are [1, columns]. dgain and dbias are float32 sums over all
    rows. Mean and variance are computed from x again.
    """
    return _row_gradient(rect, rows, columns, dtype, eps, is_centred=True)


def _row_gradient(rect: Rect, rows: int, columns: int, dtype: str, eps: float, is_centred: bool) -> MeshKernel:
    """Return the gradient kernel of layer norm (`is_centred`) or RMS norm; only the former has the result dbias."""
    on = Rows(rect.limit_size(columns, rows), rows, columns)
    norm = _Norm(on, dtype, eps, is_centred)
    dy, dx, h, gain = on.tile("dy", dtype), on.tile("dx", dtype), on.tile("h", WIDE), on.parameter("gain", dtype)
    sums = [on.parameter(name, WIDE) for name in ("dgain", "dbias")[: 1 + is_centred]]
    build = norm.normalize()
    build.move(norm.first, 0.0, 2 * on.slices)
    on.each(build, "mul", h, dy, gain)
    if is_centred:
        on.each(build, "add", norm.first, norm.first, h)
    on.each(build, "fmac", norm.second, h, norm.unit, norm.second)
    # The gradients of the parameters are sums over all rows, along columns of PEs; the statistics are sums along rows.
    for total in sums:
        build.move(total.vector(), 0.0, total.elements)
    on.each(build, "fmac", sums[0], dy, norm.unit, sums[0])
    for total in sums[1:]:
        on.each(build, "add", total, total, dy)
    build = on.run(build)
    on.combine(norm.first.base, 2 * on.slices)
    for total in sums:
        on.combine(total.address, total.words, axis="y")
    build = norm.pull(build, h)
    build.convert(dx.vector(), h.vector(), h.elements)
    return on.finish(build, (norm.x, dy, gain, norm.real), (dx, *sums))


def batch_norm(
    rect: Rect, samples: int, channels: int, pixels: int, dtype: str = "float32", eps: float = EPS
) -> MeshKernel:
    """Return a kernel that computes batch norm y = (x - mean) / sqrt(variance + eps) gain + bias for each channel.

    x and y are [samples, channels x pixels]. gain and bias are [1, channels]. So are the results `mean` and `variance`,
    in float32; the variance is biased (divided by the number of elements).
    """
    on = Channels(rect, samples, channels, pixels)
    norm = _Norm(on, dtype, eps)
    y, gain, bias = on.tile("y", dtype), on.parameter("gain", dtype), on.parameter("bias", dtype)
    mean, variance = (
        on.parameter("mean", WIDE).moved(norm.first.base),
        on.parameter("variance", WIDE).moved(norm.second.base),
    )
    build = norm.normalize()
    on.each(build, "fmac", norm.unit, norm.unit, gain, bias)
    build.convert(y.vector(), norm.unit.vector(), y.elements)
    return on.finish(build, (norm.x, gain, bias, norm.real), (y, mean, variance))


def batch_norm_gradient(
    rect: Rect, samples: int, channels: int, pixels: int, dtype: str = "float32", eps: float = EPS
) -> MeshKernel:
    """Return a kernel that computes dx, dgain and dbias of `batch_norm` from dy, x and gain.

    dy, x and dx are [samples, channels x pixels]. dgain and dbias are [1, channels] in float32. Mean and variance are
    computed from x again.
    """
    on = Channels(rect, samples, channels, pixels)
    norm = _Norm(on, dtype, eps)
    dy, dx, gain, h = on.tile("dy", dtype), on.tile("dx", dtype), on.parameter("gain", dtype), on.tile("h", WIDE)
    dbias, dgain = on.parameter("dbias", WIDE), on.parameter("dgain", WIDE)
    build = norm.normalize()
    build.move(norm.first, 0.0, 2 * on.slices)
    on.each(build, "add", norm.first, norm.first, dy)
    on.each(build, "fmac", norm.second, dy, norm.unit, norm.second)
    build = on.run(build)
    on.combine(norm.first.base, 2 * on.slices)
    # Both sums are the gradients of the parameters; the gain is multiplied into the factor, not into every element.
    build.move(dbias.vector(), norm.first, on.slices)
    build.move(dgain.vector(), norm.second, on.slices)
    build.mul(norm.scale, norm.scale, gain.vector(), on.slices)
    build.convert(h.vector(), dy.vector(), h.elements)
    build = norm.pull(on.run(build), h)
    build.convert(dx.vector(), h.vector(), h.elements)
    return on.finish(build, (norm.x, dy, gain, norm.real), (dx, dgain, dbias))
