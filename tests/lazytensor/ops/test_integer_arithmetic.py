"""Integers and booleans: PyTorch's answers, Python's laws, division by zero, promotion."""

import json
import pathlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.core.dtype import dtype_by_name
from lazytensor.errors import ShapeError

RECORDED = json.loads((pathlib.Path(__file__).parents[2] / "golden" / "numbers.json").read_text())
NAMES = """floor_divide remainder fmod pow bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd
    lcm mul add sub""".split()
whole = st.integers(-(2**63), 2**63 - 1)
few = settings(max_examples=60, deadline=None)


@pytest.mark.parametrize("name", [*NAMES, "div_trunc"])
@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
def test_answers_are_those_of_pytorch(name, dtype):
    a, b = (lt.tensor(list(v), dtype=dtype_by_name(dtype)) for v in zip(*RECORDED[dtype]["pairs"], strict=True))
    got = lt.div(a, b, rounding_mode="trunc") if name == "div_trunc" else getattr(lt, name)(a, b)
    assert got.dtype is dtype_by_name(dtype)
    assert got.tolist() == RECORDED[dtype][name]


@few
@given(whole, whole.filter(lambda v: v not in (0, -1)))
def test_quotient_and_remainder_are_exact_for_all_words(a, b):
    x, y = lt.tensor([a]), lt.tensor([b])
    assert ((x // y).item(), (x % y).item()) == (a // b, a % b)
    assert lt.div(x, y, rounding_mode="trunc").item() == (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
    assert lt.fmod(x, y).item() == np.fmod(np.int64(a), np.int64(b))


@few
@given(whole, whole)
def test_bits_follow_python(a, b):
    x, y = lt.tensor([a]), lt.tensor([b])
    assert ((x & y).item(), (x | y).item(), (x ^ y).item(), (~x).item()) == (a & b, a | b, a ^ b, ~a)


@few
@given(whole, st.integers(0, 63))
def test_shifts_follow_python_within_the_word(a, distance):
    x = lt.tensor([a])
    assert (x >> distance).item() == a >> distance
    assert ((x << distance).item() - (a << distance)) % 2**64 == 0


@pytest.mark.parametrize("distance", [-1, 64, 70])
def test_shifts_beyond_the_word_lose_every_bit(distance):
    x = lt.tensor([5, -5])
    assert ((x << distance).tolist(), (x >> distance).tolist()) == ([0, 0], [0, -1])


@pytest.mark.parametrize("action", [lambda a, b: a // b, lambda a, b: a % b, lambda a, b: lt.fmod(a, b)])
@pytest.mark.parametrize("divisor", [0, lt.tensor([3, 0]), lt.tensor(0)])
def test_integers_are_not_divided_by_zero(action, divisor):
    with pytest.raises(ShapeError, match="ZeroDivisionError"):
        action(lt.tensor([5, 6]), divisor)


def test_division_by_a_computed_zero_is_refused_when_it_is_read():
    zero = lt.tensor([3]) - 3
    with pytest.raises(ShapeError, match="ZeroDivisionError"):
        (lt.tensor([5]) // zero).item()


def test_true_division_of_integers_by_zero_is_infinite():
    assert (lt.tensor([5, -5]) / 0).tolist() == [float("inf"), float("-inf")]


@pytest.mark.parametrize(
    "action",
    [
        lambda: lt.tensor([2]) ** -1,
        lambda: lt.tensor([1.0]) & 1,
        lambda: ~lt.tensor([1.0]),
        lambda: lt.tensor([1.0]) << 1,
        lambda: lt.gcd(lt.tensor([True]), lt.tensor([True])),
        lambda: lt.tensor([True]) // lt.tensor([True]),
    ],
)
def test_what_has_no_meaning_for_the_type_is_refused(action):
    with pytest.raises(ShapeError):
        action()


def test_booleans_keep_their_logic():
    t, f = lt.tensor([True]), lt.tensor([False])
    assert [v.dtype for v in (t & f, t | f, t ^ t, ~t, t + t, t * f)] == [lt.bool_] * 6
    assert [v.item() for v in (t & f, t | f, t ^ t, ~t, t + t, t * f)] == [False, True, False, False, True, False]
    assert (t**2).dtype is lt.int64 and (t & 3).dtype is lt.int64
    assert lt.sign(t).item() is True


def test_operators_reflect_and_write_in_place():
    x = lt.tensor([1, 2])
    assert ((1 << x).tolist(), (6 & x).tolist()) == ([2, 4], [0, 2])
    x <<= 2
    x |= 1
    assert x.tolist() == [5, 9]
    assert x.bitwise_and_(4).tolist() == [4, 0]


def test_promotion_is_that_of_pytorch():
    for pair, want in RECORDED["promote"].items():
        assert lt.promote_types(*map(dtype_by_name, pair.split())) is dtype_by_name(want), pair


def test_casting_rules_are_those_of_pytorch():
    names = sorted({n for pair in RECORDED["promote"] for n in pair.split()})
    allowed = {(a, b) for a in names for b in names if lt.can_cast(dtype_by_name(a), dtype_by_name(b))}
    assert allowed == {tuple(pair) for pair in RECORDED["can_cast"]}


@pytest.mark.parametrize(
    "method, dtype", [("byte", lt.uint8), ("char", lt.int8), ("short", lt.int16), ("int", lt.int32), ("long", lt.int64)]
)
def test_conversions_cut_towards_zero(method, dtype):
    got = getattr(lt.tensor([3.7, 0.2, 100.9]), method)()
    assert got.dtype is dtype and got.tolist() == [3, 0, 100]


@few
@given(st.integers(-(2**31), 2**31 - 1))
def test_conversions_of_integers_wrap(value):
    assert lt.tensor(value).byte().item() == value % 256
    assert lt.tensor(value).char().item() == (value + 128) % 256 - 128
    assert lt.tensor(value).bool().item() is (value != 0)
