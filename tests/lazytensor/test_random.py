"""Random numbers outside a step are PyTorch's: the same seed gives the same numbers."""

import json
import pathlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt

RECORDED = json.loads((pathlib.Path(__file__).parent.parent / "golden" / "random.json").read_text())
SEEDS = ("0", "1", "1234")
NORMAL_ULP = 4
"""Logarithm, root and cosine of two libraries differ in the last places."""

EXACT = {
    "rand float32": lambda: lt.rand(5),
    "rand float64": lambda: lt.rand(3, dtype=lt.float64),
    "rand of a shape": lambda: lt.rand(2, 3),
    "uniform_": lambda: lt.empty(5).uniform_(-2.0, 3.0),
    "uniform_ float64": lambda: lt.empty(3, dtype=lt.float64).uniform_(-2.0, 3.0),
    "rand float16": lambda: lt.rand(5, dtype=lt.float16),
    "rand bfloat16": lambda: lt.rand(5, dtype=lt.bfloat16),
    "randint": lambda: lt.randint(-3, 40, (6,)),
    "randint wide": lambda: lt.randint(0, 2**40, (4,)),
    "randperm": lambda: lt.randperm(10),
    "linear weight": lambda: lt.nn.Linear(7, 3).weight.detach(),
    "linear bias": lambda: lt.nn.Linear(7, 3).bias.detach(),
    "randn then rand": lambda: (lt.randn(3), lt.rand(4))[1],
    "rand then randperm": lambda: (lt.rand(3), lt.randperm(6))[1],
}
NORMAL = {
    "randn 5": lambda: lt.randn(5),
    "randn 16": lambda: lt.randn(16),
    "randn 37": lambda: lt.randn(37),
    "randn float64 3": lambda: lt.randn(3, dtype=lt.float64),
    "randn float64 20": lambda: lt.randn(20, dtype=lt.float64),
    "normal_": lambda: lt.empty(4).normal_(2.0, 0.5),
    "normal_ 18": lambda: lt.empty(18).normal_(2.0, 0.5),
    "odd randn twice": lambda: (lt.randn(3), lt.randn(4))[1],
    "short after long": lambda: (lt.randn(1), lt.randn(17), lt.randn(3))[2],
}


def drawn(expression, seed: str) -> np.ndarray:
    lt.manual_seed(int(seed))
    return expression().array().ravel()


def test_every_recorded_case_is_compared():
    assert set(RECORDED) - {"source"} == set(EXACT) | set(NORMAL)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", EXACT)
def test_uniform_numbers_are_those_of_pytorch(name, seed):
    assert drawn(EXACT[name], seed).tolist() == RECORDED[name][seed]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", NORMAL)
def test_normal_numbers_are_those_of_pytorch(name, seed):
    got, want = drawn(NORMAL[name], seed), np.array(RECORDED[name][seed])
    # An angle near a zero of the cosine loses places that the radius has; the radius is at most about 6.
    place = np.spacing(np.maximum(np.abs(want), 0.5).astype(got.dtype)).astype(np.float64)
    assert np.max(np.abs(got - want) / place) <= NORMAL_ULP


def test_a_generator_of_its_own_leaves_the_default_one_alone():
    lt.manual_seed(5)
    want = lt.rand(4).tolist()
    lt.manual_seed(5)
    own = lt.Generator().manual_seed(9)
    first, second = lt.rand(3, generator=own).tolist(), lt.rand(3, generator=own).tolist()
    assert first != second and lt.rand(4).tolist() == want
    assert lt.rand(3, generator=own.manual_seed(9)).tolist() == first
    assert own.initial_seed() == 9


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**63), st.integers(0, 40), st.integers(0, 40))
def test_drawing_in_parts_draws_the_same_uniform_numbers(seed, n, m):
    lt.manual_seed(seed)
    whole = lt.rand(n + m).tolist()
    lt.manual_seed(seed)
    assert lt.rand(n).tolist() + lt.rand(m).tolist() == whole
    assert all(0 <= v < 1 for v in whole)


@given(st.integers(0, 50))
def test_permutation_has_every_number_once(n):
    assert sorted(lt.randperm(n).tolist()) == list(range(n))


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((7, (3,)), {}), ((0, 7, (3,)), {}), ((), {"high": 7, "size": (3,)}), ((0,), {"high": 7, "size": (3,)})],
)
def test_randint_takes_its_bounds_in_every_spelling(args, kwargs):
    lt.manual_seed(3)
    expected = lt.randint(0, 7, (3,)).tolist()
    lt.manual_seed(3)
    assert lt.randint(*args, **kwargs).tolist() == expected


@pytest.mark.parametrize("args", [(), ((3,),), (1, 2, 3, (4,))])
def test_randint_without_its_bounds_is_refused(args):
    with pytest.raises(TypeError, match=r"high and size|randint\(\) received"):
        lt.randint(*args)
