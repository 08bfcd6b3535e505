"""torchmetrics: metrics of classification and regression over several batches, computed, reset and collected."""

import torch
import torchmetrics
from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix, MulticlassF1Score
from torchmetrics.functional import pairwise_cosine_similarity

torch.manual_seed(0)
collection = torchmetrics.MetricCollection(
    {
        "accuracy": MulticlassAccuracy(4, average="micro"),
        "f1": MulticlassF1Score(4),
        "confusion": MulticlassConfusionMatrix(4),
    }
)
error, area = torchmetrics.MeanSquaredError(), torchmetrics.AUROC(task="binary")
mean, r2 = torchmetrics.MeanMetric(), torchmetrics.R2Score()
for _ in range(3):
    logits, labels = torch.randn(16, 4), torch.randint(4, (16,))
    collection.update(logits, labels)
    error.update(logits[:, 0], logits[:, 1])
    area.update(logits[:, 0].sigmoid(), labels > 1)
    mean.update(logits[:, 2])
    r2.update(logits[:, 0], logits[:, 3])
for name, value in collection.compute().items():
    print(name, *[f"{v:.6f}" for v in value.flatten().float().tolist()])
for metric in (error, area, mean, r2):
    print(type(metric).__name__, f"{metric.compute().item():.6f}")
collection.reset()
print("similarity", *[f"{v:.6f}" for v in pairwise_cosine_similarity(torch.randn(3, 5)).flatten().tolist()])
