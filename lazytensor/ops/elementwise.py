"""Element by element: arithmetic, comparisons, selection, conversion, activations.

Operands have equal types here; broadcasting and promotion happened at the door (`lazytensor.tensor`).
"""

import math
from typing import Any

import numpy as np

from lazytensor.dtype import DType, bool_, round_to
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type
from lazytensor.ops.circular import cosine, sine
from lazytensor.ops.op import call, full_like, op, per_element, same_types

FRONT_END_LOG2_E = 1.4427
"""The five digits that the front end multiplies a natural logarithm by; the host computes log2 itself."""
SQRT_HALF, SQRT_TWO_OVER_PI = math.sqrt(0.5), math.sqrt(2 / math.pi)
_erf = np.frompyfunc(math.erf, 1, 1)


def compared(a: Type, b: Type, **attrs: Any) -> Type:
    """Infer rule of comparisons: equal inputs, boolean output."""
    return Type(same_types(a, b).shape, bool_)


def _tested(x: Type) -> Type:
    return Type(x.shape, bool_)


def _selected(c: Type, a: Type, b: Type) -> Type:
    if c.dtype is not bool_ or c.shape != a.shape:
        raise ShapeError(f"the condition is {c}, the values are {a}", hint="The condition has to be bool[same shape].")
    return same_types(a, b)


def erf_array(x: np.ndarray) -> np.ndarray:
    """The error function of each element, computed in double precision."""
    return np.asarray(_erf(np.asarray(x, np.float64)), np.float64).astype(x.dtype)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return (1 / (1 + np.exp(-x))).astype(x.dtype)


def _gelu(x: np.ndarray, *, approximate: str) -> np.ndarray:
    if approximate == "tanh":
        return (0.5 * x * (1 + np.tanh(SQRT_TWO_OVER_PI * (x + 0.044715 * x * x * x)))).astype(x.dtype)
    return (0.5 * x * (1 + erf_array(x * x.dtype.type(SQRT_HALF)))).astype(x.dtype)


def gelu_vjp(g: Node, y: Node, x: Node, *, approximate: str) -> tuple[Node]:
    """The gradient of gelu in simpler operations."""
    if approximate == "tanh":
        x2 = mul(x, x)
        inner = mul(full_like(SQRT_TWO_OVER_PI, x), mul(x, add(full_like(1, x), mul(full_like(0.044715, x), x2))))
        t = call("tanh", inner)
        slope = mul(full_like(SQRT_TWO_OVER_PI, x), add(full_like(1, x), mul(full_like(3 * 0.044715, x), x2)))
        half = mul(full_like(0.5, x), add(full_like(1, x), t))
        rest = mul(mul(full_like(0.5, x), x), mul(sub(full_like(1, x), mul(t, t)), slope))
        return (mul(g, add(half, rest)),)
    cdf = mul(full_like(0.5, x), add(full_like(1, x), call("erf", mul(x, full_like(SQRT_HALF, x)))))
    pdf = mul(full_like(1 / math.sqrt(2 * math.pi), x), call("exp", mul(full_like(-0.5, x), mul(x, x))))
    return (mul(g, add(cdf, mul(x, pdf))),)


def add(a: Node, b: Node) -> Node:
    """a + b"""
    return call("add", a, b)


def sub(a: Node, b: Node) -> Node:
    """a - b"""
    return call("sub", a, b)


def mul(a: Node, b: Node) -> Node:
    """a * b"""
    return call("mul", a, b)


def div(a: Node, b: Node) -> Node:
    """a / b"""
    return call("div", a, b)


def where(c: Node, a: Node, b: Node) -> Node:
    """a where c holds, else b"""
    return call("where", c, a, b)


def compare(name: str, a: Node, b: Node) -> Node:
    """One of gt, ge, lt, le, eq, ne."""
    return call(name, a, b)


def cast(x: Node, dtype: DType) -> Node:
    """x converted to `dtype`; the same node if it has it already."""
    return x if x.type.dtype is dtype else call("cast", x, dtype=dtype)


def _cast_array(x: np.ndarray, *, dtype: DType) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        out = x.astype(dtype.host)
    return round_to(out, dtype)


def _unary(name: str, eval: Any, vjp: Any, scalar: str = "", flops: int = 1, **facets: Any) -> None:
    op(name, same_types, eval, vjp=vjp, scalar=scalar or name + "({0})", work=per_element(flops), **facets)


def _one(x: Node) -> Node:
    return full_like(1, x)


# Transcendental functions are counted as 10 flops, the convention of the performance model.
_unary("exp", np.exp, lambda g, y, x: (mul(g, y),), flops=10)
_unary("log", np.log, lambda g, y, x: (div(g, x),), flops=10)
_unary("sin", sine, lambda g, y, x: (mul(g, call("cos", x)),), flops=10)
_unary("cos", cosine, lambda g, y, x: (call("neg", mul(g, call("sin", x))),), flops=10)
_unary("tanh", np.tanh, lambda g, y, x: (mul(g, sub(_one(x), mul(y, y))),), flops=10)
_unary("sigmoid", _sigmoid, lambda g, y, x: (mul(g, mul(y, sub(_one(x), y))),), flops=10)
_unary("sqrt", np.sqrt, lambda g, y, x: (div(g, mul(full_like(2, x), y)),), flops=4)
_unary(
    "rsqrt",
    lambda x: 1 / np.sqrt(x),
    lambda g, y, x: (mul(g, mul(full_like(-0.5, x), mul(y, mul(y, y)))),),
    flops=4,
)
_unary("reciprocal", np.reciprocal, lambda g, y, x: (call("neg", mul(g, mul(y, y))),), "(one / {0})", 4)
_unary("abs", np.abs, lambda g, y, x: (mul(g, call("sign", x)),))
_unary("sign", np.sign, lambda g, y, x: (full_like(0, x),))
_unary("floor", np.floor, lambda g, y, x: (full_like(0, x),))
_unary("ceil", np.ceil, lambda g, y, x: (full_like(0, x),))
_unary("round", np.rint, lambda g, y, x: (full_like(0, x),))
_unary("relu", lambda x: np.where(x <= 0, x.dtype.type(0), x), lambda g, y, x: _relu_vjp(g, y))
_unary(
    "erf",
    erf_array,
    lambda g, y, x: (mul(g, mul(full_like(2 / math.sqrt(math.pi), x), call("exp", call("neg", mul(x, x))))),),
    flops=10,
)
op(
    "gelu",
    lambda x, *, approximate: x,
    _gelu,
    vjp=lambda g, y, x, **attrs: (call("gelu_grad", g, x, **attrs),),
    work=per_element(14),
    decompose=lambda x, *, approximate: _gelu_parts(x, approximate),
)
_unary(
    "neg",
    np.negative,
    lambda g, y, x: (call("neg", g),),
    "(-{0})",
    native=False,
    decompose=lambda x: mul(x, full_like(-1, x)),
)
_unary(
    "log1p",
    np.log1p,
    lambda g, y, x: (div(g, add(x, _one(x))),),
    flops=10,
    native=False,
    decompose=lambda x: call("log", add(x, _one(x))),
)
_unary(
    "expm1",
    np.expm1,
    lambda g, y, x: (mul(g, add(y, _one(x))),),
    flops=10,
    native=False,
    decompose=lambda x: sub(call("exp", x), _one(x)),
)
_unary(
    "log2",
    np.log2,
    lambda g, y, x: (div(g, mul(x, full_like(math.log(2), x))),),
    flops=10,
    native=False,
    decompose=lambda x: mul(call("log", x), full_like(FRONT_END_LOG2_E, x)),
)
_unary(
    "tan",
    np.tan,
    lambda g, y, x: (mul(g, add(_one(x), mul(y, y))),),
    flops=20,
    native=False,
    decompose=lambda x: div(call("sin", x), call("cos", x)),
)
_unary(
    "silu",
    lambda x: x * _sigmoid(x),
    lambda g, y, x: _silu_vjp(g, x),
    "({0} * sigmoid({0}))",
    11,
    native=False,
    decompose=lambda x: mul(x, call("sigmoid", x)),
)


def _relu_vjp(g: Node, y: Node) -> tuple[Node]:
    zero = full_like(0, y)
    return (where(compare("gt", y, zero), g, zero),)


def _silu_vjp(g: Node, x: Node) -> tuple[Node]:
    s = call("sigmoid", x)
    return (mul(g, mul(s, add(_one(x), mul(x, sub(_one(x), s))))),)


def _gelu_parts(x: Node, approximate: str) -> Node:
    half = mul(full_like(0.5, x), x)
    if approximate == "tanh":
        cube = mul(x, mul(x, x))
        inner = mul(full_like(SQRT_TWO_OVER_PI, x), add(x, mul(full_like(0.044715, x), cube)))
        return mul(half, add(_one(x), call("tanh", inner)))
    return mul(half, add(_one(x), call("erf", mul(x, full_like(SQRT_HALF, x)))))


def _binary(name: str, eval: Any, vjp: Any, scalar: str = "", flops: int = 1, **facets: Any) -> None:
    op(name, same_types, eval, vjp=vjp, scalar=scalar or name + "({0}, {1})", work=per_element(flops), **facets)


def _extremum_vjp(comparison: str) -> Any:
    """Ties share the gradient evenly, as in PyTorch."""

    def vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
        zero, half = full_like(0, a), mul(g, full_like(0.5, a))
        tie = compare("eq", a, b)
        first = where(tie, half, where(compare(comparison, a, b), g, zero))
        second = where(tie, half, where(compare(comparison, b, a), g, zero))
        return first, second

    return vjp


def _pow_vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    zero, one = full_like(0, a), full_like(1, a)
    exponent_zero = compare("eq", b, zero)
    da = where(exponent_zero, zero, mul(g, mul(b, call("pow", a, sub(b, one)))))
    safe = where(compare("gt", a, zero), a, one)
    # 0 ** b with b >= 0 has slope 0 in b; a negative base has none.
    db = mul(g, mul(y, call("log", safe)))
    at_zero = call("logical_and", compare("eq", a, zero), compare("ge", b, zero))
    return da, where(at_zero, zero, db)


def _floating_pow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.power(a, b)


_binary("add", np.add, lambda g, y, a, b: (g, g), "({0} + {1})")
_binary("sub", np.subtract, lambda g, y, a, b: (g, call("neg", g)), "({0} - {1})")
_binary("mul", np.multiply, lambda g, y, a, b: (mul(g, b), mul(g, a)), "({0} * {1})")
_binary("div", np.divide, lambda g, y, a, b: (div(g, b), call("neg", div(mul(g, y), b))), "({0} / {1})", 4)
_binary("maximum", np.maximum, _extremum_vjp("gt"))
_binary("minimum", np.minimum, _extremum_vjp("lt"))
_binary("pow", _floating_pow, _pow_vjp, flops=20)
_binary(
    "fmod", np.fmod, native=False, vjp=lambda g, y, a, b: (g, call("neg", mul(g, call("trunc", div(a, b))))), flops=8
)
_binary(
    "atan2",
    np.arctan2,
    lambda g, y, a, b: (
        div(mul(g, b), add(mul(a, a), mul(b, b))),
        call("neg", div(mul(g, a), add(mul(a, a), mul(b, b)))),
    ),
    flops=10,
)
_unary("trunc", np.trunc, lambda g, y, x: (full_like(0, x),), native=False)

for _name, _eval, _sign in (
    ("gt", np.greater, ">"),
    ("ge", np.greater_equal, ">="),
    ("lt", np.less, "<"),
    ("le", np.less_equal, "<="),
    ("eq", np.equal, "=="),
    ("ne", np.not_equal, "!="),
):
    op(_name, compared, _eval, scalar=f"({{0}} {_sign} {{1}})")
op("logical_and", compared, np.logical_and, scalar="(({0} != 0) & ({1} != 0))")
op("logical_or", compared, np.logical_or, scalar="(({0} != 0) | ({1} != 0))")
op("logical_xor", compared, np.logical_xor, scalar="(({0} != 0) != ({1} != 0))")
op("logical_not", _tested, np.logical_not, scalar="({0} == 0)", native=False)
op("isnan", _tested, np.isnan, scalar="({0} != {0})", native=False)
op("isfinite", _tested, np.isfinite, scalar="(({0} - {0}) == 0)", native=False)
op(
    "where",
    _selected,
    np.where,
    vjp=lambda g, y, c, a, b: (None, where(c, g, full_like(0, g)), where(c, full_like(0, g), g)),
    scalar="({1} if {0} else {2})",
)
op(
    "clamp",
    same_types,
    lambda x, low, high: np.minimum(np.maximum(x, low), high),
    vjp=lambda g, y, x, low, high: (
        where(call("logical_and", compare("ge", x, low), compare("le", x, high)), g, full_like(0, g)),
        where(call("logical_and", compare("lt", x, low), compare("lt", low, high)), g, full_like(0, g)),
        where(call("logical_or", compare("gt", x, high), compare("lt", high, low)), g, full_like(0, g)),
    ),
    scalar="minimum(maximum({0}, {1}), {2})",
    work=per_element(2),
)
op(
    "cast",
    lambda x, *, dtype: Type(x.shape, dtype),
    _cast_array,
    vjp=lambda g, y, x, *, dtype: (cast(g, x.type.dtype) if x.type.dtype.kind == "f" else None,),
    scalar="cast",  # the generator spells the conversion, since it depends on the attribute
)
