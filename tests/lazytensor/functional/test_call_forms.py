"""Forms of calls that scripts use: PyTorch's answers."""

import pytest

import lazytensor as lt
from lazytensor import nn
from lazytensor.random import Generator

A, B = lt.arange(6.0).view(2, 3), lt.arange(12.0).view(3, 4)


OPERANDS = [(A, [0, 1], B, [1, 2], [0, 2]), (A, [0, 1], B, [1, 2]), (A, [..., 0], B, [0, 1], [..., 1])]


@pytest.mark.parametrize("operands", OPERANDS)
def test_einsum_takes_lists_of_numbers(operands):
    assert lt.einsum(*operands).equal(A @ B)


def test_einsum_of_numbers_orders_the_result_by_them():
    assert lt.einsum(A, [40, 2]).equal(A.t())
    with pytest.raises(ValueError, match="valid range"):
        lt.einsum(A, [0, 99])


@pytest.mark.parametrize("dtype", [lt.int32, lt.uint8, lt.float32, lt.bfloat16])
def test_permutation_has_the_type_that_is_asked_for(dtype):
    lt.manual_seed(0)
    order = lt.randperm(5, dtype=dtype)
    assert order.dtype is dtype
    assert order.tolist() == [4, 0, 1, 3, 2]


def test_weights_of_recurrent_layers_are_listed_by_layer_and_direction():
    layer = nn.LSTM(2, 3, 2, bidirectional=True)
    assert [len(weights) for weights in layer.all_weights] == [4] * 4
    assert layer.all_weights[1][0] is layer.weight_ih_l0_reverse
    assert [len(weights) for weights in nn.GRU(2, 3, bias=False).all_weights] == [2]


def test_split_takes_its_size_by_name():
    assert [t.shape for t in A.split(split_size=2, dim=1)] == [(2, 2), (2, 1)]


def test_in_looks_for_an_element():
    assert 3 in A
    assert 9 not in A
    assert lt.tensor([0.0, 9, 9]) in A
    with pytest.raises(TypeError):
        "x" in A  # noqa: B015


def test_generator_is_on_the_cpu():
    assert Generator().device.type == "cpu"
