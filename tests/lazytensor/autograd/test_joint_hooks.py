"""A backward pass calls hooks and custom functions with several outputs once. Expected values are PyTorch 2.13's."""

import pytest

import lazytensor as lt
from lazytensor import nn
from lazytensor.autograd.function import Function, grad


def leaf():
    return lt.tensor([1.0, 2.0], requires_grad=True)


def as_lists(gradients):
    return [None if g is None else g.tolist() for g in gradients]


class Multiples(Function):
    """Two outputs, 2 x and 3 x. Each call of `backward` adds its gradients to `calls`."""

    calls: list

    @staticmethod
    def forward(ctx, x, fill=True):
        ctx.set_materialize_grads(fill)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        Multiples.calls.append(as_lists((a, b)))
        parts = [g * k for g, k in ((a, 2), (b, 3)) if g is not None]
        return sum(parts), None


class Product(Function):
    """Two copies of the argument, with a gradient that is not linear in those of the outputs."""

    @staticmethod
    def forward(ctx, x):
        return x * 1, x * 1

    @staticmethod
    def backward(ctx, a, b):
        return a * b


class Pair(nn.Module):
    def forward(self, x, y):
        return x * y, x + y


@pytest.fixture(autouse=True)
def _no_calls():
    Multiples.calls = []


def test_custom_backward_is_called_once_with_all_gradients():
    x = leaf()
    u, v = Multiples.apply(x)
    (u * v).sum().backward()
    assert (Multiples.calls, x.grad.tolist()) == ([[[3, 6], [2, 4]]], [12, 24])


@pytest.mark.parametrize("fill, missing", [(True, [0, 0]), (False, None)])
def test_unused_output_has_zeros_or_none_as_its_gradient(fill, missing):
    x = leaf()
    v = Multiples.apply(x, fill)[1]
    v.sum().backward()
    assert (Multiples.calls, x.grad.tolist()) == ([[missing, [1, 1]]], [3, 3])


def test_backward_that_is_not_linear_has_pytorchs_gradient():
    x = leaf()
    u, v = Product.apply(x)
    (u * 2 + v * 5).sum().backward()
    assert x.grad.tolist() == [10, 10]


def test_second_derivative_of_several_outputs():
    x = leaf()
    u, v = Multiples.apply(x)
    (first,) = grad((u * v).sum(), x, create_graph=True)
    (second,) = grad(first.sum(), x)
    assert (first.tolist(), second.tolist()) == ([12, 24], [12, 12])
    assert Multiples.calls == [[[3, 6], [2, 4]], [[3, 3], [2, 2]]]


def test_module_hooks_are_called_once_with_all_gradients():
    module, calls = Pair(), []
    module.register_full_backward_pre_hook(lambda m, g: calls.append(("before", as_lists(g))))
    module.register_full_backward_hook(lambda m, gi, go: calls.append(("after", as_lists(gi), as_lists(go))))
    x, y = leaf(), leaf()
    u, v = module(x, y)
    (u * v).sum().backward()
    outputs = [[2, 4], [1, 4]]
    assert calls == [("before", outputs), ("after", [[3, 12], [3, 12]], outputs)]


@pytest.mark.parametrize("y, gradient", [(lt.ones(2), [0, 0]), (leaf(), [0, 0]), (3, None)])
def test_argument_without_a_gradient_is_zeros_if_it_is_a_tensor(y, gradient):
    class First(nn.Module):
        def forward(self, x, y):
            return x * 2

    module, calls = First(), []
    module.register_full_backward_hook(lambda m, gi, go: calls.append(as_lists(gi)))
    module(leaf(), y).sum().backward()
    assert calls == [[[2, 2], gradient]]


def test_module_hook_replaces_the_gradients_of_all_arguments_and_later_hooks_see_them():
    module, calls = Pair(), []
    module.register_full_backward_hook(lambda m, gi, go: (None, gi[1] * 10))
    module.register_full_backward_hook(lambda m, gi, go: calls.append(as_lists(gi)))
    x, y = leaf(), leaf()
    u, v = module(x, y)
    (u * v).sum().backward()
    assert (calls, x.grad, y.grad.tolist()) == ([[None, [30, 120]]], None, [30, 120])


def test_module_pre_hook_replaces_the_gradients_of_all_outputs():
    module = Pair()
    module.register_full_backward_pre_hook(lambda m, g: (g[0] * 2, g[1] * 2))
    x, y = leaf(), leaf()
    u, v = module(x, y)
    (u * v).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([6, 24], [6, 24])


@pytest.mark.parametrize(
    "register, message",
    [
        (lambda m: m.register_full_backward_hook(lambda m, gi, go: gi[:1]), "number of grad_input, got 1"),
        (lambda m: m.register_full_backward_pre_hook(lambda m, g: g[:1]), "number of grad_output, got 1"),
    ],
)
def test_module_hook_that_returns_too_few_gradients_is_refused(register, message):
    module = Pair()
    register(module)
    u, v = module(leaf(), leaf())
    with pytest.raises(RuntimeError, match=f"{message}, but expected 2"):
        (u * v).sum().backward()
