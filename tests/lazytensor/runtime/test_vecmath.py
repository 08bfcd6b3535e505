"""The helpers of generated loops, against NumPy in float64, over every exponent and both signs."""

import math

import numpy as np
import pytest

from lazytensor.core.dtype import bfloat16, cbfloat16, float16, round_to
from lazytensor.ops import special_values
from lazytensor.runtime import intrinsics, jit, rounding, vecmath
from tests.lazytensor.oracles import assert_ulp_close

pytestmark = pytest.mark.slow

LOOP = """\
from {home} import {name}
from lazytensor.runtime.language import typed


@typed("void(int64, {kinds})")
def kernel(size, {names}, out):
    for i in range(size):
        out[i] = {name}({elements})
"""
_erf = np.frompyfunc(math.erf, 1, 1)
# name: (value in float64, bound in ULP). Sigmoid and tanh carry three roundings: exponential, sum and quotient.
BOUNDS = {
    "exp": (np.exp, 1),
    "expm1": (np.expm1, 2),
    "log": (np.log, 1),
    "log2": (np.log2, 2),
    "log1p": (np.log1p, 2),
    "tanh": (np.tanh, 3),
    "erf": (lambda x: _erf(x).astype(np.float64), 3),
    "sigmoid": (lambda x: np.where(x > 0, 1 / (1 + np.exp(-x)), np.exp(x) / (1 + np.exp(x))), 3),
    "sin": (np.sin, 1),
    "cos": (np.cos, 1),
    "tan": (np.tan, 1),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2),
    "sqrt": (np.sqrt, 0.501),
    "floor": (np.floor, 0),
    "ceil": (np.ceil, 0),
    "trunc": (np.trunc, 0),
    "round": (np.rint, 0),
    "abs": (np.abs, 0),
    "sign": (lambda x: np.nan_to_num(np.sign(x)), 0),
    "relu": (lambda x: np.where(x <= 0, 0, x), 0),
}


def sweep(step: int) -> np.ndarray:
    """Every `step`-th float32 of both signs: all exponents, subnormals, infinities, NaN."""
    bits = np.arange(0, 2**31, step, dtype=np.int64)
    special = np.array([0, 0x7F800000, 0x7FC00000, 1, 0x7F7FFFFF, 0x00800000, 0x3F800000])
    bits = np.concatenate([bits, special]).astype(np.uint32)
    return quiet(np.concatenate([bits, bits | np.uint32(1 << 31)]).view(np.float32))


def quiet(x: np.ndarray) -> np.ndarray:
    """x without signalling NaN, for which NumPy warns at each conversion."""
    return np.where(np.isnan(x), np.float32(np.nan), x)


def looped(name: str, arity: int = 1):
    """A loop over the helper, as generated code has it."""
    home = next(m for m in (intrinsics, rounding, vecmath) if hasattr(m, name)).__name__
    kinds = ", ".join([f"float{64 if name.endswith('f8') else 32}[::1]"] * (arity + 1))
    names = ", ".join("xy"[:arity])
    elements = names.replace("x", "x[i]").replace("y", "y[i]")
    text = LOOP.format(home=home, name=name, kinds=kinds, names=names, elements=elements)
    kernel = jit.machine_code(text)
    return lambda *arrays: kernel(arrays[0].size, *arrays)


@pytest.mark.parametrize("name", BOUNDS)
def test_float32_helper_keeps_its_bound(name):
    exact, bound = BOUNDS[name]
    x = sweep(3001)
    got = np.empty_like(x)
    looped(f"{name}_f4")(x, got)
    with np.errstate(all="ignore"):
        assert_ulp_close(got, exact(x.astype(np.float64)), bound)


@pytest.mark.parametrize("name", ["exp", "expm1", "tanh", "sigmoid", "log", "erf", "sin"])
def test_nan_of_any_payload_stays_nan(name):
    # Bits of the payload get into the exponents that the helpers build.
    payloads = np.arange(1, 1 << 22, 4099, dtype=np.uint32) | np.uint32(0x7FC00000)
    x = np.concatenate([payloads, payloads | np.uint32(1 << 31)]).view(np.float32)
    got = np.empty_like(x)
    looped(f"{name}_f4")(x, got)
    assert np.isnan(got).all()


def test_exponentials_of_what_is_not_positive_keep_the_bound_down_to_the_smallest_normal():
    x = sweep(1009)
    x = x[(x <= 0) | np.isnan(x)]
    got, full = np.empty_like(x), np.empty_like(x)
    looped("exp_below_f4")(x, got)
    looped("exp_f4")(x, full)
    is_near = x >= -87.3
    np.testing.assert_array_equal(got[is_near], full[is_near])
    assert np.isnan(got[np.isnan(x)]).all()
    # Below, nothing is left of it sooner than of the number itself; of minus infinity nothing at all.
    assert np.abs(got - full)[x < -87.3].max() < np.finfo("f4").tiny
    assert (got[x < -88] == 0).all()


def test_tanh_is_odd_and_never_above_one():
    x = sweep(1009)
    x = x[~np.isnan(x)]
    got, mirrored = np.empty_like(x), np.empty_like(x)
    looped("tanh_f4")(x, got)
    looped("tanh_f4")(-x, mirrored)
    np.testing.assert_array_equal(got, -mirrored)
    assert np.abs(got).max() == 1
    assert (np.abs(got[np.abs(x) > 9.02]) == 1).all()


def test_pow_keeps_its_bound_and_the_special_values():
    rng = np.random.default_rng(0)
    special = np.array([0, -0.0, 1, -1, 2, -2, 0.5, 3, -3, np.inf, -np.inf, np.nan, 1e38, 1e-40], np.float32)
    a, b = (g.ravel() for g in np.meshgrid(special, special))
    a = np.concatenate([a, np.exp(rng.uniform(-80, 80, 50_000)).astype("f4"), rng.normal(size=1000).astype("f4")])
    b = np.concatenate([b, rng.uniform(-4, 4, 50_000).astype("f4"), rng.integers(-9, 9, 1000).astype("f4")])
    got = np.empty_like(a)
    looped("pow_f4", 2)(a, b, got)
    with np.errstate(all="ignore"):
        assert_ulp_close(got, np.power(a.astype(np.float64), b.astype(np.float64)), 0.51)


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmod", "atan2"])
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_binary_helpers_equal_numpy(name, kind):
    special = np.array([0, -0.0, 1.5, -2, 7, np.inf, -np.inf, np.nan], kind)
    a, b = (np.ascontiguousarray(g.ravel()) for g in np.meshgrid(special, special))
    got = np.empty_like(a)
    looped(f"{name}_{kind}", 2)(a, b, got)
    exact = getattr(np, {"atan2": "arctan2"}.get(name, name))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, exact(a, b), rtol=1e-7, atol=0)


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
def test_remainders_are_exact_for_all_float32_numbers(name):
    a, b = np.random.default_rng(0).integers(0, 1 << 32, (2, 100_000), np.uint32).view(np.float32)
    got = np.empty_like(a)
    looped(f"{name}_f4", 2)(np.ascontiguousarray(a), np.ascontiguousarray(b), got)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(a, b)
    np.testing.assert_array_equal(got, want)


# name: (value in float64, arguments in addition to all exponents, bound in ULP there and at positive numbers)
SPECIAL = {
    "erfc": (special_values.erfc, (-6, 12), 0.51, 0.51),
    "erfinv": (special_values.erfinv, (-1, 1), 0.51, 0.51),
    "lgamma": (special_values.lgamma, (-5, 12), 0.51, 10),
    "digamma": (lambda x: special_values.polygamma(x, n=0), (-5, 12), 0.51, 100),
    "trigamma": (lambda x: special_values.polygamma(x, n=1), (-5, 12), 0.51, 0.51),
    "i0": (special_values.bessel_i0, (-20, 20), 0.55, 0.55),
    "i1": (special_values.bessel_i1, (-20, 20), 0.55, 0.55),
    "i0e": (special_values.bessel_i0e, (-20, 20), 0.55, 0.55),
    "i1e": (special_values.bessel_i1e, (-20, 20), 0.55, 0.55),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_function_keeps_its_bound(name):
    exact, span, bound, negative = SPECIAL[name]
    x = np.concatenate([sweep(30011), np.random.default_rng(0).uniform(*span, 20_000).astype("f4")])
    # Steps of a recurrence lead to these in the reference, one by one.
    x = x[~(x < -6e4)]
    got = np.empty_like(x)
    looped(f"{name}_f4")(x, got)
    want = exact(x.astype(np.float64))
    is_low = x < 0
    assert_ulp_close(got[~is_low], want[~is_low], bound)
    # Zeros at negative numbers have no relative accuracy.
    assert_ulp_close(got[is_low], want[is_low], negative)


@pytest.mark.parametrize("name", ["hypot", "logaddexp", "logaddexp2", "atan2"])
def test_functions_of_two_numbers_equal_numpys_in_float64(name):
    special = np.array([0, -0.0, 1, -1.5, 1e-30, -3e30, np.inf, -np.inf, np.nan], np.float32)
    drawn = np.random.default_rng(0).normal(size=(2, 5000)).astype("f4") * np.float32(10)
    a, b = (np.concatenate([g.ravel(), d]) for g, d in zip(np.meshgrid(special, special), drawn, strict=True))
    got = np.empty_like(a)
    looped(f"{name}_f4", 2)(a, b, got)
    with np.errstate(all="ignore"):
        want = getattr(np, {"atan2": "arctan2"}.get(name, name))(a.astype("f8"), b.astype("f8"))
        # A sum of logarithms near 0 cancels.
        scale = np.maximum(1, np.maximum(np.abs(a), np.abs(b))) if name.startswith("log") else np.abs(want)
        near = np.abs(got - want) <= 2e-7 * scale
    assert (near | (got == want.astype("f4")) | (np.isnan(got) & np.isnan(want))).all()
    if not name.startswith("log"):
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("name", [n for n in BOUNDS if n not in ("erf", "sigmoid")])
def test_float64_helper_equals_numpy(name):
    x = np.concatenate([sweep(2_000_003).astype(np.float64), np.array([1e300, -1e300, 1e-310])])
    got = np.empty_like(x)
    looped(f"{name}_f8")(x, got)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, BOUNDS[name][0](x), rtol=1e-14, atol=0)


@pytest.mark.parametrize("dtype", [float16, bfloat16, cbfloat16], ids=lambda d: d.name)
def test_rounding_equals_the_definition_in_every_bit(dtype):
    x = sweep(1009)
    # Halfway cases decide whether ties go to even.
    middle = quiet((np.arange(1 << 16, dtype=np.uint32) << np.uint32(15)).view(np.float32))
    with np.errstate(all="ignore"):
        below = np.nextafter(middle, np.float32(0))
    x = np.concatenate([x, middle, below, -middle])
    got = np.empty_like(x)
    looped(f"round_{dtype.name}")(x, got)
    with np.errstate(all="ignore"):
        want = round_to(x, dtype)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))


def test_gelu_follows_its_definition():
    x = np.linspace(-6, 6, 5001).astype(np.float32)
    wide = x.astype(np.float64)
    for name, want in (
        ("gelu_none_f4", 0.5 * wide * (1 + _erf(wide * math.sqrt(0.5)).astype(np.float64))),
        ("gelu_tanh_f4", 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))),
    ):
        got = np.empty_like(x)
        looped(name)(x, got)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=5e-7)
