"""Elementary and special functions beyond basic arithmetic, and elementwise tests."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.docstrings import documented
from lazytensor.errors import ArgumentInvalid, ShapeError
from lazytensor.functional import creation
from lazytensor.functional import pointwise as pw
from lazytensor.functional.half_precision import host_half_dtype, round_once
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.type_promotion import (
    Operand,
    common_shape,
    default_dtype,
    prepare_operands,
    require_elements,
    result_type,
)
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.ops.elementwise import cast
from lazytensor.ops.op import refuse_elements
from lazytensor.ops.special_functions import polygamma as polygamma_node

MAX_SINC_SERIES = 0.05
"""Largest |pi x| for the Taylor series of `sinc`. Its four terms are exact to 1e-16 there."""
RADIANS_PER_DEGREE = math.pi / 180


class MantissaExponent(NamedTuple):
    """The result of `frexp`."""

    mantissa: Tensor
    exponent: Tensor


@method(in_place=True)
def sgn(x: Tensor) -> Tensor:
    """Return `sign(input)`. The vendor's front end refuses its gradient under this name.

    >>> import lazytensor as lt
    >>> lt.sgn(lt.tensor([-3.0, 0.0, 2.0]))
    tensor([-1.,  0.,  1.])
    """
    signs: Tensor = pw.sign(x)
    return signs


def special_round(x: Tensor, *, decimals: int = 0) -> Tensor:
    """Return `round(x, decimals=decimals)` for a floating-point tensor, as torch.special.round.

    The vendor's front end refuses it under this name. Raises TypeUnsupported for integers.
    """
    require_elements(x, "f", "special.round")
    rounded: Tensor = pw.round(x, decimals=decimals)
    return rounded


def to_floating(x: Tensor) -> Tensor:
    """Return `x` itself if its type is floating point, else `x` cast to the default floating point type."""
    return x if x.dtype.kind == "f" else pw.cast_to(x, default_dtype())


def unary(name: str, doc: str, example: str = "", op: str = "", **attrs: Any) -> Callable[[Tensor], Tensor]:
    """Return a function of one tensor that records the operation `op` (by default `name`) with the attributes `attrs`.

    It converts integers to the default floating-point dtype first. `doc` and `example` become its docstring.
    """

    def function(input: Tensor) -> Tensor:
        n = operand_node(input)
        if n.type.dtype.kind != "f":
            n = cast(n, default_dtype())
        return tensor_of(call(op or name, n, **attrs), input)

    note = "The result has the shape of `input`. Integers and bools are converted to the default floating-point dtype."
    return documented(function, name, f"{doc}\n\n{note}", example)


def binary(
    name: str, doc: str, example: str = "", *, takes_integers: bool = True
) -> Callable[[Operand, Operand], Tensor]:
    """Return a function of two operands that records the operation `name` on them, broadcast and as floating-point.

    If `takes_integers` is false, it raises TypeUnsupported for integers; otherwise they are converted. `doc` and
    `example` become its docstring.
    """

    def function(input: Operand, other: Operand) -> Tensor:
        common = result_type(input, other)
        if common.kind != "f" and not takes_integers:
            refuse_elements(name, Type(common_shape(input, other), common))
        dtype = None if common.kind == "f" else default_dtype()
        return tensor_of(call(name, *prepare_operands(input, other, dtype=dtype)), input, other)

    integers = (
        "Integers and bools are converted to the default floating-point dtype."
        if takes_integers
        else "Raises TypeUnsupported unless at least one operand is floating-point."
    )
    note = f"Shapes broadcast, and dtypes are promoted. {integers}\nRaises ShapeError if the shapes do not broadcast."
    return documented(function, name, f"{doc}\n\n{note}", example)


acos = method(
    unary(
        "acos",
        "Return the angle in radians, from 0 to pi, whose cosine is each element; NaN outside of [-1, 1].",
        ">>> lt.acos(lt.tensor([1.0, 0.0]))\ntensor([0.0000, 1.5708])",
    ),
    names="acos arccos",
    in_place=True,
)
acosh = method(
    unary(
        "acosh",
        "Return the inverse hyperbolic cosine of each element: NaN for elements below 1.",
        ">>> lt.acosh(lt.tensor([1.0, 2.0]))\ntensor([0.0000, 1.3170])",
    ),
    names="acosh arccosh",
    in_place=True,
)
asin = method(
    unary(
        "asin",
        "Return the angle in radians, from -pi/2 to pi/2, whose sine is each element; NaN outside of [-1, 1].",
        ">>> lt.asin(lt.tensor([0.0, 1.0]))\ntensor([0.0000, 1.5708])",
    ),
    names="asin arcsin",
    in_place=True,
)
asinh = method(
    unary(
        "asinh",
        "Return the inverse hyperbolic sine of each element.",
        ">>> lt.asinh(lt.tensor([0.0, 1.0]))\ntensor([0.0000, 0.8814])",
    ),
    names="asinh arcsinh",
    in_place=True,
)
atan = method(
    unary(
        "atan",
        "Return the angle in radians, from -pi/2 to pi/2, whose tangent is each element.",
        ">>> lt.atan(lt.tensor([0.0, 1.0]))\ntensor([0.0000, 0.7854])",
    ),
    names="atan arctan",
    in_place=True,
)
atanh = method(
    unary(
        "atanh",
        "Return the inverse hyperbolic tangent of each element: inf for 1, -inf for -1, NaN outside of [-1, 1].",
        ">>> lt.atanh(lt.tensor([0.0, 0.5]))\ntensor([0.0000, 0.5493])",
    ),
    names="atanh arctanh",
    in_place=True,
)
sinh = method(
    unary(
        "sinh",
        "Return the hyperbolic sine of each element.",
        ">>> lt.sinh(lt.tensor([0.0, 1.0]))\ntensor([0.0000, 1.1752])",
    ),
    in_place=True,
)
cosh = method(
    unary(
        "cosh",
        "Return the hyperbolic cosine of each element.",
        ">>> lt.cosh(lt.tensor([0.0, 1.0]))\ntensor([1.0000, 1.5431])",
    ),
    in_place=True,
)
exp2 = method(
    unary("exp2", "Return 2 to the power of each element.", ">>> lt.exp2(lt.tensor([0.0, 3.0]))\ntensor([1., 8.])"),
    in_place=True,
)
log10 = method(
    unary(
        "log10",
        "Return the logarithm to base 10 of each element: -inf for 0, and NaN for negative elements.",
        ">>> lt.log10(lt.tensor([1.0, 20.0]))\ntensor([0.0000, 1.3010])",
    ),
    in_place=True,
)
erfc = method(
    unary(
        "erfc",
        "Return 1 - erf(x) for each element x, accurate also where the result is close to 0.",
        ">>> lt.erfc(lt.tensor([0.0, 0.5]))\ntensor([1.0000, 0.4795])",
    ),
    in_place=True,
)
erfinv = method(
    unary(
        "erfinv",
        "Return the y with erf(y) = x for each element x: inf for 1, -inf for -1, and NaN outside of [-1, 1].",
        ">>> lt.erfinv(lt.tensor([0.0, 0.5]))\ntensor([0.0000, 0.4769])",
    ),
    in_place=True,
)
lgamma = method(
    unary(
        "lgamma",
        "Return log(|gamma(x)|) for each element x: inf for 0 and for negative integers.",
        ">>> lt.lgamma(lt.tensor([1.0, 5.0]))\ntensor([0.0000, 3.1781])",
    ),
    in_place=True,
)
digamma = method(
    unary(
        "digamma",
        "Return the digamma function, the derivative of `lgamma`, of each element.",
        ">>> lt.digamma(lt.tensor([1.0, 2.0]))\ntensor([-0.5772,  0.4228])",
    ),
    in_place=True,
)
i0 = method(
    unary(
        "i0",
        "Return the modified Bessel function of the first kind of order 0 of each element.",
        ">>> lt.i0(lt.tensor([0.0, 1.0]))\ntensor([1.0000, 1.2661])",
        "bessel_i0",
    ),
    in_place=True,
)
hypot = method(
    binary(
        "hypot",
        "Return sqrt(input ** 2 + other ** 2) for each pair of elements, without overflow of the squares.",
        ">>> lt.hypot(lt.tensor([3.0, 5.0]), lt.tensor([4.0, 12.0]))\ntensor([ 5., 13.])",
        takes_integers=False,
    ),
    in_place=True,
)
copysign = method(
    binary(
        "copysign",
        "Return the absolute value of each element of `input` with the sign of that of `other`. -0.0 is negative.",
        ">>> lt.copysign(lt.tensor([1.0, 2.0]), lt.tensor([-1.0, 1.0]))\ntensor([-1.,  2.])",
    ),
    in_place=True,
)
_nextafter = binary(
    "nextafter", "Return the floating-point number next to each element of `input` in the direction of `other`."
)
logaddexp = method(
    binary(
        "logaddexp",
        "Return log(exp(input) + exp(other)) for each pair of elements, without overflow.",
        ">>> lt.logaddexp(lt.tensor([0.0]), lt.tensor([1.0]))\ntensor([1.3133])",
        takes_integers=False,
    )
)
logaddexp2 = method(
    binary(
        "logaddexp2",
        "Return log2(2 ** input + 2 ** other) for each pair of elements, without overflow.",
        ">>> lt.logaddexp2(lt.tensor([0.0]), lt.tensor([0.0]))\ntensor([1.])",
        takes_integers=False,
    )
)
_xlogy = binary("xlogy", "Return input * log(other) for each pair of elements.")
igamma = method(
    binary(
        "igamma",
        "Return the regularized lower incomplete gamma function P(input, other) of each pair of elements.",
        ">>> lt.igamma(lt.tensor([1.0, 2.0]), lt.tensor([1.0, 1.0]))\ntensor([0.6321, 0.2642])",
    ),
    in_place=True,
)
igammac = method(
    binary(
        "igammac",
        "Return the regularized upper incomplete gamma function Q(input, other) of each pair of elements.",
        ">>> lt.igammac(lt.tensor([1.0, 2.0]), lt.tensor([1.0, 1.0]))\ntensor([0.3679, 0.7358])",
    ),
    in_place=True,
)


@method(in_place=True)
def xlogy(input: Operand, other: Operand) -> Tensor:
    """Return x * log(y), and 0 where x is 0, for x (`input`) and y (`other`). Shapes broadcast.

    NaN in y wins over the 0. On the host, the logarithm of half types is rounded to the half type, as in PyTorch.

    >>> import lazytensor as lt
    >>> lt.xlogy(lt.tensor([0.0, 2.0]), lt.tensor([0.0, 3.0]))
    tensor([0.0000, 2.1972])
    """
    if (host_half_dtype(input) or host_half_dtype(other)) is None or not result_type(input, other).is_half:
        return _xlogy(input, other)
    x, y = (tensor_of(n) for n in prepare_operands(input, other))
    # y == y is false for NaN, which wins over the 0.
    return pw.where(pw.logical_and(pw.eq(x, 0), pw.eq(y, y)), 0.0, x * pw.log(y))


@method(in_place=True)
def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """Return the next representable number after `input` towards `other`. Shapes broadcast.

    Raises ShapeError for half types.

    >>> import lazytensor as lt
    >>> lt.nextafter(lt.tensor([1.0]), lt.tensor([2.0])) > 1
    tensor([True])
    """
    if result_type(input, other).is_half:
        raise ShapeError("nextafter does not support 16-bit types", where=source.where(), hint="Use float32.")
    return _nextafter(input, other)


@method(in_place=True)
def polygamma(n: int | Tensor, input: Tensor | int) -> Tensor:
    """Return the `n`-th derivative of the digamma function for each element of `input`, in its shape.

    As a method it is called as `x.polygamma(n)`. Raises ShapeError if `n` is negative.

    >>> import lazytensor as lt
    >>> lt.polygamma(1, lt.tensor([1.0, 2.0]))
    tensor([1.6449, 0.6449])
    """
    # The function is torch.polygamma(n, x), the method x.polygamma(n).
    order, x = (n, input) if isinstance(input, Tensor) else (input, n)
    if not isinstance(x, Tensor) or not isinstance(order, int) or order < 0:
        raise ShapeError(
            f"polygamma(n, x) does not support negative n. Got n={order}.",
            where=source.where(),
            hint="Pass an n of at least 0.",
        )
    return tensor_of(polygamma_node(operand_node(to_floating(x)), order), x)


@method
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """Return the logarithm of the multivariate gamma function of dimension `p`, for each element of `input`.

    Integers are converted to the default floating-point dtype. `p` and the elements are not checked.

    >>> import lazytensor as lt
    >>> lt.mvlgamma(lt.tensor([2.0, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """
    x = to_floating(input)
    # pi^(p (p - 1) / 4) times the product of gamma(x - j / 2) for j = 0..p - 1.
    total = lgamma(x)
    for j in range(1, p):
        total = total + lgamma(x - j / 2)
    return total + p * (p - 1) / 4 * math.log(math.pi)


def ndtr(input: Tensor) -> Tensor:
    """Return the probability that a standard normal number is at most x, for each element x of `input`.

    Integers are converted to the default floating-point dtype.

    >>> import lazytensor as lt
    >>> lt.special.ndtr(lt.tensor([-1.0, 0.0]))
    tensor([0.1587, 0.5000])
    """
    return _ndtr(to_floating(input))


@round_once
def _ndtr(x: Tensor) -> Tensor:
    # PyTorch's formula, which has no digits left for x far below 0.
    return (1.0 + pw.erf(x * math.sqrt(0.5))) * 0.5


def log_ndtr(input: Tensor) -> Tensor:
    """Return the logarithm of `ndtr`, accurate also where `ndtr` is close to 0 or 1.

    Integers are converted to the default floating-point dtype.

    >>> import lazytensor as lt
    >>> lt.special.log_ndtr(lt.tensor([-2.0, 0.0]))
    tensor([-3.7832, -0.6931])
    """
    return _log_ndtr(to_floating(input))


@round_once
def _log_ndtr(input: Tensor) -> Tensor:
    x = input * math.sqrt(0.5)
    is_low = input < -1.0
    # Each branch gets 0 where it is not selected, so that its gradient is finite there.
    low, high = pw.where(is_low, x, 0.0), pw.where(is_low, 0.0, x)
    tail = pw.log(tensor_of(call("erfcx", operand_node(-low)), input) * 0.5) - low * low
    return pw.where(is_low, tail, pw.log1p(erfc(high) * -0.5))


@method(in_place=True)
def sinc(input: Tensor) -> Tensor:
    """Return sin(pi * x) / (pi * x), and 1 where x is 0, for each element x of `input`.

    Integers are converted to the default floating-point dtype.

    >>> import lazytensor as lt
    >>> lt.sinc(lt.tensor([0.0, 0.5]))
    tensor([1.0000, 0.6366])
    """
    return _sinc(to_floating(input))


@round_once
def _sinc(input: Tensor) -> Tensor:
    x = input * math.pi
    is_small = pw.abs(x) < MAX_SINC_SERIES
    # The gradient of sin(x) / x is a difference of nearly equal terms near 0. The Taylor series has no such difference.
    safe, small = pw.where(is_small, 1.0, x), pw.where(is_small, x, 0.0)
    square = small * small
    series = 1.0 - square / 6.0 * (1.0 - square / 20.0 * (1.0 - square / 42.0))
    return pw.where(is_small, series, pw.sin(safe) / safe)


@method(in_place=True)
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """Return log(x / (1 - x)) for each element x of `input`. If `eps` is given, x is first limited to eps to 1 - eps.

    Integers are converted to the default floating-point dtype. Numbers outside 0 to 1 give NaN.

    >>> import lazytensor as lt
    >>> lt.logit(lt.tensor([0.5, 0.9]))
    tensor([0.0000, 2.1972])
    """
    x = to_floating(input)
    # Without `eps`, 0 and 1 give -inf and inf.
    x = x if eps is None else pw.clamp(x, eps, 1 - eps)
    return tensor_of(call("logit", operand_node(x)), x)


@method(in_place=True)
def frac(input: Tensor) -> Tensor:
    """Return the fractional part x - trunc(x) of each element, with the sign of x. Raises ShapeError for integers.

    >>> import lazytensor as lt
    >>> lt.frac(lt.tensor([1.25, -2.5]))
    tensor([ 0.2500, -0.5000])
    """
    if input.dtype.kind != "f":
        raise ShapeError(f"frac does not support {input.dtype.name}", where=source.where(), hint="Use .float().")
    # Rounded towards zero, so that the sign is kept.
    return input - pw.trunc(input)


@method(in_place=True)
def deg2rad(input: Tensor) -> Tensor:
    """Return each element converted from degrees to radians. Integers become the default floating-point dtype.

    >>> import lazytensor as lt
    >>> lt.deg2rad(lt.tensor([90.0, 180.0]))
    tensor([1.5708, 3.1416])
    """
    return to_floating(input) * RADIANS_PER_DEGREE


@method(in_place=True)
def rad2deg(input: Tensor) -> Tensor:
    """Return each element converted from radians to degrees. Integers become the default floating-point dtype.

    >>> import lazytensor as lt
    >>> lt.rad2deg(lt.tensor([0.0, 3.1415927]))
    tensor([  0., 180.])
    """
    return to_floating(input) * (1 / RADIANS_PER_DEGREE)


@method
def fmax(input: Operand, other: Operand) -> Tensor:
    """Return the elementwise maximum. Shapes broadcast; if one element is NaN, the other is returned.

    >>> import lazytensor as lt
    >>> lt.fmax(lt.tensor([1.0, float("nan")]), lt.tensor([0.0, 3.0]))
    tensor([1., 3.])
    """
    return _extremum("fmax", pw.maximum, input, other)


@method
def fmin(input: Operand, other: Operand) -> Tensor:
    """Return the elementwise minimum. Shapes broadcast; if one element is NaN, the other is returned.

    >>> import lazytensor as lt
    >>> lt.fmin(lt.tensor([1.0, float("nan")]), lt.tensor([0.0, 3.0]))
    tensor([0., 3.])
    """
    return _extremum("fmin", pw.minimum, input, other)


def _extremum(name: str, whole: Callable[..., Tensor], a: Operand, b: Operand) -> Tensor:
    # Integers have no NaN.
    if result_type(a, b).kind != "f":
        return whole(a, b)
    return tensor_of(call(name, *prepare_operands(a, b)), a, b)


@method(in_place=True)
def clamp_min(input: Tensor, min: Operand) -> Tensor:
    """Return each element of `input`, or `min` where it is smaller. Shapes broadcast.

    >>> import lazytensor as lt
    >>> lt.clamp_min(lt.tensor([1, 5]), 3)
    tensor([3, 5])
    """
    return pw.clamp(input, min=min)


@method(in_place=True)
def clamp_max(input: Tensor, max: Operand) -> Tensor:
    """Return each element of `input`, or `max` where it is larger. Shapes broadcast.

    >>> import lazytensor as lt
    >>> lt.clamp_max(lt.tensor([1, 5]), 3)
    tensor([1, 3])
    """
    return pw.clamp(input, max=max)


@method(in_place=True)
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """Return 0 where `input` is negative, 1 where it is positive, and `values` where it is 0. Shapes broadcast.

    Raises ShapeError if the dtypes differ.

    >>> import lazytensor as lt
    >>> lt.heaviside(lt.tensor([-1.0, 0.0, 2.0]), lt.tensor(0.5))
    tensor([0.0000, 0.5000, 1.0000])
    """
    if input.dtype is not values.dtype:
        raise ShapeError(
            "heaviside is not yet implemented for tensors with different dtypes."
            f" Got {input.dtype.name} and {values.dtype.name}.",
            where=source.where(),
            hint="Convert one of them with .to(dtype).",
        )
    return tensor_of(call("heaviside", *prepare_operands(input, values)), input, values)


@method(in_place=True)
def float_power(input: Operand, exponent: Operand) -> Tensor:
    """Return `input` to the power `exponent`, computed in float64. Shapes broadcast.

    >>> import lazytensor as lt
    >>> lt.float_power(lt.tensor([2, 3]), 2)
    tensor([4., 9.], dtype=lazytensor.float64)
    """
    base = pw.cast_to(input, dt.float64) if isinstance(input, Tensor) else float(input)
    return pw.pow(base, pw.cast_to(exponent, dt.float64) if isinstance(exponent, Tensor) else float(exponent))


@method(in_place=True)
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """Return input * 2**other. Shapes broadcast.

    A half `input` with integer exponents keeps its dtype. The power may overflow although the product would not. Raises
    ArgumentInvalid (a TypeError) if `other` is a number, and TypeUnsupported if it is bool while `input` is
    floating-point.

    >>> import lazytensor as lt
    >>> lt.ldexp(lt.tensor([1.0, 3.0]), lt.tensor([2, 1]))
    tensor([4., 6.])
    """
    if not isinstance(other, Tensor):
        text = f"ldexp(): argument 'other' (position 2) must be Tensor, not {type(other).__name__}"
        raise ArgumentInvalid(text, where=source.where(), hint="Pass a tensor as one of the operands.")
    if input.dtype.kind == "f":
        require_elements(other, "fi", "ldexp")
    # As in PyTorch, large exponents overflow in the power although the product would fit.
    product = input * pw.pow(2.0, other)
    return pw.cast_to(product, input.dtype) if input.dtype.is_half and other.dtype.kind == "i" else product


@method
def frexp(input: Tensor) -> MantissaExponent:
    """Return the mantissa and the int32 exponent of each element.

    x = mantissa * 2**exponent, with 0.5 <= |mantissa| < 1. Raises ShapeError for integers.

    >>> import lazytensor as lt
    >>> lt.frexp(lt.tensor([6.0, 0.5])).exponent
    tensor([3, 0], dtype=lazytensor.int32)
    """
    if input.dtype.kind != "f":
        raise ShapeError(
            f"torch.frexp() only supports floating-point dtypes, but got {input.dtype.name}",
            where=source.where(),
            hint="Convert the tensor first, for example with .float().",
        )
    n = operand_node(input)
    return MantissaExponent(tensor_of(call("frexp_mantissa", n), input), tensor_of(call("frexp_exponent", n), input))


@method
def signbit(input: Tensor) -> Tensor:
    """Return a bool tensor that is true where the sign bit is set, including -0.0.

    >>> import lazytensor as lt
    >>> lt.signbit(lt.tensor([-1.0, 0.0]))
    tensor([ True, False])
    """
    return tensor_of(call("signbit", operand_node(input)), input) if input.dtype.kind == "f" else input < 0


@method
def isposinf(input: Tensor) -> Tensor:
    """Return a bool tensor that is true where the element is positive infinity.

    >>> import lazytensor as lt
    >>> lt.isposinf(lt.tensor([1.0, float("inf")]))
    tensor([False,  True])
    """
    return _equals_float(input, math.inf)


@method
def isneginf(input: Tensor) -> Tensor:
    """Return a bool tensor that is true where the element is negative infinity.

    >>> import lazytensor as lt
    >>> lt.isneginf(lt.tensor([1.0, -float("inf")]))
    tensor([False,  True])
    """
    return _equals_float(input, -math.inf)


def _equals_float(x: Tensor, value: float) -> Tensor:
    return x == value if x.dtype.kind == "f" else creation.full_like(x, False, dtype=dt.bool_)


@method
def isreal(input: Tensor) -> Tensor:
    """Return a bool tensor of True in the shape of `input`, since there are no complex tensors.

    >>> import lazytensor as lt
    >>> lt.isreal(lt.tensor([1.0, 2.0]))
    tensor([True, True])
    """
    return creation.full_like(input, True, dtype=dt.bool_)


@method
def angle(input: Tensor) -> Tensor:
    """Return pi where the element is negative, 0 where it is not, and NaN where it is NaN.

    Integers are converted to the default floating-point dtype. The gradient is 0.

    >>> import lazytensor as lt
    >>> lt.angle(lt.tensor([-1.0, 1.0]))
    tensor([3.1416, 0.0000])
    """
    x = to_floating(input)
    # Computed from the sign, whose gradient is zero as in PyTorch; the sign of NaN is 0.
    return pw.where(pw.isnan(x), math.nan, pw.abs(pw.clamp(pw.sign(x), max=0)) * math.pi)


@method(in_place=True)
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Return `input` with NaN replaced by `nan` and infinities replaced by `posinf` and `neginf`.

    The defaults are 0 and the largest and smallest finite numbers of the dtype. Integers are copied.

    >>> import lazytensor as lt
    >>> lt.nan_to_num(lt.tensor([1.0, float("nan")]), 0.0)
    tensor([1., 0.])
    """
    if input.dtype.kind != "f":
        return pw.clone(input)
    # PyTorch's default are the largest finite numbers of the dtype.
    limit = input.dtype.largest
    chosen = {
        "nan": 0.0 if nan is None else float(nan),
        "posinf": limit if posinf is None else float(posinf),
        "neginf": -limit if neginf is None else float(neginf),
    }
    return tensor_of(call("nan_to_num", operand_node(input), **chosen), input)


@method
def positive(input: Tensor) -> Tensor:
    """Return `input` itself. Raises ShapeError for bools.

    >>> import lazytensor as lt
    >>> lt.positive(lt.tensor([1, -2]))
    tensor([ 1, -2])
    """
    if input.dtype.kind == "b":
        raise ShapeError(
            "The `+` operator, on a bool tensor is not supported.",
            where=source.where(),
            hint="Convert the tensor first, for example with .int().",
        )
    return input


def real(input: Tensor) -> Tensor:
    """Return `input` itself, since all tensors are real.

    >>> import lazytensor as lt
    >>> lt.real(lt.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    return input


@method(names="conj conj_physical resolve_conj resolve_neg")
def conj(input: Tensor) -> Tensor:
    """Return `input` itself, since all tensors are real.

    >>> import lazytensor as lt
    >>> lt.conj(lt.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    return input


def fill(input: Tensor, value: Operand) -> Tensor:
    """Return a tensor with the shape and dtype of `input`, filled with `value`.

    `value` is a number or a 0-d tensor, to which gradients pass. Raises ShapeError if it has dimensions.

    >>> import lazytensor as lt
    >>> lt.fill(lt.zeros(3), 2)
    tensor([2., 2., 2.])
    """
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(
            f"fill only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.",
            where=source.where(),
            hint="Pass a number, or use copy_() for several values.",
        )
    # A mask of True: the value may be a tensor, whose gradient is the sum over all elements.
    return pw.masked_fill(input, creation.full_like(input, True, dtype=dt.bool_), value)
