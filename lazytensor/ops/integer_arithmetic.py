"""Operations with a meaning for integers: floor division, its remainder, bits, shifts and common divisors."""

from typing import Any

import numpy as np

from lazytensor.core.dtype import int32
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import elementwise_work, illegal_with_hint, legal_by_decomposition
from lazytensor.ir.types import Type
from lazytensor.ops.op import call, full_like, op, same_types

_BITWISE_HINT = "Keep masks as bool and combine them with &, | and ~; do arithmetic on integers with +, - and *."
_DATA_LOADER_HINT = "Compute it in the data loader, and pass the result in with the batch."


def _check_zero_divisor(ufunc: Any) -> Any:
    """A division as PyTorch does it: integers cannot be divided by zero, floating-point numbers can."""

    def eval(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        # NumPy would warn and answer 0; PyTorch raises a RuntimeError with this very text, which ShapeError also is.
        if b.dtype.kind != "f" and not np.all(b):
            raise ShapeError("ZeroDivisionError", hint="Integers cannot be divided by zero; convert them to float.")
        with np.errstate(all="ignore"):
            return np.asarray(ufunc(a, b))

    return eval


def _integer(name: str, eval: Any, vjp: Any = None, flops: int = 1, **facets: Any) -> None:
    op(name, same_types, eval, vjp=vjp, work=elementwise_work(flops), **facets)


def _floor_quotient(a: Node, b: Node) -> Node:
    # CIRH's Div rounds integers down by itself.
    return call("floor", a / b) if a.type.dtype.kind == "f" else call("integer_div", a, b)


def _floor_divide_vjp(g: Node, y: Node, a: Node, b: Node) -> tuple[Node, Node]:
    # Zeros and no None, as torch.div with a rounding mode gives: an optimizer skips parameters without a gradient.
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
    cirh=legal_by_decomposition(_floor_quotient),
)
_integer(
    "remainder",
    _check_zero_divisor(_remainder),
    lambda g, y, a, b: (g, -(g * call("floor_divide", a, b))),
    8,
    cirh=legal_by_decomposition(lambda a, b: a - _floor_quotient(a, b) * b),
)
_integer(
    # CIRH's Div rounds integers down, where fmod rounds toward zero.
    "integer_fmod",
    _check_zero_divisor(np.fmod),
    flops=8,
    cirh=illegal_with_hint("Write a - torch.div(a, b, rounding_mode='floor') * b for numbers of one sign."),
)


def _integer_power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Negative exponents give the whole part of the fraction: 0 unless the base is 1 or -1."""
    # NumPy raises for a negative integer exponent, even where its result is not chosen.
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
    """Every bit is lost where the distance is no place of the number."""
    # The shift of a whole word is undefined in C, and x86 takes the distance modulo the word; PyTorch defines it.
    inside = (b >= 0) & (b < 8 * a.dtype.itemsize)
    return np.where(inside, np.left_shift(a, np.where(inside, b, 0)), 0).astype(a.dtype)


def _shift_right(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Only the sign is left where the distance is no place of the number."""
    # The sign bit is the last that may be shifted down; beyond it there are only copies of it.
    last = 8 * a.dtype.itemsize - 1
    inside = (b >= 0) & (b <= last)
    gone = np.where(a < 0, -1, 0).astype(a.dtype)
    return np.where(inside, np.right_shift(a, np.where(inside, b, last)), gone).astype(a.dtype)


_integer("left_shift", _shift_left, cirh=illegal_with_hint("Multiply by 2 ** n."))
_integer("right_shift", _shift_right, cirh=illegal_with_hint("Divide by 2 ** n with rounding_mode='floor'."))


def _mantissa_vjp(g: Node, y: Node, x: Node) -> tuple[Node]:
    # mantissa = x * 2 ** -exponent, and the exponent is constant but for its jumps.
    exponent = call("cast", call("frexp_exponent", x), dtype=x.type.dtype)
    return (g * call("exp2", -exponent),)


def _exponent(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        # C leaves the exponent of infinity and NaN open; PyTorch answers 0.
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
