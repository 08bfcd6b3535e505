"""Facts about number types: every bit pattern of the half types, rounding between neighbours, limits."""

import json
import math
import pathlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.core.dtype import bfloat16, cbfloat16, dtype_by_name, float16, round_to

RECORDED = json.loads((pathlib.Path(__file__).parents[2] / "golden" / "numbers.json").read_text())
LIMITS = RECORDED["limits"]
FORMATS = {float16: (5, 10), bfloat16: (8, 7), cbfloat16: (6, 9)}
halves = pytest.mark.parametrize("dtype", FORMATS, ids=str)


def meaning(pattern: int, exponent_bits: int, mantissa_bits: int) -> float:
    """The number that 16 bits stand for: sign, exponent, mantissa, as IEEE 754 lays them out."""
    sign = -1.0 if pattern >> 15 else 1.0
    exponent = pattern >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = pattern & (1 << mantissa_bits) - 1
    bias = (1 << exponent_bits - 1) - 1
    if exponent == (1 << exponent_bits) - 1:
        return math.nan if mantissa else sign * math.inf
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits)


def every(dtype) -> np.ndarray:
    """What each of the 65,536 patterns means, in order of the patterns."""
    return np.array([meaning(p, *FORMATS[dtype]) for p in range(1 << 16)], np.float32)


def same(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_array_equal(got, want)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


def ascending(dtype) -> np.ndarray:
    """All finite numbers from 0 up; number k has the pattern k."""
    values = every(dtype)[: 1 << 15]
    return values[np.isfinite(values)]


@halves
def test_every_pattern_rounds_to_itself(dtype):
    values = every(dtype)
    same(round_to(values, dtype), values)
    same(lt.tensor(values, dtype=dtype).float().numpy(), values)


def test_the_meaning_of_patterns_is_that_of_the_hardware():
    patterns = np.arange(1 << 16, dtype=np.uint16)
    same(every(float16), patterns.view(np.float16).astype(np.float32))
    same(every(bfloat16), (patterns.astype(np.uint32) << 16).view(np.float32))


@halves
def test_halfway_goes_to_the_even_neighbour(dtype):
    values = ascending(dtype).astype(np.float64)
    low, high = values[:-1], values[1:]
    middle = ((low + high) / 2).astype(np.float32)
    exact = middle.astype(np.float64) == (low + high) / 2  # the least of bfloat16 lie below float32
    even = np.where(np.arange(len(low)) % 2 == 0, low, high).astype(np.float32)
    for sign in (np.float32(1), np.float32(-1)):
        same(round_to(sign * middle[exact], dtype), sign * even[exact])
    assert exact.sum() > 30000


@halves
def test_beside_halfway_goes_to_the_nearer_neighbour(dtype):
    values = ascending(dtype).astype(np.float64)
    low, high = values[:-1], values[1:]
    middle = ((low + high) / 2).astype(np.float32)
    exact = middle.astype(np.float64) == (low + high) / 2
    low, high, middle = low[exact].astype(np.float32), high[exact].astype(np.float32), middle[exact]
    below, above = np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.inf))
    same(round_to(below, dtype), low)
    same(round_to(above, dtype), high)
    same(round_to(-above, dtype), -high)


@halves
def test_overflow_begins_half_a_place_above_the_largest(dtype):
    largest, before = ascending(dtype)[-1].astype(np.float64), ascending(dtype)[-2].astype(np.float64)
    edge = np.float32(largest + (largest - before) / 2)
    assert float(largest) == dtype.largest
    got = round_to(np.array([edge, np.nextafter(edge, np.float32(0)), -edge, np.inf], np.float32), dtype)
    np.testing.assert_array_equal(got, np.array([np.inf, largest, -np.inf, np.inf], np.float32))


@halves
def test_half_of_the_least_number_is_zero_with_its_sign(dtype):
    least = ascending(dtype)[1]
    tiny = np.array([least / 2, -least / 2, least * 0.25, -least * 0.25], np.float32)
    same(round_to(tiny, dtype), np.array([0.0, -0.0, 0.0, -0.0], np.float32))
    if dtype is not bfloat16:  # whose least number has only half of itself between it and 0 in float32
        same(round_to(np.float32([least * 0.51, least * 1.49]), dtype), np.array([least, least]))


@halves
@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(width=32), min_size=2, max_size=30))
def test_rounding_is_monotone_and_idempotent(dtype, values):
    x = np.sort(np.array(values, np.float32))
    rounded = round_to(x, dtype)
    same(round_to(rounded, dtype), rounded)
    kept = rounded[~np.isnan(rounded)]
    assert (kept[:-1] <= kept[1:]).all()
    np.testing.assert_array_equal(np.isnan(x), np.isnan(rounded))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_limits_of_floating_types_are_those_of_pytorch(name):
    got, want = lt.finfo(dtype_by_name(name)), dict(LIMITS[name])
    assert repr(got) == want.pop("text")
    for fact, value in want.items():
        assert getattr(got, fact) == pytest.approx(float(value), rel=1e-15), fact


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64"])
def test_limits_of_integer_types_are_those_of_pytorch(name):
    got, want = lt.iinfo(dtype_by_name(name)), LIMITS[name]
    assert (repr(got), got.bits, got.max, got.min) == (want["text"], want["bits"], want["max"], want["min"])


@halves
def test_limits_are_found_among_the_patterns(dtype):
    info, values = lt.finfo(dtype), ascending(dtype)
    _, mantissa_bits = FORMATS[dtype]
    one = int(np.searchsorted(values, 1.0))
    assert (info.max, info.min, info.bits) == (values[-1], -values[-1], 16)
    assert info.eps == values[one + 1] - 1
    assert info.tiny == info.smallest_normal == values[1 << mantissa_bits]


def test_limits_without_a_type_are_those_of_the_default():
    assert lt.finfo() == lt.finfo(lt.float32) != lt.finfo(lt.float64)
    assert len({lt.finfo(), lt.finfo(lt.float32), lt.iinfo(lt.int8)}) == 2


@pytest.mark.parametrize(
    "action", [lambda: lt.finfo(lt.int32), lambda: lt.iinfo(lt.float32), lambda: lt.iinfo(lt.bool_)]
)
def test_limits_of_the_wrong_kind_are_refused(action):
    with pytest.raises(TypeError):
        action()


def test_a_number_over_a_tensor_rounds_twice_as_in_pytorch():
    # Recorded from PyTorch 2.13.0, where the quotient is the reciprocal times the number.
    quotients = (3.0 / lt.tensor([1.1, 2.2, 3.5])).tolist()
    assert [q.hex() for q in quotients] == ["0x1.5d17440000000p+1", "0x1.5d17440000000p+0", "0x1.b6db700000000p-1"]
    assert (2 / lt.tensor([3, 7])).dtype is lt.float32
    with pytest.raises(TypeError, match="unsupported operand type"):
        "a" / lt.ones(2)


def test_a_margin_that_is_just_met_has_a_slope():
    # Recorded from PyTorch 2.13.0: the loss is a clamp, whose slope on the bound is one.
    x = lt.tensor([1.0, 2.0], requires_grad=True)
    lt.nn.functional.margin_ranking_loss(x, lt.ones(2), lt.ones(2)).backward()
    assert x.grad.tolist() == [-0.5, 0]


def test_logsumexp_of_integers_is_a_float():
    assert lt.logsumexp(lt.tensor([[1, 2], [3, 4]]), 1).tolist() == pytest.approx([2.3132617, 4.3132617])
    assert lt.logsumexp(lt.tensor([True, False]), 0).item() == pytest.approx(1.3132617)


def test_logsumexp_of_nothing_is_that_of_zero():
    # Recorded from PyTorch 2.13.0.
    assert lt.logsumexp(lt.zeros(2, 0), 1).tolist() == [-math.inf] * 2
    assert lt.logsumexp(lt.zeros(0, 1), 0, keepdim=True).tolist() == [[-math.inf]]


@pytest.mark.parametrize("dtype", [lt.int64, lt.uint8])
def test_a_whole_number_of_a_tensor_names_a_dimension(dtype):
    # Recorded from PyTorch 2.13.0.
    x, dim = lt.arange(24.0).reshape(2, 3, 4), lt.tensor(1, dtype=dtype)
    shapes = [f(x, dim).shape for f in (lt.sum, lt.amin, lt.softmax, lt.unsqueeze, lt.argmax)]
    assert shapes == [(2, 4), (2, 4), (2, 3, 4), (2, 1, 3, 4), (2, 4)]
    assert x[:, :1].squeeze(dim).shape == (2, 4) and lt.cat([x, x], dim).shape == (2, 6, 4)
    with pytest.raises(TypeError):
        x.sum(lt.tensor(1.0))


STORES = {  # what takes a number as it is
    "full": lambda x, v: lt.full((2,), v, dtype=x.dtype),
    "full_like": lambda x, v: lt.full_like(x, v),
    "fill_": lambda x, v: x.fill_(v),
    "masked_fill": lambda x, v: x.masked_fill(lt.tensor([True, True]), v),
    "index_fill": lambda x, v: x.index_fill(0, lt.tensor([0, 1]), v),
    "scatter": lambda x, v: x.scatter(0, lt.tensor([0, 1]), v),
    "pad": lambda x, v: lt.nn.functional.pad(x, (2, 0), value=v)[:2],
    "clamp": lambda x, v: x.clamp(min=v, max=v),
}


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("dtype", [lt.float16, lt.bfloat16, lt.float32], ids=str)
def test_a_number_beyond_the_largest_is_refused_where_it_is_stored(name, dtype):
    store, x = STORES[name], lt.ones(2, dtype=dtype)
    for number in (dtype.largest, -dtype.largest, math.inf, -math.inf):
        assert store(x.clone(), number).tolist() == [number] * 2
    for number in (np.nextafter(dtype.largest, math.inf).item(), -1e39, 10**40):
        with pytest.raises(RuntimeError, match=r"cannot be converted to type .* without overflow"):
            store(x.clone(), number)
    # In arithmetic it is infinite.
    assert (x * -1e39).tolist() == [-math.inf] * 2


@halves
@given(st.integers(0, (1 << 32) - 1))
@example(0xFFFF8000)
def test_a_single_number_is_rounded_as_one_of_many(dtype, pattern):
    number = np.array(pattern, np.uint32).view(np.float32)
    same(round_to(number, dtype), round_to(number[None], dtype)[0])
