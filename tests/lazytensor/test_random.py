"""Random numbers outside a step are PyTorch's: the same seed gives the same numbers."""

import copy
import json
import pathlib
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import config, random
from lazytensor.core import pytorch_release
from lazytensor.runtime import jit

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


DRAWS = {
    "uniform": lambda g, n: g.uniform((n,), lt.float32),
    "uniform in a range": lambda g, n: g.uniform((n,), lt.float32, -2.5, 3.7),
    "uniform float64": lambda g, n: g.uniform((n,), lt.float64),
    "uniform bfloat16": lambda g, n: g.uniform((n,), lt.bfloat16, 0.0, 3.0),
    "normal": lambda g, n: g.normal((n,), lt.float32, 1.0, 2.0),
    "normal float64": lambda g, n: g.normal((n,), lt.float64),
    "normal one by one": lambda g, n: g.normal((n,), lt.float32, is_contiguous=False),
    "single normals": lambda g, n: g.single_normals(n),
    "trials": lambda g, n: g.bernoulli(n, 0.3),
    "certain trials": lambda g, n: g.bernoulli(n, 1.0),
    "impossible trials": lambda g, n: g.bernoulli(n, 0),
    "exponential": lambda g, n: g.exponential(n, lt.float32),
    "integers": lambda g, n: g.integers(-7, 100, (n,)),
    "integers of a large range": lambda g, n: g.integers(0, (1 << 28) - 1, (n,)),
    "integers of two words": lambda g, n: g.integers(0, 1 << 40, (n,)),
    "integers of one word": lambda g, n: g.integers(-5, (1 << 32) - 6, (n,), is_short=True),
    "permutation": lambda g, n: g.permutation(n),
}


@pytest.mark.slow
@pytest.mark.parametrize("release", ["2.13", "2.4"])
@pytest.mark.parametrize("name", DRAWS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), offset=st.integers(0, 1300), n=st.integers(1, 2000))
def test_compiled_kernels_draw_the_bits_of_numpy_and_leave_the_same_state(release, name, seed, offset, n):
    """`offset` numbers are drawn first, so that the kernel starts anywhere in the twister's block."""
    results = []
    with pytest.MonkeyPatch.context() as patch, config.override(jit=True):
        patch.setattr(pytorch_release, "current_release", release)
        for is_compiled in (False, True):
            patch.setattr(random, "MIN_COMPILED_NUMBERS", 1 if is_compiled else 10**6)
            generator = lt.Generator().manual_seed(seed)
            generator.words(offset)
            generator.single_normals(1)
            drawn = DRAWS[name](generator, n)
            results.append((drawn.dtype, drawn.tobytes(), generator.get_state().numpy().tobytes()))
    assert results[0] == results[1]


@given(seed=st.integers(0, 2**32), offset=st.integers(0, 700), n=st.integers(1, 700))
@settings(max_examples=10, deadline=None)
def test_kernels_of_the_twister_are_plain_python_too(seed, offset, n):
    generator = lt.Generator().manual_seed(seed)
    generator.words(offset)
    before = generator._bits.state["state"]
    out = np.empty(n, np.float32)
    kernel = jit.plain(jit.read_kernel("mersenne_twister"), "floats")
    with np.errstate(over="ignore"):
        kernel(n, before["pos"], before["key"].astype(np.int64), np.array([2.0, -1.0]), out)
    np.testing.assert_array_equal(out, generator.uniform((n,), lt.float32, -1.0, 1.0))


def test_a_copied_or_pickled_generator_draws_the_same_numbers_separately():
    generator = lt.Generator().manual_seed(3)
    generator.uniform((5000,), lt.float32)
    twins = [copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    expected = generator.uniform((5000,), lt.float32)
    for twin in twins:
        np.testing.assert_array_equal(twin.uniform((5000,), lt.float32), expected)
