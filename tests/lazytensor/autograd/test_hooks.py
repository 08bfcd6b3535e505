"""Hooks of tensors, whenever they are registered. Expected numbers were recorded from PyTorch 2.13.0."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import config
from lazytensor.autograd.function import Function, backward, grad
from lazytensor.core.capture import Capture
from lazytensor.core.step import StepRunner
from lazytensor.errors import AutogradError
from lazytensor.runtime.host import HostBackend
from lazytensor.runtime.state_store import Store
from tests.lazytensor.tensor_programs import follow, smooth_programs


def one_two_three():
    return lt.tensor([1.0, 2.0, 3.0], requires_grad=True)


class Seen(list):
    """What hooks were given."""

    def __call__(self, g):
        self.append(g.tolist())

    def times(self, factor):
        return lambda g: self(g) or g * factor


def chain():
    """x, y = 2 x, and the sum of squares of y, with what hooks see."""
    x = one_two_three()
    y = x * 2
    return x, y, (y * y).sum(), Seen()


def test_a_hook_sees_what_was_computed_before_it():
    x, y, z, seen = chain()
    handle = y.register_hook(seen.times(10))
    z.backward(retain_graph=True)
    assert seen == [[4.0, 8.0, 12.0]] and x.grad.tolist() == [80.0, 160.0, 240.0]
    handle.remove()
    z.backward()
    assert len(seen) == 1 and x.grad.tolist() == [88.0, 176.0, 264.0]


def test_a_hook_comes_into_force_for_a_graph_that_was_walked_before():
    x, y, z, seen = chain()
    z.backward(retain_graph=True)
    y.register_hook(seen.times(10))
    z.backward()
    assert seen == [[4.0, 8.0, 12.0]] and x.grad.tolist() == [88.0, 176.0, 264.0]


def test_a_hook_sees_uses_before_and_after_it_as_one():
    x = one_two_three()
    y, seen = x * 2, Seen()
    before = (y * 3).sum()
    y.register_hook(seen.times(2))
    (before + (y * y).sum()).backward()
    assert seen == [[7.0, 11.0, 15.0]] and x.grad.tolist() == [28.0, 44.0, 60.0]


def test_several_roots_are_one_walk():
    x, y, z, seen = chain()
    y.register_hook(seen)
    backward([y.sum(), z])
    assert seen == [[5.0, 9.0, 13.0]] and x.grad.tolist() == [10.0, 18.0, 26.0]


def test_hooks_run_from_the_end_to_the_beginning_and_in_their_order():
    x, order = one_two_three(), []
    y = x * 2
    w = y + 1
    z = (w * w).sum()
    for name, t in (("x", x), ("y", y), ("w", w), ("z", z), ("again", y)):
        t.register_hook(lambda g, name=name: order.append(name))
    z.backward()
    assert order == ["z", "w", "y", "again", "x"]


@pytest.mark.parametrize("first", ["hook", "retain"])
def test_what_is_retained_has_passed_all_hooks(first):
    x, y, z, seen = chain()
    actions = {"hook": lambda: y.register_hook(seen.times(10)), "retain": y.retain_grad}
    actions.pop(first)()
    for act in actions.values():
        act()
    z.backward()
    assert y.grad.tolist() == [40.0, 80.0, 120.0] and x.grad.tolist() == [80.0, 160.0, 240.0]


def test_retained_gradients_add_up_and_come_by_grad_too():
    x, y, z, _ = chain()
    y.retain_grad()
    assert [g.tolist() for g in grad(z, [x], retain_graph=True)] == [[8.0, 16.0, 24.0]]
    assert y.grad.tolist() == [4.0, 8.0, 12.0]
    y.grad = lt.ones(3)
    z.backward(inputs=[x])
    assert y.grad.tolist() == [5.0, 9.0, 13.0] and x.grad.tolist() == [8.0, 16.0, 24.0]


def test_who_asks_for_a_gradient_that_goes_on_gets_it_from_before_the_hooks():
    x, y, z, seen = chain()
    y.register_hook(seen.times(2))
    by_y, by_x = grad(z, [y, x], retain_graph=True)
    assert by_y.tolist() == [4.0, 8.0, 12.0] and by_x.tolist() == [16.0, 32.0, 48.0] and len(seen) == 1
    assert grad(z, y, retain_graph=True)[0].tolist() == [8.0, 16.0, 24.0]
    z.backward(inputs=[y])
    assert y.grad.tolist() == [8.0, 16.0, 24.0] and x.grad is None


def test_hooks_beside_the_way_to_what_is_asked_for_are_not_called():
    x, w, seen = one_two_three(), one_two_three(), Seen()
    q = w * 3
    q.register_hook(seen)
    z = (x * 2 * q).sum()
    assert grad(z, x, retain_graph=True)[0].tolist() == [6.0, 12.0, 18.0] and seen == []
    z.backward()
    assert seen == [[2.0, 4.0, 6.0]]


def test_a_write_in_place_leaves_hooks_and_takes_along_what_is_retained():
    x, seen, later = one_two_three(), Seen(), Seen()
    y = x * 2
    u = (y * 1.5).sum()
    y.register_hook(seen)
    y.retain_grad()
    y.add_(3)
    y.register_hook(later)
    (u + y.sum() * 7).backward()
    assert later == [[7.0, 7.0, 7.0]] and seen == [[8.5, 8.5, 8.5]] and y.grad.tolist() == [7.0, 7.0, 7.0]
    assert x.grad.tolist() == [17.0, 17.0, 17.0]


def test_views_and_their_bases_have_hooks_of_their_own():
    x, of_view, of_base = one_two_three(), Seen(), Seen()
    y = x * 2
    v = y[1:]
    z = (v * v).sum()
    v.register_hook(of_view)
    y.register_hook(of_base)
    v.retain_grad()
    z.backward()
    assert of_view == [[8.0, 12.0]] and of_base == [[0.0, 8.0, 12.0]] and v.grad.tolist() == [8.0, 12.0]


def test_one_of_several_results_can_be_watched():
    x = lt.arange(6.0).reshape(3, 2).requires_grad_()
    values, _ = (x * 2).max(1)
    z = (values * values).sum()
    values.retain_grad()
    z.backward()
    assert values.grad.tolist() == [4.0, 12.0, 20.0] and x.grad.tolist() == [[0.0, 8.0], [0.0, 24.0], [0.0, 40.0]]


def test_equal_tensors_of_a_loop_keep_their_hooks_apart():
    x, seen, kept = one_two_three(), [], []
    for i in range(3):
        y = x * 2
        kept.append(y)
        y.register_hook(lambda g, i=i: seen.append((i, g.tolist())))
        (y * y).sum().backward()
    assert seen == [(i, [4.0, 8.0, 12.0]) for i in range(3)]


def test_of_two_equal_tensors_that_were_used_each_can_be_watched():
    x = one_two_three()
    y, w = x * 2, x * 2
    z = (y * 3 + w * 5).sum()
    y.retain_grad()
    w.retain_grad()
    z.backward()
    assert (y.grad.tolist(), w.grad.tolist()) == ([3.0] * 3, [5.0] * 3)
    assert x.grad.tolist() == [16.0, 16.0, 16.0]


def test_hooks_stay_when_nobody_holds_the_tensor_or_the_leaf():
    seen = Seen()

    def forward(x):
        y = x * 2
        z = (y * y).sum()
        y.register_hook(seen.times(2))
        return z

    x = one_two_three()
    forward(x).backward()
    forward(one_two_three()).backward()
    assert seen == [[4.0, 8.0, 12.0]] * 2 and x.grad.tolist() == [16.0, 32.0, 48.0]


def test_gradients_are_recorded_in_hooks_only_where_they_were_asked_for():
    x = one_two_three()
    y, flags = x * 2, []
    y.register_hook(lambda g: flags.append((g.requires_grad, lt.is_grad_enabled())) or g * 2)
    z = (y * y * y).sum()
    (g,) = grad(z, x, create_graph=True)
    assert g.tolist() == [48.0, 192.0, 432.0]
    g.sum().backward()
    assert flags == [(True, True), (False, False)] and x.grad.tolist() == [192.0, 384.0, 576.0]


def test_a_hook_may_write_to_its_gradient_and_remove_itself():
    x, y, z, seen = chain()
    handle = y.register_hook(lambda g: (seen(g), g.mul_(2), handle.remove())[2])
    z.backward(retain_graph=True)
    z.backward()
    assert seen == [[4.0, 8.0, 12.0]] and x.grad.tolist() == [24.0, 48.0, 72.0]


WRONG = {
    "size": (lambda g: g.sum(), AutogradError, "hook '<lambda>' has changed the size of value"),
    "kind": (lambda g: 3, TypeError, "expected Variable, but hook returned 'int'"),
    "type": (lambda g: g.double(), AutogradError, r"type of value \(was torch.FloatTensor got torch.DoubleTensor\)"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("at", [0, 1])
def test_an_answer_that_cannot_take_the_place_is_refused(case, at):
    hook, error, words = WRONG[case]
    *tensors, z, _ = chain()
    tensors[at].register_hook(hook)
    with pytest.raises(error, match=words):
        z.backward()


def test_what_requires_no_gradient_cannot_retain_it():
    with pytest.raises(AutogradError, match="can't retain_grad on Tensor that has requires_grad=False"):
        lt.ones(1).retain_grad()


def test_a_function_of_the_users_is_seen_from_behind():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    x, seen = one_two_three(), Seen()
    y = Square.apply(x)
    z = (y * 3).sum()
    y.register_hook(seen.times(2))
    y.retain_grad()
    z.backward()
    assert seen == [[3.0, 3.0, 3.0]] and y.grad.tolist() == [6.0, 6.0, 6.0] and x.grad.tolist() == [12.0, 24.0, 36.0]


def test_each_trace_of_a_step_has_its_own_hooks():
    runner, x, calls, keys = StepRunner(HostBackend(), Store()), one_two_three(), [], []
    for i in range(4):
        with config.override(jit=False), Capture(runner.store, readable=True) as step:
            y = x * 2
            z = (y * y).sum()
            if i < 3:
                y.register_hook(lambda g, i=i: calls.append(i) or g * 10)
                y.retain_grad()
            z.backward()
            keys.append(step.graph()[0].key)
            runner.run(step)
        assert x.grad.tolist() == ([8.0, 16.0, 24.0] if i == 3 else [80.0, 160.0, 240.0])
        assert i == 3 or y.grad.tolist() == [40.0, 80.0, 120.0]
        x.grad = None
    assert calls == [0, 1, 2]
    assert keys[1] == keys[2] != keys[3]  # hooks make no new graph of a step


@settings(max_examples=10, deadline=None)
@given(smooth_programs(), st.integers(0, 2**32 - 1))
def test_a_hook_does_the_same_before_and_after_the_use(program, seed):
    values = [np.random.default_rng(seed).uniform(-1, 1, s) for s in ((2, 3), (3,), (2, 3))]

    def gradients(is_late):
        leaves = [lt.tensor(v, requires_grad=True) for v in values]
        between, seen = [x * (i + 2) for i, x in enumerate(leaves)], [Seen() for _ in leaves]
        register = partial(list, (y.register_hook(s.times(3)) for y, s in zip(between, seen, strict=True)))
        if not is_late:
            register()
        loss = follow(program, between)
        if is_late:
            register()
        loss.backward()
        return seen, [None if x.grad is None else x.grad.tolist() for x in leaves]

    assert gradients(True) == gradients(False)
