"""Metrics of class predictions. The state is a confusion matrix or counts for each class."""

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
"""Valid values of `average_type`: over all samples, or over classes."""


def count_occurrences(slots: int, places: Tensor, weights: Tensor | None) -> Tensor:
    """Return how often each index from 0 to `slots` - 1 occurs in `places`, as float32[slots].

    If `weights` is given, each occurrence counts with its weight.
    """
    # Scatter-add avoids one-hot vectors, whose size would be samples times slots.
    flat = views.reshape(pw.cast_to(places, int64), (-1,))
    amounts = creation.ones(places.shape, device=places.device) if weights is None else pw.cast_to(weights, float32)
    return scatter_add(creation.zeros(slots, device=places.device), 0, flat, views.reshape(amounts, (-1,)))


def divide_or_zero(top: Tensor, bottom: Tensor) -> Tensor:
    """Return `top` / `bottom`, with 0 where `bottom` is 0."""
    empty = bottom == 0.0
    # Both operands of `where` are computed, so the denominator must not be 0 anywhere.
    safe = pw.where(empty, creation.ones_like(bottom), bottom)
    return pw.where(empty, creation.zeros_like(top), top) / safe


class ConfusionMetric(Metric):
    """The base class of metrics over a confusion matrix, indexed [label, prediction].

    Classes in `ignored` are excluded from the result, but their samples still count in the sums of other classes.
    """

    def __init__(self, num_classes: int, ignored: Sequence[int] | None, name: str | None):
        self.num_classes = num_classes
        self._ignored = frozenset(ignored or ())
        super().__init__(name or "")

    def reset(self) -> None:
        self.register_state("confusion_matrix", creation.zeros(self.num_classes, self.num_classes))

    def take(self, labels: Tensor, predictions: Tensor, weights: Tensor | None) -> None:
        """Add pairs of class indices to the confusion matrix. `labels` and `predictions` have the same shape."""
        n = self.num_classes
        # The matrix is counted as a vector with index label * n + prediction.
        pairs = count_occurrences(n * n, labels * n + predictions, weights)
        self.confusion_matrix.add_(views.reshape(pairs, (n, n)))

    def masked(self, values: Tensor) -> Tensor:
        """Return `values` (one for each class) with 0 for the ignored classes.

        If no class is ignored, return `values` itself.
        """
        if not self._ignored:
            return values
        # The mask applies to results and not to samples, so ignored classes still count in the sums of other classes.
        mask = [0.0 if c in self._ignored else 1.0 for c in range(self.num_classes)]
        return values * tensor(mask, device=values.device)

    def sums(self) -> tuple[Tensor, Tensor]:
        """Return how often each class is a label and how often it is predicted, each as float32[num_classes]."""
        return reduction.sum(self.confusion_matrix, 1), reduction.sum(self.confusion_matrix, 0)

    def hits(self) -> Tensor:
        """Return how often each class is predicted correctly, as float32[num_classes]."""
        return reduction.sum(
            self.confusion_matrix * creation.eye(self.num_classes, device=self.confusion_matrix.device), 1
        )

    def class_mean(self, top: Tensor, bottom: Tensor) -> Tensor:
        """Return the mean of `top` / `bottom` over the classes that are not ignored and whose `bottom` is not 0.

        The result is a float32 scalar tensor; 0 if there are no such classes.
        """
        # Classes that occur neither as label nor as prediction are left out of the mean.
        present = reduction.sum(self.masked(pw.cast_to(bottom != 0.0, float32)))
        safe = pw.where(bottom > 0.0, bottom, creation.ones_like(bottom))
        # If no class is present, this is 0 / 0, which the selection below discards.
        mean = reduction.sum(self.masked(divide_or_zero(top, safe))) / present
        return pw.where(present > 0.0, mean, tensor(0.0))


class OverlapMetric(ConfusionMetric):
    """The base class of metrics that compare labelled and predicted regions, averaged over the classes."""

    def __init__(self, num_classes: int, ignore_classes: Sequence[int] | None = None, name: str | None = None):
        super().__init__(num_classes, ignore_classes, name)

    def update(self, labels: Tensor, predictions: Tensor, weights: Tensor | None = None, dtype: Any = None) -> None:
        """Count a batch of class indices.

        `labels` and `predictions` have the same shape; `weights` weight each element.
        """
        self.take(labels, predictions, weights)


class DiceCoefficientMetric(OverlapMetric):
    """The Dice coefficient 2 |A & B| / (|A| + |B|), averaged over the classes that occur.

    A is the set of elements labelled with a class, and B is the set predicted as that class. Ignored classes do not
    count.

    >>> import torch, cerebras.pytorch as cstorch
    >>> metric = cstorch.metrics.DiceCoefficientMetric(num_classes=2)
    >>> metric(labels=torch.tensor([1, 0]), predictions=torch.tensor([1, 1]))
    tensor(0.3333)
    """

    def compute(self) -> Tensor:
        """Return the mean coefficient as a float32 scalar tensor; 0 before the first update."""
        labels, predictions = self.sums()
        return self.class_mean(self.hits() * 2.0, predictions + labels)


class MeanIOUMetric(OverlapMetric):
    """The intersection over union |A & B| / |A | B|, averaged over the classes that occur.

    A is the set of elements labelled with a class, and B is the set predicted as that class. Ignored classes do not
    count.

    >>> import torch, cerebras.pytorch as cstorch
    >>> metric = cstorch.metrics.MeanIOUMetric(num_classes=2)
    >>> metric(labels=torch.tensor([1, 0]), predictions=torch.tensor([1, 1]))
    tensor(0.2500)
    """

    def compute(self) -> Tensor:
        """Return the mean as a float32 scalar tensor; 0 before the first update."""
        labels, predictions = self.sums()
        hits = self.hits()
        return self.class_mean(hits, predictions + labels - hits)


class FBetaScoreMetric(ConfusionMetric):
    """The F-beta score (1 + beta^2) precision recall / (beta^2 precision + recall).

    `average_type` "micro" computes it from the counts of all samples. "macro" averages the scores of all classes that
    are not ignored, where a class that does not occur counts as 0. Raises ValueError for other averages and for `beta`
    <= 0.

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
            raise ValueError(f"The beta has to be positive, got {beta}.\n  Pass a positive beta.")
        if average_type not in AVERAGES:
            raise ValueError(
                f"The average_type has to be one of {list(AVERAGES)}, got {average_type}.\n  Pass one of these names."
            )
        self.beta, self.average_type = beta, average_type
        super().__init__(num_classes, ignore_labels, name)

    def update(self, labels: Tensor, predictions: Tensor, dtype: Any = None) -> None:
        """Count a batch of class indices. `labels` and `predictions` have the same shape."""
        self.take(labels, predictions, None)

    def compute(self) -> Tensor:
        """Return the score as a float32 scalar tensor; 0 before the first update.

        For "macro" it is the mean of the scores of the classes, where a class that does not occur counts as 0.
        Otherwise it is the score of the counts summed over the classes. Ignored classes are left out of both.
        """
        labels, predictions = self.sums()
        hits, square = self.hits(), self.beta**2
        # The score in terms of counts is (1 + beta^2) hits / (beta^2 labels + predictions), which needs only one
        # division.
        if self.average_type == "macro":
            scores = self.masked(divide_or_zero(hits * (1 + square), predictions + labels * square))
            # As in the original, classes that do not occur count as 0, unlike in the overlap metrics.
            return reduction.sum(scores) / tensor(float(self.num_classes - len(self._ignored)))
        right, true, claimed = (reduction.sum(self.masked(t)) for t in (hits, labels, predictions))
        return divide_or_zero(right * (1 + square), claimed + true * square)


class MeanPerClassAccuracyMetric(Metric):
    """The accuracy of each class, averaged over all classes.

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
        """Count a batch of class indices.

        `labels` and `predictions` have the same shape; `weights` weight each element.
        """
        labels, predictions = pw.cast_to(labels, int64), pw.cast_to(predictions, int64)
        correct = pw.cast_to(labels == predictions, float32)
        correct = correct if weights is None else correct * weights
        self.total_per_class_correct_predictions.add_(count_occurrences(self.num_classes, labels, correct))
        self.total_per_class_tokens.add_(count_occurrences(self.num_classes, labels, weights))

    def compute(self) -> Tensor:
        """Return the mean as a float32 scalar tensor. A class without labels counts as 0."""
        shares = divide_or_zero(self.total_per_class_correct_predictions, self.total_per_class_tokens)
        # As recorded from release 2.10, the mean includes classes that never occurred, unlike in the metrics above.
        return reduction.sum(shares) / float(self.num_classes)
