"""Draws from distributions are PyTorch's, and the state of a generator can be saved, restored and forked."""

import json
import pathlib
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.errors import ShapeError
from tests.golden import record_random_draws as cases

RECORDED = json.loads((pathlib.Path(__file__).parents[2] / "golden" / "random_draws.json").read_text())
LOGARITHMS = ("exponential_", "exponential_ 20", "exponential_ f64")
"""Cases in which the logarithms of two libraries may differ in the last place."""

torch = types.SimpleNamespace(**{name: getattr(lt, name) for name in dir(lt) if not name.startswith("_")})
torch.bool = lt.bool_


@pytest.mark.parametrize("name", cases.CASES)
@pytest.mark.parametrize("i", range(3))
def test_draws_are_those_of_pytorch(name, i):
    ours = cases.drawn(torch, cases.CASES[name], cases.SEEDS[i])
    if name in LOGARITHMS:
        np.testing.assert_allclose(ours, RECORDED[name][i], rtol=3e-16 if "f64" in name else 2e-7)
    else:
        assert ours == RECORDED[name][i]


@pytest.mark.parametrize("i", range(3))
def test_state_has_the_layout_of_pytorch(i):
    assert cases.state_after(torch, cases.SEEDS[i]) == RECORDED["state"][i]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 1400), st.booleans())
def test_restored_state_goes_on_alike(seed, words, odd):
    g = lt.Generator().manual_seed(seed)
    lt.rand(words, generator=g)
    if odd:
        lt.randn(1, generator=g)
    twin = lt.Generator()
    twin.set_state(g.get_state())
    copy = g.clone_state()
    expected = (lt.randn(3, generator=g).tolist(), lt.rand(700, generator=g).tolist())
    for other in (twin, copy):
        assert (lt.randn(3, generator=other).tolist(), lt.rand(700, generator=other).tolist()) == expected
    assert twin.initial_seed() == seed


def test_fork_leaves_the_numbers_outside_alone():
    lt.manual_seed(3)
    expected = lt.rand(4).tolist()
    lt.manual_seed(3)
    with lt.fork_rng():
        lt.rand(100)
    assert lt.rand(4).tolist() == expected
    before = lt.get_rng_state()
    first = lt.rand(4).tolist()
    lt.set_rng_state(before)
    assert lt.rand(4).tolist() == first


def test_seed_starts_anew_and_is_reported():
    chosen = lt.seed()
    first = lt.rand(2).tolist()
    assert lt.initial_seed() == chosen
    lt.manual_seed(chosen)
    assert lt.rand(2).tolist() == first


@pytest.mark.parametrize(
    "ask",
    [
        lambda: lt.Generator().set_state(lt.zeros(3)),
        lambda: lt.Generator().set_state(lt.zeros(5056, dtype=lt.uint8)),
        lambda: lt.multinomial(lt.tensor([0.0, 0.0]), 1),
        lambda: lt.multinomial(lt.tensor([0.5, -0.5]), 1),
        lambda: lt.multinomial(lt.tensor([0.5, 0.5]), 3),
        lambda: lt.bernoulli(lt.tensor([0.5, 1.5])),
        lambda: lt.empty(2).exponential_(0),
        lambda: lt.empty(2).random_(5, 5),
    ],
)
def test_impossible_draws_are_refused(ask):
    with pytest.raises(ShapeError):
        ask()
