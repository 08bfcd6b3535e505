"""Functions made of functions. Numbers and messages are recorded from PyTorch 2.13.0."""

import pytest

from cstorch_compat.torch.function_transforms import functional_call, grad, grad_and_value, stack_module_state, vmap
from lazytensor import arange, manual_seed, nn, ones, randn, tensor


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
