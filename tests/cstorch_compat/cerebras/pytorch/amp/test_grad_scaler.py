"""Loss scaling against the scales that the original takes, and steps that overflow against steps left out."""

import math

import pytest

from cstorch_compat.cerebras.pytorch.amp.grad_scaler import GradScaler
from cstorch_compat.cerebras.pytorch.amp.skipped_steps import isfinite
from cstorch_compat.cerebras.pytorch.optim.optimizers import SGD
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import process
from lazytensor import nn
from lazytensor.functional.creation import tensor

amp = get_mirror("cerebras.pytorch.amp")


@pytest.fixture(autouse=True)
def backend(monkeypatch):
    monkeypatch.setattr(process.RUN, "backend", None)
    return process.make_backend("CPU")


def parameter():
    return nn.Parameter(tensor([1.0, 2.0]))


@pytest.mark.parametrize("scale", [None, 128.0, "dynamic"])
def test_scaling_does_not_shrink_updates_on_the_cpu(scale):
    p = parameter()
    amp.optimizer_step((p * p).sum(), SGD([p], lr=0.1), GradScaler(scale))
    assert p.tolist() == pytest.approx([0.8, 1.6])


def test_calls_out_of_order_are_refused():
    p = parameter()
    optimizer, scaler = SGD([p], lr=0.1), GradScaler("dynamic")
    p.grad = tensor([1.0, 1.0])
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called since"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(ValueError, match="new_scale"):
        scaler.update(2.0)


def test_isfinite_sees_one_bad_element():
    p = parameter()
    p.grad = tensor([1.0, math.nan])
    assert not bool(isfinite(SGD([p], lr=0.1)))
