"""Names that stand for no computation of their own: element types, checkpoints of activations, choices of kernels."""

import warnings

import pytest

import cstorch_compat.torch.utils.checkpoint as checkpointing
from cstorch_compat.torch.absent_dtypes import ABSENT_DTYPES
from cstorch_compat.torch.nn.attention.backends import SDPBackend, sdpa_kernel
from lazytensor import nn, ones, tensor
from lazytensor.errors import OptionMissing


# Recorded from PyTorch 2.13.0.
@pytest.mark.parametrize(
    ("name", "itemsize", "is_floating", "is_complex", "is_signed"),
    [
        ("complex64", 8, False, True, True),
        ("chalf", 4, False, True, True),
        ("float8_e4m3fn", 1, True, False, True),
        ("float8_e8m0fnu", 1, True, False, False),
        ("uint32", 4, False, False, False),
        ("bit", 1, False, False, False),
        ("int4", 1, False, False, True),
        ("quint8", 1, False, False, False),
    ],
)
def test_a_type_that_no_tensor_has_answers_for_itself(
    name, itemsize, is_floating, is_complex, is_signed, pytorch_names
):
    t = ABSENT_DTYPES[name]
    assert (t.itemsize, t.is_floating_point, t.is_complex) == (itemsize, is_floating, is_complex)
    assert name.startswith("q") or t.is_signed == is_signed
    with pytest.raises(OptionMissing, match=r"tensors of torch\.\S+ are not supported"):
        ones(2, dtype=t).tolist()
    with pytest.raises(OptionMissing):
        (ones(2).to(t) + 1).tolist()


def test_a_checkpointed_block_gives_the_same_values_and_gradients():
    x = tensor([1.0, 2.0], requires_grad=True)
    y = checkpointing.checkpoint(lambda a, b: (a * a).sum() * b, x, 3.0, use_reentrant=False)
    y.backward()
    assert y.item() == 15 and x.grad.tolist() == [6.0, 12.0]


def test_a_reentrant_block_without_gradients_at_its_inputs_has_none():
    layer = nn.Linear(2, 2)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        assert not checkpointing.checkpoint(layer, ones(2), use_reentrant=True).requires_grad
    assert checkpointing.checkpoint(layer, ones(2), use_reentrant=False).requires_grad


def test_the_way_has_to_be_said():
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpointing.checkpoint(lambda x: x, ones(2, requires_grad=True))
    with pytest.raises(ValueError, match="Unexpected keyword arguments: foo"):
        checkpointing.checkpoint(lambda x: x, ones(2), use_reentrant=True, foo=1)


def test_segments_are_called_in_their_order():
    calls = []
    chain = [lambda x, k=k: calls.append(k) or x + k for k in range(5)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        total = checkpointing.checkpoint_sequential(chain, 2, ones(1, requires_grad=True), use_reentrant=False)
    assert calls == [0, 1, 2, 3, 4] and total.item() == 11


def test_kernels_of_attention_can_be_chosen():
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        assert SDPBackend.MATH == 0
    with pytest.raises(AssertionError, match="Backend must be an instance"), sdpa_kernel("math"):
        pass
