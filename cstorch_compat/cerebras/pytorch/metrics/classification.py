"""Metrics of class predictions: a confusion matrix or counts per class on the device, read at the end."""

from collections.abc import Sequence
from typing import Any

from cstorch_compat.cerebras.pytorch.metrics.metric import Metric
from lazytensor.core.dtype import float32, int64
from lazytensor.core.tensor import Tensor
from lazytensor.functional import creation, reduction, views
from lazytensor.functional import pointwise as pw
from lazytensor.functional.creation import tensor
from lazytensor.functional.gather_scatter import scatter_add

AVERAGES = ("micro", "macro")


def count_occurrences(slots: int, places: Tensor, weights: Tensor | None) -> Tensor:
    """How often each of `slots` places occurs, float32[slots]; weights count for one occurrence each."""
    # A sum by index stands for a product of one-hot vectors, which would be as large as samples times slots.
    flat = views.reshape(pw.cast_to(places, int64), (-1,))
    amounts = creation.ones(places.shape, device=places.device) if weights is None else pw.cast_to(weights, float32)
    return scatter_add(creation.zeros(slots, device=places.device), 0, flat, views.reshape(amounts, (-1,)))


def divide_or_zero(top: Tensor, bottom: Tensor) -> Tensor:
    """top / bottom, and 0 where bottom is 0."""
    empty = bottom == 0.0
    # Both sides of a selection are computed, so the division has to be harmless where it is not wanted.
    safe = pw.where(empty, creation.ones_like(bottom), bottom)
    return pw.where(empty, creation.zeros_like(top), top) / safe


class ConfusionMetric(Metric):
    """Base of metrics over confusion_matrix[label, prediction]; ignored classes do not count in the result."""

    def __init__(self, num_classes: int, ignored: Sequence[int] | None, name: str | None):
        self.num_classes = num_classes
        self._ignored = frozenset(ignored or ())
        super().__init__(name or "")

    def reset(self) -> None:
        self.register_state("confusion_matrix", creation.zeros(self.num_classes, self.num_classes))

    def take(self, labels: Tensor, predictions: Tensor, weights: Tensor | None) -> None:
        """Count pairs of classes."""
        n = self.num_classes
        # The matrix as one row: place label * n + prediction.
        pairs = count_occurrences(n * n, labels * n + predictions, weights)
        self.confusion_matrix.add_(views.reshape(pairs, (n, n)))

    def masked(self, values: Tensor) -> Tensor:
        """Zero for the classes that are ignored."""
        if not self._ignored:
            return values
        # A mask over results and not over samples: ignored classes still take part in the sums of others.
        mask = [0.0 if c in self._ignored else 1.0 for c in range(self.num_classes)]
        return values * tensor(mask, device=values.device)

    def sums(self) -> tuple[Tensor, Tensor]:
        """How often each class is a label, and how often it is predicted."""
        return reduction.sum(self.confusion_matrix, 1), reduction.sum(self.confusion_matrix, 0)

    def hits(self) -> Tensor:
        """How often each class is predicted rightly."""
        return reduction.sum(
            self.confusion_matrix * creation.eye(self.num_classes, device=self.confusion_matrix.device), 1
        )

    def class_mean(self, top: Tensor, bottom: Tensor) -> Tensor:
        """The mean of top / bottom over the classes whose bottom is not 0; 0 if there are none."""
        # Classes that occur neither as label nor as prediction do not count; counting them as 0 would punish a
        # model for them.
        present = reduction.sum(self.masked(pw.cast_to(bottom != 0.0, float32)))
        safe = pw.where(bottom > 0.0, bottom, creation.ones_like(bottom))
        # 0 / 0 where no class is present is discarded below.
        mean = reduction.sum(self.masked(divide_or_zero(top, safe))) / present
        return pw.where(present > 0.0, mean, tensor(0.0))


class OverlapMetric(ConfusionMetric):
    """Base of metrics that compare the area A of a class with the area B predicted, averaged over the classes."""

    def __init__(self, num_classes: int, ignore_classes: Sequence[int] | None = None, name: str | None = None):
        super().__init__(num_classes, ignore_classes, name)

    def update(self, labels: Tensor, predictions: Tensor, weights: Tensor | None = None, dtype: Any = None) -> None:
        """Classes of one shape."""
        self.take(labels, predictions, weights)


class DiceCoefficientMetric(OverlapMetric):
    """2 |A and B| / (|A| + |B|), averaged over the classes that occur.

    >>> import torch, cerebras.pytorch as cstorch
    >>> metric = cstorch.metrics.DiceCoefficientMetric(num_classes=2)
    >>> metric(labels=torch.tensor([1, 0]), predictions=torch.tensor([1, 1]))
    tensor(0.3333)
    """

    def compute(self) -> Tensor:
        """float32[]; 0 before the first update."""
        labels, predictions = self.sums()
        return self.class_mean(self.hits() * 2.0, predictions + labels)


class MeanIOUMetric(OverlapMetric):
    """|A and B| / |A or B|, averaged over the classes that occur.

    >>> import torch, cerebras.pytorch as cstorch
    >>> metric = cstorch.metrics.MeanIOUMetric(num_classes=2)
    >>> metric(labels=torch.tensor([1, 0]), predictions=torch.tensor([1, 1]))
    tensor(0.2500)
    """

    def compute(self) -> Tensor:
        """float32[]; 0 before the first update."""
        labels, predictions = self.sums()
        hits = self.hits()
        return self.class_mean(hits, predictions + labels - hits)


class FBetaScoreMetric(ConfusionMetric):
    """(1 + beta^2) precision recall / (beta^2 precision + recall), of all samples or averaged over classes.

    The average over classes ("macro") counts a class that does not occur as 0.

    >>> import torch, cerebras.pytorch as cstorch
    >>> metric = cstorch.metrics.FBetaScoreMetric(num_classes=2)
    >>> metric(labels=torch.tensor([1, 0]), predictions=torch.tensor([1, 1]))
    tensor(0.5000)
    """

    def __init__(
        self,
        num_classes: int,
        beta: float = 1.0,
        average_type: str = "micro",
        ignore_labels: Sequence[int] | None = None,
        name: str | None = None,
    ):
        if beta <= 0:
            raise ValueError(f"The beta has to be positive, got {beta}.")
        if average_type not in AVERAGES:
            raise ValueError(f"The average_type has to be one of {list(AVERAGES)}, got {average_type}.")
        self.beta, self.average_type = beta, average_type
        super().__init__(num_classes, ignore_labels, name)

    def update(self, labels: Tensor, predictions: Tensor, dtype: Any = None) -> None:
        """Classes of one shape."""
        self.take(labels, predictions, None)

    def compute(self) -> Tensor:
        """float32[]; 0 before the first update."""
        labels, predictions = self.sums()
        hits, square = self.hits(), self.beta**2
        # From counts: beta^2 * labels + predictions is the common denominator of precision and recall, so neither
        # is divided for.
        if self.average_type == "macro":
            scores = self.masked(divide_or_zero(hits * (1 + square), predictions + labels * square))
            # Unlike in the overlap metrics, classes that do not occur count as 0, as in the original.
            return reduction.sum(scores) / tensor(float(self.num_classes - len(self._ignored)))
        right, true, claimed = (reduction.sum(self.masked(t)) for t in (hits, labels, predictions))
        return divide_or_zero(right * (1 + square), claimed + true * square)


class MeanPerClassAccuracyMetric(Metric):
    """The share of right predictions of each class, averaged over all classes.

    >>> import torch, cerebras.pytorch as cstorch
    >>> metric = cstorch.metrics.MeanPerClassAccuracyMetric(num_classes=2)
    >>> metric(labels=torch.tensor([1, 0]), predictions=torch.tensor([1, 1]))
    tensor(0.5000)
    """

    def __init__(self, num_classes: int, name: str | None = None):
        self.num_classes = num_classes
        super().__init__(name or "")

    def reset(self) -> None:
        self.register_state("total_per_class_correct_predictions", creation.zeros(self.num_classes))
        self.register_state("total_per_class_tokens", creation.zeros(self.num_classes))

    def update(self, labels: Tensor, predictions: Tensor, weights: Tensor | None = None, dtype: Any = None) -> None:
        """Classes of one shape."""
        labels, predictions = pw.cast_to(labels, int64), pw.cast_to(predictions, int64)
        correct = pw.cast_to(labels == predictions, float32)
        correct = correct if weights is None else correct * weights
        self.total_per_class_correct_predictions.add_(count_occurrences(self.num_classes, labels, correct))
        self.total_per_class_tokens.add_(count_occurrences(self.num_classes, labels, weights))

    def compute(self) -> Tensor:
        """float32[]; a class without labels counts as 0."""
        shares = divide_or_zero(self.total_per_class_correct_predictions, self.total_per_class_tokens)
        # Over all classes, also those that never occurred: as recorded, unlike the metrics above.
        return reduction.sum(shares) / float(self.num_classes)
