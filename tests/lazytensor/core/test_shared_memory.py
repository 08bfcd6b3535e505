"""Tensors and NumPy arrays that share memory; expected values are those of PyTorch 2.13.0 or of NumPy views."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.core.capture import Capture
from lazytensor.runtime.state_store import Store

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
    lambda a: a.swapaxes(0, 1),
    lambda a: a[0],
    lambda a: a[..., None],
)


def _add(t, a, e, k):
    t.add_(k)
    e += k


def _add_by_numpy(t, a, e, k):
    a += k
    e += k


def _fill(t, a, e, k):
    t.fill_(k)
    e[...] = k


def _copy(t, a, e, k):
    t.copy_(lt.full(t.shape, -k))
    e[...] = -k


def _set_item(t, a, e, k):
    t[0] = k
    e[0] = k


def _fill_by_numpy_of_view(t, a, e, k):
    t.numpy()[...] = k
    e[...] = k


WRITES = (_add, _add_by_numpy, _fill, _copy, _set_item, _fill_by_numpy_of_view)


def _viewed(view, *seen):
    """Return the views of a tensor and of two arrays, or the three themselves if NumPy has no such view."""
    try:
        part = view(seen[-1])
    except (IndexError, ValueError):
        return seen
    return tuple(map(view, seen)) if np.shares_memory(part, seen[-1]) and part.ndim else seen


@given(st.data())
def test_random_views_and_writes_agree_with_numpy(data):
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    tensor = lt.from_numpy(array) if data.draw(st.booleans()) else lt.arange(24.0).view(4, 6)
    shared, expected = tensor.numpy(), array.copy()
    for k in range(data.draw(st.integers(1, 5))):
        seen = tensor, shared, expected
        for view in data.draw(st.lists(st.sampled_from(VIEWS), max_size=2)):
            seen = _viewed(view, *seen)
        data.draw(st.sampled_from(WRITES))(*seen, k + 50.0)
        assert shared.tolist() == tensor.tolist() == expected.tolist() and seen[0].tolist() == seen[-1].tolist()
        assert float(tensor.sum()) == expected.sum()


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


def test_changing_the_array_of_a_tensor_with_history_leaves_the_history():
    x = lt.ones(3, requires_grad=True)
    y = x * 2
    shown = y.detach().numpy()
    shown[0] = 5
    assert y.tolist() == [5, 2, 2]
    (y * y).sum().backward()
    assert x.grad.tolist() == [20, 8, 8]


def test_other_ways_to_numpy_share_too():
    x = lt.zeros(3)
    np.asarray(x)[0] = 1
    assert np.shares_memory(np.from_dlpack(x), x.numpy())
    array = np.zeros(2, np.float32)
    lt.as_tensor(array).fill_(4)
    assert x.tolist() == [1, 0, 0] and array.tolist() == [4, 4]
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


def test_backward_adds_into_the_gradient_that_is_there():
    weight, buffer = lt.ones(2, requires_grad=True), lt.zeros(4)
    array = buffer.numpy()
    weight.grad = gradient = buffer[1:3]
    for _ in range(2):
        (weight * 3).sum().backward()
    assert weight.grad is gradient and buffer.tolist() == array.tolist() == [0, 6, 6, 0]


def test_gradient_with_a_graph_is_a_new_tensor():
    weight, buffer = lt.ones(2, requires_grad=True), lt.zeros(2)
    weight.grad = buffer
    (weight * weight).sum().backward(create_graph=True)
    assert buffer.tolist() == [0, 0] and weight.grad.requires_grad and weight.grad.tolist() == [2, 2]


def test_rows_picked_from_a_shared_array_are_those_of_the_moment_of_the_call():
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    tensor, places = lt.from_numpy(array), lt.tensor([2, 0])
    rows, selected, chosen = tensor[places], lt.index_select(tensor, 0, places), tensor[tensor[:, 0] > 5]
    array[:] = -1
    assert rows.tolist() == selected.tolist() == [[6, 7, 8], [0, 1, 2]] and chosen.tolist() == [[6, 7, 8], [9, 10, 11]]
    assert tensor[places].tolist() == [[-1] * 3] * 2


STEPS = """
import numpy as np
buffer, mask = np.zeros((1, 2), np.float32), np.ones(2, np.float32)
x, seen = torch.from_numpy(buffer), torch.from_numpy(mask)
backend = cstorch.backend("CPU")
totals = []

@cstorch.trace
def step(batch):
    return batch.sum() + seen.sum() * 100

def batches():
    for k in range(4):
        buffer[:] = k
        yield x

for batch in cstorch.utils.data.DataExecutor(cstorch.utils.data.DataLoader(batches), num_steps=4):
    totals.append(float(step(batch)))
    mask += 1
print(totals, seen.tolist(), x.tolist())
"""


def test_steps_on_the_cpu_read_shared_memory_anew(script):
    done = script(STEPS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[200.0, 402.0, 604.0, 806.0] [5.0, 5.0] [[3.0, 3.0]]"


def test_batch_of_a_numpy_array_is_an_input_of_the_step():
    store = Store()
    for k in range(3):
        tensor = lt.from_numpy(np.full(2, k, np.float32))
        capture = Capture(store, readable=True)
        capture.feed(tensor.cell, 0, "input")
        with capture:
            total = tensor.sum()
            graph, waiting = capture.graph()
            capture.finish(waiting, [np.float32(2 * k)])
        assert [n.op for n in graph.inputs] == ["batch"] and not graph.state
        assert total.item() == 2 * k and tensor.tolist() == [k, k]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("view", [lambda x: x[1], lambda x: x[:, -1], lambda x: x.t()[0], lambda x: x[1].view(-1)[1:]])
def test_array_of_a_view_shares_memory_in_each_type(kind, view):
    x = lt.from_numpy(np.zeros((2, 3), kind))
    shown = view(x).numpy()
    x.fill_(1)
    assert (shown == 1).all()
    shown[...] = 0
    assert not view(x).bool().any()
    y = lt.from_numpy(np.zeros((2, 3), kind)).clone()
    shown = view(y).numpy()
    y += 1 if kind is not np.bool_ else True
    assert (shown == 1).all()
