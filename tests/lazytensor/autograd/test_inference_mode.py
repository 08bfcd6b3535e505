"""Tensors that inference mode makes; every answer was recorded from PyTorch 2.13.0."""

import copy

import pytest

import lazytensor as lt
from lazytensor import nn
from lazytensor.autograd.function import Function
from lazytensor.errors import AutogradError


def inference_tensor():
    with lt.inference_mode():
        return lt.arange(3.0) * 2


def is_inference(t):
    return t.cell.is_inference


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.add_(1),
        lambda t: t[1:].zero_(),
        lambda t: t.detach().mul_(2),
        lambda t: t.data.fill_(1),
        lambda t: t.__setitem__(0, 1),
        lambda t: lt.add(t, 1, out=t),
    ],
)
def test_change_in_place_outside_is_refused(write):
    t = inference_tensor()
    with pytest.raises(AutogradError, match="Inplace update to inference tensor outside InferenceMode"), lt.no_grad():
        write(t)
    with lt.inference_mode():
        write(t)


def test_version_and_requires_grad_are_refused():
    t = inference_tensor()
    with pytest.raises(AutogradError, match="do not track version counter"):
        t._version  # noqa: B018
    with pytest.raises(AutogradError, match="Setting requires_grad=True on inference tensor"):
        t.requires_grad_()


@pytest.mark.parametrize("is_changed", [False, True])
@pytest.mark.parametrize(
    "use", [lambda w, t: w * t, lambda w, t: w * t[:1], lambda w, t: w / t.detach(), lambda w, t: w[t.long()[:1]] * t]
)
def test_operation_that_saves_one_for_backward_is_refused(use, is_changed):
    t = inference_tensor()
    if is_changed:
        with lt.inference_mode():
            t.add_(1)
    w = lt.ones(3, requires_grad=True)
    with pytest.raises(AutogradError, match="Inference tensors cannot be saved for backward"):
        use(w, t)


def test_input_of_a_layer_is_refused_if_inference_mode_made_it():
    layer = nn.Linear(3, 2)
    with pytest.raises(AutogradError, match="Inference tensors cannot be saved for backward"):
        layer(inference_tensor())


def test_what_needs_no_inference_tensor_passes():
    t = inference_tensor()
    w = lt.ones(3, requires_grad=True)
    (w + t).sum().backward()
    (w * t.clone()).sum().backward()
    assert w.grad.tolist() == [1, 3, 5]
    for normal in (t.clone(), t * 2, copy.deepcopy(t)):
        assert not is_inference(normal)
        normal.add_(1)
    # Equal to a value of the block, and computed outside of it.
    p = lt.arange(3.0)
    with lt.inference_mode():
        inside = p > 0
        assert is_inference(inside)
    del inside
    assert lt.where(p > 0, w, w * 2).requires_grad


def test_views_and_writes_of_normal_tensors_stay_normal():
    x, norm = lt.arange(4.0), nn.BatchNorm1d(2)
    with lt.inference_mode():
        view = x[1:]
        x.add_(1)
        norm(lt.ones(3, 2))
        with lt.inference_mode(False):
            assert not lt.is_inference_mode_enabled()
            assert not is_inference(x * 2)
        assert lt.is_inference_mode_enabled()
    assert not is_inference(view)
    assert not is_inference(norm.running_mean)
    view.add_(1)
    assert x._version == 2


def test_decorated_function_runs_in_inference_mode():
    assert is_inference(lt.inference_mode()(lambda: lt.ones(2))())
    assert is_inference(lt.inference_mode(lambda: lt.ones(2))())


class Product(Function):
    """A custom function that saves both operands."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x


def test_custom_function_with_a_gradient_saves_no_tensor_of_inference_mode():
    w = lt.ones(2, requires_grad=True)
    with lt.inference_mode():
        x = lt.ones(2) * 2
    for operands in ((w, x), (x[:], w)):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            Product.apply(*operands)
    assert Product.apply(x, x).tolist() == [4.0, 4.0]
