"""What a script computes outside of steps again and again: compiled, with the same bits."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import config, ops
from lazytensor.autograd.function import grad
from lazytensor.core import storage
from lazytensor.core.dtype import float32
from lazytensor.ir import node_replay
from lazytensor.ir.graph import rebuild, replace_inputs, topological
from lazytensor.ir.types import Type
from lazytensor.optim.eager import Adam
from lazytensor.runtime import repeated_graphs
from lazytensor.testing import graphs, values_for

TURNS = 24
"""More turns than a loop takes before it is compiled."""


@pytest.fixture(autouse=True)
def anew():
    repeated_graphs.forget()
    with config.override(jit=True):
        yield


def training(turns, reads_first=False, seed=0):
    """Losses of a small net in an eager loop, and its last weight."""
    generator = lt.Generator().manual_seed(seed)
    layers = [layer for _ in range(4) for layer in (lt.nn.Linear(16, 16), lt.nn.LayerNorm(16), lt.nn.Tanh())]
    model = lt.nn.Sequential(lt.nn.Linear(6, 16), *layers, lt.nn.Linear(16, 3))
    with lt.no_grad():
        for p in model.parameters():
            p.copy_(lt.randn(*p.shape, generator=generator) * 0.2)
    optimizer = Adam(model.parameters(), lr=0.01)
    x, y = lt.randn(32, 6, generator=generator), lt.arange(32) % 3
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


@pytest.mark.slow
@pytest.mark.parametrize("reads_first", [False, True])
def test_a_loop_that_comes_again_keeps_its_values(reads_first):
    losses, _ = training(2 * TURNS, reads_first)
    with config.override(jit=False):
        expected, _ = training(TURNS, reads_first)
    # Adam's first steps have the size of its rate however small a gradient is, and with it the rounding of that.
    np.testing.assert_allclose(losses[:TURNS], expected, rtol=1e-4)
    assert losses[-1] < losses[0]


@pytest.mark.slow
def test_equal_trainings_give_equal_bits_however_often_they_run_and_in_threads():
    runs = [training(2 * TURNS) for _ in range(3)]
    with ThreadPoolExecutor(4) as pool:
        runs += pool.map(lambda _: training(TURNS), range(4))
    losses, weight = runs[0]
    for other, last in runs[1:3]:
        assert other == losses
        np.testing.assert_array_equal(last, weight)
    for other, last in runs[3:]:
        assert other == losses[:TURNS]
        np.testing.assert_array_equal(last, runs[3][1])


@settings(max_examples=15, deadline=None)
@given(graph=graphs(smooth=True, max_nodes=24), seed=st.integers(0, 2**32 - 1), scale=st.sampled_from((0.3, -2.0, 1.0)))
def test_random_work_has_equal_bits_the_first_and_the_last_time(graph, seed, scale):
    repeated_graphs.forget()
    arrays, state = values_for(graph, seed, smooth=True)
    starts = dict(zip(graph.inputs, arrays, strict=True)) | {n: state[name] for name, n in graph.state.items()}
    leaves = {n: storage.leaf(array, n.type) for n, array in starts.items()}
    new = rebuild(graph.roots(), lambda n, operands: leaves[n] if n in leaves else replace_inputs(n, operands))
    roots = [new[r] * scale + 0.7 for r in graph.roots()]
    order = topological(roots, lambda n: n.value is not None)
    first, *others = [repeated_graphs.evaluated(roots, order) for _ in range(TURNS)]
    assert (first is None) == (others[-1] is None)
    for value, again in zip(first or [], others[-1] or [], strict=True):
        np.testing.assert_array_equal(value, again)


def test_a_number_that_changes_in_each_turn_keeps_the_bits():
    """Of the first program with the number, of one that is compiled, and of the program of another number."""

    def result(rate):
        x = lt.linspace(-1, 1, 70)
        for _ in range(6):
            x = (x * rate).tanh() + x.mean()
        return x.numpy()

    first = [result(0.1 * k) for k in range(5)]
    for _ in range(TURNS):
        again = [result(0.1 * k) for k in range(5)]
    np.testing.assert_array_equal(first, again)


@pytest.mark.slow
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


@pytest.mark.slow
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


def gradient(x, weight, power, is_late):
    """The gradient of a loss whose rules read an attribute and how an operand was computed."""
    weight.grad = None
    top = ((x @ weight).tanh() ** power).max(dim=1)[0]
    (top * x[:, 0] if is_late else x[:, 0] * top).sum().backward()
    return weight.grad.numpy()


def test_gradients_of_two_losses_of_one_size_are_not_confused():
    lt.manual_seed(0)
    x, weight = lt.randn(5, 3), lt.randn(3, 4, requires_grad=True)
    turns = [(2.0, False), (3.0, False), (2.0, True), (2.0, False)] * 4
    with config.override(jit=False):
        replayed = [gradient(x, weight, *turn) for turn in turns]
        for turn, values in zip(turns, replayed, strict=True):
            node_replay.clear_answered_queries()
            np.testing.assert_array_equal(gradient(x, weight, *turn), values)
        assert gradient(lt.randn(7, 3), weight, *turns[0]).shape == (3, 4)


@given(st.integers(0, 1), st.booleans(), st.booleans())
def test_gradients_of_joined_tensors_have_the_same_bits_in_each_iteration(dim, is_differentiated, is_summed):
    joining = [lt.randn(3, 3, requires_grad=True) for _ in range(3)]
    weight = lt.randn(3, 3, requires_grad=True)

    def gradients():
        joined = lt.cat(joining, dim)
        y = (joined @ weight if dim == 0 else weight @ joined).tanh()
        parts = grad(y.pow(2).sum(), joining[: 2 + is_summed], create_graph=is_differentiated)
        if is_differentiated:
            parts = grad(sum(p.pow(3).sum() for p in parts), [*joining, weight])
        return [p.numpy().copy() for p in parts]

    node_replay.clear_answered_queries()
    first, *later = [gradients() for _ in range(6)]
    for others in later:
        for a, b in zip(first, others, strict=True):
            np.testing.assert_array_equal(a, b)


def test_gradients_of_joined_tensors_are_not_derived_in_each_iteration(monkeypatch):
    x, y = lt.randn(4, 1, requires_grad=True), lt.randn(4, 1, requires_grad=True)
    rule, calls = ops.OPS["tanh"].vjp, []
    monkeypatch.setitem(ops.OPS, "tanh", replace(ops.OPS["tanh"], vjp=lambda *a, **k: calls.append(1) or rule(*a, **k)))
    node_replay.clear_answered_queries()
    for _ in range(8):
        u = lt.cat([x, y], 1).tanh().sum()
        grad(u, [x, y], create_graph=True)
    assert len(calls) < 4


def test_a_gradient_that_is_made_again_names_the_line_of_its_operation():
    def lines(n):
        return {i.where.line for i in topological([n]) if i.where is not None and i.where.scope.endswith(".bwd")}

    # Equal nodes are one node, with the line of the first: no other test has vectors of this extent.
    x, weight = lt.ones(457), lt.ones(457, requires_grad=True)
    seen = []
    for turn in range(6):
        weight.grad = None
        if turn < 5:
            (weight * x).exp().sum().backward()
        else:
            (weight * x).exp().sum().backward()
        seen.append(lines(weight.grad.node))
    (first,) = seen[0]
    assert seen == [{first}] * 5 + [{first + 2}]


def test_a_parameter_of_another_shape_gets_a_gradient_of_it():
    x, weight = lt.ones(4), lt.ones(4, requires_grad=True)
    for extent in (4, 4, 4, 1):
        weight.grad, weight.data = None, lt.ones(extent)
        (weight * x).sum().backward()
        assert weight.grad.shape == (extent,)


@pytest.mark.slow
def test_a_node_that_another_thread_computes_meanwhile_is_still_part_of_the_work(monkeypatch):
    """Equal nodes are one node for all threads, so that it may get its value at any moment."""
    start = storage.leaf(np.arange(6, dtype=np.float32), Type((6,), float32))
    chain = [start]
    for _ in range(16):
        chain.append(ops.call("cos", chain[-1]))
    order = topological(chain[-1:])
    current = config.current

    def meanwhile():
        chain[3].value = np.cos(np.cos(np.cos(start.value)))
        return current()

    monkeypatch.setattr(config, "current", meanwhile)
    repeated_graphs.evaluated(chain[-1:], order)
    values = [repeated_graphs.evaluated(chain[-1:], order) for _ in range(TURNS)]
    expected = start.value
    for _ in chain[1:]:
        expected = np.cos(expected)
    np.testing.assert_allclose(values[-1][0], expected, rtol=1e-6)


OPERATIONS = {
    "multiply by a number": lambda x, w: x * 0.7,
    "add a number": lambda x, w: x + 1.3,
    "tanh": lambda x, w: x.tanh(),
    "sigmoid": lambda x, w: x.sigmoid(),
    "product": lambda x, w: x @ w,
    "softmax": lambda x, w: x.softmax(-1),
    "centre": lambda x, w: x - x.mean(1, keepdim=True),
    "norm": lambda x, w: x / (x.square().sum(0) + 0.5).sqrt(),
    "transpose": lambda x, w: (x.t() * 1.5).t().contiguous(),
    "write": lambda x, w: x.clone().mul_(0.9),
    "part": lambda x, w: lt.cat([x[2:] * 2.0, x[:2]]),
}


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(names=st.lists(st.sampled_from(sorted(OPERATIONS)), min_size=1, max_size=9), seed=st.integers(0, 999))
def test_a_program_gives_equal_bits_however_often_it_ran(names, seed):
    """Value and gradient of the 1st, 3rd, 17th and 40th run."""
    repeated_graphs.forget()
    draw = np.random.default_rng(seed)
    start, weight = draw.normal(size=(5, 4)).astype("f4"), draw.normal(size=(4, 4)).astype("f4")

    def run():
        w = lt.tensor(weight, requires_grad=True)
        x = lt.tensor(start) * w.sum(0)
        for name in names:
            x = OPERATIONS[name](x, w)
        x.square().sum().backward()
        return x.detach().numpy(), w.grad.numpy()

    runs = [run() for _ in range(40)]
    for k in (3, 17, 40):
        for value, first in zip(runs[k - 1], runs[0], strict=True):
            np.testing.assert_array_equal(value, first)


@given(st.integers(0, 9), st.integers(2, 6))
def test_integers_have_the_same_bits_before_and_after_they_are_compiled(seed, extent):
    generator = lt.Generator().manual_seed(seed)
    x = lt.randint(-(2**62), 2**62, (extent, 7), generator=generator)
    y = lt.randint(-9, 9, (extent, 7), generator=generator)

    def computed():
        z = (x * 3 + y) % 7 - (x // 5) * y
        w = lt.where(z > y, z.abs(), -y).cumsum(1) + (x ^ y) * (z == y)
        return [n.numpy().copy() for n in (z.sum(0), w, w.max(dim=1)[0], (w < z).any(0))]

    first, *later = [computed() for _ in range(TURNS)]
    for others in later:
        for a, b in zip(first, others, strict=True):
            np.testing.assert_array_equal(a, b)
