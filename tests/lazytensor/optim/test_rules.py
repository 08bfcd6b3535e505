"""A planned step records the update that a loop computes: rules give the same numbers of arrays and of tensors."""

import numpy as np
import pytest

import lazytensor as lt
from lazytensor.nn import Parameter
from lazytensor.optim import eager

KINDS = [
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"maximize": True}),
    ("Adamax", {}),
    ("NAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("RAdam", {"weight_decay": 0.1}),
    ("ASGD", {"t0": 2}),
    ("Adagrad", {"lr_decay": 0.1}),
    ("RMSprop", {"momentum": 0.5, "centered": True}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("Rprop", {"maximize": True}),
]


@pytest.mark.parametrize(("name", "settings"), KINDS)
@pytest.mark.parametrize("shape", [(2, 3), ()])
def test_rules_give_the_same_numbers_of_arrays_and_of_tensors(name, settings, shape):
    rng = np.random.default_rng(1)
    p = Parameter(lt.tensor(rng.normal(size=shape).astype(np.float32)))
    optimizer = getattr(eager, name)([p], lr=0.1, **settings)
    for _ in range(7):
        before = p.detach().clone()
        state = {
            k: v.item() if v.dim() == 0 and k in ("step", "eta", "mu", "mu_product") else v.clone()
            for k, v in optimizer.state.get(p, {}).items()
        }
        p.grad = lt.tensor(rng.normal(size=shape).astype(np.float32))
        optimizer.step()
        if not state:
            continue
        if "step" in state:
            state["step"] += 1.0
        with lt.no_grad():
            expected = optimizer.rule(optimizer.param_groups[0], before, p.grad, state)
        np.testing.assert_allclose(p.detach().numpy(), expected.numpy(), rtol=1e-5, atol=1e-7)
        for key, value in optimizer.state[p].items():
            wanted = state[key].numpy() if isinstance(state[key], lt.Tensor) else state[key]
            np.testing.assert_allclose(value.numpy(), wanted, rtol=1e-5, atol=1e-7)


def test_radam_takes_betas_for_which_the_trust_of_the_paper_divides_by_zero():
    p = Parameter(lt.ones(2))
    optimizer = eager.RAdam([p], lr=0.1, betas=(0.9, 0.6))
    p.grad = lt.ones(2)
    optimizer.step()
    np.testing.assert_allclose(p.tolist(), [0.9, 0.9], rtol=1e-6)


@pytest.mark.parametrize("name", ["Adam", "Adagrad", "NAdam", "RMSprop", "ASGD"])
def test_settings_that_are_numpy_numbers_give_the_bits_of_plain_ones(name):
    found = []
    for number in (float, np.float64):
        p = Parameter(lt.tensor([1.0, -2.0, 0.3]))
        optimizer = getattr(eager, name)([p], lr=number(0.1), weight_decay=number(0.01))
        for k in range(6):
            p.grad = lt.tensor([0.37 * (k + 1), -0.11, 0.05 * k])
            optimizer.step()
        found.append(p.tolist())
    assert found[0] == found[1]
