"""Changes in place that backward notices or reads; every answer was recorded from PyTorch 2.13.0."""

import copy
import io

import numpy as np
import pytest

import lazytensor as lt
from lazytensor.autograd.function import Function
from lazytensor.errors import AutogradError
from lazytensor.serialization import load, save


def leaf(*values):
    return lt.tensor(values, requires_grad=True)


class Square(Function):
    """A custom function that saves its input and its output."""

    @staticmethod
    def forward(ctx, x):
        y = x * x
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * 2 * x * (y / y)


def _changed_by_numpy(x):
    x.detach().numpy()[:] = 5


# What is computed from a leaf [1, 2] and x = leaf * 1, how x or the result is changed, and the gradient.
UNCOUNTED = {
    "data of an operand": (lambda x: (x * x).sum(), lambda x: x.data.fill_(5), [10, 10]),
    "one element of data": (lambda x: (x * x).sum(), lambda x: x.data.__setitem__(0, 5), [10, 4]),
    "a view of data": (lambda x: (x * x).sum(), lambda x: x.data[1:].mul_(2), [2, 8]),
    "twice": (lambda x: (x * x).sum(), lambda x: (x.data.fill_(5), x.data.add_(1)), [12, 12]),
    "saved result stays": (lambda x: (x * x).relu().sum(), lambda x: x.data.fill_(-5), [-10, -10]),
    "through numpy": (lambda x: (x * x).sum(), _changed_by_numpy, [10, 10]),
    "of a view": (lambda x: (x[:1] * x[:1]).sum(), lambda x: x.data.fill_(5), [10, 0]),
    "nothing is saved": (lambda x: (x + 1).sum(), lambda x: x.data.fill_(5), [1, 1]),
    "a custom function": (lambda x: Square.apply(x).sum(), lambda x: x.data.fill_(5), [10, 10]),
}


@pytest.mark.parametrize("is_leaf", [True, False])
@pytest.mark.parametrize("case", UNCOUNTED)
def test_backward_reads_what_was_written_past_the_version(case, is_leaf):
    function, change, expected = UNCOUNTED[case]
    w = leaf(1.0, 2.0)
    x = w if is_leaf else w * 1
    y = function(x)
    change(x)
    y.backward()
    assert w.grad.tolist() == expected


def test_backward_reads_an_untracked_operand_again():
    w, x = leaf(1.0, 2.0), lt.ones(2)
    array = np.ones(2, np.float32)
    y = (w * x + w * lt.from_numpy(array)).sum()
    x.data.fill_(7)
    array[:] = 100
    y.backward()
    assert w.grad.tolist() == [107, 107]


def test_data_of_a_result_is_read_and_the_graph_stays():
    x = leaf(1.0)
    y = x.exp()
    y.data.fill_(5)
    assert y.requires_grad and y.tolist() == [5]
    y.sum().backward()
    assert x.grad.tolist() == [5]


def test_new_data_of_a_leaf_is_read():
    x = leaf(1.5)
    y = (x * x).sum()
    x.data = lt.tensor([7.0])
    y.backward()
    assert x.grad.tolist() == [14]


COUNTED = {
    "add_": (lambda x: (x * x).sum(), lambda x, y: x.add_(1)),
    "detached": (lambda x: (x * x).sum(), lambda x, y: x.detach().fill_(1)),
    "a view": (lambda x: (x * x).sum(), lambda x, y: x[0].fill_(1)),
    "another part of a view": (lambda x: (x[:1] * x[:1]).sum(), lambda x, y: x[1].fill_(1)),
    "data and a counted write": (lambda x: (x * x).sum(), lambda x, y: (x.data.fill_(3), x.add_(1))),
    "by itself": (lambda x: x.mul_(x), lambda x, y: None),
    "divided by itself": (lambda x: x.div_(x), lambda x, y: None),
    "the input of a custom function": (lambda x: Square.apply(x), lambda x, y: x.add_(1)),
    "the output of a custom function": (lambda x: Square.apply(x), lambda x, y: y.add_(1)),
}


@pytest.mark.parametrize("case", COUNTED)
def test_backward_refuses_a_later_version(case):
    function, change = COUNTED[case]
    x = leaf(1.0, 2.0) * 1
    y = function(x)
    change(x, y)
    with pytest.raises(AutogradError, match="modified by an inplace operation"):
        y.sum().backward()


def test_versions_are_those_of_the_storage_and_data_has_one_of_its_own():
    x = lt.zeros(2)
    data, detached = x.data, x.detach()
    data.add_(1)
    detached.add_(1)
    x[0] = 3
    assert (x._version, detached._version, data._version) == (2, 2, 1)


def test_equal_tensors_have_storages_of_their_own():
    w = leaf(1.0, 2.0)
    first, second, zeros, others = w * 2, w * 2, lt.zeros(2), lt.zeros(2)
    others.add_(1)
    clone = first.clone()
    y = (second * second + clone * clone + w * zeros).sum()
    first.add_(1)
    y.backward()
    assert w.grad.tolist() == [16, 32]
    z = (w * zeros).sum()
    zeros.add_(1)
    zeros.zero_()
    with pytest.raises(AutogradError, match="modified by an inplace operation"):
        z.backward()


def test_custom_function_frees_what_it_saved():
    x = leaf(1.0, 2.0)
    y = Square.apply(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(AutogradError, match="backward through the graph a second time"):
        y.backward()


@pytest.mark.parametrize("views", [lambda x: x.unbind(0), lambda x: x.split(1), lambda x: x.chunk(2)])
def test_one_of_several_views_is_not_changed_in_place(views):
    x = leaf(1.0, 2.0) * 1
    with pytest.raises(AutogradError, match="is a view and is being modified inplace"):
        views(x)[0].mul_(2)
    with lt.no_grad():
        views(x)[0].mul_(2)
    plain = lt.ones(2)
    views(plain)[1].mul_(2)
    assert plain.tolist() == [1, 2]


def test_detached_tensor_that_gradients_are_written_to_has_a_history_of_its_own():
    w = lt.tensor([2.0], requires_grad=True)
    x = lt.tensor([3.0]) * 1
    h = x.detach()
    h.mul_(w)
    assert h.requires_grad and not x.requires_grad
    assert x.tolist() == [6.0]
    h.sum().backward()
    assert w.grad.tolist() == [3.0]
    # Of a leaf that is written past its history: it stays one.
    p = lt.tensor([1.0], requires_grad=True)
    p.data.copy_(w)
    assert p.is_leaf and p.tolist() == [2.0]
    # An element.
    y = lt.zeros(3)
    z = y.detach()
    z[0] = w[0]
    assert z.requires_grad and not y.requires_grad
    assert y.tolist() == [2.0, 0.0, 0.0]
    z.sum().backward()
    assert w.grad.tolist() == [4.0]


def test_views_of_a_detached_tensor_share_the_history_that_is_written_to_one_of_them():
    w = lt.tensor([2.0, 3.0], requires_grad=True)
    x = lt.tensor([1.0, 4.0]) * 1
    h = x.detach()
    view, other = h.reshape(-1), x.detach()
    view[-1:].mul_(w[1])
    assert (h.requires_grad, view.requires_grad, x.requires_grad, other.requires_grad) == (True, True, False, False)
    assert x.tolist() == h.tolist() == [1.0, 12.0]
    # The values stay shared, and the history stays what it is.
    x.add_(1)
    assert h.requires_grad and h.tolist() == [2.0, 13.0]
    with lt.no_grad():
        other.mul_(2)
    assert h.tolist() == [4.0, 26.0]
    h.sum().backward()
    assert w.grad.tolist() == [0.0, 4.0]


def test_change_of_a_storage_is_noticed_by_backward_of_a_detached_tensor_with_history():
    w = lt.tensor([2.0], requires_grad=True)
    x = lt.tensor([1.0]) * 1
    h = x.detach()
    h.mul_(w)
    y = h * h
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_data_keeps_the_history_of_a_tensor_that_numpy_sees():
    w = lt.tensor([2.0, -3.0], requires_grad=True)
    y = w * 2
    shown = y.detach().numpy()
    y.data[1:].relu_()
    y.data *= 3
    assert y.requires_grad and y.tolist() == shown.tolist() == [12.0, 0.0]
    y.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0]


def test_loaded_tensors_share_memory_and_no_history():
    file = io.BytesIO()
    x = lt.ones(2)
    save([x, x.detach()], file)
    file.seek(0)
    one, two = load(file)
    one.mul_(lt.tensor(3.0, requires_grad=True))
    assert one.requires_grad and not two.requires_grad
    assert two.tolist() == [3.0, 3.0]


def test_write_to_no_elements_gives_the_storage_a_history():
    w = lt.tensor(2.0, requires_grad=True)
    for x in (lt.zeros(3), lt.zeros(3).detach(), lt.zeros(2, 0)):
        x[:0] = w
        assert x.requires_grad
        x.sum().backward()
        assert w.grad.tolist() == 0.0


def test_deep_copies_share_memory_and_no_history():
    x = lt.ones(2)
    one, two = copy.deepcopy([x, x.detach()])
    two.mul_(lt.tensor(3.0, requires_grad=True))
    assert two.requires_grad and not one.requires_grad
    assert one.tolist() == [3.0, 3.0] and x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("write", [lambda y: y.zero_(), lambda y: y.fill_(2), lambda y: y.copy_(lt.ones(2))])
def test_overwritten_tensor_that_numpy_sees_still_requires_grad(write):
    y = leaf(1.0, 2.0) * 2
    shown = y.detach().numpy()
    write(y)
    assert y.requires_grad and shown.tolist() == y.tolist()


class Counting(Function):
    """A custom function whose backward changes what it saved."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        x.data.add_(1)
        return g * x


def test_each_walk_back_changes_the_saved_tensor_itself():
    x = leaf(0.0)
    y = Counting.apply(x).sum()
    for count in (1.0, 2.0, 3.0):
        y.backward(retain_graph=True)
        assert x.tolist() == [count]
    assert x.grad.tolist() == [6.0]


VIEWS = {
    "row": lambda h: h[0],
    "column": lambda h: h.t()[:, 0],
    "part of a reshaped tensor": lambda h: h.view(-1)[4:8],
    "row of one": lambda h: h[0:1].squeeze(),
}
COPIES = {
    "clone": lambda v: v.clone(),
    "to": lambda v: v.to(lt.float32, copy=True),
    "copy_": lambda v: lt.empty(4).copy_(v),
    "item assignment": lambda v: _assigned(lt.empty(4), v),
    "copy_ through data": lambda v: _copied_to_data(lt.zeros(4), v),
    "detach and clone": lambda v: v.detach().clone(),
    "deepcopy": copy.deepcopy,
    "cat": lambda v: lt.cat([v]),
    "expand and clone": lambda v: v.expand(2, 4).clone()[0],
}


def _assigned(x, value):
    x[...] = value
    return x


def _copied_to_data(x, value):
    x.data.copy_(value)
    return x


@pytest.mark.parametrize("is_computed", [False, True])
@pytest.mark.parametrize("is_copied_first", [False, True])
@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_write_to_a_copy_of_a_view_leaves_the_view_for_backward(view, copied, is_copied_first, is_computed):
    h, w = lt.arange(12.0).reshape(3, 4) * 2, lt.arange(4.0).requires_grad_()
    if is_computed:
        h.sum().item()
    v = view(h)
    c = copied(v) if is_copied_first else None
    y = v * w
    c = copied(v) if c is None else c
    c.add_(1)
    (y + c * w).sum().backward()
    assert w.grad.tolist() == (v + c).tolist() == (2 * v + 1).tolist()


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_write_to_the_base_of_a_copied_view_is_refused_by_backward(view, copied):
    h, w = lt.arange(12.0).reshape(3, 4) * 2, lt.arange(4.0).requires_grad_()
    v = view(h)
    y = v * w
    copied(v)
    h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
