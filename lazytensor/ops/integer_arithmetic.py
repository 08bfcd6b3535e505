"""Integer arithmetic: floor division, remainder, bitwise operations, shifts and common divisors."""

from typing import Any

import numpy as np

from lazytensor.core.dtype import int32
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import LoopBody, elementwise_work, illegal_with_hint, legal_by_decomposition
from lazytensor.ir.types import Type
from lazytensor.ops.op import call, full_like, op, same_types

_BITWISE_HINT = "Keep masks as bool and combine them with &, | and ~; do arithmetic on integers with +, - and *."
_DATA_LOADER_HINT = "Compute it in the data loader, and pass the result in with the batch."


def _check_zero_divisor(ufunc: Any) -> Any:
    """Return a function that computes `ufunc`, a division, without warnings.

    It raises ShapeError if an integer or boolean divisor has a zero, as PyTorch does. Floats give infinity or NaN.
    """

    def eval(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        # NumPy would warn and return 0. PyTorch raises a RuntimeError with this text; ShapeError is a RuntimeError.
        if b.dtype.kind != "f" and not np.all(b):
            raise ShapeError(
                "ZeroDivisionError", hint="Remove zeros from the divisor, or convert an operand with .float()."
            )
        with np.errstate(all="ignore"):
            return np.asarray(ufunc(a, b))

    return eval


def _integer(name: str, eval: Any, vjp: Any = None, flops: int = 1, **facets: Any) -> None:
    op(name, same_types, eval, vjp=vjp, work=elementwise_work(flops), **facets)


def _floor_quotient(a: Node, b: Node) -> Node:
    # CIRH's Div rounds integers down.
    return call("floor", a / b) if a.type.dtype.kind == "f" else call("integer_div", a, b)


def _floor_divide_vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    # Zeros, not None, as torch.div with a rounding mode: an optimizer would skip parameters without a gradient.
    return full_like(0, a), full_like(0, b)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    rest = np.remainder(a, b)
    # A remainder of zero has the sign of a, as `fmod` gives it.
    return np.asarray(np.where(rest == 0, np.copysign(rest, a), rest)) if rest.dtype.kind == "f" else rest


_integer(
    "floor_divide",
    _check_zero_divisor(np.floor_divide),
    _floor_divide_vjp,
    8,
    body=LoopBody("floor_divide({0}, {1})", "special", is_single=True),
    cirh=legal_by_decomposition(_floor_quotient),
)
_integer(
    "remainder",
    _check_zero_divisor(_remainder),
    lambda g, y, a, b: (g, -(g * call("floor_divide", a, b))),
    8,
    body=LoopBody("remainder({0}, {1})", "special", is_single=True),
    cirh=legal_by_decomposition(lambda a, b: a - _floor_quotient(a, b) * b),
)
_integer(
    # CIRH's Div rounds integers down, but fmod rounds toward zero.
    "integer_fmod",
    _check_zero_divisor(np.fmod),
    flops=8,
    cirh=illegal_with_hint("Write a - torch.div(a, b, rounding_mode='floor') * b for numbers of one sign."),
)


def _integer_power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a**b in the dtype of `a`. Negative exponents give the integer part: 0 unless the base is 1 or -1."""
    # NumPy raises for a negative integer exponent, even if its result is not selected.
    raised = np.power(a, np.where(b < 0, 0, b).astype(a.dtype))
    sign = np.where(b % 2 == 0, 1, a)
    return np.where(b < 0, np.where(np.abs(a) == 1, sign, 0), raised).astype(a.dtype)


_integer(
    "integer_pow",
    _integer_power,
    flops=20,
    cirh=illegal_with_hint("Multiply: x * x, or convert to float, raise, and convert back."),
)
_integer("bitwise_and", np.bitwise_and, cirh=illegal_with_hint(_BITWISE_HINT))
_integer("bitwise_or", np.bitwise_or, cirh=illegal_with_hint(_BITWISE_HINT))
_integer("bitwise_xor", np.bitwise_xor, cirh=illegal_with_hint(_BITWISE_HINT))
_integer("gcd", np.gcd, flops=40, cirh=illegal_with_hint(_DATA_LOADER_HINT))
_integer("lcm", np.lcm, flops=40, cirh=illegal_with_hint(_DATA_LOADER_HINT))


def _shift_left(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a << b; 0 if b is negative or at least the number of bits."""
    # In C a shift by the word size is undefined, and x86 takes the distance modulo the size; PyTorch defines it.
    inside = (b >= 0) & (b < 8 * a.dtype.itemsize)
    return np.where(inside, np.left_shift(a, np.where(inside, b, 0)), 0).astype(a.dtype)


def _shift_right(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a >> b. If b is negative or at least the number of bits, only the sign is left: 0 or -1."""
    # A shift by more than `last` gives copies of the sign bit.
    last = 8 * a.dtype.itemsize - 1
    inside = (b >= 0) & (b <= last)
    gone = np.where(a < 0, -1, 0).astype(a.dtype)
    return np.where(inside, np.right_shift(a, np.where(inside, b, last)), gone).astype(a.dtype)


_integer("left_shift", _shift_left, cirh=illegal_with_hint("Multiply by 2 ** n."))
_integer("right_shift", _shift_right, cirh=illegal_with_hint("Divide by 2 ** n with rounding_mode='floor'."))


def _mantissa_vjp(g: Node, y: Node, x: Node) -> tuple[Node]:
    # mantissa = x * 2 ** -exponent, and the exponent is piecewise constant.
    exponent = call("cast", call("frexp_exponent", x), dtype=x.type.dtype)
    return (g * call("exp2", -exponent),)


def _exponent(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        # In C the exponent of infinity and NaN is unspecified; PyTorch returns 0.
        return np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(np.int32)


op(
    "frexp_mantissa",
    same_types,
    lambda x: np.frexp(x)[0],
    vjp=_mantissa_vjp,
    work=elementwise_work(2),
    cirh=illegal_with_hint("Divide by 2 ** torch.floor(torch.log2(torch.abs(x)) + 1)."),
)
op(
    "frexp_exponent",
    lambda x: Type(x.shape, int32),
    _exponent,
    work=elementwise_work(2),
    cirh=illegal_with_hint("Write torch.floor(torch.log2(torch.abs(x))) + 1."),
)
