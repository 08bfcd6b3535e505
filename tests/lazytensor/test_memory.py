"""Tensors and NumPy arrays that share memory; expected values are those of PyTorch 2.13.0 or of NumPy views."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.errors import AutogradError

KINDS = (np.float32, np.float64, np.float16, np.int64, np.uint8, np.bool_)


def test_from_numpy_reads_the_array_at_the_call():
    buffer, total = np.empty((2, 4), np.float32), 0
    for k in range(4):
        buffer[:] = k
        total = total + lt.from_numpy(buffer).sum()
    assert float(total) == 48


def test_results_keep_the_values_that_the_array_had():
    array = np.ones(3, np.float32)
    x = lt.from_numpy(array)
    doubled, part = x * 2, x[1:].clone()
    array[:] = 5
    assert doubled.tolist() == [2, 2, 2] and part.tolist() == [1, 1] and x.tolist() == [5, 5, 5]


def test_numpy_array_of_a_weight_can_be_written():
    layer = lt.nn.Linear(2, 2)
    layer.weight.detach().numpy()[:] = 3
    assert layer(lt.ones(1, 2)).detach().sub(layer.bias.detach()).tolist() == [[6.0, 6.0]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_transposed", [False, True])
def test_writes_show_on_both_sides_for_every_kind(kind, is_transposed):
    array = np.zeros((2, 3), kind).T if is_transposed else np.zeros((3, 2), kind)
    x = lt.from_numpy(array)
    x[0, 1] = 1
    array[2, 0] = 1
    assert np.array_equal(array, [[0, 1], [0, 0], [1, 0]]) and x.tolist() == array.tolist()
    assert x.numpy().dtype == kind and np.shares_memory(x.numpy(), array)


VIEWS = (
    lambda a: a[1:],
    lambda a: a[..., ::2],
    lambda a: a.reshape(-1),
    lambda a: a.swapaxes(0, 1) if isinstance(a, np.ndarray) else a.transpose(0, 1),
    lambda a: a[0],
    lambda a: a[..., None],
)


@given(st.data())
def test_random_views_and_writes_agree_with_numpy(data):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    starts_in_numpy = data.draw(st.booleans())
    tensor = lt.from_numpy(array) if starts_in_numpy else lt.arange(24.0).view(4, 6)
    shared = tensor.numpy()
    expected = array.copy()
    for step in range(data.draw(st.integers(1, 5))):
        t, a, e = tensor, shared, expected
        for _ in range(data.draw(st.integers(0, 2))):
            view = data.draw(st.sampled_from(VIEWS))
            try:
                is_view = np.shares_memory(view(e), e)
            except (IndexError, ValueError):
                break
            if not is_view or not view(e).ndim:
                break
            t, a, e = view(t), view(a), view(e)
        kind = data.draw(st.sampled_from(["numpy", "add", "fill", "copy", "item", "numpy of the view"]))
        if kind == "numpy":
            a += step + 1
        elif kind == "add":
            t.add_(step + 1)
        elif kind == "fill":
            t.fill_(step)
        elif kind == "copy":
            t.copy_(lt.full(t.shape, -1.0 - step))
        elif kind == "item":
            t[0] = step
        else:
            t.numpy()[...] = 50 + step
        if kind in ("numpy", "add"):
            e += step + 1
        elif kind == "fill":
            e[...] = step
        elif kind == "copy":
            e[...] = -1.0 - step
        elif kind == "item":
            e[0] = step
        else:
            e[...] = 50 + step
        assert shared.tolist() == tensor.tolist() == expected.tolist() and t.tolist() == e.tolist()
        assert float(tensor.sum()) == expected.sum()
    if starts_in_numpy:
        assert array.tolist() == expected.tolist()


def test_training_a_shared_parameter_writes_the_array():
    array = np.ones((2, 2), np.float32)
    weight = lt.nn.Parameter(lt.from_numpy(array))
    for optimizer in (lt.optim.SGD([weight], lr=0.5), lt.optim.Adam([weight], lr=0.5)):
        weight.grad = None
        (weight * 2).sum().backward()
        before = array.copy()
        optimizer.step()
        assert (array < before).all() and array.tolist() == weight.tolist()


def test_reading_through_numpy_keeps_the_gradient():
    weight = lt.ones(3, requires_grad=True)
    y = weight * weight
    assert y.detach().numpy().tolist() == [1, 1, 1]
    shown = y.detach().numpy()
    y.sum().backward()
    assert weight.grad.tolist() == [2, 2, 2] and shown.tolist() == [1, 1, 1]


def test_changing_the_array_of_a_tensor_with_history_is_refused():
    y = lt.ones(3, requires_grad=True) * 2
    shown = y.detach().numpy()
    shown[0] = 5
    with pytest.raises(AutogradError, match="a NumPy array was changed"):
        y.sum()


def test_other_ways_to_numpy_share_too():
    x = lt.zeros(3)
    np.asarray(x)[0] = 1
    np.from_dlpack(x)
    array = np.zeros(2, np.float32)
    lt.as_tensor(array).fill_(4)
    assert x.tolist() == [1, 0, 0] and array.tolist() == [4, 4]
    assert np.array(x, copy=True) is not None
    copied = np.array(x)
    copied[:] = 9
    assert x.tolist() == [1, 0, 0]


def test_arrays_that_pytorch_refuses_are_refused():
    with pytest.raises(ValueError, match="negative"):
        lt.from_numpy(np.arange(3)[::-1])
    with pytest.raises(ValueError, match="byte order"):
        lt.from_numpy(np.arange(3, dtype=">i4"))


def test_memory_of_a_view_that_numpy_cannot_describe_refuses_writes():
    x = lt.zeros(4)
    overlapping = x.expand(2, 4).numpy()
    with pytest.raises(ValueError, match="read-only"):
        overlapping[0, 0] = 1
