"""Functions that create tensors take the keywords of PyTorch 2.13.0, where the expected ones were recorded."""

import pytest

import lazytensor as lt
from cstorch_compat.names.mirror_modules import get_mirror
from lazytensor.errors import ArgumentInvalid, AutogradError, OptionMissing

X = lt.ones(2)
FLOATS = {
    "full": ((2,), 1.0),
    "eye": (2,),
    "linspace": (0, 1, 3),
    "logspace": (0, 1, 3),
    "zeros": (2,),
    "ones": (2,),
    "empty": (2,),
    "rand": (2,),
    "randn": (2,),
    "scalar_tensor": (1.0,),
    "hann_window": (4,),
    "bartlett_window": (4,),
    "kaiser_window": (4,),
}
LIKE = {"zeros_like": (X,), "ones_like": (X,), "full_like": (X, 1.0), "rand_like": (X,), "randn_like": (X,)}
INTEGERS = {"arange": (3,), "randint": (3, (2,)), "randperm": (3,), "tril_indices": (2, 2)}
torch = get_mirror("torch")


@pytest.mark.parametrize(("name", "args"), [*FLOATS.items(), *LIKE.items(), ("randint_like", (X, 3))])
def test_requires_grad_is_set_on_the_result(name, args):
    assert getattr(torch, name)(*args, requires_grad=True).requires_grad
    assert not getattr(torch, name)(*args, requires_grad=False).requires_grad


@pytest.mark.parametrize(("name", "args"), INTEGERS.items())
def test_integers_require_no_grad(name, args):
    with pytest.raises(AutogradError, match="floating point"):
        getattr(torch, name)(*args, requires_grad=True)


@pytest.mark.parametrize(("name", "args"), [*FLOATS.items(), *LIKE.items(), *INTEGERS.items()])
def test_layout_and_pinned_memory_change_nothing(name, args):
    function = getattr(torch, name)
    plain, spelled = function(*args), function(*args, layout=torch.strided, pin_memory=False, device="cpu")
    assert (plain.shape, plain.dtype) == (spelled.shape, spelled.dtype)


@pytest.mark.parametrize(("name", "args"), LIKE.items())
def test_copies_of_a_shape_take_another_type(name, args):
    made = getattr(torch, name)(*args, dtype=torch.float64, memory_format=torch.preserve_format)
    assert (made.dtype, made.shape) == (torch.float64, X.shape)


@pytest.mark.parametrize(("name", "args"), [*FLOATS.items(), *LIKE.items(), *INTEGERS.items()])
def test_unknown_keyword_is_a_type_error(name, args):
    with pytest.raises(TypeError, match="unexpected keyword argument 'no_such'"):
        getattr(torch, name)(*args, no_such=1)


@pytest.mark.parametrize("name", ["new_zeros", "new_ones", "new_empty"])
def test_methods_take_the_same_keywords(name):
    made = getattr(X, name)((3,), requires_grad=True, layout=torch.strided, pin_memory=False)
    assert made.requires_grad and made.shape == (3,)
    with pytest.raises(ArgumentInvalid, match="no_such"):
        getattr(X, name)((3,), no_such=1)


def test_layout_that_is_not_strided_is_refused():
    with pytest.raises(OptionMissing, match="creates only strided tensors"):
        lt.zeros(2, layout=torch.sparse_coo)


def test_second_positional_bool_of_to_is_copy():
    assert X.to(lt.float32, True) is X
    copied = X.to(lt.float32, False, True)
    copied[0] = 5
    assert X.tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match="no_such"):
        X.to(lt.float32, no_such=1)


def test_as_tensor_of_a_tensor_converts_as_to_does():
    weight = lt.ones(2, requires_grad=True)
    assert lt.as_tensor(weight) is weight and lt.as_tensor(weight, dtype=lt.float32, device="cpu") is weight
    assert lt.as_tensor(weight, device="meta").device.type == "meta"
    lt.as_tensor(weight, dtype=lt.float64).sum().backward()
    assert weight.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("step", [0, -1])
def test_step_of_slice_scatter_is_positive(step):
    with pytest.raises(RuntimeError, match="slice step must be positive"):
        lt.slice_scatter(lt.ones(3), lt.ones(0), 0, 2, 2, step)
