"""Special functions that NumPy does not have, computed in double precision and returned in the dtype of the input.

Sources: M. Abramowitz and I. Stegun, Handbook of Mathematical Functions (1964): asymptotic and power series of the
gamma family (6.3, 6.4, 6.5) and of the modified Bessel functions (9.6, 9.7); S. Winitzki's approximation of the inverse
error function (2008) as the start of Halley's iteration; continued fraction after W. J. Lentz (1976).
"""

import math
from collections.abc import Callable

import numpy as np

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""The Bernoulli numbers B2, B4, ... B16."""
MIN_ASYMPTOTIC_ARGUMENT = 12.0
"""From this argument on, eight terms of the asymptotic series of the gamma family are exact in double precision."""
MAX_RECURRENCE_STEPS = 1 << 16
"""The maximum number of steps of a recurrence. After these the result is NaN."""
MIN_ERFCX_ASYMPTOTIC = 10.0
"""Above this argument the asymptotic series of erfcx is exact in double precision."""
ERFCX_TERMS = 12
"""Terms of that series; the last one is below 1e-14 of the first."""
BESSEL_SPLIT = 30.0
"""The power series is used up to this argument, the asymptotic series above."""

_erf = np.frompyfunc(math.erf, 1, 1)
_erfc = np.frompyfunc(math.erfc, 1, 1)


def _compute_in_float64(f: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Return a function of float64 arrays as one that converts its operands, and returns the dtype of the last one.

    Floating-point warnings are suppressed.
    """

    def function(*arrays: np.ndarray, **attrs: int) -> np.ndarray:
        dtype = np.asarray(arrays[-1]).dtype
        with np.errstate(all="ignore"):
            return np.asarray(f(*(np.asarray(a, np.float64) for a in arrays), **attrs)).astype(dtype)

    function.__doc__ = f.__doc__
    return function


def _apply_elementwise(f: Callable[..., object], x: np.ndarray) -> np.ndarray:
    return np.asarray(f(x), np.float64)


@_compute_in_float64
def erfc(x: np.ndarray) -> np.ndarray:
    """Return 1 - erf(x), accurate where it is small."""
    return _apply_elementwise(_erfc, x)


@_compute_in_float64
def erfcx(x: np.ndarray) -> np.ndarray:
    """Return exp(x * x) * erfc(x), which neither overflows nor underflows for large positive x."""
    near = np.exp(x * x) * _apply_elementwise(_erfc, x)
    # Abramowitz and Stegun 7.1.23, divided by exp(-x * x).
    term = total = np.ones_like(x)
    square = np.where(x > MIN_ERFCX_ASYMPTOTIC, x * x, 1.0)
    for k in range(ERFCX_TERMS):
        term = term * -(2 * k + 1) / (2 * square)
        total = total + term
    return np.where(x > MIN_ERFCX_ASYMPTOTIC, total / (x * math.sqrt(math.pi)), near)


@_compute_in_float64
def erfinv(x: np.ndarray) -> np.ndarray:
    """Return the y with erf(y) = x; infinite at -1 and 1, and NaN beyond."""
    size = np.abs(x)
    inside = size < 1
    p = np.where(inside, size, 0.0)
    logarithm = np.log1p(-p * p)
    # 0.147 is Winitzki's constant: the start is within 2 in 1,000.
    half = 2 / (math.pi * 0.147) + logarithm / 2
    y = np.sqrt(np.maximum(np.sqrt(half * half - logarithm / 0.147) - half, 0))
    # Halley's step cubes the error: 2e-3, 1e-7, below the spacing, and one more for arguments next to 1.
    for _ in range(3):
        # Near 1 the complement is the exact side.
        error = np.where(p < 0.5, _apply_elementwise(_erf, y) - p, (1 - p) - _apply_elementwise(_erfc, y))
        step = error * math.sqrt(math.pi) / 2 * np.exp(y * y)
        y = y - step / (1 + y * step)
    edge = np.where(size == 1, np.inf, np.nan)
    return np.asarray(np.copysign(np.where(inside, y, edge), x))


def _lgamma_scalar(x: float) -> float:
    # math.lgamma raises at the poles, and where the result overflows.
    if x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


_lgamma = np.frompyfunc(_lgamma_scalar, 1, 1)


@_compute_in_float64
def lgamma(x: np.ndarray) -> np.ndarray:
    """Return the logarithm of |gamma(x)|; infinite at the poles 0, -1, -2, ..."""
    return _apply_elementwise(_lgamma, x)


def _digamma_series(x: np.ndarray) -> np.ndarray:
    # A. and S. 6.3.18: ln x - 1 / 2x - sum of B2k / (2k x^2k), by Horner's rule from the smallest term.
    square, tail = 1 / (x * x), np.zeros_like(x)
    for k in range(len(BERNOULLI), 0, -1):
        tail = square * (BERNOULLI[k - 1] / (2 * k) + tail)
    return np.asarray(np.log(x) - 0.5 / x - tail)


def _zeta_series(s: int, q: np.ndarray) -> np.ndarray:
    """Return the Hurwitz zeta function: the sum over k >= 0 of (q + k) ** -s, approximated for large q."""
    # Euler and Maclaurin's formula: the integral, half the first term, and corrections with Bernoulli's numbers, whose
    # factor is s (s + 1) ... (s + 2k - 2).
    total = q ** (1.0 - s) / (s - 1) + 0.5 * q**-s
    factor, power = float(s), q ** (-s - 1.0)
    for k, b in enumerate(BERNOULLI, 1):
        total = total + b * factor / math.factorial(2 * k) * power
        factor *= (s + 2 * k - 1) * (s + 2 * k)
        power = power / (q * q)
    return total


@_compute_in_float64
def polygamma(x: np.ndarray, *, n: int) -> np.ndarray:
    """Return the n-th derivative of digamma, which is polygamma 0.

    At the poles, digamma is an infinity of the opposite sign at +0 and -0, and NaN at negative integers. A recurrence
    leads to large arguments, where a series is used. The result is NaN if that takes more than MAX_RECURRENCE_STEPS
    steps.
    """
    # psi and psi' have a simple reflection formula for negative arguments. Higher orders step up from below, pole after
    # pole, so arguments below -MAX_RECURRENCE_STEPS give NaN.
    reflected = (x < 0.5) if n < 2 else np.zeros(x.shape, bool)
    q = np.where(reflected, 1 - x, np.where(x == -np.inf, np.nan, x))
    total = np.zeros_like(q)
    # Higher derivatives have larger coefficients, so their series starts later.
    far = MIN_ASYMPTOTIC_ARGUMENT + n
    for _ in range(MAX_RECURRENCE_STEPS):
        # f(x) = f(x + 1) + a term, until the asymptotic series holds.
        near = q < far
        if not near.any():
            break
        total = np.where(near, total + (1 / q if n == 0 else q ** -(n + 1.0)), total)
        q = np.where(near, q + 1, q)
    # Arguments that are still too small after all steps give NaN.
    q = np.where(q < far, np.nan, q)
    if n == 0:
        value = np.where(np.isinf(q), q, _digamma_series(q)) - total
        # Reduce x modulo 1 before the multiplication by pi, while that is exact.
        turned = value - math.pi / np.tan(math.pi * np.fmod(x, 1))
        value = np.where(reflected, turned, value)
        # PyTorch's convention at the poles: at +-0 an infinity of the opposite sign, at the others NaN.
        return np.where(x == 0, np.copysign(np.inf, -x), np.where((x < 0) & (x == np.floor(x)), np.nan, value))
    value = total + _zeta_series(n + 1, q)
    if n == 1:
        value = np.where(reflected, (math.pi / np.sin(math.pi * np.fmod(x, 1))) ** 2 - value, value)
    return np.asarray((-1.0) ** (n + 1) * math.factorial(n) * value)


def _bessel_series(order: int, x: np.ndarray) -> np.ndarray:
    quarter = x * x / 4
    term = total = (x / 2) ** order
    # A. and S. 9.6.10. All terms are positive, so nothing cancels; at the split, term 80 is 1e-60 of the sum.
    for k in range(1, 80):
        term = term * quarter / (k * (k + order))
        before, total = total, total + term
        # From here on the terms are below half a unit of the last place.
        if (total == before).all():
            break
    return total


def _scaled_bessel_asymptotic(order: int, x: np.ndarray) -> np.ndarray:
    term = total = np.ones_like(x)
    # A. and S. 9.7.1. The asymptotic series diverges eventually; at the split the last term used is 3e-19.
    for k in range(1, 20):
        term = term * ((2 * k - 1) ** 2 - 4 * order * order) / (8 * k * x)
        total = total + term
    return np.asarray(total / np.sqrt(2 * math.pi * x))


def _bessel(order: int, x: np.ndarray, *, is_scaled: bool = False) -> np.ndarray:
    """Return the modified Bessel function of the first kind of `order` (0 or 1), times exp(-|x|) if `is_scaled`.

    Without the scaling, infinity and NaN give NaN.
    """
    size = np.abs(x)
    # Each series gets only arguments of its range; others are clipped to its edge.
    near, far = np.minimum(size, BESSEL_SPLIT), np.maximum(size, BESSEL_SPLIT)
    near_value, far_value = _bessel_series(order, near), _scaled_bessel_asymptotic(order, far)
    if is_scaled:
        near_value = near_value * np.exp(-near)
    else:
        # Apply half of the exponent twice, so that the product overflows only if the result does.
        half = np.exp(far / 2)
        far_value = np.where(np.isfinite(x), half * (half * far_value), np.nan)
    value = np.where(size <= BESSEL_SPLIT, near_value, far_value)
    return value if order % 2 == 0 else np.copysign(value, x)


@_compute_in_float64
def bessel_i0(x: np.ndarray) -> np.ndarray:
    """Return the modified Bessel function of the first kind, order 0; NaN at the infinities, as in PyTorch."""
    return _bessel(0, x)


@_compute_in_float64
def bessel_i1(x: np.ndarray) -> np.ndarray:
    """Return the modified Bessel function of the first kind, order 1; NaN at the infinities, as in PyTorch."""
    return _bessel(1, x)


@_compute_in_float64
def bessel_i0e(x: np.ndarray) -> np.ndarray:
    """Return exp(-|x|) times the modified Bessel function of the first kind of order 0; 0 at the infinities."""
    return _bessel(0, x, is_scaled=True)


@_compute_in_float64
def bessel_i1e(x: np.ndarray) -> np.ndarray:
    """Return exp(-|x|) times the modified Bessel function of the first kind of order 1; 0 at the infinities."""
    return _bessel(1, x, is_scaled=True)


def _lower_series(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the sum over k >= 0 of x ** k / ((a + 1) ... (a + k)).

    It ends when no term changes the sum, or after MAX_RECURRENCE_STEPS terms.
    """
    term = total = np.ones_like(x)
    for k in range(1, MAX_RECURRENCE_STEPS):
        term = term * x / (a + k)
        total = total + term
        if not (term > total * 1e-17).any():
            break
    return total


def _upper_fraction(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the continued fraction of the upper incomplete gamma function, by Lentz's method."""
    # Replaces a 0 in a denominator: the next step cancels it.
    tiny = 1e-300
    b = x + 1 - a
    c, d = np.full_like(x, 1 / tiny), 1 / b
    value = d
    for k in range(1, MAX_RECURRENCE_STEPS):
        # A. and S. 6.5.31 in the form with one fraction for two: b grows by 2.
        numerator = -k * (k - a)
        b = b + 2
        d = numerator * d + b
        d = 1 / np.where(np.abs(d) < tiny, tiny, d)
        c = b + numerator / c
        c = np.where(np.abs(c) < tiny, tiny, c)
        value = value * c * d
        if not (np.abs(c * d - 1) > 1e-15).any():
            break
    return np.asarray(value)


def _gamma_parts(a: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the regularized lower and upper incomplete gamma functions P(a, x) and Q(a, x).

    Both are NaN for negative operands. At 0 and infinity they have PyTorch's limits.
    """
    plain = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    p, q = np.where(plain, a, 1.0), np.where(plain, x, 1.0)
    # The power series converges fast below a + 1, the continued fraction above.
    is_low = q < p + 1
    # x^a e^-x / gamma(a), in logarithms because each factor may overflow.
    scale = np.exp(p * np.log(q) - q - _apply_elementwise(_lgamma, p))
    # With the operands 0 and p + 2, the series that is not selected ends at once.
    low = scale / p * _lower_series(p, np.where(is_low, q, 0.0))
    high = scale * _upper_fraction(p, np.where(is_low, p + 2, q))
    lower, upper = np.where(is_low, low, 1 - high), np.where(is_low, 1 - low, high)
    # PyTorch's limits: P(a, inf) = 1, P(0, x) = 1, P(a, 0) = 0, P(inf, x) = 0, and NaN for P(0, 0).
    at_one = (x == np.inf) & (a < np.inf) | (a == 0) & (x > 0)
    at_zero = (x == 0) & (a > 0) | (a == np.inf) & (x < np.inf)
    edge = np.where((a < 0) | (x < 0), np.nan, np.where(at_one, 1.0, np.where(at_zero, 0.0, np.nan)))
    return np.where(plain, lower, edge), np.where(plain, upper, 1 - edge)


@_compute_in_float64
def igamma(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the regularized lower incomplete gamma function P(a, x)."""
    return _gamma_parts(a, x)[0]


@_compute_in_float64
def igammac(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the regularized upper incomplete gamma function Q(a, x)."""
    return _gamma_parts(a, x)[1]


def xlogy(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a * log(b), and 0 where a is 0 unless b is NaN."""
    with np.errstate(all="ignore"):
        return np.asarray(np.where((a == 0) & ~np.isnan(b), a.dtype.type(0), a * np.log(b)))


def heaviside(x: np.ndarray, at_zero: np.ndarray) -> np.ndarray:
    """Return 0 for x < 0 and for NaN, 1 for x > 0, and `at_zero` for x = 0."""
    return np.where(x == 0, at_zero, x > 0).astype(x.dtype)


def nan_to_num(x: np.ndarray, *, nan: float, posinf: float, neginf: float) -> np.ndarray:
    """Return x with `nan` in place of NaN, and `posinf` and `neginf` in place of the infinities."""
    return np.asarray(np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf))
