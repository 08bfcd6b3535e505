"""Measure a training with torchmetrics.

Packages: torchmetrics, lightning-utilities.
"""

import torch
import torchmetrics
from torchmetrics import classification, regression


def main():
    torch.manual_seed(0)
    x = torch.randn(40, 6)
    y = x[:, :3].argmax(1)
    model = torch.nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scores = torchmetrics.MetricCollection(
        [
            classification.MulticlassAccuracy(3),
            classification.MulticlassF1Score(3),
            classification.MulticlassAUROC(3),
            classification.MulticlassAveragePrecision(3),
            classification.MulticlassCalibrationError(3),
            classification.MulticlassCohenKappa(3),
            classification.MulticlassMatthewsCorrCoef(3),
        ]
    )
    mean = torchmetrics.MeanMetric()
    values = torchmetrics.MetricCollection(
        [
            regression.MeanSquaredError(),
            regression.PearsonCorrCoef(),
            regression.R2Score(),
            regression.SpearmanCorrCoef(),
        ]
    )
    for _ in range(5):
        optimizer.zero_grad()
        logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        mean.update(loss)
        scores.update(logits.softmax(1), y)
        values.update(logits[:, 0], x[:, 0])
        total = sum(v.item() for v in [*scores.compute().values(), *values.compute().values()])
        print(loss.item() + mean.compute().item() + total)


main()
