"""Rows of the special functions and of the operations on integers, each by another formula than the table uses."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.lazytensor.ops.op_rows import Case, Draw, Row, _between, _binary, _each, _positive, _quotients, _unary

_NODES, _WEIGHTS = np.polynomial.laguerre.laggauss(40)


def _polygamma(x: float, n: int) -> float:
    """The integral over exp(-x t) t ** n / (1 - exp(-t)) by Gauss and Laguerre, after 20 steps of the recurrence."""
    far = x + 20
    t = _NODES / far
    if n:
        integral = float(np.sum(_WEIGHTS * t**n / -np.expm1(-t)) / far)
        return (-1) ** (n + 1) * (integral + math.factorial(n) * math.fsum((x + k) ** -(n + 1) for k in range(20)))
    integral = float(np.sum(_WEIGHTS * (1 / t + 1 / np.expm1(-t))) / far)
    return math.log(far) + integral - math.fsum(1 / (x + k) for k in range(20))


def _bessel(order: int) -> Callable[[float], float]:
    """The mean of exp(x cos t) cos(order t) over the circle."""
    turns = [2 * math.pi * k / 64 for k in range(64)]
    return lambda x: math.fsum(math.exp(x * math.cos(t)) * math.cos(order * t) for t in turns) / 64


def _scaled_bessel(order: int) -> Callable[[float], float]:
    """exp(-|x|) times the mean of exp(x cos t) cos(order t) over the circle."""
    return lambda x: math.exp(-abs(x)) * _bessel(order)(x)


def _lower_gamma(a: float, x: float) -> float:
    """The integral of the power series of exp(-t), term by term."""
    terms = ((-1) ** k * x ** (a + k) / (math.factorial(k) * (a + k)) for k in range(60))
    return math.fsum(terms) / math.gamma(a)


def _erfinv(x: float) -> float:
    low, high = -6.0, 6.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erf(middle) < x else (low, middle)
    return low


def _gamma_case(d: Draw) -> Case:
    """The first operand is of another type, so that no gradient is asked for."""
    return [d.rng.uniform(0.3, 3, d.shape).astype(np.float32), d.within(0.2, 4)], {}


def _gamma_row(f: Callable[..., float]) -> Row:
    return Row(_gamma_case, _each(f))


def _integers(f: Callable[[int, int], int], low: int = -40, high: int = 40, step: int = 0) -> Row:
    """A row for integers only; with `step` the second operand comes from 1..step."""

    def make(d: Draw) -> Case:
        a = d.rng.integers(low, high, d.shape)
        b = d.rng.integers(1, step + 1, d.shape) if step else d.rng.integers(low, high, d.shape)
        return [a.astype(d.dtype.host), b.astype(d.dtype.host)], {}

    return Row(make, _each(f, int), "i")


def _bits(f: Callable[[bool, bool], bool]) -> Callable[[int, int], int]:
    """A word from the bits of two others, one at a time."""

    def word(a: int, b: int) -> int:
        bits = sum(f(bool(a >> k & 1), bool(b >> k & 1)) << k for k in range(31))
        return bits - f(a < 0, b < 0) * 2**31

    return word


def _power(a: int, b: int) -> int:
    return a**b if b >= 0 else int(a ** abs(b) if abs(a) == 1 else 0)


def _filled(x: np.ndarray, *, nan: float, posinf: float, neginf: float) -> np.ndarray:
    kinds = {math.inf: posinf, -math.inf: neginf}
    return _each(lambda v: nan if v != v else kinds.get(v, v))(x)


def _fill_case(d: Draw) -> Case:
    return [d.values()], {"nan": 1.0, "posinf": 2.0, "neginf": -3.0}


def _pairs(f: Callable[..., float]) -> Row:
    return Row(lambda d: ([d.distinct(), d.cast(d.distinct() + 0.01)], {}), _each(f), special=True)


def _polygamma_case(d: Draw) -> Case:
    return [d.within(0.3, 4)], {"n": int(d.rng.integers(4))}


def _formula_polygamma(x: np.ndarray, *, n: int) -> Any:
    return _each(lambda v: _polygamma(v, n))(x)


ROWS: dict[str, Row] = {
    "asin": _unary(math.asin, _between(-0.9, 0.9)),
    "acos": _unary(math.acos, _between(-0.9, 0.9)),
    "atan": _unary(math.atan),
    "sinh": _unary(math.sinh),
    "cosh": _unary(math.cosh),
    "asinh": _unary(math.asinh),
    "acosh": _unary(math.acosh, _between(1.2, 4)),
    "atanh": _unary(math.atanh, _between(-0.9, 0.9)),
    "exp2": _unary(lambda x: 2.0**x),
    "log10": _unary(math.log10, _positive),
    "entr": _unary(lambda x: x * math.log(1 / x), _positive),
    "logit": _unary(lambda x: math.log(x) - math.log1p(-x), _between(0.1, 0.9)),
    "erfc": _unary(math.erfc),
    "erfinv": _unary(_erfinv, _between(-0.9, 0.9)),
    "erfcx": _unary(lambda x: math.exp(x * x) * math.erfc(x), _between(-2, 4)),
    "lgamma": _unary(math.lgamma, _between(0.3, 4)),
    "digamma": _unary(lambda x: _polygamma(x, 0), _between(0.3, 4)),
    "trigamma": _unary(lambda x: _polygamma(x, 1), _between(0.3, 4)),
    "polygamma": Row(_polygamma_case, _formula_polygamma, special=True),
    "bessel_i0": _unary(_bessel(0)),
    "bessel_i1": _unary(_bessel(1)),
    "bessel_i0e": _unary(_scaled_bessel(0)),
    "bessel_i1e": _unary(_scaled_bessel(1)),
    "signbit": Row(lambda d: ([d.values()], {}), _each(lambda x: x < 0, bool), special=True),
    "hypot": _pairs(math.hypot),
    "copysign": _pairs(math.copysign),
    "fmax": _pairs(max),
    "fmin": _pairs(min),
    "nextafter": _pairs(lambda a, b: a),  # closer than any tolerance; tests of bits are in test_special
    "logaddexp": _pairs(lambda a, b: math.log(math.exp(a) + math.exp(b))),
    "logaddexp2": _pairs(lambda a, b: math.log2(2**a + 2**b)),
    "xlog1py": Row(
        lambda d: ([d.values(), d.within(-0.7, 4)], {}), _each(lambda a, b: a * math.log(1 + b)), special=True
    ),
    "xlogy": Row(lambda d: ([d.values(), d.within(0.2, 4)], {}), _each(lambda a, b: a * math.log(b)), special=True),
    "heaviside": _binary(lambda a, b: b if a == 0 else float(a > 0)),
    "igamma": _gamma_row(_lower_gamma),
    "igammac": _gamma_row(lambda a, x: 1 - _lower_gamma(a, x)),
    "nan_to_num": Row(_fill_case, _filled, special=True),
    "floor_divide": Row(_quotients, _each(lambda a, b: math.floor(a / b)), "fi"),
    "remainder": Row(_quotients, _each(lambda a, b: a - math.floor(a / b) * b), "fi"),
    "integer_fmod": _integers(lambda a, b: int(math.fmod(a, b)), step=9),
    "integer_pow": _integers(_power, -6, 6),
    "bitwise_and": _integers(_bits(operator.and_)),
    "bitwise_or": _integers(_bits(operator.or_)),
    "bitwise_xor": _integers(_bits(operator.xor)),
    "left_shift": _integers(lambda a, b: a * 2**b, step=9),
    "right_shift": _integers(lambda a, b: math.floor(a / 2**b), step=9),
    "gcd": _integers(math.gcd),
    "lcm": _integers(lambda a, b: abs(a * b) // (math.gcd(a, b) or 1)),
    "frexp_mantissa": _unary(lambda x: math.frexp(x)[0], _between(1.1, 1.9)),
    "frexp_exponent": Row(lambda d: ([d.within(1.1, 1.9)], {}), _each(lambda x: math.frexp(x)[1], int)),
}
NOT_DIFFERENTIABLE = set(
    """signbit heaviside integer_fmod integer_pow bitwise_and bitwise_or bitwise_xor left_shift right_shift gcd lcm
    frexp_exponent""".split()
)
