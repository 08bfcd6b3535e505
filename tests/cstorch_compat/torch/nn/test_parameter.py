"""Parameters and buffers without a shape."""

import copy

import pytest

from cstorch_compat.torch.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from lazytensor import bfloat16, nn, no_grad


def make_module():
    m = nn.Module()
    m.weight = UninitializedParameter(dtype=bfloat16)
    m.register_buffer("mean", UninitializedBuffer())
    return m


def test_a_parameter_gets_its_shape_later_and_stays_the_same_object():
    m = make_module()
    weight, mean = m.weight, m.mean
    assert is_lazy(weight) and is_lazy(mean) and [name for name, _ in m.named_parameters()] == ["weight"]
    weight.materialize((2, 3))
    mean.materialize((4,))
    with no_grad():
        weight.fill_(2)
        mean.fill_(1)
    assert m.weight is weight and type(weight) is nn.Parameter and weight.dtype is bfloat16 and weight.is_leaf
    assert not is_lazy(weight) and not is_lazy(mean) and mean.tolist() == [1, 1, 1, 1]
    (m.weight * 3).sum().backward()
    assert weight.grad.tolist() == [[3.0] * 3] * 2
    assert {k: v.shape for k, v in m.state_dict().items()} == {"weight": (2, 3), "mean": (4,)}


def test_the_shape_of_a_parameter_without_one_is_an_error_and_copies_have_none():
    p = UninitializedParameter(requires_grad=False)
    with pytest.raises(RuntimeError, match="shape of an uninitialized parameter"):
        p.shape  # noqa: B018
    other = copy.deepcopy(p)
    assert is_lazy(other) and not other.requires_grad
