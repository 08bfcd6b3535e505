"""Writes to some elements of a tensor happen at once; expected values are those of NumPy, errors those of PyTorch."""

import operator
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.autograd.function import grad
from lazytensor.errors import AutogradError, NumberTooLarge

SHAPE = (4, 3)
SCALARS = {
    "float32": (1.5, -2, True, -0.0, float("inf"), 2**53, 0.1),
    "float64": (1.5, -2, 0.1, 2**53),
    "int64": (3, -4, True, 2**62),
    "uint8": (0, 255, True),
    "bool": (True, False),
    "bfloat16": (1.5, -2, 0.25),
}
PARTS = st.one_of(
    st.integers(-3, 2),
    st.builds(slice, st.sampled_from((None, 0, 1, -2)), st.sampled_from((None, 2, -1)), st.sampled_from((None, 1, 2))),
)
INDICES = st.one_of(
    PARTS,
    st.tuples(PARTS, PARTS),
    st.tuples(PARTS, st.just(None), PARTS),
    st.tuples(st.just(...), PARTS),
    st.tuples(PARTS, st.just(...)),
)


def _host(dtype):
    return np.float32 if dtype == "bfloat16" else np.dtype(dtype)


class _Pair:
    """A tensor with its views and copies, and the NumPy arrays with the same elements."""

    def __init__(self, draw, dtype):
        self.draw, self.dtype = draw, dtype
        start = np.arange(12).reshape(SHAPE).astype(_host(dtype))
        made = draw(st.sampled_from(("full", "computed", "pending", "shared")))
        kind = getattr(lt, dtype)
        if made == "full":
            t, start = lt.zeros(SHAPE, dtype=kind), np.zeros_like(start)
        elif made == "shared" and dtype != "bfloat16":
            array = start.copy()
            t, start = lt.from_numpy(array), array
        else:
            t = lt.tensor(start.tolist(), dtype=kind)
            t = t.clone() if made == "computed" else lt.cat([t[:2], t[2:]])
        self.members = [(t, start)]

    def change(self):
        t, a = self.draw(st.sampled_from(self.members))
        if not a.ndim:
            return
        index = self.draw(INDICES)
        try:
            part = a[index]
        except IndexError:
            with pytest.raises(IndexError):
                t[index] = True
            return
        how = self.draw(st.sampled_from(("number", "row", "fill", "in place", "view", "clone", "read", "same")))
        number = self.draw(st.sampled_from(SCALARS[self.dtype]))
        if how == "number":
            t[index], a[index] = number, number
        elif how == "row":
            row = np.ones(part.shape[-1:], _host(self.dtype))
            t[index], a[index] = lt.tensor(row.tolist(), dtype=t.dtype), row
        elif how == "fill":
            t[index].fill_(number)
            a[index] = number
        elif how == "in place" and self.dtype != "bool":
            update = self.draw(st.sampled_from((operator.iadd, operator.isub, operator.imul)))
            number = self.draw(
                st.sampled_from((1, 3, 0.1) if a.dtype.kind == "f" and self.dtype != "bfloat16" else (1,))
            )
            t[index] = update(t[index], number)
            a[index] = update(a[index], np.asarray(number, a.dtype))
        elif how == "view" and isinstance(part, np.ndarray):
            self.members.append((t[index], part))
        elif how == "clone":
            self.members.append((t.clone(), a.copy()))
        elif how == "read":
            assert t.tolist() == a.tolist()
        elif how == "same":
            t[index] = t[index]


@given(st.sampled_from(tuple(SCALARS)), st.data())
def test_writes_through_all_aliases_agree_with_numpy(dtype, data):
    pair = _Pair(data.draw, dtype)
    for _ in range(data.draw(st.integers(1, 12))):
        pair.change()
    for t, a in pair.members:
        assert t.tolist() == a.tolist()


@given(st.data())
def test_values_computed_before_a_write_stay(data):
    x = lt.zeros(SHAPE) if data.draw(st.booleans()) else lt.arange(12.0).reshape(SHAPE).clone()
    seen = []
    for k in range(data.draw(st.integers(1, 6))):
        seen.append((x * 1, x[1:] + 0, x.clone(), np.array(x.tolist())))
        x[data.draw(INDICES.filter(lambda i: not isinstance(i, tuple)))] = k + 0.5
    for product, part, copy, values in seen:
        assert product.tolist() == values.tolist() == copy.tolist() and part.tolist() == values[1:].tolist()


WRITES = {
    "number": lambda x: x.__setitem__(0, 5.0),
    "tensor": lambda x: x.__setitem__(slice(1, 3), lt.ones(2)),
    "view": lambda x: x[:2].add_(1),
    "in place": lambda x: x.__setitem__(1, x[1] + 1),
}


@pytest.mark.parametrize("first", WRITES)
@pytest.mark.parametrize("second", WRITES)
def test_backward_refuses_a_saved_tensor_that_is_written_later(first, second):
    weight, x = lt.ones(3, requires_grad=True), lt.zeros(3)
    WRITES[first](x)
    loss = (weight * x).sum()
    expected = x.tolist()
    copy = x.clone()
    WRITES[second](copy)
    (gradient,) = grad(loss, weight, retain_graph=True)
    assert gradient.tolist() == expected
    WRITES[second](x)
    with pytest.raises(AutogradError, match="modified by an inplace operation"):
        loss.backward()


def test_equal_value_written_again_is_still_a_write():
    weight, x = lt.ones(2, requires_grad=True), lt.from_numpy(np.zeros(4, np.float32))
    part = x[:2]
    assert part.tolist() == [0, 0]
    x[0] = 0.0
    (weight * part).sum().backward()
    assert weight.grad.tolist() == [0, 0]


def test_versions_count_each_write_once_also_of_no_elements():
    x = lt.zeros(3, 2)
    x[0, 1] = 1.0
    x[1:1] = 2.0
    x[2] += 1  # an addition in place and an assignment
    x[:] = 4.0
    assert x._version == 5


def test_number_beyond_the_range_is_refused():
    x, half = lt.zeros(3), lt.zeros(3, dtype=lt.bfloat16)
    for index in (0, slice(1, None), ..., lt.tensor([True, False, True])):
        with pytest.raises(NumberTooLarge):
            x[index] = 1e300
    half[0] = 1e300
    assert x.tolist() == [0, 0, 0] and half.tolist() == [float("inf"), 0, 0]


@pytest.mark.parametrize("index", [3, (0, 0), (..., 0, 0), slice(None, None, -1)])
def test_refused_index_leaves_tensor_and_gradient(index):
    weight, x = lt.ones(3, requires_grad=True), lt.arange(3.0).clone()
    loss = (weight * x).sum()
    with pytest.raises((IndexError, ValueError)):
        x[index] = 1.0
    loss.backward()
    assert x.tolist() == [0, 1, 2] and weight.grad.tolist() == [0, 1, 2] and x._version == 0


def _add_one(x, i):
    x[i] += 1.0


@pytest.mark.parametrize("use", [lambda x, i: x.__setitem__(i, 1.0), _add_one, lambda x, i: x[i].item()])
def test_use_of_an_element_does_not_copy_the_storage(use):
    def seconds(size):
        x = lt.zeros(size)
        x[0] = 1.0
        began = time.perf_counter()
        for i in range(200):
            use(x, i)
        return time.perf_counter() - began

    # A copy of the large storage would make the uses a thousand times as slow.
    assert min(seconds(10_000_000) for _ in range(3)) < 20 * max(seconds(1000) for _ in range(3))


def test_gradient_of_a_repeated_backward_pass_is_written_into_a_slice():
    weight = lt.tensor([1.0, 2.0], requires_grad=True)
    columns = lt.zeros(2, 4)
    for i in range(4):
        (gradient,) = grad((weight.tanh() * 3.0).square().sum(), weight)
        columns[..., i] = gradient
    # The derivative of 9 tanh(w)^2 is 18 tanh(w) (1 - tanh(w)^2).
    expected = 18 * np.tanh([1.0, 2.0]) * (1 - np.tanh([1.0, 2.0]) ** 2)
    np.testing.assert_allclose(columns.numpy(), np.stack([expected] * 4, -1), rtol=1e-5)
