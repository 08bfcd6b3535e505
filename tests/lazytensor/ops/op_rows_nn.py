"""Rows of the operations behind layers: convolution, windows, places. The formulas go element by element."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from lazytensor.ir.types import Type
from tests.lazytensor.ops.op_rows import Case, Draw, Row, Shape, loss_case


def _window(d: Draw, rank: int, most: int = 2) -> dict[str, Any]:
    def some(low: int, high: int) -> Shape:
        return tuple(int(v) for v in d.rng.integers(low, high + 1, rank))

    kernel = some(1, most)
    padding = tuple((int(d.rng.integers(0, k)), int(d.rng.integers(0, k))) for k in kernel)
    return {"kernel": kernel, "stride": some(1, 2), "padding": padding}


def _conv_parts(d: Draw) -> tuple[Shape, Shape, Shape, dict[str, Any]]:
    """The shapes of input, weight and output, and the attributes."""
    rank, groups = int(d.rng.integers(1, 3)), int(d.rng.integers(1, 3))
    window = _window(d, rank)
    kernel = window.pop("kernel")
    dilation = tuple(int(v) for v in d.rng.integers(1, 3, rank))
    extents = tuple(int(v) for v in d.rng.integers(3, 5, rank))
    reach = zip(extents, kernel, dilation, window["padding"], window["stride"], strict=True)
    out = tuple((e + sum(p) - (k - 1) * s - 1) // t + 1 for e, k, s, p, t in reach)
    x, w = (2, groups * int(d.rng.integers(1, 3)), *extents), groups * int(d.rng.integers(1, 3))
    return x, (w, x[1] // groups, *kernel), (2, w, *out), {**window, "dilation": dilation, "groups": groups}


def _products(x: Shape, w: Shape, y: Shape, attrs: dict[str, Any]) -> Iterator[tuple[Shape, Shape, Shape]]:
    """The places in input, weight and output of every product of a convolution."""
    steps = list(zip(attrs["stride"], attrs["dilation"], attrs["padding"], strict=True))
    for n, o, *at in np.ndindex(*y):
        for c, *tap in np.ndindex(*w[1:]):
            place = [a * s + t * d - p[0] for a, t, (s, d, p) in zip(at, tap, steps, strict=True)]
            if all(0 <= p < e for p, e in zip(place, x[2:], strict=True)):
                channel = o // (w[0] // attrs["groups"]) * w[1] + c
                yield (n, channel, *place), (o, c, *tap), (n, o, *at)


def _conv_case(d: Draw) -> Case:
    x, w, _, attrs = _conv_parts(d)
    return [d.values(x), d.values(w)], attrs


def _conv_shape(x: np.ndarray, w: np.ndarray, attrs: dict[str, Any]) -> Shape:
    parts = zip(x.shape[2:], w.shape[2:], attrs["stride"], attrs["dilation"], attrs["padding"], strict=True)
    return (x.shape[0], w.shape[0], *(len(range(0, e + sum(p) - (k - 1) * d, s)) for e, k, s, d, p in parts))


def _conv(x: np.ndarray, w: np.ndarray, **attrs: Any) -> np.ndarray:
    y = np.zeros(_conv_shape(x, w, attrs))
    for i, k, o in _products(x.shape, w.shape, y.shape, attrs):
        y[o] += x[i] * w[k]
    return y


def _conv_input_case(d: Draw) -> Case:
    x, w, y, attrs = _conv_parts(d)
    return [d.values(y), d.values(w)], {"extents": x[2:], **attrs}


def _conv_input(g: np.ndarray, w: np.ndarray, *, extents: Shape, **attrs: Any) -> np.ndarray:
    x = np.zeros((g.shape[0], w.shape[1] * attrs["groups"], *extents))
    for i, k, o in _products(x.shape, w.shape, g.shape, attrs):
        x[i] += g[o] * w[k]
    return x


def _conv_weight_case(d: Draw) -> Case:
    x, w, y, attrs = _conv_parts(d)
    return [d.values(x), d.values(y)], {"kernel": w[2:], **attrs}


def _conv_weight(x: np.ndarray, g: np.ndarray, *, kernel: Shape, **attrs: Any) -> np.ndarray:
    w = np.zeros((g.shape[1], x.shape[1] // attrs["groups"], *kernel))
    for i, k, o in _products(x.shape, w.shape, g.shape, attrs):
        w[k] += g[o] * x[i]
    return w


def _windows(extents: Shape, *, kernel: Shape, stride: Shape, padding: Any, dilation: Any = None) -> list[list[range]]:
    """For each dimension the places under the window at each of its stops; some may lie outside."""
    dilation = dilation or (1,) * len(kernel)
    return [
        [range(a - p[0], a - p[0] + (k - 1) * d + 1, d) for a in range(0, e + sum(p) - (k - 1) * d, s)]
        for e, k, s, p, d in zip(extents, kernel, stride, padding, dilation, strict=True)
    ]


def _boxes(extents: Shape, **attrs: Any) -> Iterator[tuple[Shape, list[Shape]]]:
    """Each stop of the window with the places inside under it."""
    stops = _windows(extents, **attrs)
    for at in itertools.product(*(range(len(s)) for s in stops)):
        box = itertools.product(*(s[i] for s, i in zip(stops, at, strict=True)))
        yield at, [b for b in box if all(0 <= p < e for p, e in zip(b, extents, strict=True))]


def _pool_case(d: Draw) -> Case:
    rank = int(d.rng.integers(1, 3))
    return [d.distinct((2, *(int(v) for v in d.rng.integers(3, 5, rank))))], _window(d, rank, 3)


def _argmax_case(d: Draw) -> Case:
    arrays, attrs = _pool_case(d)
    rank = len(attrs["kernel"])
    return arrays, {**attrs, "kernel": (2,) * rank, "padding": ((1, 0),) * rank, "dilation": (d.one(1, 2),) * rank}


def _window_sum(x: np.ndarray, **attrs: Any) -> np.ndarray:
    out = np.zeros((x.shape[0], *map(len, _windows(x.shape[1:], **attrs))), x.dtype)
    for at, box in _boxes(x.shape[1:], **attrs):
        out[(slice(None), *at)] = sum(x[(slice(None), *b)] for b in box)
    return out


def _spread_case(d: Draw) -> Case:
    (x,), attrs = _pool_case(d)
    shape = (2, *map(len, _windows(x.shape[1:], **attrs)))
    return [d.values(shape)], {"extents": x.shape[1:], **attrs}


def _window_spread(g: np.ndarray, *, extents: Shape, **attrs: Any) -> np.ndarray:
    out = np.zeros((g.shape[0], *extents), g.dtype)
    for at, box in _boxes(extents, **attrs):
        for b in box:
            out[(slice(None), *b)] += g[(slice(None), *at)]
    return out


def _window_argmax(x: np.ndarray, **attrs: Any) -> np.ndarray:
    out = np.zeros((x.shape[0], *map(len, _windows(x.shape[1:], **attrs))), np.int64)
    for n in range(x.shape[0]):
        for at, box in _boxes(x.shape[1:], **attrs):
            out[(n, *at)] = np.ravel_multi_index(max(box, key=lambda b: x[(n, *b)]), x.shape[1:])
    return out


def _regions_case(d: Draw) -> Case:
    return [d.distinct((2, 4, 5))], {"regions": (((0, 2), (1, 4)), ((0, 5), (2, 3), (4, 5)))}


def _region_argmax(x: np.ndarray, *, regions: Any) -> np.ndarray:
    out = np.zeros((x.shape[0], *map(len, regions)), np.int64)
    for n, i, j in np.ndindex(*out.shape):
        box = itertools.product(range(*regions[0][i]), range(*regions[1][j]))
        out[n, i, j] = np.ravel_multi_index(max(box, key=lambda b: x[(n, *b)]), x.shape[1:])
    return out


def _at_case(d: Draw) -> Case:
    return [d.values((2, 3, 5)), d.rng.integers(0, 5, (2, 3, 4))], {}


def _grid_modes(d: Draw) -> dict[str, Any]:
    mode, padding = d.one("bilinear", "bicubic", "nearest"), d.one("zeros", "border", "reflection")
    return {"mode": mode, "padding_mode": padding, "align_corners": d.flag()}


def _grid_case(d: Draw, *first: tuple[int, ...], **attrs: Any) -> Case:
    """Points away from the kinks, which are at the pixels, their edges and the border."""
    attrs |= _grid_modes(d)
    scale, shift = ((3, 4), 0.0) if attrs["align_corners"] else ((4, 5), 0.5)
    pixels = d.rng.integers(-2, 7, (2, 3, 2, 2)) + d.rng.choice([-1, 1], (2, 3, 2, 2)) * d.rng.uniform(0.1, 0.4)
    grid = d.cast((pixels + shift) / (np.array(scale[::-1]) / 2) - 1)
    return [*(d.values(shape) for shape in first), grid], attrs


def _pixel_weight(t: float, mode: str) -> float:
    """The weight of a pixel at the distance `t`."""
    t = abs(t)
    if mode == "nearest":
        return float(t < 0.5)
    if mode == "bilinear":
        return max(0.0, 1 - t)
    if t < 1:
        return 1.25 * t**3 - 2.25 * t**2 + 1
    return -0.75 * t**3 + 3.75 * t**2 - 6 * t + 3 if t < 2 else 0.0


def _moved(p: float, extent: int, padding: str, aligned: bool) -> float:
    if padding == "reflection":
        low, high = (0.0, extent - 1.0) if aligned else (-0.5, extent - 0.5)
        while not low <= p <= high:
            p = 2 * low - p if p < low else 2 * high - p
    return p if padding == "zeros" else min(max(p, 0.0), extent - 1.0)


def _axis_weights(c: float, extent: int, mode: str, padding_mode: str, align_corners: bool) -> np.ndarray:
    """The weight of each pixel of a dimension for the coordinate `c`."""
    at = (c + 1) * (extent - 1) / 2 if align_corners else (c + 1) * extent / 2 - 0.5
    weights = np.zeros(extent)
    if mode != "bicubic":
        at = _moved(at, extent, padding_mode, align_corners)
        return np.array([_pixel_weight(at - k, mode) for k in range(extent)])
    for k in range(math.floor(at) - 1, math.floor(at) + 3):
        place = _moved(float(k), extent, padding_mode, align_corners)
        if 0 <= place < extent:
            weights[int(place)] += _pixel_weight(at - k, mode)
    return weights


def _grid_weights(grid: np.ndarray, **modes: Any) -> np.ndarray:
    """The weight of each pixel of a 4 x 5 image for each point: [N, H', W', 4, 5]."""
    pairs = [np.outer(_axis_weights(y, 4, **modes), _axis_weights(x, 5, **modes)) for x, y in grid.reshape(-1, 2)]
    return np.array(pairs).reshape(*grid.shape[:-1], 4, 5)


def _grid_slopes(g: np.ndarray, x: np.ndarray, grid: np.ndarray, **modes: Any) -> np.ndarray:
    """Differences over four points, which are exact for the cubic polynomials between the kinks."""
    slopes = []
    for step in 0.01 * np.eye(2):
        near = _grid_weights(grid + step, **modes) - _grid_weights(grid - step, **modes)
        far = _grid_weights(grid + 2 * step, **modes) - _grid_weights(grid - 2 * step, **modes)
        change = (8 * near - far) / 0.12
        slopes.append(np.einsum("nchw,ncij,nhwij->nhw", g, x, change))
    return np.stack(slopes, -1)


def _alignment_case(d: Draw, has_slopes: bool = False) -> Case:
    """Label sequences of up to two of the classes 1 and 2, with blanks, for 3 or 4 of 4 time steps."""
    long, steps = d.rng.integers(0, 3, 2), d.rng.integers(3, 5, 2)
    labels = np.zeros((2, 5), np.int64)
    for n, count in enumerate(long):
        labels[n, 1 : 2 * count : 2] = d.rng.integers(1, 3, count)
    slopes = [d.values((2,))] if has_slopes else []
    return [*slopes, d.within(-3, 0, (4, 2, 3)), labels, np.stack([steps, long], 1)], {"zero_infinity": d.flag()}


def _alignments(x: np.ndarray, labels: np.ndarray, steps: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """All sequences of classes that become the labels without repetitions and blanks, with their probabilities."""
    want = [k for k in labels if k]
    for path in itertools.product(range(3), repeat=steps):
        merged = [k for k, before in zip(path, (-1, *path), strict=False) if k != before and k]
        if merged == want:
            yield path, math.exp(sum(x[t, k] for t, k in enumerate(path)))


def _alignment_losses(x: np.ndarray, labels: np.ndarray, lengths: np.ndarray, **attrs: Any) -> np.ndarray:
    totals = [sum(p for _, p in _alignments(x[:, n], labels[n], lengths[n, 0])) for n in range(2)]
    return -np.log(totals)


def _alignment_gradient(
    g: np.ndarray, x: np.ndarray, labels: np.ndarray, lengths: np.ndarray, **attrs: Any
) -> np.ndarray:
    """PyTorch's gradient: the probabilities less the share of the alignments that pass each class."""
    out = np.zeros_like(x)
    for n, steps in enumerate(lengths[:, 0]):
        paths = list(_alignments(x[:, n], labels[n], steps))
        out[:steps, n] = np.exp(x[:steps, n])
        for path, p in paths:
            out[np.arange(steps), n, path] -= p / sum(q for _, q in paths)
        out[:, n] *= g[n]
    return out


def _put_case(d: Draw) -> Case:
    accumulate = d.flag()
    places = d.rng.integers(0, 5, (2, 4)) if accumulate else np.stack([d.rng.permutation(5)[:4] for _ in range(2)])
    return [d.values((2, 4)), places], {"extent": 5, "accumulate": accumulate}


def _put(g: np.ndarray, places: np.ndarray, *, extent: int, accumulate: bool) -> np.ndarray:
    hot = places[..., None] == np.arange(extent)
    return (hot * g[..., None]).sum(-2, dtype=g.dtype)


def _along_case(d: Draw) -> Case:
    return [d.values((2, 4, 3))], {"index": tuple(int(v) for v in d.rng.integers(0, 4, 5)), "dim": 1}


def _place_case(d: Draw) -> Case:
    _, attrs = _along_case(d)
    return [d.values((2, 5, 3))], {**attrs, "extent": 4}


def _hot(index: Shape, extent: int) -> np.ndarray:
    return np.array(index)[:, None] == np.arange(extent)


def _picked(logp: np.ndarray, labels: np.ndarray, *, reduction: str, ignore_index: int) -> np.ndarray:
    losses = np.array([0 if n == ignore_index else -row[n] for row, n in zip(logp, labels, strict=True)])
    count = np.count_nonzero(labels != ignore_index)
    return losses if reduction == "none" else np.float64(math.fsum(losses) / (count if reduction == "mean" else 1))


def _picked_grad(g: np.ndarray, logp: np.ndarray, labels: np.ndarray, *, reduction: str, ignore_index: int) -> Any:
    keep = labels != ignore_index
    scale = g[:, None] if reduction == "none" else g / keep.sum() if reduction == "mean" else g
    return -np.eye(logp.shape[1])[labels] * keep[:, None] * scale


def _one_hot(labels: np.ndarray, *, type: Type, on: float, off: float) -> np.ndarray:
    return np.where(np.eye(type.shape[-1])[labels] == 1, on, off)


ROWS = {
    "nll_loss": Row(loss_case, _picked, "f", 1, 1),
    "nll_loss_grad": Row(lambda d: loss_case(d, True), _picked_grad, "f", 1, 1),
    "one_hot": Row(
        lambda d: ([d.labels(4, 3)], {"type": Type((3, 4), d.dtype), "on": 2.0, "off": d.one(0.0, 1.0)}), _one_hot
    ),
    "conv": Row(_conv_case, _conv, "fi"),
    "conv_input": Row(_conv_input_case, _conv_input, "fi"),
    "conv_weight": Row(_conv_weight_case, _conv_weight, "fi"),
    "window_sum": Row(_pool_case, _window_sum, "fi"),
    "window_spread": Row(_spread_case, _window_spread, "fi"),
    "window_argmax": Row(_argmax_case, _window_argmax),
    "region_argmax": Row(_regions_case, _region_argmax),
    "ctc_loss": Row(_alignment_case, _alignment_losses),
    "ctc_loss_grad": Row(lambda d: _alignment_case(d, True), _alignment_gradient),
    "grid_sample": Row(
        lambda d: _grid_case(d, (2, 2, 4, 5)),
        lambda x, grid, **modes: np.einsum("nhwij,ncij->nchw", _grid_weights(grid, **modes), x),
    ),
    "grid_sample_image_grad": Row(
        lambda d: _grid_case(d, (2, 2, 3, 2), extents=(4, 5)),
        lambda g, grid, *, extents, **modes: np.einsum("nhwij,nchw->ncij", _grid_weights(grid, **modes), g),
    ),
    "grid_sample_grid_grad": Row(lambda d: _grid_case(d, (2, 2, 3, 2), (2, 2, 4, 5)), _grid_slopes),
    "at_places": Row(_at_case, lambda x, places: np.einsum("abpc,abc->abp", places[..., None] == np.arange(5), x)),
    "put_places": Row(_put_case, _put, "fi"),
    "pick_along": Row(_along_case, lambda x, index, dim: np.einsum("ic,acb->aib", _hot(index, 4), x), "fi"),
    "place_along": Row(
        _place_case, lambda g, index, dim, extent: np.einsum("ic,aib->acb", _hot(index, extent), g), "fi"
    ),
    "hardtanh": Row(
        lambda d: ([d.values()], {"low": -1.0, "high": 1.5}), lambda x, low, high: np.minimum(np.maximum(x, low), high)
    ),
}
NOT_DIFFERENTIABLE = {"window_argmax", "region_argmax"}
