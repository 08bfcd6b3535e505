"""Losses, metrics, loss scaling and half types against what the original recorded (release 2.10, CPU backend)."""

import json
import pathlib

import numpy as np
import pytest

import lazytensor as lt
from cstorch_compat.cerebras.pytorch.metrics import metric as registry
from cstorch_compat.names.mirror_modules import get_mirror
from cstorch_compat.run import process
from lazytensor.nn import Parameter

amp = get_mirror("cerebras.pytorch.amp")
metrics = get_mirror("cerebras.pytorch.metrics")
nn = get_mirror("cerebras.pytorch.nn")
optim = get_mirror("cerebras.pytorch.optim")


GOLDEN = pathlib.Path(__file__).parents[3] / "golden"
LOSSES = json.loads((GOLDEN / "cstorch_losses.json").read_text())
SCALED = json.loads((GOLDEN / "cstorch_scaler_metrics.json").read_text())
LOSS_ARRAYS = np.load(GOLDEN / "cstorch_losses.npz")
ARRAYS = np.load(GOLDEN / "cstorch_scaler_metrics.npz")


@pytest.fixture(autouse=True)
def backend(monkeypatch, tmp_path):
    monkeypatch.setattr(process.RUN, "backend", None)
    monkeypatch.setattr(registry._all_metrics, "value", [])
    process.make_backend("CPU", tmp_path)


def under(arrays, prefix: str) -> dict[str, lt.Tensor]:
    return {f.removeprefix(prefix): lt.tensor(arrays[f]) for f in arrays.files if f.startswith(prefix)}


def made(name: str, case: dict):
    given = under(LOSS_ARRAYS, f"loss/{name}/kw_")
    return getattr(nn, case["class"])(**{k: given.get(k, v) for k, v in case["kwargs"].items()})


@pytest.mark.parametrize("name", [n for n, case in LOSSES["losses"].items() if "class" in case and "error" not in case])
def test_losses_and_their_gradients_are_the_recorded_ones(name):
    case = LOSSES["losses"][name]
    recorded = under(LOSS_ARRAYS, f"loss/{name}/")
    inputs = [recorded[f"in{i}"] for i in range(len([k for k in recorded if k.startswith("in")]))]
    for i, x in enumerate(inputs):
        x.requires_grad_(f"grad_in{i}" in recorded)
    out = made(name, case)(*inputs)
    np.testing.assert_allclose(out.detach().numpy(), recorded["out"].numpy(), rtol=1e-5, atol=1e-6)
    weight = 1 if out.ndim == 0 else lt.arange(1, out.numel() + 1).float().reshape(out.shape)
    (out * weight).sum().backward()
    for i, x in enumerate(inputs):
        if f"grad_in{i}" in recorded:
            np.testing.assert_allclose(x.grad.numpy(), recorded[f"grad_in{i}"].numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "loss"),
    [("DiceLoss_bg", nn.DiceLoss(3, include_background=True)), ("DiceCELoss_bg", nn.DiceCELoss(3, True))],
)
def test_losses_of_segmentation_with_background_are_the_recorded_ones(name, loss):
    recorded = under(LOSS_ARRAYS, f"loss/{name}/")
    out = loss(recorded["in0"], recorded["in1"], [2, 4, 4])
    np.testing.assert_allclose(out.numpy(), LOSSES["losses"][name]["value"], rtol=1e-5)


def test_segmentation_without_background_leaves_class_0_out():
    recorded = under(LOSS_ARRAYS, "loss/DiceLoss_bg/")
    out = nn.DiceLoss(3)(recorded["in0"], recorded["in1"], [2, 4, 4])
    assert np.allclose(out.numpy(), recorded["out"][:, 1:].numpy())
    with pytest.raises(RuntimeError, match="with D = 1 for images in two dimensions"):
        nn.DiceLoss(3)(recorded["in0"][:, :, 0], recorded["in1"], [4, 4])


METRICS = {
    "accuracy": lambda m: m.AccuracyMetric("m"),
    "mean": lambda m: m.MeanMetric("m"),
    "ppl": lambda m: m.PerplexityMetric("m"),
    "miou": lambda m: m.MeanIOUMetric(4),
    "miou_ignore": lambda m: m.MeanIOUMetric(4, ignore_classes=[0]),
    "dice": lambda m: m.DiceCoefficientMetric(4),
    "mpca": lambda m: m.MeanPerClassAccuracyMetric(4),
    "fbeta_micro": lambda m: m.FBetaScoreMetric(4),
    "fbeta_macro": lambda m: m.FBetaScoreMetric(4, average_type="macro"),
    "fbeta2_macro": lambda m: m.FBetaScoreMetric(4, 2.0, "macro"),
    "fbeta_ignore": lambda m: m.FBetaScoreMetric(4, average_type="macro", ignore_labels=[0]),
    "auc_roc": lambda m: m.AUCMetric(),
    "auc_pr": lambda m: m.AUCMetric(curve="PR"),
    "auc_maj": lambda m: m.AUCMetric(summation_method="majoring", num_thresholds=16),
    "auc_pr16": lambda m: m.AUCMetric(curve="PR", num_thresholds=16),
    "auc_w": lambda m: m.AUCMetric(num_thresholds=16),
    "auc_thr": lambda m: m.AUCMetric(thresholds=[0.25, 0.5, 0.75]),
    **{f"precision_at_{k}_l{n}": lambda m, k=k: m.PrecisionAtKMetric(k) for k in (1, 2, 3) for n in (1, 2)},
    **{f"recall_at_{k}_l{n}": lambda m, k=k: m.RecallAtKMetric(k) for k in (1, 2, 3) for n in (1, 2)},
}
WEIGHTED = {
    "accuracy_w": "accuracy", "accuracy_2d": "accuracy", "mean_w": "mean", "dice_w01": "dice",
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in SCALED["metrics"] if n not in ("fbeta_bad", "mean_scalar")])
def test_metrics_follow_the_recorded_values(name):
    case = SCALED["metrics"][name]
    metric = METRICS[WEIGHTED.get(name, name)](metrics)
    found = [float(metric(**under(ARRAYS, f"metric/{name}/{i}/"))) for i in range(case["batches"])]
    assert found == pytest.approx(case["values"], rel=1e-5)
    assert float(metric) == pytest.approx(case["float"], rel=1e-5)


def test_the_mean_of_numbers_follows_the_recorded_values():
    case = SCALED["metrics"]["mean_scalar"]
    metric = metrics.MeanMetric("m")
    assert [float(metric(float(value))) for _, _, value in case["scalars"]] == pytest.approx(case["values"])


@pytest.mark.parametrize("name", [n for n, case in SCALED["scaler"].items() if "error" not in case])
def test_scales_and_skipped_steps_are_the_recorded_ones(name):
    case, prefix = SCALED["scaler"][name], f"scaler/{name}/"
    scaler, p = amp.GradScaler(**case["kwargs"]), Parameter(lt.tensor(ARRAYS[prefix + "p0"]), True)
    optimizer = optim.AdamW([p]) if case["optimizer"] == "adamw" else optim.SGD([p], lr=0.1, momentum=0.9)
    found = [float(scaler.get_scale())]
    for fed, updated, skipped in zip(
        *(ARRAYS[prefix + part] for part in ("grads_fed", "updated", "num_skipped")), strict=True
    ):
        before = p.detach().numpy().copy()
        p.grad = lt.tensor(fed)
        scaler.step(optimizer)
        scaler.update()
        found.append(float(scaler.get_scale()))
        assert bool(np.any(p.detach().numpy() != before)) == bool(updated)
        assert int(scaler.get_num_skipped_steps()) == skipped
    assert found == case["scales"]


@pytest.mark.parametrize("name", [n for n, case in SCALED["optimizer_step"].items() if "error" not in case])
def test_optimizer_steps_with_limits_are_the_recorded_ones(name):
    recorded = under(ARRAYS, f"ostep/{name}/")
    w = Parameter(recorded["w0"].clone(), True)
    loss = ((recorded["x"] @ w.t()) ** 2).sum()
    amp.optimizer_step(loss, optim.SGD([w], lr=0.1), amp.GradScaler(), **SCALED["optimizer_step"][name]["kwargs"])
    np.testing.assert_allclose(w.detach().numpy(), recorded["w1"].numpy(), rtol=1e-5, atol=1e-6)
    assert w.grad is None
