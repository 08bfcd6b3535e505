"""Sparsity against recorded numbers: schedules, masks, and training runs of each algorithm."""

import json
import pathlib

import numpy as np
import pytest

from cstorch_compat.cerebras.pytorch.optim.optimizers import SGD, AdamW
from cstorch_compat.cerebras.pytorch.sparse import init
from cstorch_compat.cerebras.pytorch.sparse import masks as sparse_mask
from cstorch_compat.cerebras.pytorch.sparse.group import map_sparsity_algorithm
from cstorch_compat.cerebras.pytorch.sparse.schedules import make_hyperparam_schedule, make_update_schedule
from cstorch_compat.run import process
from lazytensor import config, nn
from lazytensor.core.tensor import grad_mode
from lazytensor.functional.creation import arange, tensor
from tests.cstorch_compat.cerebras.pytorch.sparse.sparse_runs import Training

GOLDEN = pathlib.Path(__file__).parents[4] / "golden"
RECORD = json.loads((GOLDEN / "cstorch_sparsity.json").read_text())
ARRAYS = np.load(GOLDEN / "cstorch_sparsity.npz")
TOLERANCE = 1e-5
"""Fourteen float32 steps: sums are rounded in another order than in the recording."""


@pytest.fixture(autouse=True)
def backend(monkeypatch):
    monkeypatch.setattr(process.RUN, "backend", None)
    with config.override(jit=False):
        yield process.make_backend("CPU")


@pytest.mark.parametrize("name", RECORD["schedules"])
def test_schedule_gives_the_recorded_values(name):
    schedule = make_hyperparam_schedule(RECORD["schedules"][name])
    got = [float(schedule(tensor(step))) for step in range(51)]
    np.testing.assert_allclose(got, ARRAYS[f"hyper.{name}"], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", RECORD["updates"])
def test_masks_are_updated_at_the_recorded_steps(name):
    schedule = make_update_schedule(RECORD["updates"][name])
    assert [bool(schedule(tensor(step))) for step in range(51)] == ARRAYS[f"update.{name}"].tolist()


@pytest.mark.parametrize("size, sparsity, kept", RECORD["counts"])
def test_a_mask_keeps_as_many_as_recorded(size, sparsity, kept):
    assert int(sparse_mask.make_mask_topk_sparsity(arange(float(size)), tensor(sparsity)).sum()) == kept


@pytest.mark.parametrize("fraction, dropped, grown", RECORD["drops"])
def test_dropping_and_growing_keep_as_many_as_recorded(fraction, dropped, grown):
    score = arange(48.0).reshape(6, 8)
    mask = sparse_mask.make_mask_topk_sparsity(score, tensor(0.5))
    less, count = sparse_mask.make_mask_drop_minimum(score, mask, tensor(fraction))
    assert (int(count), int(less.sum())) == (dropped, dropped)
    assert int(sparse_mask.make_mask_grow_maximum(score, less, tensor(0.5), count).sum()) == grown


@pytest.mark.parametrize("sparsity", RECORD["checkerboards"])
def test_checkerboard_is_the_recorded_one(sparsity):
    got = init.checkerboard(nn.Parameter(tensor(np.zeros((6, 8), np.float32))), tensor(sparsity))
    assert got.tolist() == ARRAYS[f"init.checkerboard_{sparsity}"].tolist()


@pytest.mark.parametrize("name", RECORD["runs"])
def test_training_follows_the_recorded_run(name):
    kind, settings = RECORD["runs"][name]
    want = {k: ARRAYS[f"algo.{name}.{k}"] for k in ("w0", "b0", "x", "t", "mask", "weight", "bias", "bias_mask")}
    layer = nn.Linear(8, 6)
    with grad_mode(False):
        layer.weight.copy_(tensor(want["w0"]))
        layer.bias.copy_(tensor(want["b0"]))
    training = Training(
        map_sparsity_algorithm(kind)(**settings),
        nn.Sequential(layer),
        (lambda p: AdamW(p, lr=0.05, weight_decay=0.1)) if name == "rigl_adamw" else (lambda p: SGD(p, 0.1, 0.9)),
    ).fit([(tensor(x), tensor(t)) for x, t in zip(want["x"], want["t"], strict=True)])
    for step, (masks, weights) in enumerate(zip(training.masks, training.weights, strict=True)):
        assert masks["0.weight_mask"].tolist() == want["mask"][step].tolist()
        assert masks["0.bias_mask"].tolist() == want["bias_mask"][step].tolist()
        np.testing.assert_allclose(weights["0.weight"], want["weight"][step], rtol=TOLERANCE, atol=TOLERANCE)
        np.testing.assert_allclose(weights["0.bias"], want["bias"][step], rtol=TOLERANCE, atol=TOLERANCE)
