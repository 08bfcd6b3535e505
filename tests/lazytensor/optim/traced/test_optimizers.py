"""The optimizers beyond SGD and Adam: recorded trajectories, refusals, and what Muon promises."""

import json
import pathlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazytensor as lt
from lazytensor import nn, optim
from lazytensor.optim.matrix_rules import orthogonalized

GOLDEN = pathlib.Path(__file__).parents[3] / "golden"
CASES = json.loads((GOLDEN / "cstorch_optimizers.json").read_text())["cases"]
ARRAYS = np.load(GOLDEN / "cstorch_optimizers.npz")
RECORDED = (0, 1, 9, 19)
TOLERANCE = 2e-5
"""Twenty float32 steps: products are rounded in another order than in the recording."""


@given(rows=st.integers(1, 6), columns=st.integers(1, 6), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=20)
def test_orthogonalized_moves_singular_values_towards_one(rows, columns, seed):
    x = np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)
    u, s, v = np.linalg.svd(x, full_matrices=False)
    if s.min() < 0.1 * np.linalg.norm(s):
        return  # five rounds do not lift the smallest values all the way
    got = orthogonalized(lt.tensor(x), 5).numpy()
    np.testing.assert_allclose(np.linalg.svd(got, compute_uv=False), 1, atol=0.35)
    aligned = u.T @ got @ v.T
    np.testing.assert_allclose(aligned, np.diag(np.diag(aligned)), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_optimizer_follows_the_recorded_trajectory(case):
    spec = CASES[case]
    params = [nn.Parameter(lt.tensor(ARRAYS[f"p0_{i}"])) for i in (0, 1)]
    kwargs = {k: tuple(v) if isinstance(v, list) else v for k, v in spec["kwargs"].items()}
    optimizer = getattr(optim, spec["class"])(params, **kwargs)
    for step in range(20):
        for i, p in enumerate(params):
            p.grad = lt.tensor(ARRAYS[f"grad_{i}"][step])
        optimizer.step()
        if step in RECORDED:
            for i, p in enumerate(params):
                want = ARRAYS[f"{case}/{i}"][RECORDED.index(step)]
                np.testing.assert_allclose(p.detach().numpy(), want, rtol=TOLERANCE, atol=TOLERANCE)
    saved = optimizer.state_dict()
    assert sorted(saved["state"].get(0, {})) == spec["state"]
    assert sorted(saved["state"].get(1, {})) == spec["matrix_state"]
    assert sorted(k for k in saved["param_groups"][0] if k != "params") == spec["group"]


FOUR_STEPS = {
    "Adam": ({}, -0.191560924),
    "AdamW": ({"correct_bias": False}, -0.847393811),
    "Adamax": ({}, -0.152004495),
    "NAdam": ({}, -0.170228571),
    "RAdam": ({}, -0.117574304),
    "Lamb": ({}, -0.183020934),
    "Adadelta": ({}, -0.000707549276),
    "RMSprop": ({}, -1.47937918),
}
"""Arguments, and a weight from 0 after the gradients 0.37, 0.74, 1.11 and 0.37, as release 2.10 gives it on its CPU."""


@pytest.mark.parametrize("kind", FOUR_STEPS)
def test_steps_on_the_cpu_are_the_recorded_ones_to_float32_rounding(kind):
    arguments, want = FOUR_STEPS[kind]
    p = nn.Parameter(lt.zeros(1))
    optimizer = getattr(optim, kind)([p], lr=0.05, **arguments)
    for factor in (1, 2, 3, 1):
        p.grad = lt.tensor([0.37 * factor])
        optimizer.step()
    np.testing.assert_allclose(p.item(), want, rtol=1e-6)


def test_radam_is_the_recorded_one_to_float32_rounding_after_its_warm_up():
    p = nn.Parameter(lt.zeros(1))
    optimizer = optim.RAdam([p], lr=0.05)
    for factor in (1, 2, 3, 1, 2, 3, 1, 2):
        p.grad = lt.tensor([0.37 * factor])
        optimizer.step()
    np.testing.assert_allclose(p.item(), -0.155741483, rtol=2e-6)


@pytest.mark.parametrize("rate", [0.5, 0.01])
@pytest.mark.parametrize(
    "kind", ["SGD", "Adagrad", "Adadelta", "RMSprop", "Lion", "Lamb", "NAdam", "Adafactor", "Muon"]
)
def test_a_rate_that_is_a_tensor_gives_the_same_step(kind, rate):
    found = []
    for lr in (rate, lt.tensor(rate) * 1.0):
        p = nn.Parameter(lt.tensor(ARRAYS["p0_1"]))
        optimizer = getattr(optim, kind)([p], lr=lr)
        p.grad = lt.tensor(ARRAYS["grad_1"][0])
        optimizer.step()
        found.append(p.detach().numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("Adagrad", {"lr": -1}, "Invalid learning rate: -1"),
        ("Adadelta", {"rho": 1.5}, "Invalid rho value: 1.5"),
        ("Adamax", {"betas": (0.9, 1.0)}, r"should be in \[0.0, 1.0\)"),
        ("RMSprop", {"alpha": -1}, "Invalid alpha value: -1"),
        ("Lamb", {"eps": -1}, "Invalid epsilon value: -1"),
        ("Lion", {"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
        ("NAdam", {"momentum_decay": -1}, "Invalid momentum_decay value: -1"),
        ("Adafactor", {"lr": 0.1, "relative_step": True}, "Cannot combine manual `lr`"),
        ("Adafactor", {"lr": 0.1, "warmup_init": True}, "`warmup_init=True` is not supported yet"),
        ("Adafactor", {"lr": 0.1, "beta1": 0.9}, "Only `beta1=None` is supported now. It was set to 0.9"),
        ("Adafactor", {"lr": 0.1, "clip_threshold": 2.0}, "Only `clip_threshold=1.0` is supported"),
        ("Adafactor", {"lr": None, "relative_step": True, "warmup_init": True}, "is not supported yet"),
        ("Muon", {"lr": -1}, "Invalid learning rate: -1 - should be >= 0.0"),
        ("Muon", {}, "two or more dimensions"),
    ],
)
def test_bad_settings_are_refused(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        getattr(optim, kind)([nn.Parameter(lt.ones(2))], **settings)
