"""Half tensors on the host give PyTorch's values: computed in float32, with numbers as they are, and rounded once.

Expected values are PyTorch 2.13's, by hand for single elements and by float32 arithmetic for drawn ones.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor.core.dtype import DType, round_to

HALVES = st.sampled_from((lt.bfloat16, lt.float16))
numbers = st.floats(-8, 8, width=32).filter(lambda x: abs(x) > 0.05)
elements = st.lists(numbers, min_size=1, max_size=40)


def half(values: list[float], dtype: DType) -> tuple[Any, np.ndarray]:
    """A half tensor and its elements in float32."""
    tensor = lt.tensor(values).to(dtype)
    return tensor, tensor.float().numpy()


SCALED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "x * a": (lambda x, a: x * a, lambda x, a: x * a),
    "a * x": (lambda x, a: a * x, lambda x, a: x * a),
    "x / a": (lambda x, a: x / a, lambda x, a: x / a),
    "x.mul_(a)": (lambda x, a: x.clone().mul_(a), lambda x, a: x * a),
    "x.div_(a)": (lambda x, a: x.clone().div_(a), lambda x, a: x / a),
    "x *= tensor(a)": (lambda x, a: x.clone().mul_(lt.tensor(a)), lambda x, a: x * a),
    "div trunc": (lambda x, a: lt.div(x, a, rounding_mode="trunc"), lambda x, a: np.trunc(x / a)),
    "full * a": (lambda x, a: lt.full_like(x, 1.5) * a, lambda x, a: np.float32(1.5) * a + 0 * x),
}


@pytest.mark.parametrize("name", SCALED)
@given(values=elements, a=numbers, dtype=HALVES)
def test_numbers_are_not_rounded_before_a_product(name: str, values: list[float], a: float, dtype: DType) -> None:
    ours, meaning = SCALED[name]
    x, exact = half(values, dtype)
    np.testing.assert_array_equal(ours(x, a).float().numpy(), round_to(meaning(exact, np.float32(a)), dtype))


@given(values=elements, a=numbers, dtype=HALVES)
def test_gradient_of_a_scaled_tensor_takes_the_number_unrounded(values: list[float], a: float, dtype: DType) -> None:
    x, exact = half(values, dtype)
    for scaled in (lambda t: t * a, lambda t: lt.zeros_like(t).add(t, alpha=a)):
        leaf = x.clone().requires_grad_()
        scaled(leaf).backward(x)
        np.testing.assert_array_equal(leaf.grad.float().numpy(), round_to(exact * np.float32(a), dtype))


@given(values=elements, a=numbers, dtype=HALVES)
def test_number_is_rounded_where_it_is_added_compared_or_stored(values: list[float], a: float, dtype: DType) -> None:
    x, exact = half(values, dtype)
    near = round_to(np.asarray(a, np.float32), dtype)
    np.testing.assert_array_equal((x + a).float().numpy(), round_to(exact + near, dtype))
    assert (lt.full_like(x, a) == a).all()
    assert not (lt.full_like(x, a) > a).any()
    np.testing.assert_array_equal(lt.where(x > x, x, a).float().numpy(), np.full_like(exact, near))


PRINTED: dict[str, tuple[Callable[..., Any], float]] = {
    "product": (lambda x: x * -4.775, -3.296875),
    "reversed product": (lambda x: -4.775 * x, -3.296875),
    "quotient": (lambda x: x / 3.3, 0.2099609375),
    "cube": (lambda x: x**3, 0.330078125),
    "inverse square": (lambda x: x**-2, 2.09375),
    "hardswish": (lambda x: lt.nn.functional.hardswish(x), 0.42578125),
    "selu": (lambda x: lt.nn.functional.selu(-x), -0.87890625),
    "lerp": (lambda x: lt.lerp(x, 3 * x, 0.3), 1.109375),
    "addcmul": (lambda x: lt.addcmul(x, x, x, value=0.3), 0.8359375),
    "addcdiv": (lambda x: lt.addcdiv(x, x + 1, x, value=0.3), 1.421875),
    "xlogy": (lambda x: lt.xlogy(x, x), -0.255859375),
    "addmm": (lambda x: lt.addmm(x, x.view(1, 1), x.view(1, 1), beta=0.3, alpha=0.7).squeeze(), 0.54296875),
}


@pytest.mark.parametrize("name", PRINTED)
def test_bfloat16_value_is_pytorchs(name: str) -> None:
    ours, value = PRINTED[name]
    assert ours(lt.tensor([0.69140625]).bfloat16()).item() == value


def test_scaled_sum_of_many_elements_is_rounded_once() -> None:
    x, y = lt.full((64,), 1.0078125).bfloat16(), lt.full((64,), 0.69140625).bfloat16()
    # 0.3 becomes 0.30078125, PyTorch's bfloat16 alpha; the product is not rounded.
    assert (
        x.add(y, alpha=0.3).tolist()
        == [float(round_to(np.asarray(1.0078125 + 0.69140625 * 0.30078125, "f"), lt.bfloat16))] * 64
    )


def test_mean_of_a_half_tensor_divides_its_gradient_by_the_exact_count() -> None:
    x = lt.zeros(257).bfloat16().requires_grad_()
    x.mean().backward(lt.tensor(1.0).bfloat16())
    assert x.grad[0].item() == float(round_to(np.asarray(1 / 257, "f"), lt.bfloat16))


def test_operands_of_unlike_types_are_refused_as_before() -> None:
    with pytest.raises(RuntimeError, match="same dtype"):
        lt.addmm(lt.ones(2, 2).bfloat16(), lt.ones(2, 2), lt.ones(2, 2))
