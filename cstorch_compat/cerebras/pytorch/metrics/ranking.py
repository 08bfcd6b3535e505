"""Metrics of scores: the area under a ROC or precision-recall curve, and precision and recall at k.

CPU backend only.
"""

from collections.abc import Sequence
from typing import Any

from cstorch_compat.cerebras.pytorch.metrics.classification import divide_or_zero
from cstorch_compat.cerebras.pytorch.metrics.metric import Metric
from cstorch_compat.run import process
from lazytensor.core import source
from lazytensor.core.dtype import float32
from lazytensor.core.tensor import Tensor
from lazytensor.errors import OptionMissing, refuse
from lazytensor.functional import creation, reduction, views
from lazytensor.functional import pointwise as pw
from lazytensor.functional.creation import tensor
from lazytensor.functional.sorting import topk

CURVES, METHODS = ("ROC", "PR"), ("interpolation", "minoring", "majoring")
THRESHOLD_MARGIN = 1e-7
"""The distance of the two outer thresholds of a curve from 0 and 1, so that scores of exactly 0 and 1 are within
them.
"""
COUNT_NAMES = ("true_positive", "true_negative", "false_positive", "false_negative")


def refuse_on_the_wafer(kind: type[Metric]) -> None:
    """Raise OptionMissing (a NotImplementedError) on the CSX backend, as release 2.10 does for these metrics."""
    if process.use_cs():
        error = OptionMissing(
            f"{kind.__name__} not yet supported on CSX.",
            where=source.where(),
            hint="Compute it on the client, in a @cstorch.step_closure that takes labels and predictions.",
        )
        refuse("metric", error)


class AUCMetric(Metric):
    """The area under the ROC or precision-recall curve, computed from counts at several thresholds.

    - `num_thresholds`: the number of evenly spaced thresholds, at least 2.
    - `curve`: "ROC" or "PR".
    - `summation_method`: "interpolation" (trapezoids for ROC), "minoring" (lower sum) or "majoring" (upper sum).
    - `thresholds`: inner thresholds in 0..1 to use instead; one below 0 and one above 1 are added.

    Other values raise ValueError. The interpolation of the precision-recall curve is that of Davis and Goadrich, "The
    relationship between Precision-Recall and ROC curves", 2006: true positives, not precision, are linear between
    thresholds.

    >>> import torch, cerebras.pytorch as cstorch
    >>> metric = cstorch.metrics.AUCMetric()
    >>> metric(labels=torch.tensor([1, 0]), predictions=torch.tensor([0.9, 0.1]))
    1.0
    """

    def __init__(
        self,
        num_thresholds: int = 200,
        curve: str = "ROC",
        name: str | None = None,
        summation_method: str = "interpolation",
        thresholds: Sequence[float] | None = None,
    ):
        refuse_on_the_wafer(type(self))
        if curve not in CURVES:
            raise ValueError(f"The curve has to be one of {list(CURVES)}, got {curve}.\n  Pass one of these names.")
        if summation_method not in METHODS:
            raise ValueError(
                f"The summation_method has to be one of {list(METHODS)}, got {summation_method}."
                "\n  Pass one of these names."
            )
        if thresholds is None:
            # The two outer thresholds are added below.
            inner = [i / (num_thresholds - 1) for i in range(1, num_thresholds - 1)]
        else:
            inner = sorted(thresholds)
        if thresholds is None and num_thresholds < 2:
            raise ValueError(
                f"The num_thresholds has to be at least 2, got {num_thresholds}.\n  Increase num_thresholds."
            )
        self.curve, self.summation_method, self.num_thresholds = curve, summation_method, len(inner) + 2
        # A score of 0 is above the first threshold and a score of 1 below the last, so that the curve has both end
        # points.
        self._thresholds = [-THRESHOLD_MARGIN, *inner, 1.0 + THRESHOLD_MARGIN]
        super().__init__(name or "")

    def reset(self) -> None:
        for count in COUNT_NAMES:
            self.register_state(count, creation.zeros(self.num_thresholds))

    def update(self, labels: Tensor, predictions: Tensor, weights: Tensor | None = None) -> None:
        """Add a batch to the four counts (true and false, positive and negative) at every threshold.

        `labels` are booleans (or 0 and 1), and `predictions` are scores in 0..1 of the same shape. A score above the
        threshold is positive; an equal one is negative. `weights` of that shape weight each sample.
        """
        scores = views.reshape(pw.cast_to(predictions, float32), (1, -1))
        # Compare all thresholds at once: [thresholds, 1] with [1, samples].
        edges = views.reshape(tensor(self._thresholds, device=scores.device), (-1, 1))
        above = pw.cast_to(scores > edges, float32)
        true = views.reshape(pw.cast_to(labels, float32), (1, -1))
        weight = creation.ones_like(true) if weights is None else views.reshape(pw.cast_to(weights, float32), (1, -1))
        below, false = pw.rsub(above, 1.0), pw.rsub(true, 1.0)
        for name, where, what in zip(
            COUNT_NAMES, (above, below, above, below), (true, false, false, true), strict=True
        ):
            getattr(self, name).add_(reduction.sum(where * what * weight, 1))

    def compute(self) -> float:
        """Return the area under the curve, a float in 0..1.

        The curve is that of `curve`: true positive rate over false positive rate for "ROC", precision over recall for
        "PR". `summation_method` gives trapezoids, upper sums ("majoring") or lower sums ("minoring"), and
        "interpolation" for "PR" uses `interpolate_pr_auc`. A ratio whose denominator is 0 counts as 0.
        """
        # Precision is not linear in recall between thresholds, so only this curve needs the interpolation formula.
        if self.curve == "PR" and self.summation_method == "interpolation":
            return float(self.interpolate_pr_auc())
        x: Any
        y: Any
        recall = divide_or_zero(self.true_positive, self.true_positive + self.false_negative)
        if self.curve == "ROC":
            x, y = divide_or_zero(self.false_positive, self.false_positive + self.true_negative), recall
        else:
            x, y = recall, divide_or_zero(self.true_positive, self.true_positive + self.false_positive)
        # The maximum or minimum of neighbouring heights gives an upper or lower sum, the mean gives trapezoids.
        join: Any = {"majoring": pw.maximum, "minoring": pw.minimum}.get(self.summation_method)
        heights = join(y[:-1], y[1:]) if join else (y[:-1] + y[1:]) / 2.0
        # Thresholds ascend, so the counts and x descend.
        return float(reduction.sum((x[:-1] - x[1:]) * heights))

    def interpolate_pr_auc(self) -> Tensor:
        """Return the area under the interpolated precision-recall curve as a float32 scalar tensor.

        Between two thresholds the true positives are linear in the predicted positives. It is 0 before the first
        update.
        """
        true: Any = self.true_positive
        claimed: Any = self.true_positive + self.false_positive
        missed: Any = self.false_negative
        gain, step = true[:-1] - true[1:], claimed[:-1] - claimed[1:]
        # Between two thresholds TP = intercept + slope * P, where P is the number of predicted positives. The integral
        # of the precision TP / P over recall is then slope * (dTP + intercept * ln(P1 / P2)).
        slope = divide_or_zero(gain, pw.maximum(step, 0.0))
        intercept = true[1:] - slope * claimed[1:]
        # If either threshold has no predicted positives, the logarithm is undefined and counts as 0.
        both = pw.logical_and(claimed[:-1] > 0.0, claimed[1:] > 0.0)
        growth = pw.where(both, divide_or_zero(claimed[:-1], pw.maximum(claimed[1:], 0.0)), creation.ones_like(step))
        area = slope * (gain + intercept * pw.log(growth))
        positive = pw.maximum(true[1:] + missed[1:], 0.0)
        return reduction.sum(divide_or_zero(area, positive))


def count_hits(k: int, labels: Tensor, predictions: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return how many labels are among the `k` best classes, and the number of rows, each as a weighted sum.

    `labels` is [..., L], `predictions` is [..., classes], and `weights` is [...] or None for weights of 1. Both results
    are scalar tensors.
    """
    places = topk(predictions, k, -1).indices
    # Compare each label with each of the k classes: [..., L, 1] == [..., 1, k].
    matches = views.unsqueeze(labels, -1) == views.unsqueeze(places, -2)
    rows = reduction.sum(pw.cast_to(matches, float32), (-2, -1))
    weight = creation.ones(rows.shape, device=rows.device) if weights is None else pw.cast_to(weights, float32)
    return reduction.sum(rows * weight), reduction.sum(weight)


class _AtKMetric(Metric):
    """The number of labels among the k best classes, divided by the number that `wanted` returns for each row.

    A subclass sets `missed`, the name of the state that counts the remaining ones.
    """

    missed: str

    def __init__(self, k: int, name: str | None = None):
        refuse_on_the_wafer(type(self))
        self.k = k
        super().__init__(name or "")

    def reset(self) -> None:
        self.register_state("true_positive_at_k", tensor(0.0))
        self.register_state(self.missed, tensor(0.0))

    def wanted(self, labels: Tensor) -> int:
        """Return the number of hits that counts as 1.0 for a row."""
        raise NotImplementedError(f"{type(self).__name__} does not define wanted\n  Define it in the subclass.")

    def update(self, labels: Tensor, predictions: Tensor, weights: Tensor | None = None) -> None:
        """Count a batch: `labels` is [..., L], `predictions` (scores) is [..., classes], and `weights` is [...].

        Labels among the `k` best classes are hits. The number that is missing to that which `wanted` returns for each
        row is counted too.
        """
        hits, rows = count_hits(self.k, labels, predictions, weights)
        self.true_positive_at_k.add_(hits)
        getattr(self, self.missed).add_(rows * float(self.wanted(labels)) - hits)

    def compute(self) -> float:
        """Return the fraction as a float; NaN before the first update."""
        return float(self.true_positive_at_k / (self.true_positive_at_k + getattr(self, self.missed)))


class PrecisionAtKMetric(_AtKMetric):
    """The fraction of the k best-scored classes that are labels.

    >>> import torch, cerebras.pytorch as cstorch
    >>> metric = cstorch.metrics.PrecisionAtKMetric(k=1)
    >>> metric(labels=torch.tensor([[1]]), predictions=torch.tensor([[0.1, 0.9]]))
    1.0
    """

    missed = "false_positive_at_k"

    def wanted(self, labels: Tensor) -> int:
        return self.k


class RecallAtKMetric(_AtKMetric):
    """The fraction of labels that are among the k best-scored classes.

    >>> import torch, cerebras.pytorch as cstorch
    >>> metric = cstorch.metrics.RecallAtKMetric(k=1)
    >>> metric(labels=torch.tensor([[1]]), predictions=torch.tensor([[0.1, 0.9]]))
    1.0
    """

    missed = "false_negative_at_k"

    def wanted(self, labels: Tensor) -> int:
        return labels.shape[-1]
