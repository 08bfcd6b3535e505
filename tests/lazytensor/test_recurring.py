"""What a script computes outside of steps again and again: compiled, with the values of NumPy."""

import numpy as np
import pytest

import lazytensor as lt
from lazytensor import cells, config
from lazytensor.optim.eager.moments import Adam
from lazytensor.runtime import recurring
from lazytensor.runtime.recurring import AGAIN

TURNS = AGAIN + 8


@pytest.fixture(autouse=True)
def anew():
    recurring.begin()
    with config.override(jit=True):
        yield


@pytest.fixture
def interpreted(monkeypatch):
    """Of each time that NumPy computes something how many values it was asked for."""
    counts = []
    evaluate = cells.evaluate
    monkeypatch.setattr(cells, "evaluate", lambda roots, *rest: counts.append(len(roots)) or evaluate(roots, *rest))
    return counts


def training(turns, reads_first=False, seed=0):
    """Losses of a small net in an eager loop, and its last weight."""
    lt.manual_seed(seed)
    layers = [layer for _ in range(4) for layer in (lt.nn.Linear(16, 16), lt.nn.LayerNorm(16), lt.nn.Tanh())]
    model = lt.nn.Sequential(lt.nn.Linear(6, 16), *layers, lt.nn.Linear(16, 3))
    optimizer = Adam(model.parameters(), lr=0.01)
    x, y = lt.randn(32, 6), lt.arange(32) % 3
    losses = []
    for _ in range(turns):
        optimizer.zero_grad()
        loss = lt.nn.functional.cross_entropy(model(x), y)
        if reads_first:
            losses.append(loss.item())
        loss.backward()
        optimizer.step()
        if not reads_first:
            losses.append(loss.item())
    return losses, model[0].weight.detach().numpy()


@pytest.mark.parametrize("reads_first", [False, True])
def test_a_loop_is_compiled_when_it_comes_again_and_keeps_its_values(interpreted, reads_first):
    training(TURNS, reads_first)
    by_numpy = len(interpreted)
    assert by_numpy > AGAIN
    losses, weight = training(4 * AGAIN, reads_first)
    assert len(interpreted) == 2 * by_numpy
    with config.override(jit=False):
        expected, last = training(4 * AGAIN, reads_first)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(weight, last, rtol=1e-3, atol=1e-5)
    assert losses[-1] < losses[0]


def test_a_loop_that_is_seeded_again_gives_the_same_bits():
    first, weight = training(3 * AGAIN)
    again, same = training(3 * AGAIN)
    assert first == again
    np.testing.assert_array_equal(weight, same)


def test_what_a_gradient_asks_for_is_computed_once():
    x = lt.randn(8, 8)
    w = lt.randn(8, 8).requires_grad_()
    for _ in range(TURNS):
        y = x
        for _ in range(12):
            y = (y @ w).tanh()
        y.sum().item()
        assert y.node.inputs[0].value is not None
        y.sum().backward()


def test_numbers_that_change_are_not_those_of_before():
    x = lt.linspace(-1, 1, 12)
    for turn in range(TURNS):
        y = x
        for _ in range(10):
            y = (y * (turn % 3) + 1).tanh()
        z = np.linspace(-1, 1, 12, dtype="f4")
        for _ in range(10):
            z = np.tanh(z * (turn % 3) + 1)
        np.testing.assert_allclose(y.numpy(), z, rtol=1e-5, atol=1e-6)


def test_results_are_not_overwritten_by_the_next_turn():
    results = []
    for turn in range(TURNS):
        y = lt.tensor(np.full(5, turn, "f4"))
        for _ in range(10):
            y = y * 0.5 + 1
        results.append((turn, y.numpy()))
    for turn, value in results:
        expected = np.full(5, turn, "f4")
        for _ in range(10):
            expected = expected * np.float32(0.5) + np.float32(1)
        np.testing.assert_allclose(value, expected, rtol=1e-6)
