"""Elementwise special functions: inverse and hyperbolic functions, error and gamma functions, and Bessel functions.

Each has a gradient made of operations of the table. Values come from NumPy, or from `special_values` in double
precision. Those with a decomposition can be written in CIRH.
"""

import math
from functools import partial
from typing import Any

import numpy as np

from lazytensor.core import source
from lazytensor.core.dtype import bool_
from lazytensor.errors import AutogradError, ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import CLIENT_HINT, LoopBody, elementwise_work, illegal_with_hint, legal_by_decomposition
from lazytensor.ir.types import Type
from lazytensor.ops import special_values as values
from lazytensor.ops.elementwise import eq, ne, where
from lazytensor.ops.formula import composite
from lazytensor.ops.op import call, full_like, op, same_types

LN2, LN10 = math.log(2), math.log(10)
TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


def _pointwise(name: str, eval: Any, vjp: Any, flops: int = 10, **facets: Any) -> None:
    op(name, same_types, eval, vjp=vjp, work=elementwise_work(flops), **facets)


def _single(name: str, arity: int) -> LoopBody:
    """Return the loop body that calls the function `name` of `arity` operands, which exists for float32."""
    return LoopBody(f"{name}({', '.join(f'{{{k}}}' for k in range(arity))})", "special", is_single=True)


def polygamma(x: Node, n: int) -> Node:
    """Return the `n`-th derivative of digamma; digamma and trigamma (0 and 1) are operations of their own."""
    return call("polygamma", x, n=n) if n > 1 else call("trigamma" if n else "digamma", x)


def _one_minus_square(x: Node) -> Node:
    """Return 1 - x * x, accurate near 1."""
    # 1 - x is exact for x from 0.5 to 2, but 1 - x * x would first round the square.
    return (1 - x) * (1 + x)


_pointwise(
    "asin",
    np.arcsin,
    lambda g, y, x: (g / call("sqrt", _one_minus_square(x)),),
    # CIRH has only Atan2. The host uses it too, because atan2 has a loop body.
    composite=lambda x: call("atan2", x, call("sqrt", _one_minus_square(x))),
    autocast="float32",
)
_pointwise(
    "acos",
    np.arccos,
    lambda g, y, x: (-(g / call("sqrt", _one_minus_square(x))),),
    composite=lambda x: call("atan2", call("sqrt", _one_minus_square(x)), x),
    autocast="float32",
)
_pointwise("atan", np.arctan, lambda g, y, x: (g / (x * x + 1),), composite=lambda x: call("atan2", x, full_like(1, x)))
_pointwise(
    "sinh",
    np.sinh,
    lambda g, y, x: (g * call("cosh", x),),
    # This loses digits near 0, where the exponentials cancel; the host calls NumPy's sinh.
    cirh=legal_by_decomposition(lambda x: (call("exp", x) - call("exp", -x)) / 2),
    autocast="float32",
)
_pointwise(
    "cosh",
    np.cosh,
    lambda g, y, x: (g * call("sinh", x),),
    cirh=legal_by_decomposition(lambda x: (call("exp", x) + call("exp", -x)) / 2),
    autocast="float32",
)
_pointwise(
    "asinh",
    np.arcsinh,
    lambda g, y, x: (g / call("sqrt", x * x + 1),),
    cirh=illegal_with_hint("Write torch.log(x + torch.sqrt(x * x + 1))."),
)
_pointwise(
    "acosh",
    np.arccosh,
    # Two roots: sqrt(x * x - 1) would also give a slope for x < -1, where the function is undefined.
    lambda g, y, x: (g / (call("sqrt", x + -1) * call("sqrt", x + 1)),),
    cirh=legal_by_decomposition(lambda x: call("log", x + call("sqrt", x * x - 1))),
)
_pointwise(
    "atanh",
    np.arctanh,
    lambda g, y, x: (g / _one_minus_square(x),),
    cirh=illegal_with_hint("Write 0.5 * torch.log((1 + x) / (1 - x))."),
)
_pointwise("exp2", np.exp2, lambda g, y, x: (g * (y * LN2),), composite=lambda x: 2**x)
_pointwise(
    "log10", np.log10, lambda g, y, x: (g / (x * LN10),), composite=lambda x: call("log", x) / LN10, autocast="float32"
)
_pointwise(
    "erfc",
    values.erfc,
    lambda g, y, x: (g * (call("exp", -(x * x)) * -TWO_OVER_ROOT_PI),),
    # This loses the accuracy of small results; CIRH has only Erf.
    body=_single("erfc", 1),
    cirh=legal_by_decomposition(lambda x: 1 - call("erf", x)),
)
_pointwise(
    "erfinv",
    values.erfinv,
    # The slope of the inverse function is 1 / erf'(y).
    lambda g, y, x: (g * (call("exp", y * y) * (1 / TWO_OVER_ROOT_PI)),),
    flops=40,
    body=_single("erfinv", 1),
    cirh=illegal_with_hint(CLIENT_HINT),
    autocast="float32",
    keeps="operands",
)
_pointwise(
    "erfcx",
    values.erfcx,
    lambda g, y, x: (g * (x * y * 2 - TWO_OVER_ROOT_PI),),
    flops=40,
    cirh=illegal_with_hint(CLIENT_HINT),
    gradient_name="SpecialErfcx",
)
_pointwise(
    "lgamma",
    values.lgamma,
    lambda g, y, x: (g * polygamma(x, 0),),
    flops=40,
    body=_single("lgamma", 1),
    cirh=illegal_with_hint("Use Stirling's series: (x - 0.5) * torch.log(x) - x + 0.9189385 + 1 / (12 * x)."),
)
_pointwise(
    "bessel_i0",
    values.bessel_i0,
    lambda g, y, x: (g * call("bessel_i1", x),),
    flops=40,
    body=_single("i0", 1),
    cirh=illegal_with_hint(CLIENT_HINT),
    gradient_name="I0",
)
_pointwise(
    "bessel_i1",
    values.bessel_i1,
    lambda g, y, x: (g * _bessel_i1_slope(x, y),),
    flops=40,
    body=_single("i1", 1),
    cirh=illegal_with_hint(CLIENT_HINT),
    gradient_name="SpecialI1",
)
_pointwise(
    "bessel_i0e",
    values.bessel_i0e,
    lambda g, y, x: (g * (call("bessel_i1e", x) - call("sign", x) * y),),
    flops=40,
    body=_single("i0e", 1),
    cirh=illegal_with_hint(CLIENT_HINT),
    gradient_name="SpecialI0E",
)
_pointwise(
    "bessel_i1e",
    values.bessel_i1e,
    lambda g, y, x: (g * _bessel_i1e_slope(x, y),),
    flops=40,
    body=_single("i1e", 1),
    cirh=illegal_with_hint(CLIENT_HINT),
    gradient_name="SpecialI1E",
)
GAMMA_SERIES = illegal_with_hint("Use the asymptotic series, for n = 0: torch.log(x) - 1 / (2 * x) - 1 / (12 * x * x).")
for _name, _order, _printed in (("digamma", 0, "Digamma"), ("trigamma", 1, "Polygamma")):
    _pointwise(
        _name,
        partial(values.polygamma, n=_order),
        partial(lambda order, g, y, x: (g * polygamma(x, order),), _order + 1),
        flops=60,
        body=_single(_name, 1),
        cirh=GAMMA_SERIES,
        gradient_name=_printed,
    )
op(
    "polygamma",
    lambda x, *, n: x,
    values.polygamma,
    vjp=lambda g, y, x, *, n: (g * polygamma(x, n + 1),),
    work=elementwise_work(60),
    cirh=GAMMA_SERIES,
)


def _bessel_i1_slope(x: Node, y: Node) -> Node:
    # I1' = I0 - I1 / x, and 1/2 at 0, the limit.
    at_zero = eq(x, 0)
    # Avoid the quotient by 0 even where it is not selected: its gradient would be 0 times infinity.
    safe = where(at_zero, 1, x)
    return where(at_zero, 0.5, call("bessel_i0", x) - y / safe)


def _bessel_i1e_slope(x: Node, y: Node) -> Node:
    """Return the slope of I1e: I0e(x) - y * (sign(x) + 1 / x) for `y` = I1e(x), and 1/2 near 0 and for NaN.

    Numbers are near 0 if their size is at most the spacing of numbers at 1, as in PyTorch.
    """
    # The bound excludes the smallest numbers too, for which `y` is rounded so coarsely that y / x is wrong.
    is_far = call("gt", call("abs", x), full_like(2.0**-x.type.dtype.mantissa_bits, x))
    # The formula gets 1 where it is not selected: its own gradient would be 0 times infinity at 0.
    safe = where(is_far, x, 1)
    return where(is_far, call("bessel_i0e", safe) - y * call("sign", safe) - y / safe, 0.5)


composite(
    "logit",
    lambda x: call("log", x / (1 - x)),
    # At 0 and 1 the slope is infinite, and outside NaN. The formula's own gradient would be NaN at both.
    vjp=lambda g, y, x: (where(ne(y, y), math.nan, g / (x * (1 - x))),),
    flops=12,
)
_pointwise(
    "entr",
    lambda x: np.where(x < 0, x.dtype.type(-np.inf), values.xlogy(-x, x)),
    lambda g, y, x: (-(g * (call("log", x) + 1)),),
    flops=12,
    cirh=illegal_with_hint("Write torch.where(x > 0, -x * torch.log(x), 0.0) for non-negative x."),
    gradient_name="SpecialEntr",
)


op("signbit", lambda x: Type(x.shape, bool_), np.signbit, cirh=illegal_with_hint("Write x < 0."))


def _copysign_vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    at_zero = eq(a, 0)
    # y / a is 1 or -1; at a = 0 PyTorch returns 0. The second operand only gives its sign, so its gradient is 0.
    return where(at_zero, 0, g * (y / where(at_zero, 1, a))), full_like(0, a)


def _fmax_vjp(comparison: str) -> Any:
    """Return the gradient rule of fmax or fmin. The whole gradient goes to one operand; a tie gives it to the first.

    `comparison` ("ge" or "le") holds if the first operand is the result. If the second is NaN, the first gets the
    gradient, even if both are NaN.
    """

    def vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
        first = call("logical_or", call(comparison, a, b), call("isnan", b))
        return where(first, g, 0), where(first, 0, g)

    return vjp


def _nextafter_vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    # As in PyTorch, the first operand gets the gradient unless both are equal, and the second one never does.
    return where(eq(a, b), 0, g), full_like(0, b)


def _logaddexp_vjp(scale: float) -> Any:
    def vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
        # exp(a) / (exp(a) + exp(b)) without either exponential, so that nothing overflows.
        share = call("sigmoid", (a - b) * scale)
        return g * share, g * (1 - share)

    return vjp


def _xlogy_vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    # At a = 0 PyTorch's slope is log(b), but 0 for b <= 0.
    silent = call("logical_and", eq(a, 0), call("le", b, full_like(0, b)))
    return g * where(silent, full_like(0, a), call("log", b)), g * a / b


def _decompose_xlogy(a: Node, b: Node) -> Node:
    return where(eq(a, 0), full_like(0, a), a * call("log", b))


def _xlog1py_vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    """Gradient rule of xlog1py. Where a is 0 and the logarithm is undefined, the gradient of a is 0."""
    no_number = call("logical_and", eq(a, 0), b <= -1)
    return where(no_number, 0, g * call("log1p", b)), g * a / (b + 1)


def _decompose_xlog1py(a: Node, b: Node) -> Node:
    product = a * call("log1p", b)
    # b == b: the result is NaN if b is NaN, even if a is 0.
    return where(call("logical_and", eq(a, 0), eq(b, b)), 0, product)


_pointwise(
    "hypot",
    np.hypot,
    lambda g, y, a, b: (g * (a / y), g * (b / y)),
    body=_single("hypot", 2),
    cirh=illegal_with_hint("Write torch.sqrt(a * a + b * b)."),
)
_pointwise(
    "copysign", np.copysign, _copysign_vjp, flops=1, cirh=illegal_with_hint("Write torch.abs(a) * torch.sign(b).")
)
_pointwise(
    # Unlike maximum, a NaN counts as missing, and ties are not shared, as in PyTorch.
    "fmax",
    np.fmax,
    _fmax_vjp("ge"),
    flops=1,
    cirh=illegal_with_hint("Write torch.maximum(a, b); replace NaN with torch.where(x != x, other, x) first."),
)
_pointwise(
    "fmin",
    np.fmin,
    _fmax_vjp("le"),
    flops=1,
    cirh=illegal_with_hint("Write torch.minimum(a, b); replace NaN with torch.where(x != x, other, x) first."),
)
_pointwise("nextafter", np.nextafter, _nextafter_vjp, flops=1, cirh=illegal_with_hint("Add a small number to x."))
_pointwise(
    "logaddexp",
    np.logaddexp,
    _logaddexp_vjp(1),
    flops=22,
    body=_single("logaddexp", 2),
    cirh=illegal_with_hint("Write m + torch.log(torch.exp(a - m) + torch.exp(b - m)) with m = torch.maximum(a, b)."),
)
_pointwise(
    "logaddexp2",
    np.logaddexp2,
    _logaddexp_vjp(LN2),
    flops=22,
    body=_single("logaddexp2", 2),
    cirh=illegal_with_hint("Write m + torch.log2(2 ** (a - m) + 2 ** (b - m)) with m = torch.maximum(a, b)."),
)
# At the origin PyTorch's gradient is 0; the front end's is 0 / 0.
composite(
    "atan2_grad",
    lambda g, part, a, b: g * (part * where(eq(a * a + b * b, 0), 0, 1 / (a * a + b * b))),
    flops=8,
    cirh=legal_by_decomposition(lambda g, part, a, b: g * part * call("reciprocal", a * a + b * b)),
)
_pointwise("xlogy", values.xlogy, _xlogy_vjp, flops=11, cirh=legal_by_decomposition(_decompose_xlogy))
_pointwise(
    "xlog1py",
    lambda a, b: np.where((a == 0) & (b == b), a.dtype.type(0), a * np.log1p(b)),
    _xlog1py_vjp,
    flops=12,
    body=LoopBody("({0} * log1p({1}) if ({0} != 0) | ({1} != {1}) else {0})", "special"),
    cirh=legal_by_decomposition(_decompose_xlog1py),
    gradient_name="SpecialXlog1Py",
)
_pointwise(
    "heaviside",
    values.heaviside,
    None,
    flops=1,
    cirh=illegal_with_hint("Write torch.where(x > 0, 1.0, torch.where(x < 0, 0.0, values))."),
)


def _gamma_types(a: Type, x: Type) -> Type:
    if a.shape != x.shape:
        raise ShapeError(
            f"the operands {a} and {x} have different types", hint="Expand one of them to the shape of the other."
        )
    return x


def _igamma_vjp(sign: float) -> Any:
    """Return the gradient rule of igamma or igammac in x: the density of the gamma distribution, times `sign`.

    Raise AutogradError if a gradient of `a` is needed, which PyTorch does not support either.
    """

    def vjp(g: Node, y: Node, a: Node, x: Node) -> tuple[None, Node]:
        if a.tracks:
            raise AutogradError(
                "the derivative for 'igamma: input' is not implemented",
                where=source.where(),
                hint="Detach the first operand, input.detach().",
            )
        a = call("cast", a, dtype=x.type.dtype) if a.type.dtype is not x.type.dtype else a
        # In logarithms, because x ** (a - 1) and gamma(a) overflow long before their quotient does.
        log_density = (a + -1) * call("log", x) - x - call("lgamma", a)
        return None, g * (call("exp", log_density) * sign)

    return vjp


for _name, _eval, _sign in (("igamma", values.igamma, 1.0), ("igammac", values.igammac, -1.0)):
    op(
        _name,
        _gamma_types,
        _eval,
        vjp=_igamma_vjp(_sign),
        work=elementwise_work(200),
        cirh=illegal_with_hint(CLIENT_HINT),
    )


def _nan_to_num_vjp(g: Node, y: Node, x: Node, **attrs: float) -> tuple[Node]:
    # A replaced element is a constant.
    return (where(call("isfinite", x), g, 0),)


op(
    "nan_to_num",
    lambda x, *, nan, posinf, neginf: x,
    values.nan_to_num,
    vjp=_nan_to_num_vjp,
    work=elementwise_work(3),
    cirh=illegal_with_hint("Write torch.where(x != x, torch.zeros_like(x), x), and clamp for infinities."),
)
