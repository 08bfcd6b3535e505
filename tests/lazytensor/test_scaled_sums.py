"""Sums with a scaled operand have PyTorch's bits, and its refusals of `alpha`."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import lazytensor as lt

SUMS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y, z, s: (lt.add(x, y, alpha=s), x, y, Fraction(s)),
    "sub": lambda x, y, z, s: (lt.sub(x, y, alpha=s), x, y, -Fraction(s)),
    "rsub": lambda x, y, z, s: (lt.rsub(y, x, alpha=s), x, y, -Fraction(s)),
    "add_": lambda x, y, z, s: (x.clone().add_(y, alpha=s), x, y, Fraction(s)),
    "add of a number": lambda x, y, z, s: (lt.add(lt.tensor(0.7, dtype=x.dtype), y, alpha=s), 0.7, y, Fraction(s)),
}


@pytest.mark.parametrize("dtype", [lt.float32, lt.float64])
@pytest.mark.parametrize("name", SUMS)
def test_scaled_sum_is_rounded_once(name: str, dtype: lt.dtype) -> None:
    draw = np.random.default_rng(1)
    x, y = (lt.tensor(draw.standard_normal(40), dtype=dtype) for _ in range(2))
    scale = lt.tensor(-4.775, dtype=dtype).item()
    result, a, b, factor = SUMS[name](x, y, None, scale)
    kind = np.float32 if dtype is lt.float32 else np.float64
    first = [Fraction(v) for v in (a.tolist() if isinstance(a, lt.Tensor) else [float(kind(a))] * 40)]
    expected = [float(kind(float(p + factor * Fraction(q)))) for p, q in zip(first, b.tolist(), strict=True)]
    assert result.tolist() == expected


@pytest.mark.parametrize("dtype", [lt.float32, lt.float64])
def test_products_in_sums_are_not_rounded(dtype: lt.dtype) -> None:
    draw = np.random.default_rng(2)
    x, a, b = (lt.tensor(draw.standard_normal(40), dtype=dtype) for _ in range(3))
    kind = np.float32 if dtype is lt.float32 else np.float64
    for value, product in ((1, a), (0.3, a * 0.3)):
        exact = [
            Fraction(p) + Fraction(q) * Fraction(r)
            for p, q, r in zip(*(t.tolist() for t in (x, product, b)), strict=True)
        ]
        assert lt.addcmul(x, a, b, value=value).tolist() == [float(kind(float(e))) for e in exact]


RECORDED: dict[str, tuple[Callable[..., Any], float, float, list[float]]] = {
    "bfloat16": (lt.sub, 3, 0.1, [-1.75, 1.78125, 0.27734375]),
    "float16": (lt.add, 1.7, 0.3, [-0.94287109375, 2.587890625, 1.087890625]),
    "float32": (lt.sub, -4.775, 0.3, [-0.020624915, 3.510625124, 2.010625124]),
}
"""By type: a function, a number, alpha, and PyTorch's results."""


@pytest.mark.parametrize("dtype", RECORDED)
def test_scaled_number_has_pytorchs_bits(dtype: str) -> None:
    function, number, alpha, expected = RECORDED[dtype]
    x = lt.tensor([-1.453125, 2.078125, 0.578125], dtype=getattr(lt, dtype))
    assert function(x, number, alpha=alpha).tolist() == lt.tensor(expected, dtype=x.dtype).tolist()


def test_float_with_a_bfloat16_operand_takes_alpha_in_float32() -> None:
    x, y = lt.tensor([-1.453125, -1.453125]), lt.tensor([-2.90625, -2.90625]).bfloat16()
    assert lt.add(x, y, alpha=-4.775).tolist() == [12.424219131469727] * 2


def test_infinite_and_large_float64_operands_are_taken() -> None:
    x = lt.tensor([1.0, float("inf"), 1e300, -1e308], dtype=lt.float64)
    assert lt.add(x, lt.tensor([2.0, 1.0, 1e300, 1e308], dtype=lt.float64), alpha=0.5).tolist() == [
        2.0,
        float("inf"),
        1.5e300,
        -5e307,
    ]


@pytest.mark.parametrize("function", [lt.add, lt.sub, lt.rsub])
@pytest.mark.parametrize(
    ("values", "alpha", "message"),
    [
        ([1, 2], True, "Boolean alpha only supported for Boolean results."),
        ([1.0, 2.0], False, "Boolean alpha only supported for Boolean results."),
        ([1, 2], 1.0, "argument alpha must not be a floating point number"),
        ([1, 2], 0.5, "argument alpha must not be a floating point number"),
    ],
)
def test_alpha_of_another_kind_is_refused(function: Any, values: list[float], alpha: float, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        function(lt.tensor(values), 1, alpha=alpha)


def test_gradients_of_a_scaled_sum_are_the_scales() -> None:
    x, y = lt.ones(3, requires_grad=True), lt.ones(3, requires_grad=True)
    lt.sub(x, y, alpha=0.25).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([1.0] * 3, [-0.25] * 3)
