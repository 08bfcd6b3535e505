"""`out=` and PyTorch's names of operands, on every public function alike."""

import numpy as np
import pytest

import lazytensor as lt
from lazytensor.errors import AutogradError, ShapeError
from lazytensor.functional.out_arguments import accept_torch_names


def test_result_is_written_and_returned():
    out = lt.zeros(2)
    alias = out[:1]
    assert lt.add(lt.ones(2), 2, out=out) is out
    assert (out.tolist(), alias.tolist()) == ([3, 3], [3])


def test_result_is_converted_to_the_type_of_the_output():
    out = lt.zeros(2, dtype=lt.float64)
    lt.mul(lt.tensor([1, 2]), 3, out=out)
    assert out.dtype is lt.float64 and out.tolist() == [3, 6]


def test_view_can_be_the_output():
    base = lt.zeros(2, 2)
    lt.sin(lt.zeros(2) + 1, out=base[1])
    np.testing.assert_allclose(base.numpy(), [[0, 0], [np.sin(1)] * 2], rtol=1e-6)


def test_operands_can_be_the_output():
    x = lt.tensor([1.0, 2.0])
    assert lt.exp2(x, out=x).tolist() == [2, 4] and x.tolist() == [2, 4]


def test_empty_output_takes_the_shape_and_shares_nothing():
    out, x = lt.empty(0), lt.tensor([1.0, 2.0])
    assert lt.abs(x, out=out) is out
    out += 1
    assert (out.tolist(), x.tolist()) == ([2, 3], [1, 2])


def test_several_results_go_to_a_tuple():
    values, places = lt.zeros(2), lt.zeros(2, dtype=lt.int64)
    for out in ((values, places), [values, places]):
        got = lt.max(lt.tensor([[1.0, 3.0], [5.0, 4.0]]), 1, out=out)
        assert got.values is values and got.indices is places and got is not out
        assert (values.tolist(), places.tolist()) == ([3, 5], [1, 0])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_tuple_of_another_length_is_refused_with_both_lengths(count):
    with pytest.raises(TypeError, match=f"must be a tuple of 2 tensors, not a tuple of {count}"):
        lt.max(lt.ones(2, 2), 1, out=(lt.zeros(2),) * count)


@pytest.mark.parametrize(
    "action, error",
    [
        (lambda: lt.add(lt.ones(2), 1, out=lt.zeros(3)), ShapeError),
        (lambda: lt.add(lt.ones(2), 1, out=lt.zeros(2, dtype=lt.int64)), ShapeError),
        (lambda: lt.add(lt.ones(2), 1, out=lt.zeros(0, dtype=lt.int64)), ShapeError),
        (lambda: lt.add(lt.tensor([1]), 1, out=lt.tensor([True])), ShapeError),
        (lambda: lt.add(lt.ones(2, requires_grad=True), 1, out=lt.zeros(2)), AutogradError),
        (lambda: lt.add(lt.ones(2), 1, out=lt.zeros(2, requires_grad=True)), AutogradError),
        (lambda: lt.cat([lt.ones(2, requires_grad=True)], out=lt.zeros(2)), AutogradError),
        (lambda: lt.add(lt.ones(2), 1, out=3), TypeError),
        (lambda: lt.max(lt.ones(2, 2), 1, out=lt.zeros(2)), TypeError),
        (lambda: lt.allclose(lt.ones(2), lt.ones(2), out=lt.zeros(2)), TypeError),
    ],
)
def test_unfit_output_is_refused(action, error):
    with pytest.raises(error):
        action()


def test_output_is_allowed_without_gradients():
    with lt.no_grad():
        out = lt.add(lt.ones(2, requires_grad=True), 1, out=lt.zeros(2))
    assert out.tolist() == [2, 2] and not out.requires_grad


def test_operands_are_called_input_and_other():
    a, b = lt.tensor([5.0]), lt.tensor([3.0])
    assert lt.sub(input=a, other=b).item() == lt.sub(a, other=b).item() == 2
    assert lt.clamp(input=a, max=2).item() == 2
    assert lt.hypot(input=lt.tensor([3.0]), other=lt.tensor([4.0])).item() == 5


T = lt.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
NUMPY = {
    "cat": (lambda: lt.cat([T, T], axis=1), lambda: lt.cat([T, T], dim=1)),
    "stack": (lambda: lt.stack([T], axis=1), lambda: lt.stack([T], dim=1)),
    "mean": (lambda: lt.mean(T, axis=1), lambda: lt.mean(T, dim=1)),
    "sum": (lambda: T.sum(axis=(0, 1), keepdims=True), lambda: T.sum(dim=(0, 1), keepdim=True)),
    "max": (lambda: T.max(axis=0)[1], lambda: T.max(dim=0)[1]),
    "softmax": (lambda: lt.softmax(x=T, axis=0), lambda: lt.softmax(T, dim=0)),
    "unsqueeze": (lambda: T.unsqueeze(axis=0), lambda: T.unsqueeze(dim=0)),
    "add": (lambda: lt.add(x1=T, x2=T), lambda: lt.add(T, T)),
    "mul": (lambda: T.mul(other=2), lambda: T * 2),
    "add_": (lambda: T.clone().add_(other=1), lambda: T + 1),
}


@pytest.mark.parametrize("name", NUMPY)
def test_names_of_numpy_are_taken_too(name):
    other, own = NUMPY[name]
    assert other().tolist() == own().tolist()


def test_unknown_keyword_is_still_refused():
    with pytest.raises(TypeError):
        lt.add(lt.ones(1), 1, beta=2)
    with pytest.raises(TypeError):
        T.sum(axes=0)


def test_function_with_its_own_out_is_left_alone():
    def own(x, out=None):
        return out

    assert accept_torch_names(own) is own


@pytest.mark.parametrize("function", [lt.exp, lt.sinc, lt.erfc, lambda x, out: lt.lerp(x, x, 0.5, out=out)])
def test_elementwise_function_refuses_an_output_that_shares_some_elements(function):
    base = lt.ones(4)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        function(base[:3], out=base[1:])
    assert base.tolist() == [1.0] * 4
