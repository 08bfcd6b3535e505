"""Schedules: laws of compounds, recorded values, state, and steps that are traced once."""

import inspect
import json
import pathlib
import re
from types import SimpleNamespace

import numpy as np
import pytest

import lazytensor as lt
import lazytensor.optim as lazy_optim
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import process
from lazytensor import nn

torch, cstorch = get_mirror("torch"), get_mirror("cerebras.pytorch")
optim = get_mirror("cerebras.pytorch.optim")
lr = get_mirror("cerebras.pytorch.optim.lr_scheduler")
scheduler = get_mirror("cerebras.pytorch.optim.scheduler")
wd = get_mirror("cerebras.pytorch.optim.weight_decay_scheduler")


GOLDEN = pathlib.Path(__file__).parents[4] / "golden"
CASES = json.loads((GOLDEN / "cstorch_schedules.json").read_text())["cases"]
VALUES = np.load(GOLDEN / "cstorch_schedules.npz")


@pytest.fixture(autouse=True)
def backend(monkeypatch, tmp_path):
    monkeypatch.setattr(process.RUN, "backend", None)
    process.make_backend("CPU", tmp_path)


def sgd(**group) -> optim.SGD:
    return optim.SGD([{"params": [nn.Parameter(lt.ones(2))], **group}], lr=0.5, weight_decay=0.1)


def followed(schedule, steps: int) -> list[float]:
    found = [float(schedule.get_last_value()[0])]
    for _ in range(steps):
        schedule.step()
        found.append(float(schedule.get_last_value()[0]))
    return found


def assert_recorded(schedule, name: str) -> None:
    want = VALUES[name]
    np.testing.assert_allclose(followed(schedule, len(want) - 1), want, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_schedule_follows_the_recorded_values(name):
    home = lr if name.startswith("lr") else wd
    optimizer = sgd()
    schedule = getattr(home, re.sub(r"_\d+$", "", name.split("/")[1]))(optimizer, **CASES[name]["kwargs"])
    assert_recorded(schedule, name)
    assert set(schedule.state_dict()) == set(CASES[name]["state"])
    assert float(optimizer.param_groups[0][schedule.param_group_key]) == float(schedule.get_last_value()[0])


@pytest.mark.slow
def test_compounds_follow_the_recorded_values():
    o = sgd()
    parts = [lr.LinearLR(o, 0.0, 0.1, 20), lr.CosineDecayLR(o, 0.1, 0.01, 100), lr.ConstantLR(o, 0.005)]
    assert_recorded(lr.SequentialLR(o, parts, [20, 120]), "lr/SequentialLR_warmup_cosine_const")
    o = sgd()
    both = [lr.LinearLR(o, 0.1, 0.2, 10), lr.ExponentialLR(o, 0.1, 20, 0.5)]
    assert_recorded(lr.ChainedScheduler(both), "lr/ChainedScheduler_lin_exp")
    o = sgd()
    both = [lr.ConstantLR(o, 0.1, 5), lr.MultiplicativeLR(o, 0.1, 0.9)]
    assert_recorded(lr.ChainedLR(both), "lr/ChainedLR_const_mult")


def test_each_group_has_its_own_factor_and_tags_choose_groups():
    params = [
        {"params": [nn.Parameter(lt.ones(1))], **more} for more in ({}, {"adjust_learning_rate": 0.25, "tags": "b"})
    ]
    o = optim.SGD(params, lr=0.5)
    assert o.param_groups[1]["tags"] == {"b"}
    schedule = lr.ScalePerParamLR(o, lr.ConstantLR(o, 1.0))
    assert [float(v) for v in schedule.get_last_lr()] == [1.0, 0.25]
    o = optim.SGD(params, lr=0.5)
    tagged = lr.LinearLR(o, 0.25, 0.0, 4, param_group_tags="b")
    assert tagged.get_last_lr()[0] is None and float(tagged.get_last_lr()[1]) == 0.25
    assert o.param_groups[0]["lr"] == 0.5


def test_a_schedule_continues_from_its_state_dict():
    def made():
        o = sgd()
        return o, lr.SequentialLR(o, [lr.LinearLR(o, 0.0, 0.1, 3), lr.StepLR(o, 0.1, 2, 0.5)], [3])

    (_, one), (optimizer, two) = made(), made()
    followed(one, 5)
    before = float(optimizer.param_groups[0]["lr"])
    two.load_state_dict(one.state_dict())
    # The rate of the group is in the state dict of the optimizer, as in PyTorch.
    assert float(optimizer.param_groups[0]["lr"]) == before
    assert followed(one, 4) == followed(two, 4)


@pytest.mark.parametrize("method", ["_get_closed_form", "_get_closed_form_lr"])
def test_subclasses_of_either_generation_work(method):
    twice = type("Twice", (lr.LRScheduler,), {method: lambda self: self.last_epoch * 2.0})
    assert followed(twice(sgd(), total_iters=5), 3) == [0.0, 2.0, 4.0, 6.0]


@pytest.mark.parametrize(
    ("base", "missing"),
    [
        (lr.LRScheduler, "_get_closed_form"),
        (wd.WeightDecayScheduler, "_get_closed_form"),
        (scheduler.ConstantScheduler, "param_group_key"),
        (scheduler.SequentialScheduler, "param_group_key"),
    ],
)
def test_a_schedule_without_a_closed_form_or_a_setting_is_abstract(base, missing):
    with pytest.raises(TypeError, match=f"Can't instantiate abstract class Mine with abstract method {missing}"):
        type("Mine", (base,), {})(sgd(), 5)


COPIES = """
import copy, pickle
cstorch.backend("CPU")
optimizer = cstorch.optim.SGD(MLP().parameters(), lr=0.75)
L = cstorch.optim.lr_scheduler
schedule = L.SequentialLR(optimizer, [L.LinearLR(optimizer, 0.5, 0.0, 4), L.ConstantLR(optimizer, 0.0)], [4])
for other in (copy.deepcopy(schedule), pickle.loads(pickle.dumps(schedule))):
    other.step()
    rates = [float(o.param_groups[0]["lr"]) for o in (optimizer, other.optimizer)]
    print(rates, other.get_last_lr(), other.optimizer.schedules == [other])
"""


def test_a_copy_of_a_schedule_schedules_a_copy_of_its_optimizer(script):
    done = script(COPIES)
    assert done.stdout.splitlines()[:2] == ["[0.5, 0.375] [tensor(0.3750)] True"] * 2, done.stderr


def test_names_and_refusals_are_those_of_the_original():
    o = sgd()
    schedule = lr.LinearLR(o, initial_learning_rate=0.1, end_learning_rate=0.01, total_iters=10)
    assert schedule.initial_learning_rate == 0.1 and isinstance(schedule, scheduler.LinearScheduler)
    assert isinstance(o.param_groups[0]["lr"], lt.Tensor) and o.param_groups[0]["lr"].shape == ()
    with pytest.warns(UserWarning, match="please use `get_last_value"):
        assert float(schedule.get_lr()[0]) == pytest.approx(0.1)
    with pytest.raises(AttributeError, match="'object' object has no attribute 'param_groups'"):
        lr.ConstantLR(object(), 0.1)
    with pytest.raises(TypeError, match=r"is not an a cstorch.optim.Optimizer"):
        lr.ConstantLR(SimpleNamespace(param_groups=[]), 0.1)
    with pytest.raises(ValueError, match="one more than the number of milestone points"):
        lr.PiecewiseConstantLR(o, [1.0, 2.0], [1, 2, 3])
    with pytest.raises(ValueError, match="Unsupported value of Parameters 'T_mult'"):
        wd.CosineAnnealingWarmRestartsWD(o, 0.1, 10, 2)
    with pytest.raises(AttributeError, match="_get_closed_form_lr"):
        _ = schedule._get_closed_form_lr


TRAIN = """
import sys
torch.manual_seed(1)
backend = cstorch.backend(sys.argv[1])
model = MLP()
compiled = cstorch.compile(model, backend)
optim = cstorch.optim
optimizer = getattr(optim, sys.argv[2])(model.parameters(), lr=0.05)
L, W = optim.lr_scheduler, optim.weight_decay_scheduler
rate = L.SequentialLR(optimizer, [L.LinearLR(optimizer, 0.01, 0.1, 2), L.CosineDecayLR(optimizer, 0.1, 0.01, 4)], [2])
decay = W.PiecewiseConstantWD(optimizer, [0.1, 0.01], [3])

@cstorch.trace
def step(batch):
    x, y = batch
    loss = F.cross_entropy(compiled(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    rate.step()
    decay.step()
    return loss

@cstorch.step_closure
def log(loss):
    print("step", loss.item(), float(rate.get_last_lr()[0]), float(decay.get_last_value()[0]))

for batch in cstorch.utils.data.DataExecutor(loader(), num_steps=5, checkpoint_steps=5):
    log(step(batch))
print("end", int(rate.last_epoch), float(optimizer.param_groups[0]["lr"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["SGD", "Adafactor", "Lamb"])
def test_a_step_that_is_traced_once_follows_its_schedules(script, kind):
    found = {}
    for where in ("CPU", "CSX"):
        done = script(TRAIN, where, kind)
        assert done.returncode == 0, done.stderr
        lines = [line.split() for line in done.stdout.splitlines() if line.startswith(("step", "end"))]
        found[where] = [[float(v) for v in line[1:]] for line in lines]
    host, wafer = found["CPU"], found["CSX"]
    np.testing.assert_allclose([v[0] for v in wafer[:-1]], [v[0] for v in host[:-1]], rtol=5e-3)  # float16 in the step
    assert [v[1:] for v in wafer[:-1]] == [v[1:] for v in host[:-1]] and wafer[-1] == host[-1]
    np.testing.assert_allclose([v[1] for v in host[:3]], [0.055, 0.1, 0.0868198], rtol=1e-5)


DECAYED = [
    kind
    for kind in sorted(lazy_optim.__all__)
    if "weight_decay" in inspect.signature(getattr(optim, kind, object)).parameters
]
HALF_PRECISION = 0.02
"""The tolerance of Muon, which computes in bfloat16 on CSX."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", DECAYED)
def test_scheduled_weight_decay_gives_the_weights_of_the_cpu_on_csx(kind, monkeypatch, tmp_path):
    found = []
    for backend in ("CPU", "CSX"):
        monkeypatch.setattr(process.RUN, "backend", None)
        process.make_backend(backend, tmp_path / backend)
        model = nn.Linear(3, 2)
        with torch.no_grad():
            model.weight.copy_(torch.arange(6.0).view(2, 3) / 5)
        compiled = cstorch.compile(model)
        optimizer = getattr(optim, kind)([model.weight], lr=0.1, weight_decay=0.1)
        schedule = wd.LinearWD(optimizer, initial_val=0.5, end_val=0.1, total_iters=3)

        @cstorch.trace
        def step(x, compiled=compiled, optimizer=optimizer, schedule=schedule):
            loss = (compiled(x) * x.sum()).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            return loss

        @cstorch.checkpoint_closure
        def read(_, weight=model.weight):
            found.append(weight.detach().numpy())

        loader = cstorch.utils.data.DataLoader(lambda: [torch.ones(1, 3) / 4] * 3)
        for x in cstorch.utils.data.DataExecutor(loader, num_steps=3, checkpoint_steps=3):
            read(step(x))
    np.testing.assert_allclose(*found, rtol=HALF_PRECISION if kind == "Muon" else 5e-3)
