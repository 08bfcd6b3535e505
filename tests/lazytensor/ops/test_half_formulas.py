"""Formulas of half operands are rounded once, in compiled programs too."""

import numpy as np
import pytest

import lazytensor as lt
from lazytensor.nn import functional

FORMULAS = {
    "norm": lambda x: x.norm(dim=1),
    "norm_of_all": lambda x: x.norm(dim=(0, 1), keepdim=True),
    "softplus": functional.softplus,
    "mish": functional.mish,
}


@pytest.mark.parametrize("dtype", [lt.bfloat16, lt.float16], ids=str)
@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_in_a_program_has_the_rounded_float32_value(name, dtype):
    formula = FORMULAS[name]
    values = np.random.default_rng(0).normal(size=(16, 72)).astype(np.float32)
    x = lt.tensor(values).to(dtype)
    expected = formula(x.float()).to(dtype).float().numpy()
    x = lt.tensor(values).to(dtype)
    result = formula(x)
    # The product makes one compiled program of the formula and its users.
    scaled = x / (result.sum() + 3)
    (scaled @ scaled.mT).sum().item()
    np.testing.assert_array_equal(result.float().numpy(), expected)


def test_the_gradient_of_softplus_is_rounded_once():
    values = np.random.default_rng(1).normal(size=(64, 32)).astype(np.float32)
    x = lt.tensor(values).bfloat16().requires_grad_()
    functional.softplus(x).backward(lt.ones(64, 32).bfloat16())
    wide = x.detach().float().requires_grad_()
    functional.softplus(wide).backward(lt.ones(64, 32))
    np.testing.assert_array_equal(x.grad.float().numpy(), wide.grad.bfloat16().float().numpy())
