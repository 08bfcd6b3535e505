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
from lazytensor.ops.op import call, combine, full_like, op, per_element, same_types

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
        x2 = x * x
        inner = SQRT_TWO_OVER_PI * (x * (1 + 0.044715 * x2))
        t = call("tanh", inner)
        slope = SQRT_TWO_OVER_PI * (1 + 3 * 0.044715 * x2)
        half = 0.5 * (1 + t)
        rest = 0.5 * x * ((1 - t * t) * slope)
        return (g * (half + rest),)
    cdf = 0.5 * (1 + call("erf", x * SQRT_HALF))
    pdf = 1 / math.sqrt(2 * math.pi) * call("exp", -0.5 * (x * x))
    return (g * (cdf + x * pdf),)


def where(c: Node, a: Node | float, b: Node | float) -> Node:
    """a where c holds, else b; one of them may be a number."""
    if not isinstance(a, Node):
        assert isinstance(b, Node), "two numbers have no type"
        return call("where", c, full_like(a, b), b)
    return call("where", c, a, b if isinstance(b, Node) else full_like(b, a))


def eq(a: Node, b: Node | float) -> Node:
    """Where a equals b. The operator `==` compares nodes by identity."""
    return combine("eq", a, b)


def ne(a: Node, b: Node | float) -> Node:
    """Where a differs from b. The operator `!=` compares nodes by identity."""
    return combine("ne", a, b)


def cast(x: Node, dtype: DType) -> Node:
    """x converted to `dtype`; the same node if it has it already."""
    return x if x.type.dtype is dtype else call("cast", x, dtype=dtype)


def _cast_array(x: np.ndarray, *, dtype: DType) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        out = x.astype(dtype.host)
    return round_to(out, dtype)


def _unary(name: str, eval: Any, vjp: Any, scalar: str = "", flops: int = 1, **facets: Any) -> None:
    op(name, same_types, eval, vjp=vjp, scalar=scalar or name + "({0})", work=per_element(flops), **facets)


# Transcendental functions are counted as 10 flops, the convention of the performance model.
_unary("exp", np.exp, lambda g, y, x: (g * y,), flops=10)
_unary("log", np.log, lambda g, y, x: (g / x,), flops=10)
_unary("sin", sine, lambda g, y, x: (g * call("cos", x),), flops=10)
_unary("cos", cosine, lambda g, y, x: (-(g * call("sin", x)),), flops=10)
_unary("tanh", np.tanh, lambda g, y, x: (g * (1 - y * y),), flops=10)
_unary("sigmoid", _sigmoid, lambda g, y, x: (g * (y * (1 - y)),), flops=10)
_unary("sqrt", np.sqrt, lambda g, y, x: (g / (2 * y),), flops=4)
_unary("rsqrt", lambda x: 1 / np.sqrt(x), lambda g, y, x: (g * (-0.5 * (y * (y * y))),), flops=4)
_unary("reciprocal", np.reciprocal, lambda g, y, x: (-(g * (y * y)),), "(one / {0})", 4)
_unary("abs", np.abs, lambda g, y, x: (g * call("sign", x),))
_unary("sign", np.sign, lambda g, y, x: (full_like(0, x),))
_unary("floor", np.floor, lambda g, y, x: (full_like(0, x),))
_unary("ceil", np.ceil, lambda g, y, x: (full_like(0, x),))
_unary("round", np.rint, lambda g, y, x: (full_like(0, x),))
_unary("relu", lambda x: np.where(x <= 0, x.dtype.type(0), x), lambda g, y, x: _relu_vjp(g, y))
_unary("erf", erf_array, lambda g, y, x: (g * (2 / math.sqrt(math.pi) * call("exp", -(x * x))),), flops=10)
op(
    "gelu",
    lambda x, *, approximate: x,
    _gelu,
    vjp=lambda g, y, x, **attrs: (call("gelu_grad", g, x, **attrs),),
    work=per_element(14),
    decompose=lambda x, *, approximate: _gelu_parts(x, approximate),
)
_unary("neg", np.negative, lambda g, y, x: (-g,), "(-{0})", native=False, decompose=lambda x: x * -1)
_unary(
    "log1p", np.log1p, lambda g, y, x: (g / (x + 1),), flops=10, native=False, decompose=lambda x: call("log", x + 1)
)
_unary(
    "expm1", np.expm1, lambda g, y, x: (g * (y + 1),), flops=10, native=False, decompose=lambda x: call("exp", x) - 1
)
_unary(
    "log2",
    np.log2,
    lambda g, y, x: (g / (x * math.log(2)),),
    flops=10,
    native=False,
    decompose=lambda x: call("log", x) * FRONT_END_LOG2_E,
)
_unary(
    "tan",
    np.tan,
    lambda g, y, x: (g * (1 + y * y),),
    flops=20,
    native=False,
    decompose=lambda x: call("sin", x) / call("cos", x),
)
_unary(
    "silu",
    lambda x: x * _sigmoid(x),
    lambda g, y, x: _silu_vjp(g, x),
    "({0} * sigmoid({0}))",
    11,
    native=False,
    decompose=lambda x: x * call("sigmoid", x),
)


def _relu_vjp(g: Node, y: Node) -> tuple[Node]:
    return (where(y > 0, g, 0),)


def _silu_vjp(g: Node, x: Node) -> tuple[Node]:
    s = call("sigmoid", x)
    return (g * (s * (1 + x * (1 - s))),)


def _gelu_parts(x: Node, approximate: str) -> Node:
    half = 0.5 * x
    if approximate == "tanh":
        cube = x * (x * x)
        inner = SQRT_TWO_OVER_PI * (x + 0.044715 * cube)
        return half * (1 + call("tanh", inner))
    return half * (1 + call("erf", x * SQRT_HALF))


def _binary(name: str, eval: Any, vjp: Any, scalar: str = "", flops: int = 1, **facets: Any) -> None:
    op(name, same_types, eval, vjp=vjp, scalar=scalar or name + "({0}, {1})", work=per_element(flops), **facets)


def _extremum_vjp(comparison: str) -> Any:
    """Ties share the gradient evenly, as in PyTorch."""

    def vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
        half = g * 0.5
        tie = eq(a, b)
        first = where(tie, half, where(call(comparison, a, b), g, 0))
        second = where(tie, half, where(call(comparison, b, a), g, 0))
        return first, second

    return vjp


def _pow_vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    exponent_zero = eq(b, 0)
    da = where(exponent_zero, 0, g * (b * a ** (b - 1)))
    safe = where(a > 0, a, 1)
    # 0 ** b with b >= 0 has slope 0 in b; a negative base has none.
    db = g * (y * call("log", safe))
    at_zero = call("logical_and", eq(a, 0), b >= 0)
    return da, where(at_zero, 0, db)


def _floating_pow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.power(a, b)


_binary("add", np.add, lambda g, y, a, b: (g, g), "({0} + {1})")
_binary("sub", np.subtract, lambda g, y, a, b: (g, -g), "({0} - {1})")
_binary("mul", np.multiply, lambda g, y, a, b: (g * b, g * a), "({0} * {1})")
_binary("div", np.divide, lambda g, y, a, b: (g / b, -(g * y / b)), "({0} / {1})", 4)
_binary("maximum", np.maximum, _extremum_vjp("gt"))
_binary("minimum", np.minimum, _extremum_vjp("lt"))
_binary("pow", _floating_pow, _pow_vjp, flops=20)
_binary("fmod", np.fmod, native=False, vjp=lambda g, y, a, b: (g, -(g * call("trunc", a / b))), flops=8)
_binary("atan2", np.arctan2, lambda g, y, a, b: (g * b / (a * a + b * b), -(g * a / (a * a + b * b))), flops=10)
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
    vjp=lambda g, y, c, a, b: (None, where(c, g, 0), where(c, 0, g)),
    scalar="({1} if {0} else {2})",
)
op(
    "clamp",
    same_types,
    lambda x, low, high: np.minimum(np.maximum(x, low), high),
    vjp=lambda g, y, x, low, high: (
        where(call("logical_and", x >= low, x <= high), g, 0),
        where(call("logical_and", x < low, low < high), g, 0),
        where(call("logical_or", x > high, high < low), g, 0),
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
