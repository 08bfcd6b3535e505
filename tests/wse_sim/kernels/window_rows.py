"""Cases of kernels over windows: convolution with both gradients, pooling."""

import numpy as np
from hypothesis import strategies as st

from tests.wse_sim.kernels.kernel_draws import Case, Draw, Expected, Row, wide
from wse_sim.kernels import KERNELS, Images, Window, cut, window_numbers
from wse_sim.layout import Rect


def window(on: Draw, most: int = 3) -> tuple[Window, tuple[int, int]]:
    """A window, and the extents of images that it fits into."""

    def pair(low: int, high: int) -> tuple[int, int]:
        return on.draw(st.integers(low, high)), on.draw(st.integers(low, high))

    kernel, stride, dilation = pair(1, most), pair(1, 3), pair(1, 2)
    # No more padding than taps, so that no place sees padding alone, as pooling requires.
    padding = tuple((on.draw(st.integers(0, (k - 1) // 2)),) * 2 for k in kernel)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    extents = tuple(max(1, r - 2 * p[0]) + on.draw(st.integers(0, 3)) for r, p in zip(reach, padding, strict=True))
    return Window(kernel, stride, padding, dilation), extents


def sights(x: np.ndarray, window: Window, value: float = 0) -> np.ndarray:
    """[..., places down and across, taps down and across] of images [..., down, across]."""
    x = np.pad(x, [(0, 0)] * (x.ndim - 2) + list(window.padding), constant_values=value)
    axes = zip(x.shape[-2:], window.kernel, window.stride, window.dilation, strict=True)
    at = [np.arange(0, e - d * (k - 1), s)[:, None] + d * np.arange(k) for e, k, s, d in axes]
    return x[..., at[0][:, None, :, None], at[1][None, :, None, :]]


def trilinear(name: str) -> Row:
    """Each face of a convolution is the derivative of sum(y g) by one of its operands: of ones, in turn."""

    def row(on: Draw) -> Case:
        rect, (frame, extents) = on.rect(), window(on)
        samples, channels, outputs = (on.draw(st.integers(1, 5)) for _ in range(3))
        places = frame.places(extents)
        x, w = on.numbers(samples, channels, *extents), on.numbers(outputs, channels, *frame.kernel)
        g = on.numbers(samples, outputs, *places)
        exact, scale = (faces(frame, *operands)[name] for operands in (wide(x, w, g), wide(*map(np.abs, (x, w, g)))))
        terms = {"y": channels * frame.taps, "x": outputs * frame.taps, "weights": g[:, 0].size}[name]
        bands = cut(rect.height, samples, extents, frame)
        rows = {"x": bands.rows_in, "g": bands.rows_out, "y": bands.rows_out}
        values = {"x": bands.lines_of(x, rows["x"]), "weights": w, "g": bands.lines_of(g, rows["g"])}
        values.pop(name if name != "y" else "g")
        kernel = KERNELS[FACES[name]](rect, Images(samples, channels, outputs, extents), frame, on.dtype)
        if name == "weights":
            exact, scale = (a.reshape(outputs, -1) for a in (exact, scale))
        else:
            # Rows that only fill up a band, and samples that fill up a group, may hold anything.
            shape = (samples, outputs, *places) if name == "y" else x.shape
            exact, scale, real = (bands.lines_of(a.reshape(shape), rows[name]) for a in (exact, scale, scale * 0 + 1))
            scale = np.where(real, scale, np.inf)
            exact, scale = (a.reshape(-1, a.shape[2] * a.shape[3]) for a in (exact, scale))
        expected = Expected(exact, scale, on.dtype, own=1, wide=terms + rect.height)
        return Case(kernel, values, {name: expected})

    return row


FACES = {
    "y": "channel_convolution",
    "x": "convolution_input_gradient",
    "weights": "convolution_weight_gradient",
}


def faces(frame: Window, x: np.ndarray, w: np.ndarray, g: np.ndarray) -> dict[str, np.ndarray]:
    seen = sights(x, frame)
    # Where each tap looks, as a matrix from pixels: its transpose is the gradient by the pixels.
    looks = sights(np.eye(x[0, 0].size).reshape(-1, *x.shape[2:]), frame)
    return {
        "y": np.einsum("ncijyx,ocyx->noij", seen, w),
        "x": np.einsum("pijyx,ocyx,noij->ncp", looks, w, g),
        "weights": np.einsum("ncijyx,noij->ocyx", seen, g),
    }


def pooled(on: Draw) -> tuple[Rect, Window, np.ndarray]:
    (frame, extents), rows, columns = window(on), on.draw(st.integers(1, 4)), on.draw(st.integers(1, 4))
    return on.rect(), frame, on.numbers(rows, columns, *extents)


def window_sum(on: Draw) -> Case:
    rect, frame, x = pooled(on)
    exact, scale = (sights(a.astype(np.float64), frame).sum((-2, -1)).reshape(len(x), -1) for a in (x, np.abs(x)))
    return Case(
        KERNELS["window_sum"](rect, *x.shape[:2], x.shape[2:], frame, on.dtype),
        {"x": x},
        {"y": Expected(exact, scale, on.dtype, own=1, wide=frame.taps)},
    )


def window_spread(on: Draw) -> Case:
    rect, frame, x = pooled(on)
    g = on.numbers(*x.shape[:2], *frame.places(x.shape[2:]))
    looks = sights(np.eye(x[0, 0].size).reshape(-1, *x.shape[2:]), frame)
    exact, scale = (np.einsum("pijyx,ncij->ncp", looks, a.astype(np.float64)) for a in (g, np.abs(g)))
    flat = len(x), -1
    return Case(
        KERNELS["window_spread"](rect, *x.shape[:2], x.shape[2:], frame, on.dtype),
        {"y": g},
        {"x": Expected(exact.reshape(flat), scale.reshape(flat), on.dtype, own=1, wide=frame.taps)},
    )


def window_argmax(on: Draw) -> Case:
    """Of numbers that are often equal: the first one wins."""
    rect, frame, x = pooled(on)
    # No zero with a sign: which of two zeros is the larger one no reading says.
    x = np.round(x) + np.float32(0)
    seen = sights(x, frame, -np.inf).reshape(*x.shape[:2], *frame.places(x.shape[2:]), -1)
    numbers = sights(np.arange(x[0, 0].size).reshape(x.shape[2:]), frame, -1)
    numbers = numbers.reshape(*numbers.shape[:2], -1)
    first = np.take_along_axis(np.broadcast_to(numbers, seen.shape), seen.argmax(-1)[..., None], -1)
    return Case(
        KERNELS["window_argmax"](rect, *x.shape[:2], x.shape[2:], frame, on.dtype),
        {"x": x, **window_numbers(x.shape[2:], frame)},
        {
            "places": Expected(first.reshape(len(x), -1), 0, "float32"),
            "y": Expected(seen.max(-1).reshape(len(x), -1), 0, on.dtype),
        },
    )


WINDOW_ROWS: dict[str, Row] = {
    **{kernel: trilinear(name) for name, kernel in FACES.items()},
    "window_sum": window_sum,
    "window_spread": window_spread,
    "window_argmax": window_argmax,
}
