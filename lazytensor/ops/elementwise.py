"""Elementwise operations: arithmetic, comparisons, selection, conversion and activations.

Operands have equal types. Broadcasting and type promotion happen before, in `lazytensor.core.tensor`.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lazytensor.cirh.spelling import (
    CAST,
    comparison,
    extremum_as_clamp,
    gelu_attribute,
    same_type_operation,
    typed_operation,
)
from lazytensor.core.dtype import DType, bool_, float32, round_to
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import LoopBody, elementwise_work, legal_by_decomposition
from lazytensor.ir.types import Type
from lazytensor.ops.op import call, combine, full_like, op, same_types
from lazytensor.ops.sin_cos import cosine, sine

FRONT_END_LOG2_E = 1.4427
"""log2(e) with the five digits that the front end multiplies a natural logarithm by.

The host computes log2 directly.
"""
SQRT_HALF, SQRT_TWO_OVER_PI = math.sqrt(0.5), math.sqrt(2 / math.pi)
# NumPy has no error function. C's function, one element at a time, is within one unit of a double's last place.
_erf = np.frompyfunc(math.erf, 1, 1)


def comparison_type(a: Type, b: Type, **attrs: Any) -> Type:
    """Infer rule of comparisons: operands of equal type, and a boolean result."""
    return Type(same_types(a, b).shape, bool_)


def _test_type(x: Type) -> Type:
    return Type(x.shape, bool_)


def _where_type(c: Type, a: Type, b: Type) -> Type:
    if c.dtype is not bool_ or c.shape != a.shape:
        raise ShapeError(
            f"the condition {c} does not match the values {a}",
            hint="Pass a condition of type bool with the shape of the values.",
        )
    return same_types(a, b)


def erf_array(x: np.ndarray) -> np.ndarray:
    """Return the error function of each element, computed in double precision."""
    return np.asarray(_erf(np.asarray(x, np.float64)), np.float64).astype(x.dtype)


def sigmoid_values(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x)) of each element."""
    # If exp(-x) is infinite, 1 / inf is the correct 0.
    with np.errstate(over="ignore"):
        return np.asarray((1 / (1 + np.exp(-x))).astype(x.dtype))


def _gelu(x: np.ndarray, *, approximate: str) -> np.ndarray:
    # 0.044715 is the fitted constant of D. Hendrycks and K. Gimpel (arXiv:1606.08415), as in PyTorch and CIRH.
    if approximate == "tanh":
        return np.asarray((0.5 * x * (1 + np.tanh(SQRT_TWO_OVER_PI * (x + 0.044715 * x * x * x)))).astype(x.dtype))
    return np.asarray((0.5 * x * (1 + erf_array(x * x.dtype.type(SQRT_HALF)))).astype(x.dtype))


def gelu_vjp(g: Node, y: Node, x: Node, *, approximate: str) -> tuple[Node]:
    """Return a tuple of the gradient of GELU, in simpler operations.

    It is that of the approximation by tanh if `approximate` is "tanh", and else the exact one.
    """
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
    """Return `a` where `c` is True and `b` elsewhere. One of `a` and `b` may be a number, which gets the other's type.

    Raise AssertionError if both are numbers.
    """
    if not isinstance(a, Node):
        assert isinstance(b, Node), "at least one of the values must be a node"
        return call("where", c, full_like(a, b), b)
    return call("where", c, a, b if isinstance(b, Node) else full_like(b, a))


def eq(a: Node, b: Node | float) -> Node:
    """Return whether a equals b, elementwise. The operator `==` compares nodes by identity."""
    return combine("eq", a, b)


def ne(a: Node, b: Node | float) -> Node:
    """Return whether a differs from b, elementwise. The operator `!=` compares nodes by identity."""
    return combine("ne", a, b)


def rounded_once(formula: Callable[..., Node]) -> Callable[..., Node]:
    """Return `formula` with half operands converted to float32, and the result converted back to the half type.

    Otherwise compiled code rounds each step of the formula to the half type, while its value in NumPy is rounded once,
    as PyTorch's is.
    """

    @functools.wraps(formula)
    def wide(*inputs: Node, **attrs: Any) -> Node:
        half = next((n.type.dtype for n in inputs if n.type.dtype.is_half), None)
        if half is None:
            return formula(*inputs, **attrs)
        widened = [cast(n, float32) if n.type.dtype.is_half else n for n in inputs]
        return cast(formula(*widened, **attrs), half)

    return wide


def cast(x: Node, dtype: DType) -> Node:
    """Return `x` converted to `dtype`, or `x` itself if it has that dtype.

    A result of integer or boolean dtype does not track gradients.
    """
    if x.type.dtype is dtype:
        return x
    converted = call("cast", x, dtype=dtype)
    if dtype.kind != "f":
        converted.tracks = False
    return converted


def _cast_array(x: np.ndarray, *, dtype: DType) -> np.ndarray:
    # The conversion of NaN and infinity to integers depends on the processor, in NumPy as in PyTorch.
    with np.errstate(invalid="ignore"):
        out = x.astype(dtype.host)
    return round_to(out, dtype)


def _pointwise(name: str, arity: int, eval: Any, vjp: Any, flops: int, body: LoopBody | None, **facets: Any) -> None:
    """Register a pointwise operation of `arity` operands.

    If `body` is None, the loop body calls the function `name`; it counts as a library routine if `flops` is above 1.
    """
    if body is None:
        operands = ", ".join(f"{{{k}}}" for k in range(arity))
        # An operation of several flops is not one instruction: a core calls a library routine for it.
        body = LoopBody(f"{name}({operands})", "special" if flops > 1 else "add")
    op(name, same_types, eval, vjp=vjp, body=body, work=elementwise_work(flops), **facets)


def _unary(name: str, eval: Any, vjp: Any, flops: int = 1, body: LoopBody | None = None, **facets: Any) -> None:
    _pointwise(name, 1, eval, vjp, flops, body, **facets)


def _binary(name: str, eval: Any, vjp: Any, flops: int = 1, body: LoopBody | None = None, **facets: Any) -> None:
    _pointwise(name, 2, eval, vjp, flops, body, **facets)


def _zero_vjp(g: Node, y: Node, x: Node) -> tuple[Node]:
    """Gradient rule of piecewise constant functions: zero."""
    return (full_like(0, x),)


def _integer_part(x: Node) -> Node:
    return call("floor", call("abs", x)) * call("sign", x)


def _relu_vjp(g: Node, y: Node) -> tuple[Node]:
    # Uses the result, which is kept anyway, so that the operand can be freed.
    return (call("relu_grad", g, y),)


# Transcendental functions count as 10 flops, the convention of the performance model. Gradients use the result where
# possible (exp, tanh, sigmoid, tan, expm1), as in PyTorch, because it is already computed.
_unary("exp", np.exp, lambda g, y, x: (g * y,), 10, cirh=same_type_operation("Exp", arrow=True), autocast="float32")
_unary("log", np.log, lambda g, y, x: (g / x,), 10, cirh=same_type_operation("Log"), autocast="float32")
_unary("sin", sine, lambda g, y, x: (g * call("cos", x),), 10, cirh=same_type_operation("Sin"))
_unary("cos", cosine, lambda g, y, x: (-(g * call("sin", x)),), 10, cirh=same_type_operation("Cos"))
_unary("tanh", np.tanh, lambda g, y, x: (call("tanh_grad", g, y),), 10, cirh=same_type_operation("Tanh"))
_unary(
    "sigmoid",
    sigmoid_values,
    lambda g, y, x: (call("sigmoid_grad", g, y),),
    10,
    cirh=same_type_operation("Sigmoid", arrow=True),
)
_unary(
    "erf",
    erf_array,
    lambda g, y, x: (g * (2 / math.sqrt(math.pi) * call("exp", -(x * x))),),
    10,
    cirh=same_type_operation("Erf", arrow=True),
)
_unary(
    "log1p",
    np.log1p,
    lambda g, y, x: (g / (x + 1),),
    10,
    cirh=legal_by_decomposition(lambda x: call("log", x + 1)),
    autocast="float32",
    gradient_name="Log1P",
)
_unary(
    "expm1",
    np.expm1,
    lambda g, y, x: (g * (y + 1),),
    10,
    cirh=legal_by_decomposition(lambda x: call("exp", x) - 1),
    autocast="float32",
    gradient_name="Expm1",
)
_unary(
    "log2",
    np.log2,
    lambda g, y, x: (g / (x * math.log(2)),),
    10,
    cirh=legal_by_decomposition(lambda x: call("log", x) * FRONT_END_LOG2_E),
    autocast="float32",
)
_unary(
    "tan",
    np.tan,
    lambda g, y, x: (g * (1 + y * y),),
    20,
    cirh=legal_by_decomposition(lambda x: call("sin", x) / call("cos", x)),
    autocast="float32",
)
_unary(
    "sqrt",
    np.sqrt,
    lambda g, y, x: (g / (2 * y),),
    4,
    LoopBody("sqrt({0})", "special", is_instruction=True),
    cirh=same_type_operation("Sqrt"),
)
_unary(
    "rsqrt",
    lambda x: 1 / np.sqrt(x),
    lambda g, y, x: (g * -0.5 * call("cube", y),),
    4,
    cirh=same_type_operation("Rsqrt"),
    autocast="float32",
)
_unary(
    "reciprocal",
    np.reciprocal,
    lambda g, y, x: (-(g * (y * y)),),
    4,
    # `one` is a one of the element's type: a literal 1 would widen float32 to float64 in compiled code.
    LoopBody("(one / {0})", "special"),
    cirh=same_type_operation("Reciprocal"),
    autocast="float32",
)
_unary(
    "silu",
    lambda x: x * sigmoid_values(x),
    lambda g, y, x: (call("silu_grad", g, x),),
    11,
    LoopBody("({0} * sigmoid({0}))", "special"),
    cirh=legal_by_decomposition(lambda x: x * call("sigmoid", x)),
    elements="f",
)
op(
    "gelu",
    lambda x, *, approximate: x,
    _gelu,
    vjp=lambda g, y, x, **attrs: (call("gelu_grad", g, x, **attrs),),
    body=LoopBody("gelu_{approximate}({0})", "special"),
    work=elementwise_work(14),
    cirh=typed_operation("Gelu", gelu_attribute, arrow=False),
    elements="f",
)

# The results of these operations are exact in the operand's type, so half types need no rounding.
_unary(
    "abs",
    np.abs,
    lambda g, y, x: (g * call("sign", x),),
    body=LoopBody("abs({0})", kinds="fi", integer="abs({0})", is_exact=True, is_instruction=True),
    cirh=same_type_operation("Abs"),
    elements="fi",
)
_unary(
    "sign",
    # 0 for NaN, as in PyTorch.
    lambda x: np.nan_to_num(np.sign(x)),
    _zero_vjp,
    body=LoopBody("sign({0})", kinds="fi", integer="sign_i({0})", is_exact=True),
    cirh=same_type_operation("Sign"),
)
for _name, _eval in (("floor", np.floor), ("ceil", np.ceil), ("round", np.rint)):
    _body = LoopBody(f"{_name}({{0}})", is_exact=True, is_instruction=True)
    _unary(
        _name, _eval, _zero_vjp, body=_body, cirh=same_type_operation(_name.capitalize()), elements="fi", saves=False
    )
_unary(
    "trunc",
    np.trunc,
    _zero_vjp,
    body=LoopBody("trunc({0})", is_exact=True, is_instruction=True),
    cirh=legal_by_decomposition(_integer_part),
    elements="fi",
    saves=False,
)
_unary(
    "relu",
    # NaN and -0.0 are not below 0 and pass unchanged.
    lambda x: np.where(x < 0, x.dtype.type(0), x),
    lambda g, y, x: _relu_vjp(g, y),
    body=LoopBody("relu({0})", is_exact=True),
    cirh=same_type_operation("Relu"),
    elements="fi",
)
_unary(
    "neg",
    np.negative,
    lambda g, y, x: (-g,),
    body=LoopBody("(-{0})", kinds="fi", is_exact=True),
    # CIRH has no negation.
    cirh=legal_by_decomposition(lambda x: x * -1),
    saves=False,
)


def _extremum_vjp(smaller: str, larger: str) -> Any:
    """Return the gradient rule of a maximum or minimum.

    Ties share the gradient evenly. At NaN both operands get the whole gradient.

    `smaller` is the comparison of a to b that holds if b is the result, `larger` the opposite one.
    """

    def vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
        shared = where(eq(a, b), g / 2, g)
        return where(call(smaller, a, b), 0, shared), where(call(larger, a, b), 0, shared)

    return vjp


def _number_pow_vjp(g: Node, a: Node, b: Node) -> tuple[Node, None]:
    """Gradient rule of a power whose exponent `b` is a constant: (gradient of the base, None).

    With the exponent 0 the gradient is 0 everywhere.
    """
    exponent = b.attrs["value"]
    if exponent == 0:
        return full_like(0, g), None
    # A square is written as a product, as in the front end.
    slope = a * a if exponent == 3 else a ** (exponent - 1)
    return g * (slope * exponent), None


def _pow_vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node | None, Node | None]:
    """Gradient rule of a power: (gradient of the base, gradient of the exponent).

    The gradient of a constant exponent is None; that of the base is None if the base is a positive constant. Slopes
    that would be NaN at a base of 0 or an exponent of 0 are replaced by their limits.
    """
    if b.op == "full":
        return _number_pow_vjp(g, a, b)
    if a.op == "full" and a.attrs["value"] > 0:
        return None, g * (y * math.log(a.attrs["value"]))
    exponent_zero = eq(b, 0)
    # x ** 0 is 1 everywhere: without `where` its slope at 0 would be 0 * 0 ** -1, which is NaN.
    da = where(exponent_zero, 0, g * (b * a ** (b - 1)))
    # 0 ** b with b >= 0 has slope 0 in b. For a negative base the slope is NaN.
    at_zero = call("logical_and", eq(a, 0), b >= 0)
    # The logarithm of 0 must not reach the product: NaN would survive even where it is not selected.
    db = g * (y * call("log", where(at_zero, 1, a)))
    return da, where(at_zero, 0, db)


def _floating_pow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(np.power(a, b))


_binary(
    "add",
    np.add,
    lambda g, y, a, b: (g, g),
    body=LoopBody("({0} + {1})", kinds="fi"),
    cirh=same_type_operation("Add"),
    saves=False,
    autocast="widest",
)
_binary(
    "sub",
    np.subtract,
    lambda g, y, a, b: (g, -g),
    body=LoopBody("({0} - {1})", kinds="fi"),
    cirh=same_type_operation("Sub"),
    saves=False,
    autocast="widest",
)
_binary(
    "mul",
    np.multiply,
    lambda g, y, a, b: (g * b, g * a),
    body=LoopBody("({0} * {1})", kinds="fi"),
    cirh=same_type_operation("Mul"),
    autocast="widest",
)
# -g a / b ** 2 is computed from the quotient: in half types b ** 2 may overflow or underflow when the slope does not.
_binary(
    "div",
    np.divide,
    lambda g, y, a, b: (g / b, -g * (y / b)),
    4,
    LoopBody("({0} / {1})", "special"),
    cirh=same_type_operation("Div"),
    keeps="operands",
    also_keeps="operands",
    autocast="widest",
)
for _name, _extremum, _comparisons, _python in (
    ("maximum", np.maximum, ("lt", "gt"), "max({0}, {1})"),
    ("minimum", np.minimum, ("gt", "lt"), "min({0}, {1})"),
):
    _binary(
        _name,
        _extremum,
        _extremum_vjp(*_comparisons),
        body=LoopBody(f"{_name}({{0}}, {{1}})", kinds="fi", integer=_python, is_exact=True, is_instruction=True),
        # CIRH has neither: the front end writes a clamp with one open bound.
        cirh=extremum_as_clamp(is_maximum=_name == "maximum"),
    )
_binary("pow", _floating_pow, _pow_vjp, 20, cirh=same_type_operation("Pow"), autocast="float32")
_binary(
    "fmod",
    np.fmod,
    # The derivative of a - trunc(a / b) * b, where trunc(a / b) is piecewise constant.
    lambda g, y, a, b: (g, -(g * call("trunc", a / b))),
    8,
    # The front end's formula loses digits if a / b is large; NumPy's fmod on the host is exact.
    cirh=legal_by_decomposition(lambda a, b: a - _integer_part(a / b) * b),
)
_binary(
    "atan2",
    np.arctan2,
    lambda g, y, a, b: (call("atan2_grad", g, b, a, b), call("atan2_grad", g, -a, a, b)),
    10,
    cirh=same_type_operation("Atan2"),
    autocast="widest",
)


def _is_finite(x: Node) -> Node | None:
    """Return the front end's form of isfinite: x equals itself and |x| is not infinite.

    Return None for integers and booleans.
    """
    if x.type.dtype.kind != "f":
        return None
    # ATen's decomposition writes the conjunction as a product of 0 and 1 in float32.
    number, bounded = eq(x, x), ne(call("abs", x), math.inf)
    return cast(cast(number, float32) * cast(bounded, float32), bool_)


def _is_between(x: Node, low: Node, high: Node) -> Node:
    """Return whether low <= x <= high, elementwise.

    A constant infinite bound is not compared. If both are infinite, only the lower one is compared.
    """
    if high.op == "full" and high.attrs["value"] == math.inf:
        return x >= low
    if low.op == "full" and low.attrs["value"] == -math.inf:
        return x <= high
    return call("logical_and", x >= low, x <= high)


_MIRRORED_COMPARISONS = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge"}
"""For each comparison of a to b, the same comparison of b to a."""


def _where_as_extremum(c: Node, a: Node, b: Node) -> Node | None:
    """Rewrite a selection between two values by their comparison, such as where(a > b, a, b), to "where_gt" and the
    like.

    The comparison may be >, >=, < or <=, in either order. Return None for another condition and for booleans.
    """
    # The front end turns where(a > b, a, b) into a clamp, as it does torch.maximum.
    if c.op not in _MIRRORED_COMPARISONS or a.type.dtype.kind == "b":
        return None
    if c.inputs == (a, b):
        return call(f"where_{c.op}", a, b)
    return call(f"where_{_MIRRORED_COMPARISONS[c.op]}", a, b) if c.inputs == (b, a) else None


for _name, _relation, _sign, _kinds in (
    ("gt", np.greater, ">", "fi"),
    ("ge", np.greater_equal, ">=", "fi"),
    ("lt", np.less, "<", "fi"),
    ("le", np.less_equal, "<=", "fi"),
    ("eq", np.equal, "==", "fib"),
    ("ne", np.not_equal, "!=", "fib"),
):
    _body = LoopBody(f"({{0}} {_sign} {{1}})", kinds=_kinds)
    op(_name, comparison_type, _relation, body=_body, cirh=comparison(_name.upper()), autocast="widest")
for _name, _connective, _text, _cirh in (
    ("logical_and", np.logical_and, "(({0} != 0) & ({1} != 0))", "And"),
    ("logical_or", np.logical_or, "(({0} != 0) | ({1} != 0))", "Or"),
    ("logical_xor", np.logical_xor, "(({0} != 0) != ({1} != 0))", "Xor"),
):
    op(_name, comparison_type, _connective, body=LoopBody(_text, kinds="fib"), cirh=same_type_operation(_cirh))
op(
    "logical_not",
    _test_type,
    np.logical_not,
    body=LoopBody("({0} == 0)", kinds="fib"),
    cirh=legal_by_decomposition(lambda x: eq(cast(x, bool_), False)),
)
# CIRH has neither isnan nor isfinite. Only a NaN differs from itself.
op("isnan", _test_type, np.isnan, body=LoopBody("({0} != {0})"), cirh=legal_by_decomposition(lambda x: ne(x, x)))
op("isfinite", _test_type, np.isfinite, body=LoopBody("(({0} - {0}) == 0)"), cirh=legal_by_decomposition(_is_finite))
op(
    "where",
    _where_type,
    np.where,
    vjp=lambda g, y, c, a, b: (None, where(c, g, 0), where(c, 0, g)),
    body=LoopBody("({1} if {0} else {2})", kinds="fib", is_exact=True),
    cirh=typed_operation("Select").with_decomposition(_where_as_extremum),
)
op(
    "clamp",
    same_types,
    lambda x, low, high: np.minimum(np.maximum(x, low), high),
    vjp=lambda g, y, x, low, high: (
        # At a bound the operand takes the gradient, not the bound. This is PyTorch's convention; hardtanh differs.
        where(_is_between(x, low, high), g, 0),
        where(call("logical_and", x < low, low < high), g, 0),
        # If low > high, the result is `high` for every x.
        where(call("logical_or", x > high, high < low), g, 0),
    ),
    body=LoopBody("minimum(maximum({0}, {1}), {2})", kinds="fi", integer="min(max({0}, {1}), {2})", is_exact=True),
    work=elementwise_work(2),
    cirh=typed_operation("Clamp"),
)
# The loop text depends on both dtypes; see `compiler.scalar_bodies.scalar_text`.
op(
    "cast",
    lambda x, *, dtype: Type(x.shape, dtype),
    _cast_array,
    # The gradient has the operand's dtype: under autocast the gradient of a float32 weight is float32.
    vjp=lambda g, y, x, *, dtype: (cast(g, x.type.dtype) if x.type.dtype.kind == "f" else None,),
    body=LoopBody("cast", "move", kinds="fib"),
    cirh=CAST,
    saves=False,
    renames=True,
    gradient_name="ToCopy",
)
