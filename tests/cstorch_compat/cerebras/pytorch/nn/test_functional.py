"""`cerebras.pytorch.nn.functional` on the CPU: recorded answers, and the same words where it asserts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazytensor as lt
from cstorch_compat.cerebras.pytorch.nn import functional as F
from cstorch_compat.names.mirror_modules import get_mirror
from lazytensor.errors import OperandInvalid

Scope = get_mirror("cerebras.pytorch.nn").Scope


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def _x() -> lt.Tensor:
    return lt.from_numpy(X.copy())


def test_answers_are_the_recorded_ones():
    assert F.one_hot(lt.tensor([[0, 2]]), 4).tolist() == [[[1, 0, 0, 0], [0, 0, 1, 0]]]
    assert F.one_hot(lt.tensor([0, 2]), 3).dtype is lt.int32
    assert F.bias_add(_x(), lt.tensor([1.0, 2.0]), 0).tolist() == [[1, 2, 3], [5, 6, 7]]
    assert F.nth_order_statistic(_x(), 2, 1).tolist() == [[0, 1, 1], [0, 1, 1]]
    assert F.nth_order_statistic(_x(), 1, 0).tolist() == [[0, 0, 0], [1, 1, 1]]
    assert F.nth_order_statistic(_x(), 1, 0).dtype is lt.int16
    assert F.matmul(_x(), lt.ones(3, 4)).tolist() == [[3.0] * 4, [12.0] * 4]
    held = F.conditional_arange(lt.tensor([True, False, True]), lt.tensor(1), lt.tensor(2))
    assert held.tolist() == [1, -1, 3] and held.dtype is lt.int64
    assert [t.tolist() for t in F.unbind(_x())] == X.tolist()


def test_scopes_change_nothing_and_let_gradients_through():
    x = _x().requires_grad_()
    y = F.exit_scope(F.enter_scope(x, "block") * 2, "block")
    y.sum().backward()
    assert y.tolist() == (2 * X).tolist() and x.grad.tolist() == np.full((2, 3), 2).tolist()


def test_a_scope_module_marks_both_boundaries():
    scope = Scope("block")
    x = _x().requires_grad_()
    y = scope.exit(scope(x) * 2)
    y.sum().backward()
    assert y.tolist() == (2 * X).tolist() and x.grad.tolist() == np.full((2, 3), 2).tolist()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6))
def test_one_hot_is_a_row_of_the_unit_matrix(numbers):
    assert np.array_equal(F.one_hot(lt.tensor(numbers), 5).numpy(), np.eye(5, dtype=np.int32)[numbers])


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: F.bias_add(_x(), lt.ones(3), -1), "`dim` must in"),
        (lambda: F.bias_add(_x(), lt.ones(2), 1), r"Expect bias.shape\[0\] == input_value.shape\[dim=1\]"),
        (lambda: F.matmul(_x(), lt.ones(4, 3)), r"Expect weight.shape\(1\) == input_value.shape\[0\]"),
        (lambda: F.one_hot(lt.tensor([0]), -1), "num_class argument to one_hot cannot be -1"),
        (lambda: F.nth_order_statistic(_x(), 4, 1), "k is 4, but dimension 1 has 3 elements"),
        (lambda: F.scope_boundary(_x(), "MIDDLE", "a"), "boundary type 'MIDDLE' is unknown"),
    ],
)
def test_bad_operands_are_refused_with_the_line(call, says):
    with pytest.raises(OperandInvalid, match=says) as caught:
        call()
    assert isinstance(caught.value, AssertionError) and "test_functional.py" in str(caught.value.where)
