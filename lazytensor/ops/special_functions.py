"""Element by element, beyond arithmetic: inverse and hyperbolic functions, error and gamma functions, Bessel's.

Each has a gradient made of operations of the table. Values come from NumPy, or from `special_values` in double
precision. Those with a decomposition can be spelled in CIRH.
"""

import math
from typing import Any

import numpy as np

from lazytensor import source
from lazytensor.dtype import bool_
from lazytensor.errors import AutogradError, ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type
from lazytensor.ops import special_values as values
from lazytensor.ops.elementwise import add, compare, div, mul, sub, where
from lazytensor.ops.op import call, full_like, op, per_element, same_types

LN2, LN10 = math.log(2), math.log(10)
TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def _pointwise(name: str, eval: Any, vjp: Any, decompose: Any = None, flops: int = 10, whole: bool = False) -> None:
    op(name, same_types, eval, vjp=vjp, decompose=decompose, native=False, whole=whole, work=per_element(flops))


def _plus(x: Node, number: float) -> Node:
    return add(x, full_like(number, x))


def _times(x: Node, number: float) -> Node:
    return mul(x, full_like(number, x))


def _less_square(x: Node) -> Node:
    """1 - x * x, exact near 1."""
    one = full_like(1, x)
    return mul(sub(one, x), add(one, x))


_pointwise(
    "asin",
    np.arcsin,
    lambda g, y, x: (div(g, call("sqrt", _less_square(x))),),
    lambda x: call("atan2", x, call("sqrt", _less_square(x))),
)
_pointwise(
    "acos",
    np.arccos,
    lambda g, y, x: (call("neg", div(g, call("sqrt", _less_square(x)))),),
    lambda x: call("atan2", call("sqrt", _less_square(x)), x),
)
_pointwise(
    "atan",
    np.arctan,
    lambda g, y, x: (div(g, _plus(mul(x, x), 1)),),
    lambda x: call("atan2", x, full_like(1, x)),
)
_pointwise(
    "sinh",
    np.sinh,
    lambda g, y, x: (mul(g, call("cosh", x)),),
    lambda x: div(sub(call("exp", x), call("exp", call("neg", x))), full_like(2, x)),
    whole=True,
)
_pointwise(
    "cosh",
    np.cosh,
    lambda g, y, x: (mul(g, call("sinh", x)),),
    lambda x: div(add(call("exp", x), call("exp", call("neg", x))), full_like(2, x)),
    whole=True,
)
_pointwise("asinh", np.arcsinh, lambda g, y, x: (div(g, call("sqrt", _plus(mul(x, x), 1))),))
_pointwise(
    "acosh",
    np.arccosh,
    lambda g, y, x: (div(g, mul(call("sqrt", _plus(x, -1)), call("sqrt", _plus(x, 1)))),),
    lambda x: call("log", add(x, call("sqrt", sub(mul(x, x), full_like(1, x))))),
    whole=True,
)
_pointwise("atanh", np.arctanh, lambda g, y, x: (div(g, _less_square(x)),))
_pointwise("exp2", np.exp2, lambda g, y, x: (mul(g, _times(y, LN2)),), lambda x: call("pow", full_like(2, x), x))
_pointwise(
    "log10", np.log10, lambda g, y, x: (div(g, _times(x, LN10)),), lambda x: div(call("log", x), full_like(LN10, x))
)
_pointwise(
    "erfc",
    values.erfc,
    lambda g, y, x: (mul(g, _times(call("exp", call("neg", mul(x, x))), -TWO_OVER_ROOT_PI)),),
    lambda x: sub(full_like(1, x), call("erf", x)),
    whole=True,
)
_pointwise(
    "erfinv",
    values.erfinv,
    lambda g, y, x: (mul(g, _times(call("exp", mul(y, y)), 1 / TWO_OVER_ROOT_PI)),),
    flops=40,
)
_pointwise("lgamma", values.lgamma, lambda g, y, x: (mul(g, call("polygamma", x, n=0)),), flops=40)
_pointwise("bessel_i0", values.bessel_i0, lambda g, y, x: (mul(g, call("bessel_i1", x)),), flops=40)
_pointwise("bessel_i1", values.bessel_i1, lambda g, y, x: (mul(g, _bessel_i1_slope(x, y)),), flops=40)
op(
    "polygamma",
    lambda x, *, n: x,
    values.polygamma,
    vjp=lambda g, y, x, *, n: (mul(g, call("polygamma", x, n=n + 1)),),
    native=False,
    work=per_element(60),
)


def _bessel_i1_slope(x: Node, y: Node) -> Node:
    at_zero = compare("eq", x, full_like(0, x))
    safe = where(at_zero, full_like(1, x), x)
    return where(at_zero, full_like(0.5, x), sub(call("bessel_i0", x), div(y, safe)))


op("signbit", lambda x: Type(x.shape, bool_), np.signbit, native=False)


def _copysign_vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    zero = full_like(0, a)
    at_zero = compare("eq", a, zero)
    return where(at_zero, zero, mul(g, div(y, where(at_zero, full_like(1, a), a)))), zero


def _fmax_vjp(comparison: str) -> Any:
    """The first operand takes the gradient of ties; a NaN takes none."""

    def vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
        first = call("logical_or", compare(comparison, a, b), call("isnan", b))
        zero = full_like(0, g)
        return where(first, g, zero), where(first, zero, g)

    return vjp


def _nextafter_vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    same, zero = compare("eq", a, b), full_like(0, g)
    return where(same, zero, g), where(same, g, zero)


def _logaddexp_vjp(scale: float) -> Any:
    def vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
        share = call("sigmoid", _times(sub(a, b), scale))
        return mul(g, share), mul(g, sub(full_like(1, share), share))

    return vjp


def _xlogy_vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    zero, one = full_like(0, a), full_like(1, a)
    counted = where(compare("eq", a, zero), zero, one)
    return mul(g, call("xlogy", counted, b)), div(mul(g, a), b)


_pointwise("hypot", np.hypot, lambda g, y, a, b: (mul(g, div(a, y)), mul(g, div(b, y))))
_pointwise("copysign", np.copysign, _copysign_vjp, flops=1)
_pointwise("fmax", np.fmax, _fmax_vjp("ge"), flops=1)
_pointwise("fmin", np.fmin, _fmax_vjp("le"), flops=1)
_pointwise("nextafter", np.nextafter, _nextafter_vjp, flops=1)
_pointwise("logaddexp", np.logaddexp, _logaddexp_vjp(1), flops=22)
_pointwise("logaddexp2", np.logaddexp2, _logaddexp_vjp(LN2), flops=22)
_pointwise("xlogy", values.xlogy, _xlogy_vjp, flops=11)
_pointwise("heaviside", values.heaviside, None, flops=1)


def _gamma_types(a: Type, x: Type) -> Type:
    if a.shape != x.shape:
        raise ShapeError(f"the operands are {a} and {x}", hint="Give both the same shape.")
    return x


def _igamma_vjp(sign: float) -> Any:
    """The density of the gamma distribution; the slope in `a` has no closed form, and PyTorch has none either."""

    def vjp(g: Node, y: Node, a: Node, x: Node) -> tuple[None, Node]:
        if a.tracks:
            raise AutogradError(
                "the derivative for 'igamma: input' is not implemented",
                where=source.where(),
                hint="Detach the first operand.",
            )
        a = call("cast", a, dtype=x.type.dtype) if a.type.dtype is not x.type.dtype else a
        log_density = sub(sub(mul(_plus(a, -1), call("log", x)), x), call("lgamma", a))
        return None, mul(g, _times(call("exp", log_density), sign))

    return vjp


for _name, _eval, _sign in (("igamma", values.igamma, 1.0), ("igammac", values.igammac, -1.0)):
    op(_name, _gamma_types, _eval, vjp=_igamma_vjp(_sign), native=False, work=per_element(200))


def _nan_to_num_vjp(g: Node, y: Node, x: Node, **attrs: float) -> tuple[Node]:
    return (where(call("isfinite", x), g, full_like(0, g)),)


op(
    "nan_to_num",
    lambda x, *, nan, posinf, neginf: x,
    values.nan_to_num,
    vjp=_nan_to_num_vjp,
    native=False,
    work=per_element(3),
)
