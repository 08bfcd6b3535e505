"""PyTorch's optimizers and schedules: the trajectories, rates and state dicts that PyTorch has."""

import copy
import json
import pathlib

import numpy as np
import pytest

import lazytensor as lt
from lazytensor.core.capture import Capture
from lazytensor.errors import TraceError
from lazytensor.optim import eager, lr_cycle, lr_scheduler
from lazytensor.runtime.state_store import Store
from tests.golden import record_torch_optim as cases
from tests.lazytensor.live_nodes import live_nodes

GOLDEN = pathlib.Path(__file__).parents[3] / "golden"
TRAJECTORIES = np.load(GOLDEN / "torch_optim.npz")
RATES = json.loads((GOLDEN / "torch_schedules.json").read_text())
FLOAT32_TOLERANCE = 2e-5
"""Relative: 20 float32 steps whose roundings come in another order."""


class schedules:
    """Both modules under one name, as torch.optim.lr_scheduler has them."""


for _module in (lr_scheduler, lr_cycle):
    for _name, _value in vars(_module).items():
        setattr(schedules, _name, _value)


@pytest.mark.parametrize("name", cases.OPTIMIZERS)
def test_trajectory_is_that_of_pytorch(name):
    ours = cases.trajectory(lt.tensor, eager, *cases.OPTIMIZERS[name])
    np.testing.assert_allclose(ours, TRAJECTORIES[name], rtol=FLOAT32_TOLERANCE, atol=1e-6)


@pytest.mark.parametrize("name", cases.builders())
def test_rates_are_those_of_pytorch(name):
    ours = cases.rates(lt.tensor, eager, schedules, cases.builders()[name])
    np.testing.assert_allclose(ours, RATES[name], rtol=1e-12)


def test_rates_of_a_cycle_whose_height_falls_are_those_of_pytorch_in_the_last_bit():
    optimizer = eager.SGD([lt.tensor(cases.START, requires_grad=True)], lr=0.5, momentum=0.9)
    schedule = lr_cycle.CyclicLR(optimizer, 0.1, 0.9, 3, mode="exp_range", gamma=0.93)
    seen = []
    for _ in range(22):
        optimizer.step()
        schedule.step()
        seen.append(optimizer.param_groups[0]["lr"])
    recorded = [0.3480000000000001, 0.2670036275776008, 0.22492739928671596, 0.20804970764308064]
    assert [seen[i] for i in (0, 15, 19, 21)] == recorded


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adadelta", "NAdam", "RAdam", "ASGD", "Rprop"])
def test_state_goes_on_after_loading(name):
    def run(p, o, steps):
        for g in steps:
            p.grad = lt.tensor(g)
            o.step()

    kind, gradients = getattr(eager, name), cases.gradients()
    options = {"momentum": 0.9} if name == "SGD" else {}
    p = lt.tensor(cases.START, requires_grad=True)
    o = kind([p], lr=0.1, **options)
    run(p, o, gradients[:5])
    q = p.detach().clone().requires_grad_()
    twin = kind([q], lr=9.0)
    twin.load_state_dict(copy.deepcopy(o.state_dict()))
    for pair in ((p, o), (q, twin)):
        run(*pair, gradients[5:9])
    assert p.tolist() == q.tolist()


@pytest.mark.parametrize("name", sorted(set(cases.SCHEDULES) - {"ReduceLROnPlateau"}))
def test_schedule_goes_on_after_loading(name):
    def made():
        o = eager.SGD([lt.tensor(cases.START, requires_grad=True)], lr=0.5, momentum=0.9)
        o.step()
        return o, cases.builders()[name](schedules, o)

    (o, schedule), (p, twin) = made(), made()
    for _ in range(5):
        schedule.step()
    twin.load_state_dict(schedule.state_dict())
    p.load_state_dict(o.state_dict())
    for _ in range(6):
        schedule.step()
        twin.step()
        assert twin.get_last_lr() == schedule.get_last_lr() == [o.param_groups[0]["lr"]]


# The names that PyTorch 2.13 saves, for each optimizer with its defaults.
STATE_NAMES = {
    "SGD": [],
    "Adam": ["step", "exp_avg", "exp_avg_sq"],
    "Adagrad": ["step", "sum"],
    "RMSprop": ["step", "square_avg"],
    "Adadelta": ["step", "square_avg", "acc_delta"],
    "Adamax": ["step", "exp_avg", "exp_inf"],
    "NAdam": ["step", "mu_product", "exp_avg", "exp_avg_sq"],
    "ASGD": ["step", "eta", "mu", "ax"],
    "Rprop": ["step", "prev", "step_size"],
}


@pytest.mark.parametrize("name", STATE_NAMES)
def test_state_has_the_names_of_pytorch(name):
    p = lt.tensor([1.0, 2.0], requires_grad=True)
    o = getattr(eager, name)([p], lr=0.1)
    p.grad = lt.ones(2)
    o.step()
    saved = o.state_dict()
    state = saved["state"].get(0, {})
    assert sorted(state) == sorted(STATE_NAMES[name]) and saved["param_groups"][0]["params"] == [0]
    assert all(v.dtype is lt.float32 and v.shape in ((), (2,)) for v in state.values())


@pytest.mark.parametrize(
    "build",
    [
        lambda p: eager.SGD([p], lr=-1),
        lambda p: eager.SGD([p], lr=1, nesterov=True),
        lambda p: eager.Adam([p], betas=(1.0, 0.5)),
        lambda p: eager.Rprop([p], etas=(2, 3)),
        lambda p: eager.Adadelta([p], rho=2),
        lambda p: eager.Adam([]),
        lambda p: eager.Adam([p * 1]),
        lambda p: lr_scheduler.LambdaLR(eager.SGD([p]), [len, len]),
        lambda p: lr_cycle.OneCycleLR(eager.SGD([p]), 1.0),
        lambda p: lr_cycle.CyclicLR(eager.Adagrad([p]), 0.1, 1.0),
    ],
)
def test_settings_without_sense_are_refused(build):
    with pytest.raises(ValueError):
        build(lt.ones(2, requires_grad=True))


def test_schedule_before_the_optimizer_warns():
    schedule = lr_scheduler.StepLR(eager.SGD([lt.ones(1, requires_grad=True)]), 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()


def test_closure_is_run_with_gradients():
    p = lt.tensor([3.0], requires_grad=True)
    o = eager.SGD([p], lr=0.1)

    def closure():
        o.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    assert o.step(closure).item() == 9.0
    np.testing.assert_allclose(p.tolist(), [2.4], rtol=1e-6)


def test_traced_step_says_which_optimizer_to_use():
    p = lt.ones(1, requires_grad=True)
    o = eager.SGD([p])
    p.grad = lt.ones(1)
    with Capture(Store(), False), pytest.raises(TraceError, match=r"cstorch\.optim"):
        o.step()


@pytest.mark.slow
def test_long_loop_keeps_no_graph():
    model = lt.nn.Sequential(lt.nn.Linear(4, 8), lt.nn.ReLU(), lt.nn.Linear(8, 2))
    o = eager.Adam(model.parameters(), lr=0.01)
    x, y = lt.ones(3, 4), lt.tensor([0, 1, 0])

    def steps(n):
        for _ in range(n):
            o.zero_grad()
            lt.nn.functional.cross_entropy(model(x), y).backward()
            o.step()
        return live_nodes()

    nodes = steps(5)
    assert steps(100) <= nodes + 10


SHAPES = [(3,), (2, 4), (), (0,), (5, 1), (70, 70)]  # the last one is too large to join others


def steps_of(optimizers, params, inputs):
    for x in inputs:
        for p, array in zip(params, x, strict=True):
            p.grad = lt.tensor(array, dtype=p.dtype)
        for optimizer in optimizers:
            optimizer.step()
    return [p.detach().float().numpy() for p in params]


@pytest.mark.parametrize("dtype", [lt.float32, lt.bfloat16])
@pytest.mark.parametrize("name", sorted(cases.OPTIMIZERS))
def test_parameters_that_are_updated_together_get_the_bits_of_each_alone(name, dtype):
    kind, settings = cases.OPTIMIZERS[name][:2]
    rng = np.random.default_rng(3)
    start = [rng.normal(size=s).astype(np.float32) for s in SHAPES]
    inputs = [[rng.normal(size=s).astype(np.float32) for s in SHAPES] for _ in range(3)]
    build = getattr(eager, kind)

    def fresh():
        return [lt.tensor(a, dtype=dtype).requires_grad_() for a in start]

    together, apart = fresh(), fresh()
    results = steps_of([build(together, **settings)], together, inputs)
    expected = steps_of([build([p], **settings) for p in apart], apart, inputs)
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_rule_is_asked_once_for_all_small_parameters(monkeypatch):
    calls = []
    rule = eager.Adam.rule
    monkeypatch.setattr(eager.Adam, "rule", staticmethod(lambda *a: calls.append(1) or rule(*a)))
    params = [lt.zeros(3).requires_grad_() for _ in range(300)]
    optimizer = eager.Adam(params)
    for p in params:
        p.grad = lt.ones(3)
    optimizer.step()
    # One that joins later has a count of steps of its own.
    late = lt.zeros(3).requires_grad_()
    optimizer.add_param_group({"params": [late]})
    optimizer.step()
    assert len(calls) == 2
