"""Rows of what CIRH keeps whole: normalizations, pools, parts, orders, points. Formulas go by rows and elements."""

import itertools
import math
from typing import Any

import numpy as np

import lazytensor as lt
from tests.lazytensor.ops.op_rows import Case, Draw, Row, Shape, _each
from tests.lazytensor.ops.op_rows_nn import _boxes, _conv_input, _conv_input_case

EPS = 0.25


def _unit(rows: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Each row with mean 0 and variance 1, and the factor of each row."""
    factor = (np.var(rows, 1, keepdims=True) + eps) ** -0.5
    return (rows - np.mean(rows, 1, keepdims=True)) * factor, factor


def _pulled(rows: np.ndarray, g: np.ndarray, eps: float) -> np.ndarray:
    """g through the Jacobian of `_unit`, row by row."""
    n = rows.shape[1]
    unit, factor = _unit(rows, eps)
    out = np.empty_like(rows)
    for k, (u, f) in enumerate(zip(unit, factor, strict=True)):
        out[k] = f * (np.eye(n) - 1 / n - np.outer(u, u) / n) @ g[k]
    return out


def _by_channel(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, 1, 0).reshape(x.shape[1], -1)


def _from_channels(rows: np.ndarray, shape: Shape) -> np.ndarray:
    return np.moveaxis(rows.reshape(shape[1], shape[0], *shape[2:]), 0, 1)


# -- the last dimensions ---------------------------------------------------------------------------------------------


def _layer_case(d: Draw, with_gradient: bool = False) -> Case:
    tail = d.one((3,), (2, 3))
    x = (2, 2, *tail) if len(tail) == 1 else (3, *tail)
    given = [d.values(x) for _ in range(1 + with_gradient)]
    return [*given, d.values(tail), d.values(tail)], {"eps": EPS}


def _layer(x: np.ndarray, b: np.ndarray, w: np.ndarray, *, eps: float) -> np.ndarray:
    unit, _ = _unit(x.reshape(-1, w.size), eps)
    return (unit * w.ravel() + b.ravel()).reshape(x.shape)


def _layer_grads(g: np.ndarray, x: np.ndarray, b: np.ndarray, w: np.ndarray, *, eps: float) -> tuple[np.ndarray, ...]:
    rows, gs = x.reshape(-1, w.size), g.reshape(-1, w.size)
    unit, _ = _unit(rows, eps)
    dx = _pulled(rows, gs * w.ravel(), eps).reshape(x.shape)
    return dx, np.einsum("ij->j", gs).reshape(w.shape), np.einsum("ij,ij->j", gs, unit).reshape(w.shape)


def _with_index(case: Case, d: Draw) -> Case:
    return case[0], {**case[1], "index": d.one(0, 1, 2)}


# -- channels --------------------------------------------------------------------------------------------------------


def _channel_case(d: Draw, params: int, gradient: bool = False) -> Case:
    x = (2, 4, *d.one((), (3,), (2, 2)))
    arrays = [d.values(x) for _ in range(1 + gradient)] + [d.values((4,)) for _ in range(min(params, 2))]
    return [*arrays, *(np.abs(d.values((4,))) for _ in range(params - 2))], {"eps": EPS}


def _group_case(d: Draw, rows: bool = False) -> Case:
    (x, w, b), attrs = _channel_case(d, 2)
    shape = (2, 2) if rows else (4,)
    return [x, w.reshape(shape), b.reshape(shape)], {**attrs, "groups": 2}


def _group(x: np.ndarray, w: np.ndarray, b: np.ndarray, *, groups: int, eps: float) -> np.ndarray:
    unit = _unit(x.reshape(x.shape[0] * groups, -1), eps)[0].reshape(x.shape)
    return _scaled(unit, w.ravel(), b.ravel())


def _group_grad_case(d: Draw) -> Case:
    arrays, attrs = _channel_case(d, 1, True)
    return arrays, {**attrs, "groups": 2}


def _group_grads(g: np.ndarray, x: np.ndarray, w: np.ndarray, *, groups: int, eps: float) -> tuple[np.ndarray, ...]:
    rows = x.reshape(x.shape[0] * groups, -1)
    wide = _from_channels(_by_channel(g) * w[:, None], x.shape).reshape(rows.shape)
    along = _by_channel(_unit(rows, eps)[0].reshape(x.shape)) * _by_channel(g)
    return _pulled(rows, wide, eps).reshape(x.shape), np.einsum("ij->i", along), np.einsum("ij->i", _by_channel(g))


def _scaled(unit: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _from_channels(_by_channel(unit) * w[:, None] + b[:, None], unit.shape)


def _batch_case(d: Draw) -> Case:
    arrays, attrs = _channel_case(d, 4)
    return arrays, {**attrs, "momentum": 0.1}


def _batch(x: Any, w: Any, b: Any, mean: Any, var: Any, *, eps: float, momentum: float) -> np.ndarray:
    rows = (_by_channel(x) - mean[:, None]) / np.sqrt(var + eps)[:, None]
    return _scaled(_from_channels(rows, x.shape), w, b)


def _batch_training(x: Any, w: Any, b: Any, mean: Any, var: Any, *, eps: float, momentum: float) -> np.ndarray:
    return _scaled(_from_channels(_unit(_by_channel(x), eps)[0], x.shape), w, b)


def _batch_grads(g: np.ndarray, x: np.ndarray, w: np.ndarray, *, eps: float) -> tuple[np.ndarray, ...]:
    rows, gs = _by_channel(x), _by_channel(g)
    dx = _from_channels(_pulled(rows, gs * w[:, None], eps), x.shape)
    return dx, np.einsum("ij,ij->i", gs, _unit(rows, eps)[0]), np.einsum("ij->i", gs)


# -- windows ---------------------------------------------------------------------------------------------------------


def _average_case(d: Draw, rank: int | None = None) -> Case:
    rank = rank or int(d.rng.integers(1, 3))
    extents = tuple(int(v) for v in d.rng.integers(3, 5, rank))
    kernel = tuple(int(v) for v in d.rng.integers(1, 4, rank))
    around = tuple(int(d.rng.integers(0, k // 2 + 1)) for k in kernel)
    window = {"kernel": kernel, "stride": d.one((1,), (2,)) * rank, "padding": tuple((p, p) for p in around)}
    divisor = {} if rank == 3 else {"divisor": d.one(None, 3)}
    return [d.distinct((2, 2, *extents))], {**window, "around": around, "include_pad": d.flag(), **divisor}


def _weights(x: Shape, window: dict[str, Any]) -> tuple[np.ndarray, Shape]:
    """[places, elements]: the share of each element in each mean."""
    rank = len(window["kernel"])
    extents = x[-rank:]
    places = {k: window[k] for k in ("kernel", "stride", "padding")}
    boxes = dict(_boxes(extents, **places))
    out = tuple(max(at[d] for at in boxes) + 1 for d in range(rank))
    share = np.zeros((*out, *extents))
    full = math.prod(window["kernel"])
    for at, box in boxes.items():
        for b in box:
            share[(*at, *b)] = 1 / (window.get("divisor") or (full if window["include_pad"] else len(box)))
    return share.reshape(math.prod(out), -1), out


def _average(x: np.ndarray, **window: Any) -> np.ndarray:
    share, out = _weights(x.shape, window)
    return np.einsum("pe,ne->np", share, x.reshape(-1, share.shape[1])).reshape(*x.shape[: -len(out)], *out)


def _average_grad_case(d: Draw) -> Case:
    (x,), window = _average_case(d)
    _, out = _weights(x.shape, window)
    rank = len(out)
    return [x, d.values((*x.shape[:-rank], *out))], window


def _average_grad(x: np.ndarray, g: np.ndarray, **window: Any) -> np.ndarray:
    extents = x.shape[x.ndim - len(window["kernel"]) :]
    share, out = _weights(extents, window)
    return np.einsum("pe,np->ne", share, g.reshape(-1, share.shape[0])).reshape(*g.shape[: -len(out)], *extents)


def _volume_grad_case(d: Draw) -> Case:
    (x,), window = _average_case(d, 3)
    return [x, d.values((*x.shape[:2], *_weights(x.shape, window)[1]))], window


def _max_case(d: Draw, gradient: bool = False) -> Case:
    (x,), window = _average_case(d, 3)
    attrs = {k: window[k] for k in ("kernel", "stride", "padding")} | {"dilation": (1, 1, 1)}
    g = [d.values((*x.shape[:2], *_weights(x.shape, window)[1]))] if gradient else []
    return [x, *g], attrs


def _best(x: np.ndarray, attrs: dict[str, Any]) -> dict[Shape, Shape]:
    """For each place of the output the place of the largest element."""
    boxes = list(_boxes(x.shape[2:], **attrs))
    return {
        (n, c, *at): (n, c, *max(box, key=lambda b, n=n, c=c: x[(n, c, *b)]))  # type: ignore[misc]
        for n, c in itertools.product(*map(range, x.shape[:2]))
        for at, box in boxes
    }


def _pooled(best: dict[Shape, Any], dtype: Any) -> np.ndarray:
    out = np.zeros(tuple(max(at[d] for at in best) + 1 for d in range(5)), dtype)
    for at, value in best.items():
        out[at] = value
    return out


def _max(x: np.ndarray, **attrs: Any) -> np.ndarray:
    return _pooled({at: x[b] for at, b in _best(x, attrs).items()}, x.dtype)


def _max_place(x: np.ndarray, **attrs: Any) -> np.ndarray:
    return _pooled({at: np.ravel_multi_index(b[2:], x.shape[2:]) for at, b in _best(x, attrs).items()}, np.int64)


def _max_grad(x: np.ndarray, g: np.ndarray, **attrs: Any) -> np.ndarray:
    out = np.zeros_like(x)
    for at, b in _best(x, attrs).items():
        out[b] += g[at]
    return out


# -- parts, orders, places -------------------------------------------------------------------------------------------


def _split_case(d: Draw) -> Case:
    return [d.values((2, 6, 3))], {"dim": 1, "sizes": d.one((2, 2, 2), (1, 5), (6,), (0, 6))}


def _split(x: np.ndarray, *, dim: int, sizes: Shape) -> tuple[np.ndarray, ...]:
    ends = list(itertools.accumulate(sizes))
    return tuple(x[:, e - s : e] for s, e in zip(sizes, ends, strict=True))


def _part_case(d: Draw) -> Case:
    arrays, attrs = _split_case(d)
    return arrays, {**attrs, "index": int(d.rng.integers(len(attrs["sizes"])))}


def _top_case(d: Draw) -> Case:
    return [d.distinct((2, 5, 3))], {"dim": 1, "k": d.one(1, 3, 5), "largest": d.flag()}


def _top(x: np.ndarray, *, dim: int, k: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    values, places = np.empty((2, k, 3), x.dtype), np.empty((2, k, 3), np.int64)
    for i, j in np.ndindex(2, 3):
        order = sorted(range(5), key=lambda p, i=i, j=j: x[i, p, j], reverse=largest)[:k]  # type: ignore[misc]
        places[i, :, j], values[i, :, j] = order, [x[i, p, j] for p in order]
    return values, places


def _points_case(d: Draw) -> Case:
    k = d.one(1, 2)
    return [d.values((4, 3, 2)), d.rng.integers(0, 3, (5, k))], {}


def _points(x: np.ndarray, points: np.ndarray) -> np.ndarray:
    return np.stack([x[tuple(p)] for p in points])


def _scatter_points(base: np.ndarray, points: np.ndarray, value: np.ndarray) -> np.ndarray:
    out = base.copy()
    for p, v in zip(points, value, strict=True):
        out[tuple(p)] += v
    return out


def _scatter_points_case(d: Draw) -> Case:
    (x, points), _ = _points_case(d)
    return [x, points, d.values((5, *x.shape[points.shape[1] :]))], {}


def _numbers(d: Draw, shape: Shape) -> np.ndarray:
    return d.rng.integers(0, 4, shape).astype(d.one(np.int64, np.int32))


def _embedding_grad(g: np.ndarray, numbers: np.ndarray, *, rows: int, padding: int) -> np.ndarray:
    out = np.zeros((rows, g.shape[-1]), g.dtype)
    for at in np.ndindex(*numbers.shape):
        out[numbers[at]] += g[at] * (numbers[at] != padding)
    return out


def _normal_cdf(x: float) -> float:
    return (1 + math.erf(x / math.sqrt(2))) / 2


def _length_case(d: Draw) -> Case:
    return [d.values()], {"dims": d.dims(), "keepdim": d.flag()}


REDUCED = {"none": lambda x: x, "mean": np.mean, "sum": np.sum}

ROWS = {
    "softplus": Row(
        lambda d: ([d.values()], {"beta": 2.0, "threshold": 3.0}),
        lambda x, beta, threshold: np.where(beta * x > threshold, x, np.logaddexp(0, beta * x) / beta),
    ),
    "elu": Row(lambda d: ([d.values()], {"alpha": 0.5}), lambda x, alpha: np.where(x > 0, x, alpha * (np.exp(x) - 1))),
    "leaky_relu": Row(lambda d: ([d.values()], {"slope": 0.25}), lambda x, slope: np.maximum(x, slope * x)),
    "log_sigmoid": Row(lambda d: ([d.values()], {}), _each(lambda x: -math.log(1 + math.exp(-x)))),
    "power_of_number": Row(
        lambda d: ([d.values()], {"base": d.one(0.3, 2.0), "half": None}), lambda x, base, half: base**x
    ),
    "add_scaled_product": Row(
        lambda d: ([d.values(), d.values(), d.values()], {"value": d.one(0.3, -2.0), "half": None}),
        lambda x, a, b, value, half: x + value * a * b,
    ),
    "add_scaled_quotient": Row(
        lambda d: ([d.values(), d.values(), d.within(0.5, 2)], {"value": d.one(0.3, -2.0), "half": None}),
        lambda x, a, b, value, half: x + value * a / b,
    ),
    "atan2_grad": Row(
        lambda d: ([d.values(), d.values(), d.values(), d.values()], {}),
        lambda g, part, a, b: g * part / (a**2 + b**2),
    ),
    "probability_entropy": Row(
        lambda d: ([d.within(0.1, 0.9), d.within(0, 1)], {}),
        lambda x, t: -t * np.log(x) - (1 - t) * np.log(1 - x),
    ),
    "probability_entropy_grad": Row(
        lambda d: ([d.values(), d.within(0.1, 0.9), d.within(0, 1)], {}), lambda g, x, t: g * (x - t) / (x * (1 - x))
    ),
    "probability": Row(lambda d: ([d.within(0.1, 0.9)], {"what": "input"}), lambda x, what: x),
    "pow_number": Row(
        lambda d: ([d.within(0.5, 2)], {"exponent": d.one(0, 0.3, 1.0, 3.0, -2.0), "half": None}),
        lambda x, exponent, half: x**exponent,
    ),
    "scaled_sum": Row(
        lambda d: ([d.values(), d.values()], {"alpha": d.one(0.3, -2.0), "half": None}),
        lambda x, y, alpha, half: x + y * alpha,
    ),
    "square": Row(lambda d: ([d.values()], {}), np.square, "fi"),
    "binary_entropy": Row(
        lambda d: ([d.values(), d.within(0, 1)], {"reduction": d.one("none", "mean", "sum")}),
        lambda x, t, reduction: REDUCED[reduction](
            -t * np.log(1 / (1 + np.exp(-x))) - (1 - t) * np.log(1 / (1 + np.exp(x)))
        ),
        least_extent=1,
    ),
    "gelu_grad": Row(
        lambda d: ([d.values(), d.values()], {"approximate": "none"}),
        lambda g, x, approximate: g * (_each(_normal_cdf)(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)),
    ),
    "tanh_grad": Row(lambda d: ([d.values(), d.within(-1, 1)], {}), lambda g, y: g - g * y**2),
    "silu_grad": Row(
        lambda d: ([d.values(), d.values()], {}),
        lambda g, x: g * (1 / (1 + np.exp(-x)) + x * np.exp(-x) / (1 + np.exp(-x)) ** 2),
    ),
    "mish_grad": Row(
        lambda d: ([d.values(), d.values()], {}),
        lambda g, x: g * (np.tanh(np.log1p(np.exp(x))) + x / np.cosh(np.log1p(np.exp(x))) ** 2 / (1 + np.exp(-x))),
    ),
    "elu_grad": Row(
        lambda d: ([d.values(), d.values()], {"alpha": 0.5}),
        lambda g, x, alpha: g * np.where(x > 0, 1, alpha * np.exp(x)),
    ),
    "softplus_grad": Row(
        lambda d: ([d.values(), d.values()], {"beta": 2.0, "threshold": 20.0}),
        lambda g, x, beta, threshold: g / (1 + np.exp(-beta * x)),
    ),
    "log_sigmoid_grad": Row(lambda d: ([d.values(), d.values()], {}), lambda g, x: g / (1 + np.exp(x))),
    "log_softmax_grad": Row(
        lambda d: ([d.values(), d.values()], {"dim": len(d.shape) - 1}),
        lambda g, y, dim: g - np.exp(y) * np.sum(g, axis=dim, keepdims=True),
        "f",
        1,
        1,
    ),
    "cube": Row(lambda d: ([d.values()], {}), lambda x: x**3),
    "mish": Row(lambda d: ([d.values()], {}), lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "sigmoid_grad": Row(lambda d: ([d.values(), d.within(0, 1)], {}), lambda g, y: g * y * (1 - y)),
    "relu_grad": Row(lambda d: ([d.values(), d.values()], {}), lambda g, y: g * np.where(y <= 0, 0, 1)),
    "leaky_relu_grad": Row(
        lambda d: ([d.values(), d.values()], {"slope": 0.25}), lambda g, x, slope: g * np.where(x > 0, 1, slope)
    ),
    "where_gt": Row(lambda d: ([d.distinct(), d.cast(d.distinct() + 0.01)], {}), np.maximum, "fi"),
    "where_ge": Row(lambda d: ([d.distinct(), d.cast(d.distinct() + 0.01)], {}), np.maximum, "fi"),
    "where_lt": Row(lambda d: ([d.distinct(), d.cast(d.distinct() + 0.01)], {}), np.minimum, "fi"),
    "where_le": Row(lambda d: ([d.distinct(), d.cast(d.distinct() + 0.01)], {}), np.minimum, "fi"),
    "integer_div": Row(
        lambda d: ([np.abs(d.values()), np.abs(d.values()) + 1], {}), lambda a, b: np.trunc(a / b).astype(a.dtype), "i"
    ),
    "l2_norm": Row(_length_case, lambda x, dims, keepdim: np.sqrt(np.square(x).sum(dims, keepdims=keepdim)), "f", 1),
    "pair_distances": Row(
        lambda d: ([d.values((2, 3, 4)), d.values((2, 5, 4))], {}),
        lambda a, b: np.linalg.norm(a[:, :, None] - b[:, None], axis=-1),
    ),
    "pair_pull": Row(
        lambda d: ([d.values((2, 3, 5)), d.values((2, 3, 4)), d.values((2, 5, 4))], {}),
        lambda s, a, b: a * s.sum(-1, keepdims=True) - s @ b,
    ),
    "broadcast_cast": Row(
        lambda d: ([d.values((3, 1))], {"shape": (2, 3, 4), "dtype": lt.float64}),
        lambda x, shape, dtype: np.broadcast_to(x, shape).astype(dtype.host),
    ),
    "sum_to": Row(
        lambda d: ([d.values((2, 3, 4))], {"shape": d.one((3, 1), (1, 3, 1)), "dims": (0, 2)}),
        lambda g, shape, dims: np.einsum("abc->b", g).reshape(shape),
    ),
    "unsupported": Row(
        lambda d: ([d.values()], dict.fromkeys(("message", "hint", "rule", "function", "place"), "s")),
        lambda x, **_: x,
        "fi",
    ),
    "scope_boundary": Row(lambda d: ([d.values()], {"boundary": "END_FORWARD", "scope": "s"}), lambda x, **_: x, "fi"),
    "reaches_nth": Row(
        lambda d: ([d.distinct((2, 5))], {"k": d.one(1, 3, 5), "dim": 1}),
        lambda x, k, dim: np.stack([[v >= sorted(r)[-k] for v in r] for r in x]),
    ),
    "bias_add": Row(
        lambda d: ([d.values((2, 3, 4)), d.values((3,))], {"dim": 1}), lambda x, b, dim: x + b[None, :, None]
    ),
    "bias_add_grad": Row(lambda d: ([d.values((2, 3, 4))], {"dim": 1}), lambda g, dim: np.einsum("abc->b", g)),
    "softmax_grad": Row(
        lambda d: ([d.values((3, 4)), np.abs(d.values((3, 4)))], {"dim": 1}),
        lambda g, y, dim: y * (g - np.einsum("ij,ij->i", g, y)[:, None]),
    ),
    "layer_norm": Row(_layer_case, _layer),
    "layer_norm_grad": Row(
        lambda d: _with_index(_layer_case(d, True), d), lambda *a, index, **k: _layer_grads(*a, **k)[index]
    ),
    "layer_norm_grad_all": Row(lambda d: _layer_case(d, True), _layer_grads),
    "group_norm": Row(_group_case, _group),
    "group_norm_rows": Row(lambda d: _group_case(d, True), _group),
    "group_norm_grad": Row(
        lambda d: _with_index(_group_grad_case(d), d), lambda *a, index, **k: _group_grads(*a, **k)[index]
    ),
    "group_norm_grad_all": Row(_group_grad_case, _group_grads),
    "batch_norm": Row(_batch_case, _batch),
    "batch_norm_training": Row(_batch_case, _batch_training),
    "batch_norm_all": Row(_batch_case, lambda *a, **k: (_batch(*a, **k), a[3], a[4])),
    "batch_norm_training_all": Row(
        _batch_case,
        lambda *a, **k: (_batch_training(*a, **k), np.mean(_by_channel(a[0]), 1), np.var(_by_channel(a[0]), 1)),
    ),
    "batch_norm_grad": Row(
        lambda d: _with_index(_channel_case(d, 1, True), d), lambda *a, index, **k: _batch_grads(*a, **k)[index]
    ),
    "batch_norm_grad_all": Row(lambda d: _channel_case(d, 1, True), _batch_grads),
    "avg_pool": Row(_average_case, _average),
    "avg_pool_grad": Row(_average_grad_case, _average_grad),
    "pool_average": Row(lambda d: _average_case(d, 3), _average),
    "pool_average_grad": Row(_volume_grad_case, _average_grad),
    "pool_max": Row(_max_case, _max),
    "pool_max_place": Row(_max_case, _max_place),
    "pool_max_grad": Row(lambda d: _max_case(d, True), _max_grad),
    "conv_transposed": Row(_conv_input_case, _conv_input),
    "split": Row(_split_case, _split, "fi"),
    "part": Row(_part_case, lambda x, dim, sizes, index: _split(x, dim=dim, sizes=sizes)[index], "fi"),
    "turn": Row(
        lambda d: ([d.values((2, 4))], {"shift": d.one(0, 1, 3), "dim": 1}),
        lambda x, shift, dim: np.stack([x[:, (k - shift) % 4] for k in range(4)], 1),
        "fi",
    ),
    "top": Row(_top_case, _top),
    "gather_points": Row(_points_case, _points, "fi"),
    "scatter_points": Row(_scatter_points_case, _scatter_points, "f"),
    "gather_rows": Row(
        lambda d: ([d.values((2, 4, 3)), _numbers(d, (5,))], {"dim": 1}),
        lambda x, numbers, dim: np.stack([x[:, n] for n in numbers], 1),
        "fi",
    ),
    "embedding": Row(
        lambda d: ([d.values((4, 3)), _numbers(d, d.one((2, 2), (5,)))], {"padding": -1}),
        lambda w, numbers, padding: np.stack([w[n] for n in numbers.ravel()]).reshape(*numbers.shape, 3),
    ),
    "embedding_grad": Row(
        lambda d: ([d.values((2, 3, 5)), _numbers(d, (2, 3))], {"rows": 4, "padding": d.one(-1, 0)}), _embedding_grad
    ),
}
NOT_DIFFERENTIABLE = set(
    """where_gt where_ge where_lt where_le
    integer_div reaches_nth layer_norm_grad_all group_norm_rows batch_norm_all batch_norm_training_all
    batch_norm_grad_all group_norm_grad_all pool_average pool_average_grad pool_max pool_max_place pool_max_grad
    split top gather_points scatter_points""".split()
)
