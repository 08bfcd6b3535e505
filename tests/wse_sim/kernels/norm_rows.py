"""Cases of normalizations and their gradients."""

import numpy as np
from hypothesis import strategies as st

from tests.wse_sim.kernels.kernel_draws import Case, Draw, Expected, Row, wide
from wse_sim.kernels import KERNELS

EPS = 1e-5


class Unit:
    """What x has become over some axes, with its factor, and how large the errors of elements are beside theirs."""

    def __init__(self, x: np.ndarray, axes: tuple[int, ...], is_centred: bool = True):
        x = x.astype(np.float64)
        self.mean = x.mean(axes, keepdims=True) * is_centred
        self.variance = ((x - self.mean) ** 2).mean(axes, keepdims=True)
        self.factor = 1 / np.sqrt(self.variance + EPS)
        self.value = (x - self.mean) * self.factor
        reach = np.abs(x).max(axes, keepdims=True) * self.factor
        self.size = (1 + reach) * (1 + np.abs(self.value).max(axes, keepdims=True))


def rms_norm(on: Draw) -> Case:
    rect, rows, columns = on.rect(), on.extent(), on.extent()
    x, gain = on.numbers(rows, columns), on.numbers(1, columns)
    unit = Unit(x, (1,), is_centred=False)
    units = 2 * (columns + rect.width) + 8
    y = Expected(unit.value * gain, unit.size * np.abs(gain), on.dtype, own=float(on.dtype != "float32"), wide=units)
    return Case(KERNELS["rms_norm"](rect, rows, columns, on.dtype), {"x": x, "gain": gain}, {"y": y})


def pulled(unit: Unit, h: np.ndarray, axes: tuple[int, ...], is_centred: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """The gradient by x from that by what it became, and the size of its terms with their errors."""

    def mean(a: np.ndarray) -> np.ndarray:
        return a.mean(axes, keepdims=True)

    sizes = np.abs(h) + mean(np.abs(h)) + unit.size * mean(np.abs(h) * unit.size)
    return unit.factor * (h - mean(h) * is_centred - unit.value * mean(h * unit.value)), unit.factor * sizes * unit.size


def row_gradient(name: str) -> Row:
    is_centred = name == "layer_norm_gradient"

    def row(on: Draw) -> Case:
        rect, rows, columns = on.rect(), on.extent(), on.extent()
        operands = on.numbers(rows, columns), on.numbers(rows, columns), on.numbers(1, columns)
        x, dy, gain = wide(*operands)
        unit = Unit(x, (1,), is_centred)
        dx, sizes = pulled(unit, dy * gain, (1,), is_centred)
        units, own = 4 * (columns + rect.width) + rows + rect.height + 20, float(on.dtype != "float32")
        expected = {
            "dx": Expected(dx, sizes, on.dtype, own=own, wide=units),
            "dgain": Expected((dy * unit.value).sum(0), (np.abs(dy) * unit.size).sum(0), "float32", own=units),
        }
        if is_centred:
            expected["dbias"] = Expected(dy.sum(0), np.abs(dy).sum(0), "float32", own=rows + rect.height)
        values = dict(zip(("x", "dy", "gain"), operands, strict=True))
        return Case(KERNELS[name](rect, rows, columns, on.dtype), values, expected)

    return row


def images(on: Draw) -> tuple[np.ndarray, np.ndarray]:
    """Of samples, channels and pixels; and a parameter of each channel."""
    shape = tuple(on.draw(st.integers(1, 5)) for _ in range(3))
    return on.numbers(*shape), on.numbers(1, shape[1])


def batch_norm(on: Draw) -> Case:
    (x, gain), rect = images(on), on.rect()
    bias, units = on.numbers(*gain.shape), 2 * (x[:, 0].size + rect.height) + 8
    unit, (g, b) = Unit(x, (0, 2)), wide(gain[..., None], bias[..., None])
    flat = len(x), -1
    y = Expected(
        (unit.value * g + b).reshape(flat),
        np.broadcast_to(unit.size * np.abs(g) + np.abs(b), x.shape).reshape(flat),
        on.dtype,
        own=float(on.dtype != "float32"),
        wide=units,
    )
    most = np.abs(x).max()
    return Case(
        KERNELS["batch_norm"](rect, *x.shape, on.dtype),
        {"x": x, "gain": gain, "bias": bias},
        {
            "y": y,
            "mean": Expected(unit.mean[..., 0], most, "float32", own=units),
            "variance": Expected(unit.variance[..., 0], most**2, "float32", own=2 * units),
        },
    )


def batch_norm_gradient(on: Draw) -> Case:
    (x, gain), rect = images(on), on.rect()
    dy, units = on.numbers(*x.shape), 4 * (x[:, 0].size + rect.height) + 20
    unit, (g, slope) = Unit(x, (0, 2)), wide(gain[..., None], dy)
    dx, sizes = pulled(unit, slope * g, (0, 2))
    flat = len(x), -1
    return Case(
        KERNELS["batch_norm_gradient"](rect, *x.shape, on.dtype),
        {"x": x, "dy": dy, "gain": gain},
        {
            "dx": Expected(
                dx.reshape(flat), sizes.reshape(flat), on.dtype, own=float(on.dtype != "float32"), wide=units
            ),
            "dgain": Expected(
                (slope * unit.value).sum((0, 2)), (np.abs(slope) * unit.size).sum((0, 2)), "float32", own=units
            ),
            "dbias": Expected(slope.sum((0, 2)), np.abs(slope).sum((0, 2)), "float32", own=units),
        },
    )


NORM_ROWS: dict[str, Row] = {
    "rms_norm": rms_norm,
    **{name: row_gradient(name) for name in ("rms_norm_gradient", "layer_norm_gradient")},
    "batch_norm": batch_norm,
    "batch_norm_gradient": batch_norm_gradient,
}
