"""Functions made of functions. Numbers and messages are recorded from PyTorch 2.13.0."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cstorch_compat.torch.func.jacobians import hessian, jacfwd, jacrev, jvp, vjp
from cstorch_compat.torch.func.transforms import functional_call, grad, grad_and_value, stack_module_state, vmap
from lazytensor import arange, manual_seed, nn, ones, randn, stack, tensor


def test_gradients_of_each_sample_by_the_parameters_of_a_module():
    manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    weights = {k: v.detach() for k, v in model.named_parameters()}
    x, y = randn(4, 2), randn(4, 1)
    slopes = vmap(grad(lambda p, x, y: ((functional_call(model, p, (x,)) - y) ** 2).mean()), in_dims=(None, 0, 0))
    found = {k: (list(v.shape), round(v.abs().sum().item(), 4)) for k, v in slopes(weights, x, y).items()}
    assert found == {
        "0.weight": ([4, 3, 2], 4.7790),
        "0.bias": ([4, 3], 3.2428),
        "2.weight": ([4, 1, 3], 9.1737),
        "2.bias": ([4, 1], 9.0076),
    }


def test_derivatives_nest_and_take_several_arguments():
    assert grad(grad(lambda x: (x**3).sum()))(tensor(2.0)).item() == 12
    first, second = grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(tensor(2.0), tensor(3.0))
    assert (first.item(), second.item()) == (3, 2)
    slope, value = grad_and_value(lambda x: (x * x).sum())(ones(2))
    assert (slope.tolist(), value.item()) == ([2, 2], 2)


def test_samples_are_mapped_and_stacked():
    assert vmap(lambda a, b: (a * b).sum())(ones(3, 2), arange(6.0).view(3, 2)).tolist() == [1, 5, 9]
    assert list(vmap(lambda x: x * 2, out_dims=1)(ones(2, 3)).shape) == [3, 2]


def test_modules_of_one_kind_are_stacked():
    models = [nn.Linear(2, 1) for _ in range(3)]
    weights, buffers = stack_module_state(models)
    outputs = vmap(lambda p, x: functional_call(models[0], p, (x,)), in_dims=(0, None))(weights, ones(4, 2))
    assert list(outputs.shape) == [3, 4, 1] and weights["weight"].requires_grad and buffers == {}


def test_a_call_with_other_parameters_leaves_the_module_as_it_was():
    model = nn.Linear(2, 1)
    before = model.weight
    others = {name: ones(t.shape) for name, t in model.named_parameters()}
    assert functional_call(model, others, ones(1, 2)).item() == 3 and model.weight is before
    with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'foo'.\n\tMissing key\(s\): 'bias', 'weight'"):
        functional_call(model, {"foo": before}, ones(1, 2), strict=True)


vectors = st.lists(st.floats(-2, 2, width=32), min_size=3, max_size=3)


@settings(max_examples=30, deadline=None)
@given(vectors, vectors, st.lists(st.floats(-1, 1, width=32), min_size=6, max_size=6))
def test_tables_and_products_of_derivatives_are_those_of_the_closed_form(start, direction, matrix):
    x, v, a = tensor(start), tensor(direction), tensor(matrix).view(2, 3)
    whole = np.cos(a.numpy() @ x.numpy())[:, None] * a.numpy()

    def function(x):
        return (a @ x).sin()

    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    for table in (jacrev, jacfwd):
        close(table(function)(x).numpy(), whole)
    value, change = jvp(function, (x,), (v,))
    close(value.numpy(), function(x).numpy())
    close(change.numpy(), whole @ v.numpy())
    value, pulled_back = vjp(function, x)
    (slope,) = pulled_back(ones(2))
    close(slope.numpy(), whole.sum(0))
    close(hessian(lambda x: (x**3).sum())(x).numpy(), np.diag(6 * x.numpy()))
    # Derivatives nest in each other, and in a map over samples.
    close(grad(lambda x: jvp(function, (x,), (v,))[1].sum())(x).numpy(), hessian(lambda x: function(x).sum())(x) @ v)
    close(vmap(jacrev(function))(stack([x, v])).numpy(), np.stack([whole, jacrev(function)(v).numpy()]))


def test_tables_of_derivatives_have_the_trees_of_results_and_arguments():
    x, y = tensor([1.0, 2.0]), tensor([3.0, 5.0])
    first, second = jacrev(lambda x, y: (x * y, {"sum": x.sum()}), argnums=(0, 1))(x, y)
    assert [t.tolist() for t in first] == [[[3, 0], [0, 5]], [[1, 0], [0, 2]]]
    assert [t.tolist() for t in second["sum"]] == [[1, 1], [0, 0]]
    (_, mixed), _ = hessian(lambda x, y: (x * x * y).sum(), argnums=(0, 1))(x, y)
    assert mixed.tolist() == [[2, 0], [0, 4]]
    assert jacrev(lambda d: d["a"] * d["b"])({"a": x, "b": y})["b"].tolist() == [[1, 0], [0, 2]]
    table, aux = jacrev(lambda x: (x * 2, x.sum()), has_aux=True)(x)
    assert table.tolist() == [[2, 0], [0, 2]] and aux.item() == 3 and not aux.requires_grad
    value, change, aux = jvp(lambda x, y: ((x * y, y), x), (x, y), (ones(2), y * 0), has_aux=True)
    assert [t.tolist() for t in change] == [[3, 5], [0, 0]] and aux.tolist() == [1, 2]
    value, pulled_back, aux = vjp(lambda x, y: ({"p": x * y}, y), x, y, has_aux=True)
    assert [t.tolist() for t in pulled_back({"p": ones(2)})] == [[3, 5], [1, 2]] and value["p"].tolist() == [3, 10]
    with pytest.raises(RuntimeError, match="Expected pytree structure of cotangents"):
        pulled_back(ones(2))


def test_what_no_argument_leads_to_has_no_derivative_and_what_is_tracked_keeps_its_graph():
    x, infinite = tensor([1.0, 2.0]), tensor([float("inf"), 1.0])
    assert jacrev(lambda x: ones(2))(infinite).tolist() == [[0, 0], [0, 0]]
    assert jvp(lambda x: ones(2), (x,), (x,))[1].tolist() == [0, 0]
    assert not jacrev(lambda x: x * x)(x).requires_grad
    x.requires_grad_()
    jacrev(lambda x: x * x)(x).sum().backward()
    assert x.grad.tolist() == [2, 2]
