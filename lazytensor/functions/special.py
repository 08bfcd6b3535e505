"""Elementary and special functions beyond arithmetic, tests of values, and comparisons of whole tensors."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from lazytensor import dtype as dt
from lazytensor import source
from lazytensor.dtype import DType
from lazytensor.errors import ShapeError
from lazytensor.functions import creation
from lazytensor.functions import pointwise as pw
from lazytensor.functions.pointwise import made
from lazytensor.functions.promotion import Operand, default_dtype, operands, result_type
from lazytensor.ops import call
from lazytensor.ops.elementwise import cast
from lazytensor.tensor import Tensor, arg

PUBLIC = """acos acosh allclose angle arccos arccosh arcsin arcsinh arctan arctanh arctan2 asin asinh atan atanh
    can_cast clamp_max clamp_min conj conj_physical copysign cosh deg2rad digamma equal erfc erfinv exp2 fill fix
    float_power fmax fmin frac frexp heaviside hypot i0 igamma igammac isclose isneginf isposinf isreal ldexp lgamma
    log10 logaddexp logaddexp2 logit mvlgamma nan_to_num nextafter polygamma positive promote_types rad2deg resolve_conj
    resolve_neg scalar_tensor sgn signbit sinc sinh true_divide xlogy negative greater greater_equal less less_equal
    not_equal subtract multiply divide absolute clip is_complex is_conj is_neg is_nonzero is_signed"""
METHODS = """acos acosh allclose angle arccos arccosh arcsin arcsinh arctan arctanh arctan2 asin asinh atan atanh
    clamp_max clamp_min conj conj_physical copysign cosh deg2rad digamma equal erfc erfinv exp2 fix float_power fmax
    fmin frac frexp heaviside hypot i0 igamma igammac isclose isneginf isposinf isreal ldexp lgamma log10 logaddexp
    logaddexp2 logit mvlgamma nan_to_num nextafter polygamma positive rad2deg resolve_conj resolve_neg sgn signbit
    sinc sinh true_divide xlogy negative greater greater_equal less less_equal not_equal is_conj is_neg is_nonzero"""
IN_PLACE = """acos acosh arccos arcsin arctan asin asinh atan atanh clamp_max clamp_min copysign cosh deg2rad digamma
    erfc erfinv exp2 fix float_power frac heaviside hypot i0 igamma igammac ldexp lgamma log10 logit nan_to_num
    nextafter polygamma rad2deg sgn sinc sinh true_divide xlogy negative greater greater_equal less
    less_equal not_equal subtract multiply divide absolute clip arctan2"""

RADIANS_PER_DEGREE = math.pi / 180


class MantissaExponent(NamedTuple):
    """The answer of `frexp`."""

    mantissa: Tensor
    exponent: Tensor


def _floating(x: Tensor) -> Tensor:
    return x if x.dtype.kind == "f" else pw.cast_to(x, default_dtype())


def _unary(name: str, doc: str, op: str = "", **attrs: Any) -> Callable[[Tensor], Tensor]:
    def function(input: Tensor) -> Tensor:
        n = arg(input)
        if n.type.dtype.kind != "f":
            n = cast(n, default_dtype())
        return made(call(op or name, n, **attrs), input)

    function.__name__, function.__qualname__, function.__doc__ = name, name, doc
    return function


def _binary(name: str, doc: str) -> Callable[[Operand, Operand], Tensor]:
    def function(input: Operand, other: Operand) -> Tensor:
        common = result_type(input, other)
        dtype = None if common.kind == "f" else default_dtype()
        return made(call(name, *operands(input, other, dtype=dtype)), input, other)

    function.__name__, function.__qualname__, function.__doc__ = name, name, doc
    return function


acos = arccos = _unary("acos", "The angle whose cosine is x.")
acosh = arccosh = _unary("acosh", "The inverse hyperbolic cosine.")
asin = arcsin = _unary("asin", "The angle whose sine is x.")
asinh = arcsinh = _unary("asinh", "The inverse hyperbolic sine.")
atan = arctan = _unary("atan", "The angle whose tangent is x.")
atanh = arctanh = _unary("atanh", "The inverse hyperbolic tangent.")
arctan2 = pw.atan2
sinh = _unary("sinh", "The hyperbolic sine.")
cosh = _unary("cosh", "The hyperbolic cosine.")
exp2 = _unary("exp2", "2 to the power of x.")
log10 = _unary("log10", "The logarithm to base 10.")
erfc = _unary("erfc", "1 - erf(x), exact where it is small.")
erfinv = _unary("erfinv", "The inverse of the error function.")
lgamma = _unary("lgamma", "The logarithm of the absolute value of the gamma function.")
digamma = _unary("digamma", "The derivative of lgamma.", "polygamma", n=0)
i0 = _unary("i0", "The modified Bessel function of the first kind, order 0.", "bessel_i0")
hypot = _binary("hypot", "The root of the sum of the squares, without overflow.")
copysign = _binary("copysign", "The size of the first operand with the sign of the second.")
_neighbour = _binary("nextafter", "The next number.")
logaddexp = _binary("logaddexp", "log(exp(x) + exp(y)) without overflow.")
logaddexp2 = _binary("logaddexp2", "log2(2 ** x + 2 ** y) without overflow.")
xlogy = _binary("xlogy", "x * log(y), and 0 where x is 0.")
igamma = _binary("igamma", "The regularized lower incomplete gamma function P(input, other).")
igammac = _binary("igammac", "The regularized upper incomplete gamma function Q(input, other).")
true_divide, negative, sgn, fix = pw.div, pw.neg, pw.sign, pw.trunc
greater, greater_equal, less, less_equal, not_equal = pw.gt, pw.ge, pw.lt, pw.le, pw.ne
subtract, multiply, divide, absolute, clip = pw.sub, pw.mul, pw.div, pw.abs, pw.clamp
promote_types = dt.promote


def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The next number from the first operand towards the second. Raises ShapeError for the half types."""
    if result_type(input, other).is_half:
        raise ShapeError("nextafter is not known for 2-byte types", where=source.where(), hint="Use float32.")
    return _neighbour(input, other)


def polygamma(n: int | Tensor, input: Tensor | int) -> Tensor:
    """Derivative number n of digamma; as a method, n is the argument. Raises ShapeError for a negative n."""
    order, x = (n, input) if isinstance(input, Tensor) else (input, n)
    if not isinstance(x, Tensor) or not isinstance(order, int) or order < 0:
        raise ShapeError("polygamma(n, x) does not support negative n.", where=source.where())
    return made(call("polygamma", arg(_floating(x)), n=order), x)


def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p."""
    x = _floating(input)
    total = lgamma(x)
    for j in range(1, p):
        total = pw.add(total, lgamma(pw.sub(x, j / 2)))
    return pw.add(total, p * (p - 1) / 4 * math.log(math.pi))


def sinc(input: Tensor) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0."""
    x = pw.mul(_floating(input), math.pi)
    at_zero = pw.eq(x, 0)
    safe = pw.masked_fill(x, at_zero, 1.0)
    return pw.masked_fill(pw.div(pw.sin(safe), safe), at_zero, 1.0)


def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)); with `eps`, x is first limited to eps..1 - eps."""
    x = _floating(input)
    x = x if eps is None else pw.clamp(x, eps, 1 - eps)
    return pw.log(pw.div(x, pw.sub(1.0, x)))


def frac(input: Tensor) -> Tensor:
    """What follows the point, with the sign of x. Raises ShapeError for integers."""
    if input.dtype.kind != "f":
        raise ShapeError(f"frac is not known for {input.dtype.name}", where=source.where(), hint="Use .float().")
    return pw.sub(input, pw.trunc(input))


def deg2rad(input: Tensor) -> Tensor:
    """Degrees as radians."""
    return pw.mul(_floating(input), RADIANS_PER_DEGREE)


def rad2deg(input: Tensor) -> Tensor:
    """Radians as degrees."""
    return pw.mul(_floating(input), 1 / RADIANS_PER_DEGREE)


def fmax(input: Operand, other: Operand) -> Tensor:
    """The larger of two elements; a number wins over NaN."""
    return _extremum("fmax", pw.maximum, input, other)


def fmin(input: Operand, other: Operand) -> Tensor:
    """The smaller of two elements; a number wins over NaN."""
    return _extremum("fmin", pw.minimum, input, other)


def _extremum(name: str, whole: Callable[..., Tensor], a: Operand, b: Operand) -> Tensor:
    if result_type(a, b).kind != "f":
        return whole(a, b)
    return made(call(name, *operands(a, b)), a, b)


def clamp_min(input: Tensor, min: Operand) -> Tensor:
    """x, or `min` where x is below it."""
    return pw.clamp(input, min=min)


def clamp_max(input: Tensor, max: Operand) -> Tensor:
    """x, or `max` where x is above it."""
    return pw.clamp(input, max=max)


def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 below zero, 1 above, `values` at zero. Raises ShapeError for unlike types."""
    if input.dtype is not values.dtype:
        raise ShapeError(
            "heaviside is not yet implemented for tensors with different dtypes.",
            where=source.where(),
            hint="Convert one of them with .to(dtype).",
        )
    return made(call("heaviside", *operands(input, values)), input, values)


def float_power(input: Operand, exponent: Operand) -> Tensor:
    """A power computed in double precision."""
    base = pw.cast_to(input, dt.float64) if isinstance(input, Tensor) else float(input)
    return pw.pow(base, pw.cast_to(exponent, dt.float64) if isinstance(exponent, Tensor) else float(exponent))


def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input * 2 ** other"""
    return pw.mul(input, pw.pow(2.0, other))


def frexp(input: Tensor) -> MantissaExponent:
    """x as mantissa * 2 ** exponent with 0.5 <= |mantissa| < 1. Raises ShapeError for integers."""
    if input.dtype.kind != "f":
        raise ShapeError("torch.frexp() only supports floating-point dtypes", where=source.where())
    n = arg(input)
    return MantissaExponent(made(call("frexp_mantissa", n), input), made(call("frexp_exponent", n), input))


def signbit(input: Tensor) -> Tensor:
    """Whether the sign is negative, also that of zero."""
    return made(call("signbit", arg(input)), input) if input.dtype.kind == "f" else pw.lt(input, 0)


def isposinf(input: Tensor) -> Tensor:
    """Whether x is positive infinity."""
    return _is(input, math.inf)


def isneginf(input: Tensor) -> Tensor:
    """Whether x is negative infinity."""
    return _is(input, -math.inf)


def _is(x: Tensor, value: float) -> Tensor:
    return pw.eq(x, value) if x.dtype.kind == "f" else creation.full_like(x, False, dtype=dt.bool_)


def isreal(input: Tensor) -> Tensor:
    """True everywhere: there are no complex tensors here."""
    return creation.full_like(input, True, dtype=dt.bool_)


def angle(input: Tensor) -> Tensor:
    """0 for numbers that are not negative, pi for the others; NaN stays."""
    # Made of the sign, whose gradient is zero as PyTorch's, and which keeps NaN.
    return pw.mul(pw.abs(pw.clamp(pw.sign(_floating(input)), max=0)), math.pi)


def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """x with numbers in place of NaN (0) and of the infinities (the largest numbers of the type)."""
    if input.dtype.kind != "f":
        return pw.clone(input)
    limit = input.dtype.largest
    chosen = {
        "nan": 0.0 if nan is None else float(nan),
        "posinf": limit if posinf is None else float(posinf),
        "neginf": -limit if neginf is None else float(neginf),
    }
    return made(call("nan_to_num", arg(input), **chosen), input)


def positive(input: Tensor) -> Tensor:
    """x itself. Raises ShapeError for booleans."""
    if input.dtype.kind == "b":
        raise ShapeError("The `+` operator, on a bool tensor is not supported.", where=source.where())
    return input


def conj(input: Tensor) -> Tensor:
    """x itself: it is real."""
    return input


conj_physical = resolve_conj = resolve_neg = conj


def is_complex(input: Tensor) -> bool:
    """False: there are no complex tensors here."""
    return False


is_conj = is_neg = is_complex


def is_signed(input: Tensor) -> bool:
    """Whether the type has negative numbers."""
    return input.dtype.is_signed


def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not zero. Raises ShapeError for several."""
    return bool(input)


def isclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether elements differ by at most atol + rtol * |other|. Raises ShapeError for unlike types."""
    if input.dtype is not other.dtype:
        raise ShapeError(f"{input.dtype.name} did not match {other.dtype.name}", where=source.where())
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise ShapeError(f"{name} must be greater than or equal to zero, but got {value}", where=source.where())
    close = pw.eq(input, other)
    if equal_nan and input.dtype.kind == "f":
        close = pw.logical_or(close, pw.logical_and(pw.isnan(input), pw.isnan(other)))
    if rtol == atol == 0:
        return close
    a, b = _floating(input), _floating(other)
    gap = pw.abs(pw.sub(a, b))
    within = pw.le(gap, pw.add(pw.abs(pw.mul(b, rtol)), atol))
    return pw.logical_or(close, pw.logical_and(pw.isfinite(gap), within))


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether `isclose` holds everywhere."""
    return bool(isclose(input, other, rtol, atol, equal_nan).array("torch.allclose()").all())


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and values."""
    if input.spec.shape != other.spec.shape:
        return False
    return bool(pw.eq(input, other).array("torch.equal()").all())


def fill(input: Tensor, value: Operand) -> Tensor:
    """A tensor like x with one value everywhere. Raises ShapeError if the value has dimensions."""
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(
            f"fill only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.",
            where=source.where(),
        )
    return pw.masked_fill(input, creation.full_like(input, True, dtype=dt.bool_), value)


def scalar_tensor(
    s: float, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False, **_: Any
) -> Tensor:
    """A number as a tensor without dimensions, in the default type unless another is given."""
    return creation.tensor(s, dtype=dtype or default_dtype(), device=device, requires_grad=requires_grad)


def can_cast(from_: DType, to: DType) -> bool:
    """Whether a type may be written into another: floating to integer may not, nor a number to bool."""
    order = "bif"
    return order.index(from_.kind) <= order.index(to.kind)
