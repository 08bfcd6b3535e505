"""Gradients through tensors: they are slopes, they add up, and they stop where they should."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.autograd.function import Function
from lazytensor.core.tensor import grad_mode
from lazytensor.errors import AutogradError
from tests.lazytensor.tensor_programs import follow, smooth_programs

STEP = 1e-5
SHAPES = ((2, 3), (3,), (2, 3))


def doubles(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.uniform(-1, 1, s) for s in SHAPES]


def leaf(*values: float, **options) -> lt.Tensor:
    return lt.tensor(values, requires_grad=True, **options)


@settings(max_examples=80, deadline=None)
@given(smooth_programs(), st.integers(0, 2**32 - 1))
def test_gradient_is_the_slope_of_a_random_program(program, seed):
    rng = np.random.default_rng(seed)
    at, along = doubles(rng), doubles(rng)
    xs = [lt.tensor(a, requires_grad=True) for a in at]
    follow(program, xs).backward()
    derived = sum(np.vdot(x.grad.numpy(), u) for x, u in zip(xs, along, strict=True) if x.grad is not None)
    ahead, behind = (
        follow(program, [lt.tensor(a + s * u) for a, u in zip(at, along, strict=True)]).item() for s in (STEP, -STEP)
    )
    assert derived == pytest.approx((ahead - behind) / (2 * STEP), rel=1e-5, abs=1e-7)


@settings(max_examples=25, deadline=None)
@given(smooth_programs(5), st.integers(0, 2**32 - 1))
def test_second_derivative_is_the_slope_of_the_first(program, seed):
    rng = np.random.default_rng(seed)
    at, along, weight = doubles(rng), doubles(rng), doubles(rng)[0]

    def slope(values: list[np.ndarray]) -> tuple[lt.Tensor, list[lt.Tensor]]:
        xs = [lt.tensor(a, requires_grad=True) for a in values]
        follow(program, xs).backward(create_graph=True)
        return (xs[0].grad * lt.tensor(weight)).sum(), xs

    first, xs = slope(at)
    before = [x.grad.numpy(force=True).copy() if x.grad is not None else 0 for x in xs]
    first.backward()
    added = [x.grad.numpy(force=True) - b for x, b in zip(xs, before, strict=True) if x.grad is not None]
    kept = [u for x, u in zip(xs, along, strict=True) if x.grad is not None]
    ahead, behind = (slope([a + s * u for a, u in zip(at, along, strict=True)])[0].item() for s in (STEP, -STEP))
    derived = sum(np.vdot(g, u) for g, u in zip(added, kept, strict=True))
    assert derived == pytest.approx((ahead - behind) / (2 * STEP), rel=1e-4, abs=1e-6)


def test_gradients_accumulate_until_they_are_forgotten():
    x = leaf(1.0, -2.0)
    for k in (1, 2, 3):
        (x * x).sum().backward()
        assert x.grad.tolist() == [2.0 * k, -4.0 * k]
    x.grad = None
    (3 * x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_equal_parameters_keep_separate_gradients():
    a, b = lt.zeros(2, requires_grad=True), lt.zeros(2, requires_grad=True)
    (2 * a + 5 * b).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([2.0, 2.0], [5.0, 5.0])


def test_memo_does_not_mix_seeds():
    x = leaf(1.0, 2.0)
    y = x * x
    found = []
    for seed in ([1.0, 0.0], [0.0, 1.0], [1.0, 0.0]):
        x.grad = None
        y.backward(gradient=lt.tensor(seed), retain_graph=True)
        found.append(x.grad.tolist())
    assert found == [[2.0, 0.0], [0.0, 4.0], [2.0, 0.0]]


def test_broadcasting_sums_gradients_to_the_shape_of_the_operand():
    row, column = lt.ones(1, 3, requires_grad=True), lt.ones(2, 1, requires_grad=True)
    (row * column * lt.arange(6.0).reshape(2, 3)).sum().backward()
    assert row.grad.tolist() == [[3.0, 5.0, 7.0]]
    assert column.grad.tolist() == [[3.0], [12.0]]


def test_nothing_is_recorded_in_no_grad_except_in_enable_grad():
    x = leaf(2.0)
    with lt.no_grad():
        silent = x * 3
        with lt.enable_grad():
            loud = x * 3
    assert not silent.requires_grad and silent.is_leaf
    assert loud.requires_grad and not loud.is_leaf


@pytest.mark.parametrize("decorate", [lt.no_grad, lt.no_grad(), lt.inference_mode, lt.inference_mode()])
def test_no_grad_decorates(decorate):
    x = leaf(2.0)
    assert not decorate(lambda: x * 3)().requires_grad
    assert (x * 3).requires_grad


def test_detached_tensor_shares_storage_and_stops_the_gradient():
    x = leaf(2.0, 3.0)
    y = x * x.detach()
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 3.0]
    x.detach()[0] = 7.0
    assert x.tolist() == [7.0, 3.0]


def test_gradient_flows_through_views_of_a_leaf():
    x = lt.arange(6.0).requires_grad_()
    (x.reshape(2, 3)[1, ::2] * lt.tensor([2.0, 5.0])).sum().backward()
    assert x.grad.tolist() == [0, 0, 0, 2.0, 0, 5.0]


def test_gradient_follows_a_write_through_a_view():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    y[0] = 5.0
    y[1:].mul_(4)
    (y * y).sum().backward()
    assert x.grad.tolist() == [0.0, 64.0, 96.0]


def test_written_value_receives_its_gradient():
    value = leaf(3.0)
    base = lt.zeros(2, 2)
    base[1] = value
    (base * lt.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert value.grad.tolist() == [7.0]


def test_leaf_can_be_changed_in_place_only_without_recording():
    x = leaf(1.0)
    with pytest.raises(AutogradError, match=r"test_grad_recording\.py:\d+: a leaf Variable that requires grad"):
        x.add_(1)
    with pytest.raises(AutogradError, match="a leaf Variable"):
        x[0] = 3.0
    with lt.no_grad():
        x.add_(1)
    assert x.tolist() == [2.0] and x.requires_grad


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda: leaf(1.0, 2.0).backward(), "grad can be implicitly created only for scalar outputs"),
        (lambda: (leaf(1.0, 2.0) * 2).backward(), "grad can be implicitly created only for scalar outputs"),
        (lambda: lt.ones(1).sum().backward(), "element 0 of tensors does not require grad"),
        (lambda: lt.tensor([1, 2], requires_grad=True), "only Tensors of floating point dtype can require gradients"),
        (lambda: lt.ones(2).long().requires_grad_(), "only Tensors of floating point dtype can require gradients"),
        (lambda: (leaf(1.0) * 2).requires_grad_(False), "you can only change requires_grad flags of leaf variables"),
        (lambda: leaf(1.0).numpy(), r"Can't call numpy\(\) on Tensor that requires grad"),
        (lambda: (leaf(1.0, 2.0) * 2).backward(lt.ones(3)), "Mismatch in shape"),
    ],
)
def test_error_says_what_is_wrong_and_where(ask, message):
    with pytest.raises(RuntimeError, match=r"test_grad_recording\.py:\d+: .*" + message) as caught:
        ask()
    assert isinstance(caught.value, AutogradError)


def test_integer_paths_carry_no_gradient():
    x = leaf(1.5, 2.5)
    (x * x.long()).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0]
    assert not x.argmax().requires_grad and not (x > 1).requires_grad


def test_gradient_has_the_dtype_of_its_leaf():
    x = lt.ones(3, dtype=lt.bfloat16, requires_grad=True)
    (x.float() * 2).sum().backward()
    assert x.grad.dtype is lt.bfloat16 and x.grad.tolist() == [2.0] * 3


def test_stopping_a_leaf_stops_its_gradient():
    x, y = leaf(1.0), leaf(2.0)
    x.requires_grad_(False)
    (x * y).sum().backward()
    assert x.grad is None and y.grad.tolist() == [1.0]


def test_gradient_is_asked_after_the_value_was_read():
    x = leaf(3.0)
    loss = (x * x).sum()
    assert loss.item() == 9.0
    loss.backward()
    with grad_mode(False):
        x.sub_(x.grad)
    assert x.tolist() == [-3.0] and x.grad.tolist() == [6.0]


def test_empty_tensors_have_empty_gradients():
    x = lt.zeros(0, 3, requires_grad=True)
    ((x * 2).sum() + (x.sum(0) * 3).sum()).backward()
    assert x.grad.shape == (0, 3)


@pytest.mark.parametrize("convert", [lambda x: x.int(), lambda x: x.to(lt.bool_), lambda x: (x * 2).to(lt.int8)])
def test_integers_and_truth_values_of_a_leaf_require_no_grad(convert):
    converted = convert(lt.ones(3, requires_grad=True))
    assert not converted.requires_grad
    assert converted.is_leaf


def test_custom_function_that_changes_a_leaf_is_refused():
    class Doubled(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(AutogradError, match="a leaf Variable that requires grad"):
        Doubled.apply(lt.ones(2, requires_grad=True))
