"""Copies of tensors by `copy`, `pickle` and files; every answer was recorded from PyTorch 2.13.0."""

import copy
import io
import pickle

import pytest

import lazytensor as lt
from lazytensor import nn
from lazytensor.errors import AutogradError
from lazytensor.serialization import load, save


def pickled(value):
    return pickle.loads(pickle.dumps(value))


def filed(value):
    file = io.BytesIO()
    save(value, file)
    file.seek(0)
    return load(file)


def leaf():
    return lt.arange(6.0).requires_grad_()


@pytest.mark.parametrize("copied", [copy.copy, pickled, filed])
@pytest.mark.parametrize("make", [leaf, lambda: leaf()[::2], lambda: leaf() * 2, lambda: (leaf() * 2)[1:]])
def test_copy_of_a_tensor_that_requires_grad_is_a_leaf_that_does(copied, make):
    original = make()
    answer = copied(original)
    assert answer.requires_grad
    assert answer.is_leaf
    assert answer.grad is None
    assert answer.tolist() == original.tolist()


@pytest.mark.parametrize("make", [lambda: leaf()[::2], lambda: leaf() * 2])
def test_deepcopy_refuses_a_result_that_requires_grad(make):
    with pytest.raises(AutogradError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(make())


def test_copy_shares_memory_strides_and_attributes():
    base = lt.arange(6.0)
    view = base.view(2, 3).t()
    view.note = [1]
    other = copy.copy(view)
    other.zero_()
    assert base.tolist() == [0] * 6
    assert other.stride() == (1, 3)
    assert other.note is view.note


@pytest.mark.parametrize("copied", [copy.deepcopy, filed])
@pytest.mark.parametrize(
    "parts", [lambda b: [b, b[2:4]], lambda b: [b[2:4], b], lambda b: [b.detach(), b[::2]], lambda b: [b.data, b]]
)
@pytest.mark.parametrize("make", [lambda: lt.arange(6.0), leaf])
def test_copies_of_tensors_that_share_memory_share_it(copied, parts, make):
    with lt.no_grad():
        tensors = [t.detach() for t in parts(make())]
        one, other = copied(tensors)
        one.fill_(7)
        assert 7 in other.tolist()
        assert 7 not in tensors[0].tolist()


def test_deepcopy_keeps_strides_gradient_and_attributes_of_a_tensor():
    w = leaf()
    w.note = [1]
    w.sum().backward()
    answer = copy.deepcopy(w)
    assert answer.grad.tolist() == [1] * 6
    assert answer.grad is not w.grad
    assert answer.note == [1]
    assert answer.note is not w.note
    assert copy.deepcopy(lt.ones(2, 3).t()).stride() == (1, 3)


def test_deepcopy_of_a_parameter_has_only_its_elements():
    p = nn.Parameter(lt.ones(2))
    p.note = 1
    (p * 2).sum().backward()
    answer, data = copy.deepcopy([p, p.data])
    data.zero_()
    assert answer.tolist() == [1, 1]
    assert answer.grad is None
    assert answer.requires_grad
    assert not hasattr(answer, "note")


def test_view_of_a_copied_view_is_refused_in_place():
    copied = copy.copy(lt.ones(3, requires_grad=True)[2])
    assert copied.is_leaf and copied.requires_grad
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        copied[...].div_(2)
