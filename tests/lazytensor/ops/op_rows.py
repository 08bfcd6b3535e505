"""One row for each operation: how to draw its operands, and its meaning written a second time, independently.

`Draw` gives operands of one dtype; values keep away from kinks, so that the gradient exists where it is measured.
"""

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core.dtype import DType, round_to
from lazytensor.ir.types import Type

Shape = tuple[int, ...]
Case = tuple[list[np.ndarray], dict[str, Any]]


class Draw:
    """Random operands around one shape; float operands and integer ones come from the same calls."""

    def __init__(self, shape: Shape, dtype: DType, seed: int):
        self.shape, self.dtype, self.rng = shape, dtype, np.random.default_rng(seed)

    def cast(self, values: np.ndarray) -> np.ndarray:
        if self.dtype.kind == "f":
            return np.asarray(round_to(np.asarray(values, self.dtype.host), self.dtype))
        return np.asarray(np.rint(values * 4) if self.dtype.kind == "i" else values > 0).astype(self.dtype.host)

    def within(self, low: float, high: float, shape: Shape | None = None) -> np.ndarray:
        return self.cast(self.rng.uniform(low, high, self.shape if shape is None else shape))

    def values(self, shape: Shape | None = None) -> np.ndarray:
        """From -2 to 2 without the neighbourhood of 0."""
        size = self.rng.uniform(0.1, 2, self.shape if shape is None else shape)
        return self.cast(size * self.rng.choice([-1, 1], size.shape))

    def distinct(self, shape: Shape | None = None) -> np.ndarray:
        """No two elements equal, none 0."""
        n = math.prod(self.shape if shape is None else shape)
        return self.cast((self.rng.permutation(n) - n // 2 + 0.3) / 8).reshape(self.shape if shape is None else shape)

    def off_grid(self) -> np.ndarray:
        """Away from every multiple of a half."""
        return self.cast(self.rng.integers(-6, 6, self.shape) / 2 + self.rng.uniform(0.1, 0.4, self.shape))

    def labels(self, classes: int, n: int, ignored: bool = True) -> np.ndarray:
        drawn = self.rng.integers(0, classes, n)
        return np.where(self.rng.random(n) < 0.3, 0, drawn) if ignored else drawn

    def truths(self) -> np.ndarray:
        return np.asarray(self.rng.random(self.shape) < 0.5)

    def dims(self) -> Shape:
        """Some dimensions, at least one if there is one."""
        rank = len(self.shape)
        k = self.rng.integers(1, rank + 1) if rank else 0
        return tuple(sorted(int(d) for d in self.rng.choice(rank, k, replace=False))) if rank else ()

    def matrix(self, classes: int = 4) -> np.ndarray:
        return self.values((max(1, *self.shape, 1), classes))

    def one(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def flag(self) -> bool:
        return bool(self.rng.integers(2))

    def part(self) -> dict[str, Shape]:
        starts = tuple(int(self.rng.integers(0, e + 1)) for e in self.shape)
        limits = tuple(int(self.rng.integers(s, e + 1)) for s, e in zip(starts, self.shape, strict=True))
        return {"starts": starts, "limits": limits, "strides": tuple(int(self.rng.integers(1, 4)) for _ in starts)}


@dataclass(frozen=True)
class Row:
    """`kinds` are the kinds of element that the operation takes; `needs` is the least extent, or least rank and extent.

    `special` says that the operation has a meaning for infinities, NaN and zeros of both signs.
    """

    make: Callable[[Draw], Case]
    formula: Callable[..., Any]
    kinds: str = "f"
    least_extent: int = 0
    least_rank: int = 0
    special: bool = False


def _each(f: Callable[..., Any], kind: type = float) -> Callable[..., np.ndarray]:
    """A Python function of numbers, over arrays."""

    def formula(*arrays: np.ndarray) -> np.ndarray:
        cells = zip(*(a.ravel().tolist() for a in arrays), strict=True)
        return np.array([f(*c) for c in cells], kind).reshape(arrays[0].shape)

    return formula


def _unary(f: Callable[..., Any], make: Callable[[Draw], np.ndarray] | None = None, kinds: str = "f") -> Row:
    return Row(lambda d: ([make(d) if make else d.values()], {}), _each(f), kinds, special=True)


def _binary(f: Callable[..., Any], kinds: str = "fi", kind: type = float) -> Row:
    return Row(lambda d: ([d.distinct(), d.cast(d.distinct() + 0.01)], {}), _each(f, kind), kinds, special=True)


def _truth(f: Callable[..., Any], count: int = 2) -> Row:
    return Row(lambda d: ([d.values() for _ in range(count)], {}), _each(f, bool), "fib", special=True)


def _positive(d: Draw) -> np.ndarray:
    return d.within(0.2, 4)


def _off_zero(d: Draw) -> np.ndarray:
    """Of either sign, far enough from 0 for finite differences of a quotient."""
    return d.cast(d.within(0.5, 2) * d.rng.choice([-1, 1], d.shape))


def _between(low: float, high: float) -> Callable[[Draw], np.ndarray]:
    return lambda d: d.within(low, high)


def _gelu(x: np.ndarray, *, approximate: str) -> np.ndarray:
    if approximate == "none":
        return _each(lambda v: v * 0.5 * math.erfc(-v / math.sqrt(2)))(x)
    return _each(lambda v: v / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))))(x)


def _quotients(d: Draw) -> Case:
    """Pairs whose quotient is no whole number."""
    b = d.rng.uniform(0.7, 1.5, d.shape)
    whole = d.rng.integers(-3, 3, d.shape)
    return [d.cast((whole + d.rng.uniform(0.1, 0.9, d.shape)) * b), d.cast(b)], {}


def _bounds(d: Draw) -> Case:
    return [d.values(), d.cast(np.full(d.shape, -1.03)), d.cast(np.full(d.shape, 1.03))], {}


def _convert(x: np.ndarray, *, dtype: DType) -> np.ndarray:
    if dtype.is_half:
        rounded = [math.ldexp(round(math.ldexp(m, dtype.mantissa_bits + 1)), e - dtype.mantissa_bits - 1)
                   for m, e in map(math.frexp, x.ravel().tolist())]  # fmt: skip
        return np.array(rounded).reshape(x.shape)
    kind = {"f": float, "i": int, "b": bool}[dtype.kind]
    return np.array([kind(v) for v in x.ravel().tolist()], dtype.host).reshape(x.shape)


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "mul": operator.mul,
    "maximum": max,
    "minimum": min,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
}
_START = {"add": 0, "mul": 1, "and": True, "or": False}


def _folded(x: np.ndarray, *, kind: str, dims: Shape, keepdim: bool) -> np.ndarray:
    rest = [d for d in range(x.ndim) if d not in dims]
    columns = x.transpose(*rest, *dims).reshape(math.prod(x.shape[d] for d in rest), -1) if x.size else None
    if columns is None:
        flat = [_START[kind]] * math.prod(x.shape[d] for d in rest)
    else:
        flat = [functools.reduce(_COMBINE[kind], c) for c in columns.tolist()]
    shape = [1 if d in dims else e for d, e in enumerate(x.shape) if keepdim or d not in dims]
    return np.array(flat, bool if kind in ("and", "or") else x.dtype).reshape(shape)


def _reduce_case(d: Draw) -> Case:
    kind = d.one("and", "or") if d.dtype.kind == "b" else d.one("add", "mul", "maximum", "minimum")
    return [d.distinct() if kind != "mul" else d.values()], {"kind": kind, "dims": d.dims(), "keepdim": d.flag()}


def _place(x: np.ndarray, *, kind: str, dim: int, keepdim: bool) -> np.ndarray:
    pick = max if kind == "max" else min
    out = np.apply_along_axis(lambda v: v.tolist().index(pick(v.tolist())), dim, x)
    return np.expand_dims(out, dim) if keepdim else out


def _mean(x: np.ndarray, *, dims: Shape, keepdim: bool) -> np.ndarray:
    return _folded(x, kind="add", dims=dims, keepdim=keepdim) / math.prod(x.shape[d] for d in dims)


def _softmax(x: np.ndarray, *, dim: int) -> np.ndarray:
    return np.exp(x) / np.add.reduce(np.exp(x), dim, keepdims=True)


def _rows(logits: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    p = _softmax(logits, dim=1)
    hot = np.eye(logits.shape[1])[labels]
    return -np.log((p * hot).sum(1)), p - hot


def _nll(logits: np.ndarray, labels: np.ndarray, *, reduction: str, ignore_index: int) -> np.ndarray:
    kept = [v for v, label in zip(_rows(logits, labels)[0], labels, strict=True) if label != ignore_index]
    if reduction == "none":
        return np.where(labels == ignore_index, 0, _rows(logits, labels)[0])
    return np.float64(math.fsum(kept) / (len(kept) if reduction == "mean" else 1))


def _nll_grad(g: np.ndarray, logits: np.ndarray, labels: np.ndarray, *, reduction: str, ignore_index: int) -> Any:
    keep = (labels != ignore_index)[:, None]
    scale = g[:, None] if reduction == "none" else g / keep.sum() if reduction == "mean" else g
    return _rows(logits, labels)[1] * keep * scale


def _loss_attrs(d: Draw) -> dict[str, Any]:
    # Label 3 is never drawn first, so at least one row counts; -100 means that nothing is ignored.
    return {"reduction": d.one("none", "mean", "sum"), "ignore_index": d.one(-100, 3)}


def loss_case(d: Draw, with_gradient: bool = False) -> Case:
    logits, attrs = d.matrix(), _loss_attrs(d)
    labels = d.labels(4, len(logits))
    labels[0] = 1
    g = [d.values((len(logits),) if attrs["reduction"] == "none" else ())] if with_gradient else []
    return [*g, logits, labels], attrs


def _mse(x: np.ndarray, y: np.ndarray, *, reduction: str) -> np.ndarray:
    square = _each(lambda a, b: (a - b) ** 2)(x, y)
    return square if reduction == "none" else square.sum() / (x.size if reduction == "mean" else 1)


def _matmul_case(d: Draw) -> Case:
    m, k, n = (int(v) for v in d.rng.integers(1, 5, 3))
    ta, tb, lead = d.flag(), d.flag(), d.shape[:1]
    a, b = ((k, m) if ta else (m, k)), ((n, k) if tb else (k, n))
    return [d.values((*lead, *a)), d.values((*lead, *b))], {"transpose_a": ta, "transpose_b": tb}


def _product(a: np.ndarray, b: np.ndarray, *, transpose_a: bool, transpose_b: bool) -> np.ndarray:
    return np.einsum(f"...{'ki' if transpose_a else 'ik'},...{'jk' if transpose_b else 'kj'}->...ij", a, b)


def _linear_case(d: Draw) -> Case:
    k, n = (int(v) for v in d.rng.integers(1, 5, 2))
    return [d.values((*d.shape, k)), d.values((n, k)), *([d.values((n,))] if d.flag() else [])], {}


def _linear(x: np.ndarray, w: np.ndarray, *b: np.ndarray) -> np.ndarray:
    return np.einsum("...k,nk->...n", x, w) + sum(b)


def _moved(x: np.ndarray, *, permutation: Shape) -> np.ndarray:
    out = np.empty([x.shape[p] for p in permutation], x.dtype)
    for at in np.ndindex(x.shape):
        out[tuple(at[p] for p in permutation)] = x[at]
    return out


def _spread_case(d: Draw) -> Case:
    dims = d.dims()
    shape = tuple(e if d.flag() else 1 for i, e in enumerate(d.shape) if i in dims)
    return [d.values(shape)], {"shape": d.shape, "dims": dims}


def _spread(x: np.ndarray, *, shape: Shape, dims: Shape) -> np.ndarray:
    out = np.empty(shape, x.dtype)
    for at in np.ndindex(shape):
        out[at] = x[tuple(at[d] if x.shape[i] != 1 else 0 for i, d in enumerate(dims))]
    return out


def _places(starts: Shape, limits: Shape, strides: Shape) -> list[range]:
    return [range(s, e, t) for s, e, t in zip(starts, limits, strides, strict=True)]


def _taken(x: np.ndarray, *, starts: Shape, limits: Shape, strides: Shape) -> np.ndarray:
    for d, places in enumerate(_places(starts, limits, strides)):
        x = np.take(x, np.array(places, int), d)
    return x


def _updated(base: np.ndarray, value: np.ndarray, **part: Shape) -> np.ndarray:
    out = base.copy()
    places = _places(**part)
    for at in np.ndindex(value.shape):
        out[tuple(p[i] for p, i in zip(places, at, strict=True))] = value[at]
    return out


def _update_case(d: Draw) -> Case:
    part = d.part()
    return [d.values(), d.values(tuple(map(len, _places(**part))))], part


def _joined(*xs: np.ndarray, dim: int) -> np.ndarray:
    return np.stack([p for x in xs for p in np.moveaxis(x, dim, 0)], dim)


def _join_case(d: Draw) -> Case:
    dim = int(d.rng.integers(len(d.shape)))
    extents = [int(e) for e in d.rng.integers(1, 4, d.rng.integers(1, 4))]
    return [d.values((*d.shape[:dim], e, *d.shape[dim + 1 :])) for e in extents], {"dim": dim}


def _band(x: np.ndarray, *, lower: int | None, upper: int | None) -> np.ndarray:
    i, j = np.indices(x.shape)[-2:]
    return np.where(
        (i - j <= (lower if lower is not None else i)) & (j - i <= (upper if upper is not None else j)), x, 0
    )


def _mixed(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
    return z ^ (z >> 31)


def _words(state: np.ndarray, call: int, n: int) -> list[int]:
    golden = 0x9E3779B97F4A7C15
    first, second = (_mixed((int(v) * golden + k) % 2**64) for k, v in enumerate(state, 1))
    base = _mixed((first + second * 0xBF58476D1CE4E5B9 + call * 0x94D049BB133111EB) % 2**64)
    return [_mixed((base + i * golden) % 2**64) for i in range(1, n + 1)]


def _uniform(state: np.ndarray, *, call: int, type: Type) -> np.ndarray:
    digits = type.dtype.mantissa_bits + 1
    words = _words(state, call, type.size)
    return np.array([math.ldexp(w >> (64 - digits), -digits) for w in words]).reshape(type.shape)


def _normal(state: np.ndarray, *, call: int, type: Type) -> np.ndarray:
    u = [math.ldexp(w >> 11, -53) for w in _words(state, call, 2 * type.size)]
    pairs = zip(u[: type.size], u[type.size :], strict=True)
    return np.array([math.sqrt(-2 * math.log(1 - a)) * math.cos(math.tau * b) for a, b in pairs]).reshape(type.shape)


def _drawn_case(d: Draw) -> Case:
    return [d.rng.integers(0, 2**40, 2)], {"call": int(d.rng.integers(9)), "type": Type(d.shape, d.dtype)}


def _constant(data: bytes, type: Type) -> np.ndarray:
    return np.ndarray(type.shape, type.dtype.host, data)


def _turned(d: Draw) -> Case:
    return [d.values()], {"permutation": tuple(int(p) for p in d.rng.permutation(len(d.shape)))}


ROWS: dict[str, Row] = {
    "full": Row(
        lambda d: ([], {"value": 3, "type": Type(d.shape, d.dtype)}), lambda value, type: np.zeros(type.shape) + 3
    ),
    "const": Row(lambda d: ([], {"data": d.values().tobytes(), "type": Type(d.shape, d.dtype)}), _constant, "fib"),
    "arange": Row(
        lambda d: ([], {"start": -3, "step": 2, "type": Type((7,), d.dtype)}),
        lambda start, step, type: np.array([-3, -1, 1, 3, 5, 7, 9]),
        "fi",
    ),
    "detach": Row(lambda d: ([d.values()], {}), lambda x: x, "fib"),
    "variable": Row(lambda d: ([d.values()], {"uid": 5}), lambda x, uid: x),
    "exp": _unary(math.exp),
    "log": _unary(math.log, _positive),
    "sin": _unary(math.sin),
    "cos": _unary(math.cos),
    "tanh": _unary(math.tanh),
    "sigmoid": _unary(lambda x: 0.5 + 0.5 * math.tanh(x / 2)),
    "sqrt": _unary(math.sqrt, _positive),
    "rsqrt": _unary(lambda x: x**-0.5, _positive),
    "reciprocal": _unary(lambda x: x**-1, _off_zero),
    "abs": _unary(lambda x: math.copysign(x, 1), kinds="fi"),
    "sign": _unary(lambda x: (x > 0) - (x < 0), kinds="fi"),
    "floor": _unary(math.floor, Draw.off_grid),
    "ceil": _unary(math.ceil, Draw.off_grid),
    "round": _unary(round, Draw.off_grid),
    "trunc": _unary(int, Draw.off_grid),
    "relu": _unary(lambda x: max(x, 0), kinds="fi"),
    "erf": _unary(math.erf),
    "gelu": Row(lambda d: ([d.values()], {"approximate": d.one("none", "tanh")}), _gelu, special=True),
    "neg": _unary(lambda x: 0 - x, kinds="fi"),
    "log1p": _unary(math.log1p, _between(-0.8, 3)),
    "expm1": _unary(math.expm1),
    "log2": _unary(math.log2, _positive),
    "tan": _unary(math.tan, _between(-1.2, 1.2)),
    "silu": _unary(lambda x: x / (1 + math.exp(-x))),
    "add": _binary(lambda a, b: a - -b),
    "sub": _binary(lambda a, b: a + -b),
    "mul": _binary(lambda a, b: b * a),
    "div": Row(lambda d: ([d.distinct(), _off_zero(d)], {}), _each(operator.truediv), "f", special=True),
    "maximum": _binary(lambda a, b: a if a > b else b),
    "minimum": _binary(lambda a, b: a if a < b else b),
    "pow": Row(lambda d: ([d.within(0.3, 2), d.values()], {}), _each(math.pow), special=True),
    "fmod": Row(_quotients, _each(math.fmod), special=True),
    "atan2": _binary(math.atan2, "f"),
    "gt": _truth(operator.gt),
    "ge": _truth(operator.ge),
    "lt": _truth(operator.lt),
    "le": _truth(operator.le),
    "eq": _truth(operator.eq),
    "ne": _truth(operator.ne),
    "logical_and": _truth(lambda a, b: bool(a) and bool(b)),
    "logical_or": _truth(lambda a, b: bool(a) or bool(b)),
    "logical_xor": _truth(lambda a, b: bool(a) is not bool(b)),
    "logical_not": _truth(operator.not_, 1),
    "isnan": _truth(math.isnan, 1),
    "isfinite": _truth(math.isfinite, 1),
    "where": Row(lambda d: ([d.truths(), d.values(), d.values()], {}), _each(lambda c, a, b: a if c else b), "fi"),
    "clamp": Row(_bounds, _each(lambda x, low, high: sorted((x, low, high))[1]), special=True),
    "cast": Row(
        lambda d: (
            [d.off_grid()],
            {"dtype": d.one(dt.float64, dt.float32, dt.bfloat16, dt.float16, dt.int64, dt.bool_)},
        ),
        _convert,
        "fib",
    ),
    "convert": Row(lambda d: ([d.off_grid()], {"dtype": d.one(dt.float32, dt.bfloat16, dt.float16)}), _convert),
    "random_uniform": Row(_drawn_case, _uniform),
    "random_normal": Row(_drawn_case, _normal),
    "reduce": Row(_reduce_case, _folded, "fib", least_extent=1),
    "arg_reduce": Row(
        lambda d: ([d.values()], {"kind": d.one("max", "min"), "dim": 0, "keepdim": d.flag()}), _place, "fi", 1, 1
    ),
    "mean": Row(lambda d: ([d.values()], {"dims": d.dims(), "keepdim": d.flag()}), _mean, least_extent=1),
    "softmax": Row(lambda d: ([d.values()], {"dim": len(d.shape) - 1}), _softmax, "f", 1, 1),
    "log_softmax": Row(lambda d: ([d.values()], {"dim": 0}), lambda x, dim: np.log(_softmax(x, dim=dim)), "f", 1, 1),
    "softmax_cross_entropy": Row(lambda d: (loss_case(d)[0], {}), _rows, "f", 1, 1),
    "cross_entropy": Row(loss_case, _nll, "f", 1, 1),
    "cross_entropy_grad": Row(lambda d: loss_case(d, True), _nll_grad, "f", 1, 1),
    "mse_loss": Row(
        lambda d: ([d.values(), d.values()], {"reduction": d.one("none", "mean", "sum")}), _mse, least_extent=1
    ),
    "matmul": Row(_matmul_case, _product, least_extent=1),
    "linear": Row(_linear_case, _linear, least_extent=1),
    "reshape": Row(
        lambda d: ([d.values()], {"shape": d.one((math.prod(d.shape),), (1, *d.shape[::-1]))}),
        lambda x, shape: np.array(x.ravel().tolist(), x.dtype).reshape(shape),
        "fib",
    ),
    "transpose": Row(_turned, _moved, "fib"),
    "broadcast_in_dim": Row(_spread_case, _spread, "fib"),
    "slice": Row(lambda d: ([d.values()], d.part()), _taken, "fib"),
    "slice_update": Row(_update_case, _updated, "fib"),
    "concat": Row(_join_case, _joined, "fib", 1, 1),
    "band_part": Row(
        lambda d: ([d.values()], {"lower": d.one(None, 0, 1), "upper": d.one(None, 0, 2)}), _band, "f", 0, 2
    ),
}
STRUCTURE = {"leaf", "state", "batch", "result", "written_past"}
"""Operations without a value of their own, and a write whose gradient is no derivative."""

NOT_DIFFERENTIABLE = (STRUCTURE - {"result", "written_past"}) | set(
    """full const arange detach variable gt ge lt le eq ne logical_and logical_or logical_xor logical_not isnan isfinite
    arg_reduce random_uniform random_normal softmax_cross_entropy one_hot""".split()
)

# The rows of a family are made of what stands above.
from tests.lazytensor.ops import (  # noqa: E402
    op_rows_composite,
    op_rows_factor,
    op_rows_front_end,
    op_rows_identity,
    op_rows_index,
    op_rows_nn,
    op_rows_recurrent,
    op_rows_special,
    op_rows_strided,
)

ROWS |= op_rows_nn.ROWS
NOT_DIFFERENTIABLE |= op_rows_nn.NOT_DIFFERENTIABLE
ROWS |= op_rows_strided.ROWS
ROWS |= op_rows_identity.ROWS
ROWS |= op_rows_special.ROWS
NOT_DIFFERENTIABLE |= op_rows_special.NOT_DIFFERENTIABLE
ROWS |= op_rows_index.ROWS
NOT_DIFFERENTIABLE |= op_rows_index.NOT_DIFFERENTIABLE
ROWS |= op_rows_factor.ROWS
NOT_DIFFERENTIABLE |= op_rows_factor.NOT_DIFFERENTIABLE
ROWS |= op_rows_composite.ROWS
NOT_DIFFERENTIABLE |= op_rows_composite.NOT_DIFFERENTIABLE
ROWS |= op_rows_front_end.ROWS
NOT_DIFFERENTIABLE |= op_rows_front_end.NOT_DIFFERENTIABLE
ROWS |= op_rows_recurrent.ROWS
NOT_DIFFERENTIABLE |= op_rows_recurrent.NOT_DIFFERENTIABLE
