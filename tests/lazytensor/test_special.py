"""Special functions: PyTorch's answers on ordinary and odd values, laws between the functions, dtypes."""

import json
import math
import pathlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.errors import AutogradError, ShapeError

RECORDED = json.loads((pathlib.Path(__file__).parent.parent / "golden" / "numbers.json").read_text())
VALUES = [float(v) for v in RECORDED["values"]]
PAIRS = [(float(a), float(b)) for a, b in RECORDED["pairs"]]
UNARY = """acos acosh asin asinh atan atanh sinh cosh sinc exp2 log10 logit erfc erfinv lgamma digamma i0 expm1 log1p
    log2 exp log""".split()
BINARY = """hypot copysign nextafter logaddexp logaddexp2 xlogy fmax fmin heaviside remainder fmod floor_divide pow
    atan2""".split()
FEW_PLACES = 2e-6
"""Relative: both sides round float32 results; sums of several functions lose a few places more."""

finite = st.floats(-20, 20, width=32)
arrays = st.lists(finite, min_size=1, max_size=20)


def close(got: lt.Tensor, want: list[str], rtol: float = FEW_PLACES) -> None:
    expected = np.array([float(v) for v in want], np.float32)
    np.testing.assert_allclose(got.numpy(), expected, rtol=rtol, atol=1e-37)


@pytest.mark.parametrize("name", UNARY)
def test_values_are_those_of_pytorch(name):
    close(getattr(lt, name)(lt.tensor(VALUES)), RECORDED[name], 2e-5 if name in ("digamma", "logit") else FEW_PLACES)


@pytest.mark.parametrize("name", ["expm1", "log1p", "asinh", "atanh", "sinh", "erfinv"])
def test_small_arguments_keep_their_digits(name):
    x = np.array([1e-3, 1e-5, -1e-7, 1e-12, -1e-30], np.float32)
    want = {"erfinv": lambda v: v * math.sqrt(math.pi) / 2 * (1 + math.pi * v * v / 12)}.get(name)
    wide = x.astype(np.float64)
    names = {"asinh": np.arcsinh, "atanh": np.arctanh}
    expected = want(wide) if want else names.get(name, getattr(np, name, None))(wide)
    np.testing.assert_allclose(getattr(lt, name)(lt.tensor(x)).numpy(), expected, rtol=2e-7)


@pytest.mark.parametrize("name", BINARY)
def test_pairs_of_odd_values_are_those_of_pytorch(name):
    a, b = (lt.tensor(list(v)) for v in zip(*PAIRS, strict=True))
    close(getattr(lt, name)(a, b), RECORDED[name])


def test_truncated_division_of_odd_values_is_that_of_pytorch():
    a, b = (lt.tensor(list(v)) for v in zip(*PAIRS, strict=True))
    close(lt.div(a, b, rounding_mode="trunc"), RECORDED["div_trunc"])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_polygamma_is_that_of_pytorch(n):
    close(lt.polygamma(n, lt.tensor([0.3, 1.0, 2.5, 7.5, 20.0, -1.5])), RECORDED[f"polygamma{n}"], 1e-5)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma_is_that_of_pytorch(name):
    a, x = lt.tensor([0.5, 1, 2.5, 10, 30, 0.1, 100.0]), lt.tensor([0.2, 3, 2.5, 12, 20, 5, 100.0])
    close(getattr(lt, name)(a, x), RECORDED[name], 1e-5)


def test_incomplete_gamma_at_its_edges():
    a = lt.tensor([0.0, 0, 1, -1, 2, math.inf])
    x = lt.tensor([0.0, 1, 0, 1, math.inf, 2])
    np.testing.assert_array_equal(lt.igamma(a, x).numpy(), np.array([np.nan, 1, 0, np.nan, 1, 0], np.float32))
    np.testing.assert_array_equal(lt.igammac(a, x).numpy(), np.array([np.nan, 0, 1, np.nan, 0, 1], np.float32))


def test_slope_of_igamma_in_its_first_operand_is_refused():
    a = lt.tensor([1.0], requires_grad=True)
    with pytest.raises(AutogradError, match="not implemented"):
        lt.igamma(a, lt.tensor([1.0])).sum().backward()


@settings(max_examples=40, deadline=None)
@given(arrays)
def test_inverse_functions_undo(values):
    x = lt.tensor(values, dtype=lt.float64)
    small = x / 21
    for forth, back, at in (
        (lt.sinh, lt.asinh, x),
        (lt.atanh, lt.tanh, small),
        (lt.asin, lt.sin, small),
        (lt.erfinv, lt.erf, small),
        (lt.logit, lt.sigmoid, abs(small) + 0.01),
        (lt.exp2, lt.log2, x),
        (lt.deg2rad, lt.rad2deg, x),
    ):
        np.testing.assert_allclose(back(forth(at)).numpy(), at.numpy(), rtol=1e-9, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(arrays)
def test_recurrences_of_the_gamma_family(values):
    x = abs(lt.tensor(values, dtype=lt.float64)) + 0.1
    for n in range(4):
        step = lt.polygamma(n, x + 1) - lt.polygamma(n, x)
        np.testing.assert_allclose(step, ((-1) ** n * math.factorial(n) * x ** -(n + 1)).numpy(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose((lt.lgamma(x + 1) - lt.lgamma(x)).numpy(), lt.log(x).numpy(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose((lt.igamma(x, x) + lt.igammac(x, x)).numpy(), 1, rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(arrays, st.integers(-3, 3))
def test_rounding_to_decimals_agrees_with_numpy(values, decimals):
    x = np.array(values, np.float32)
    np.testing.assert_allclose(lt.round(lt.tensor(x), decimals=decimals).numpy(), np.round(x, decimals), rtol=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=True), min_size=1, max_size=20))
def test_parts_of_a_number_make_it_again(values):
    x = lt.tensor(values)
    mantissa, exponent = lt.frexp(x)
    assert exponent.dtype is lt.int32
    np.testing.assert_array_equal(np.ldexp(mantissa.numpy(), exponent.numpy()), x.numpy())
    np.testing.assert_array_equal(lt.signbit(x).numpy(), np.signbit(x.numpy()))
    np.testing.assert_array_equal(lt.isposinf(x).numpy(), np.isposinf(x.numpy()))
    np.testing.assert_array_equal(lt.isneginf(x).numpy(), np.isneginf(x.numpy()))
    np.testing.assert_array_equal(lt.nan_to_num(x).numpy(), np.nan_to_num(x.numpy()))
    np.testing.assert_array_equal(lt.angle(x).numpy(), np.angle(x.numpy() + 0).astype(np.float32))


@settings(max_examples=40, deadline=None)
@given(arrays, st.sampled_from((0, 1e-4, 1.0, np.nan, np.inf)), st.sampled_from((0.0, 1e-3, 0.5)), st.booleans())
def test_isclose_agrees_with_numpy(values, shift, tolerance, equal_nan):
    a = np.array([*values, np.inf, np.nan])
    b = a + np.array([shift] * len(values) + [0, 0])
    got = lt.isclose(lt.tensor(a), lt.tensor(b), rtol=tolerance, atol=tolerance, equal_nan=equal_nan)
    np.testing.assert_array_equal(got.numpy(), np.isclose(a, b, tolerance, tolerance, equal_nan))
    assert lt.allclose(lt.tensor(a), lt.tensor(b), tolerance, tolerance, equal_nan) == bool(got.numpy().all())


@pytest.mark.parametrize("name", [n for n in UNARY if n not in ("logit", "acosh")])
@pytest.mark.parametrize("dtype", [lt.int64, lt.bool_, lt.uint8])
def test_integers_leave_for_the_default_type(name, dtype):
    got = getattr(lt, name)(lt.tensor([0, 1], dtype=dtype))
    assert got.dtype is lt.float32
    want = getattr(lt, name)(lt.tensor([0.0, 1.0])).numpy()
    np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("name", UNARY)
def test_no_elements_give_no_elements(name):
    assert getattr(lt, name)(lt.zeros(0, 3)).shape == (0, 3)


def test_bound_of_clamp_takes_the_whole_gradient():
    x = lt.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    low = lt.tensor([0.0, 0.0, 0.0], requires_grad=True)
    lt.clamp(x, min=low).sum().backward()
    assert (x.grad.tolist(), low.grad.tolist()) == ([0, 1, 1], [1, 0, 0])
    x = lt.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    lt.clamp_min(x, 0).sum().backward()
    assert x.grad.tolist() == [0, 1, 1]


def test_crossed_bounds_of_clamp_leave_the_upper_one():
    x, low, high = (lt.tensor([v], requires_grad=True) for v in (0.5, 3.0, 1.0))
    y = lt.clamp(x, low, high)
    y.backward(lt.ones(1))
    assert (y.item(), x.grad.item(), low.grad.item(), high.grad.item()) == (1, 0, 0, 1)


def test_equal_numbers_of_fmax_give_their_gradient_to_the_first():
    a, b = lt.tensor([1.0, math.nan, 2.0], requires_grad=True), lt.tensor([1.0, 5.0, math.nan], requires_grad=True)
    lt.fmax(a, b).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([1, 0, 1], [0, 1, 0])


@pytest.mark.parametrize("weight", [0.25, 0.75, 1.0])
def test_lerp_is_exact_at_both_ends(weight):
    a, b = lt.tensor([1e8]), lt.tensor([1.0])
    assert lt.lerp(a, b, 1.0).item() == 1.0
    as_tensor = lt.lerp(a, b, lt.tensor([weight])).item()
    assert as_tensor == lt.lerp(a, b, weight).item()


@pytest.mark.parametrize(
    "action, message",
    [
        (lambda: lt.heaviside(lt.tensor([1.0]), lt.tensor([1])), "different dtypes"),
        (lambda: lt.isclose(lt.tensor([1.0]), lt.tensor([1])), "did not match"),
        (lambda: lt.isclose(lt.tensor([1.0]), lt.tensor([1.0]), rtol=-1), "greater than or equal to zero"),
        (lambda: lt.lerp(lt.tensor([1.0]), lt.tensor([1.0], dtype=lt.float64), 0.5), "expected dtype"),
        (lambda: lt.addcdiv(lt.tensor([1]), lt.tensor([1]), lt.tensor([1])), "no longer supported"),
        (lambda: lt.positive(lt.tensor([True])), "bool tensor"),
        (lambda: lt.frexp(lt.tensor([1])), "floating-point"),
        (lambda: lt.frac(lt.tensor([1])), "int64"),
        (lambda: lt.polygamma(-1, lt.tensor([1.0])), "negative n"),
        (lambda: lt.fill(lt.zeros(2), lt.zeros(2)), "0-dimension"),
        (lambda: lt.round(lt.tensor([1]), decimals=1), "decimals"),
        (lambda: lt.add(lt.tensor([1]), 1, alpha=0.5), "alpha"),
        (lambda: lt.nextafter(lt.ones(1).half(), lt.ones(1).half()), "16-bit types"),
        (lambda: lt.is_nonzero(lt.ones(2)), "ambiguous"),
        (lambda: lt.sub(1, lt.tensor([True])), "bool tensor"),
    ],
)
def test_misuse_is_refused(action, message):
    with pytest.raises(ShapeError, match=message):
        action()


def test_fill_and_scalar_tensor_and_float_power_choose_their_types():
    assert lt.fill(lt.tensor([1, 2]), 3.7).tolist() == [3, 3]
    assert lt.scalar_tensor(3).dtype is lt.float32
    assert lt.scalar_tensor(3, dtype=lt.int64).dtype is lt.int64
    assert lt.float_power(2, lt.tensor([3])).dtype is lt.float64
    assert lt.ldexp(lt.tensor([1]), lt.tensor([3])).dtype is lt.float32
    assert lt.equal(lt.tensor([1]), lt.tensor([1.0])) and not lt.equal(lt.tensor([1]), lt.tensor([1, 1]))


@pytest.mark.parametrize("name", ["eq", "subtract", "log1p", "erfc", "square", "clip", "logical_xor"])
def test_in_place_form_writes_what_the_function_gives(name):
    arguments = {"clip": (0.3, 0.8), "log1p": (), "erfc": (), "square": ()}.get(name, (lt.tensor([0.5, 1.0]),))
    x = lt.tensor([0.5, 0.25])
    want = getattr(lt, name)(x, *arguments).float().tolist()
    assert getattr(x, f"{name}_")(*arguments) is x
    assert x.tolist() == want and x.dtype is lt.float32


def test_questions_about_the_kind_of_numbers():
    x = lt.tensor([-1.0])
    assert (lt.is_complex(x), lt.is_conj(x), x.is_neg()) == (False, False, False)
    assert (lt.is_signed(x), lt.is_signed(x.byte()), lt.is_nonzero(x)) == (True, False, True)


@pytest.mark.parametrize("name, other", [("expit", "sigmoid"), ("gammaln", "lgamma"), ("psi", "digamma"), ("i0", "i0")])
def test_special_has_functions_under_names_of_its_own(name, other):
    x = lt.tensor([0.2, 1.5, 3.0])
    assert getattr(lt.special, name)(x).tolist() == getattr(lt, other)(x).tolist()


def test_slope_of_bessel_i0_is_i1():
    x = lt.tensor([-2.0, 0.0, 0.5, 7.0], requires_grad=True)
    lt.special.i0(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), lt.special.i1(x.detach()).numpy(), rtol=1e-6)


SCALED_BESSEL = [
    (-1e4, 0.0039894726746047314, 1.99478621069199e-07, -0.003989273195983662, -1.994486985290589e-07),
    (-30.0, 0.0731459464822373, 0.0012296158835897464, -0.07191633059864755, -0.0011675951363651765),
    (-0.5, 0.6450352704491501, 0.4886144672642784, -0.15642080318487173, 0.17577286089453492),
    (0.0, 1.0, 0.0, 0.0, 0.5),
    (1e-3, 0.9990007495835156, -0.9985012492711614, 0.0004995003123542215, 0.4990009369169398),
    (2.0, 0.308508322553671, -0.0932390333047333, 0.2152692892489377, -0.014395611319735546),
    (31.0, 0.07194649669698383, -0.0011701038625981375, 0.07077639283438569, -0.0011130055836723607),
    (700.0, 0.015081295651531355, -1.0776206814508762e-05, 0.015070519444716846, -1.075310667794302e-05),
    (1e30, 3.989422804014327e-16, 0.0, 3.989422804014327e-16, 0.0),
]
"""Answers of PyTorch 2.13 in float64: x, i0e(x) and its slope, i1e(x) and its slope."""


@pytest.mark.parametrize("name", ["i0e", "i1e"])
def test_scaled_bessel_function_has_values_and_slopes_of_pytorch(name):
    arguments, *columns = zip(*SCALED_BESSEL, strict=True)
    values, slopes = columns[:2] if name == "i0e" else columns[2:]
    x = lt.tensor(arguments, dtype=lt.float64, requires_grad=True)
    y = getattr(lt.special, name)(x)
    y.sum().backward()
    np.testing.assert_allclose(y.detach().numpy(), values, rtol=1e-14)
    # The slope is a difference of nearly equal values for large arguments.
    np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=1e-12, atol=1e-17)


@pytest.mark.parametrize("name", ["i0", "i1"])
@given(arrays)
def test_scaled_bessel_function_is_the_other_one_times_an_exponential(name, values):
    x = lt.tensor(values, dtype=lt.float64)
    want = getattr(lt.special, name)(x) * lt.exp(-x.abs())
    np.testing.assert_allclose(getattr(lt.special, f"{name}e")(x).numpy(), want.numpy(), rtol=1e-14)


@pytest.mark.parametrize("name, slopes", [("i0e", [0.0, 0.0, math.nan]), ("i1e", [0.0, 0.0, 0.5])])
def test_scaled_bessel_function_vanishes_at_the_infinities(name, slopes):
    x = lt.tensor([math.inf, -math.inf, math.nan], requires_grad=True)
    y = getattr(lt.special, name)(x)
    y.sum().backward()
    np.testing.assert_array_equal(y.detach().numpy(), [0.0, 0.0, math.nan])
    np.testing.assert_array_equal(x.grad.numpy(), slopes)


@pytest.mark.parametrize("dtype", [lt.float64, lt.float32, lt.float16, lt.bfloat16], ids=str)
def test_slope_of_bessel_i1e_is_a_half_for_the_smallest_numbers(dtype):
    x = lt.tensor([0.0, -0.0, 6e-8, -6e-8, 3e-45, 5e-324], dtype=dtype, requires_grad=True)
    lt.special.i1e(x).sum().backward()
    np.testing.assert_allclose(x.grad.float().numpy(), 0.5, rtol=2e-7)


@pytest.mark.parametrize("name", ["i0e", "i1e"])
def test_scaled_bessel_function_of_integers_is_floating_point(name):
    function = getattr(lt.special, name)
    assert function(lt.tensor([0, 2])).tolist() == function(lt.tensor([0.0, 2.0])).tolist()
