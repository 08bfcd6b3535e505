"""Rows of what the front end prints in steps of its own: selections, repeats, borders, gradients of reductions."""

import itertools
import math
from typing import Any

import numpy as np

from lazytensor.core.dtype import float32, int64
from lazytensor.ir.types import Type
from tests.lazytensor.ops.op_rows import Case, Draw, Row, Shape, _drawn_case, _uniform, _words
from tests.lazytensor.ops.op_rows_composite import _group_grad_case, _group_grads
from tests.lazytensor.ops.op_rows_nn import _conv, _conv_case, _conv_weight, _conv_weight_case


def _split_grad_case(d: Draw) -> Case:
    indices = d.one((0,), (2,), (0, 1), (0, 1, 2))
    parts = [d.values((2, (1, 2, 3)[k], 3)) for k in indices]
    return parts, {"shape": (2, 6, 3), "dim": 1, "sizes": (1, 2, 3), "indices": indices}


def _split_grad(*parts: np.ndarray, shape: Shape, dim: int, sizes: Shape, indices: Shape) -> np.ndarray:
    given = dict(zip(indices, parts, strict=True))
    return np.concatenate([given.get(k, np.zeros((2, e, 3))) for k, e in enumerate(sizes)], 1)


def _pad_attrs(d: Draw) -> dict[str, Any]:
    return {"pairs": d.one(((1, 0), (2, 1)), ((-1, 2), (0, -2))), "value": 0.5}


def _padded(x: np.ndarray, *, pairs: Any, value: float, interior: Shape = (0, 0)) -> np.ndarray:
    """Element by element: where each element of x goes, if it is not cut off."""
    apart = tuple(i + 1 for i in interior)
    extents = [(e - 1) * s + 1 + low + high for e, s, (low, high) in zip(x.shape, apart, pairs, strict=True)]
    out = np.full(extents, value, x.dtype)
    for at in np.ndindex(*x.shape):
        to = tuple(i * s + low for i, s, (low, _) in zip(at, apart, pairs, strict=True))
        if all(0 <= t < e for t, e in zip(to, extents, strict=True)):
            out[to] = x[at]
    return out


def _extreme_case(d: Draw) -> Case:
    x = d.one(d.distinct((2, 3)), np.ones((2, 3), d.dtype.host))
    if d.flag():
        return [d.values(()), np.max(x), x], {"dims": (0, 1)}
    return [d.values((2,)), np.max(x, 1), x], {"dims": (1,)}


def _extreme_value_case(d: Draw) -> Case:
    x, dim = d.distinct((2, 3)), d.one(0, 1)
    return [x, np.argmax(x, dim, keepdims=d.flag())], {"dim": dim, "kind": "max"}


def _extreme_grad(g: np.ndarray, y: np.ndarray, x: np.ndarray, *, dims: Shape) -> np.ndarray:
    wide, mask = (g[:, None], x == y[:, None]) if len(dims) == 1 else (g, x == y)
    return np.asarray(wide * mask / np.sum(mask, dims, keepdims=True))


def _causal(scores: np.ndarray) -> np.ndarray:
    out = scores.copy()
    for i, j in np.ndindex(*scores.shape[-2:]):
        if j > i:
            out[..., i, j] = -np.inf
    return out


def _plain_group_case(d: Draw) -> Case:
    arrays, attrs = _group_grad_case(d)
    return arrays[:2], attrs


def _multinomial(weights: np.ndarray, state: np.ndarray, *, call: int, samples: int, replacement: bool) -> np.ndarray:
    count = samples if replacement else weights.shape[1]
    u = iter([math.ldexp(w >> 11, -53) for w in _words(state, call, len(weights) * count)])
    chosen = []
    for row in weights:
        if replacement:
            ends = list(itertools.accumulate(row))
            marks = [v * ends[-1] for v in itertools.islice(u, samples)]
            chosen += [next(k for k, end in enumerate(ends) if mark < end) for mark in marks]
        else:
            quotients = [w / -math.log(1 - next(u)) for w in row]
            chosen += sorted(range(len(row)), key=lambda i: -quotients[i])[:samples]
    return np.array(chosen).reshape(len(weights), samples)


def _weights_case(d: Draw) -> Case:
    drawn = {"call": int(d.rng.integers(9)), "samples": d.one(1, 3), "replacement": d.flag()}
    return [np.abs(d.values((2, 5))) + 1, d.rng.integers(0, 2**40, 2)], drawn


ROWS = {
    "random_between": Row(
        lambda d: (_drawn_case(d)[0], {**_drawn_case(d)[1], "low": -1.5, "high": 2.0}),
        lambda state, call, type, low, high: _uniform(state, call=call, type=type) * (high - low) + low,
    ),
    "random_integers": Row(
        lambda d: (
            [d.rng.integers(0, 2**40, 2)],
            {"call": 3, "type": Type(d.shape, d.one(int64, float32)), "low": -2, "high": 5, "is_open": d.flag()},
        ),
        lambda state, call, type, low, high, is_open: np.array(
            [w % (high - low) + low for w in _words(state, call, type.size)]
        ).reshape(type.shape),
    ),
    "multinomial": Row(_weights_case, _multinomial),
    "group_norm_input_grad": Row(_plain_group_case, lambda g, x, **k: _group_grads(g, x, np.ones(x.shape[1]), **k)[0]),
    "conv_transposed_input": Row(_conv_case, _conv),
    "conv_transposed_weight": Row(_conv_weight_case, _conv_weight),
    "pad": Row(lambda d: ([d.values((2, 3))], {**_pad_attrs(d), "interior": d.one((0, 0), (0, 1))}), _padded),
    "constant_pad": Row(lambda d: ([d.values((2, 3))], _pad_attrs(d)), _padded),
    "select_scatter": Row(
        lambda d: (
            [d.values((2, 3)), np.full((2, 1), d.one(0, 2), np.int32), d.values((2, 1))],
            {"dim": 1, "kind": "set"},
        ),
        lambda base, index, value, dim, kind: np.where(np.arange(3) == index, value, base),
        "fi",
    ),
    "select": Row(
        lambda d: ([d.values((2, 3, 4))], {"dim": 1, "index": d.one(0, 2)}), lambda x, dim, index: x[:, index], "fi"
    ),
    "select_grad": Row(
        lambda d: ([d.values((2, 4))], {"shape": (2, 3, 4), "dim": 1, "index": d.one(0, 2)}),
        lambda g, shape, dim, index: np.einsum("k,ij->ikj", np.eye(3)[index], g),
        "fi",
    ),
    "stack": Row(
        lambda d: ([d.values((2, 3)) for _ in range(d.one(1, 3))], {"dim": d.one(0, 1, 2)}),
        lambda *xs, dim: np.stack(xs, dim),
        "fi",
    ),
    "repeat": Row(
        lambda d: ([d.values((2, 3))], {"times": d.one((1, 1), (2, 3), (0, 2))}),
        lambda x, times: np.tile(x, times),
        "fi",
    ),
    "split_grad": Row(_split_grad_case, _split_grad, "fi"),
    "l2_norm_grad": Row(
        lambda d: ([d.values((2, 1)), np.abs(d.values((2, 1))), d.values((2, 3))], {"dims": (1,)}),
        lambda g, y, x, dims: g * x / y,
    ),
    "expand_reduced": Row(
        lambda d: ([d.values(d.one((3,), (1, 3, 1)))], {"shape": (2, 3, 4), "dims": (0, 2)}),
        lambda g, shape, dims: np.broadcast_to(g.reshape(1, -1, 1), shape),
    ),
    "extreme_value": Row(_extreme_value_case, lambda x, places, dim, kind: np.max(x, dim).reshape(places.shape), "fi"),
    "extreme_grad": Row(_extreme_case, _extreme_grad),
    "sum_kept": Row(lambda d: ([d.values((2, 3))], {"dims": (1,)}), lambda x, dims: np.einsum("ij->i", x)[:, None]),
    "reduce_each": Row(
        lambda d: ([d.distinct((2, 3))], {"kind": d.one("add", "mean", "maximum"), "dims": (0, 1)}),
        lambda x, kind, dims: {"add": np.sum, "mean": np.mean, "maximum": np.max}[kind](x),
    ),
    "extreme_of_all": Row(
        lambda d: ([d.distinct((2, 3))], {"kind": d.one("maximum", "minimum")}),
        lambda x, kind: {"maximum": np.max, "minimum": np.min}[kind](x),
    ),
    "count_true": Row(
        lambda d: ([d.values((2, 3))], {"dims": (1,), "keepdim": d.flag()}),
        lambda x, dims, keepdim: np.sum(x, 1, np.int64, keepdims=keepdim),
        "b",
    ),
    "matrix_band": Row(
        lambda d: ([d.values((3, 4))], {"lower": d.one(None, 0, 1), "upper": d.one(None, 0, 1)}),
        lambda x, lower, upper: np.tril(np.triu(x, -3 if lower is None else -lower), 4 if upper is None else upper),
        "fi",
    ),
    "at_least": Row(lambda d: ([np.abs(d.values())], {"least": 0.05}), lambda x, least: np.maximum(x, least)),
    "causal_scores": Row(lambda d: ([d.values((2, 3, 4))], {}), _causal),
}
NOT_DIFFERENTIABLE = {
    "count_true",
    "random_between",
    "random_integers",
    "multinomial",
    "matrix_band",
    "select_scatter",
    "group_norm_input_grad",
    "pad",
}
