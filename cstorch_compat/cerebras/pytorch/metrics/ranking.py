"""Metrics of scores: the area under a curve, precision and recall of the k best classes."""

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
"""How far the outer thresholds of a curve lie outside of 0..1."""
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
    """The area under the ROC or precision-recall curve, from counts at `num_thresholds` thresholds.

    The precision-recall curve is interpolated after Davis and Goadrich, "The relationship between Precision-Recall
    and ROC curves", 2006: true positives, not precision, are linear between thresholds.

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
            raise ValueError(f"The curve has to be one of {list(CURVES)}, got {curve}.")
        if summation_method not in METHODS:
            raise ValueError(f"The summation_method has to be one of {list(METHODS)}, got {summation_method}.")
        if thresholds is None:
            # Two of the thresholds are the outer ones below.
            inner = [i / (num_thresholds - 1) for i in range(1, num_thresholds - 1)]
        else:
            inner = sorted(thresholds)
        if thresholds is None and num_thresholds < 2:
            raise ValueError(f"The num_thresholds has to be at least 2, got {num_thresholds}.")
        self.curve, self.summation_method, self.num_thresholds = curve, summation_method, len(inner) + 2
        # Scores of exactly 0 lie above the first threshold and those of 1 below the last, so that the curve has
        # both its ends.
        self._thresholds = [-THRESHOLD_MARGIN, *inner, 1.0 + THRESHOLD_MARGIN]
        super().__init__(name or "")

    def reset(self) -> None:
        for count in COUNT_NAMES:
            self.register_state(count, creation.zeros(self.num_thresholds))

    def update(self, labels: Tensor, predictions: Tensor, weights: Tensor | None = None) -> None:
        """Booleans, and scores in 0..1 of the same shape."""
        scores = views.reshape(pw.cast_to(predictions, float32), (1, -1))
        # All thresholds at once: [thresholds, 1] against [1, samples].
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
        """Return a number in 0..1, by trapezoids, sums, or the interpolation of precision."""
        # Precision is no linear function of recall between two thresholds; only there do formula and trapezoid differ.
        if self.curve == "PR" and self.summation_method == "interpolation":
            return float(self.interpolate_pr_auc())
        x: Any
        y: Any
        recall = divide_or_zero(self.true_positive, self.true_positive + self.false_negative)
        if self.curve == "ROC":
            x, y = divide_or_zero(self.false_positive, self.false_positive + self.true_negative), recall
        else:
            x, y = recall, divide_or_zero(self.true_positive, self.true_positive + self.false_positive)
        # The larger or smaller of two neighbours gives an upper or lower sum, the mean a trapezoid.
        join: Any = {"majoring": pw.maximum, "minoring": pw.minimum}.get(self.summation_method)
        heights = join(y[:-1], y[1:]) if join else (y[:-1] + y[1:]) / 2.0
        # Thresholds rise, so counts and with them x fall.
        return float(reduction.sum((x[:-1] - x[1:]) * heights))

    def interpolate_pr_auc(self) -> Tensor:
        """The area under the precision-recall curve."""
        true: Any = self.true_positive
        claimed: Any = self.true_positive + self.false_positive
        missed: Any = self.false_negative
        gain, step = true[:-1] - true[1:], claimed[:-1] - claimed[1:]
        # Between two thresholds TP = intercept + slope * P, with P all that is claimed positive. Precision TP / P
        # then integrates to slope * (dTP + intercept * ln(P1 / P2)) over recall.
        slope = divide_or_zero(gain, pw.maximum(step, 0.0))
        intercept = true[1:] - slope * claimed[1:]
        # Where one of them claims nothing the logarithm has no value, and its factor is taken as ln 1.
        both = pw.logical_and(claimed[:-1] > 0.0, claimed[1:] > 0.0)
        growth = pw.where(both, divide_or_zero(claimed[:-1], pw.maximum(claimed[1:], 0.0)), creation.ones_like(step))
        area = slope * (gain + intercept * pw.log(growth))
        positive = pw.maximum(true[1:] + missed[1:], 0.0)
        return reduction.sum(divide_or_zero(area, positive))


def count_hits(k: int, labels: Tensor, predictions: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """How many labels are among the k best classes of their row, and what each row weighs."""
    places = topk(predictions, k, -1).indices
    # Each label against each of the k places: [..., L, 1] == [..., 1, k].
    matches = views.unsqueeze(labels, -1) == views.unsqueeze(places, -2)
    rows = reduction.sum(pw.cast_to(matches, float32), (-2, -1))
    weight = creation.ones(rows.shape, device=rows.device) if weights is None else pw.cast_to(weights, float32)
    return reduction.sum(rows * weight), reduction.sum(weight)


class _AtKMetric(Metric):
    """Labels among the k best classes, as a share of what a subclass counts in `wanted` for each row.

    `missed` names the state that counts what is wanted and was not hit.
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
        """How many hits a row could have."""
        raise NotImplementedError

    def update(self, labels: Tensor, predictions: Tensor, weights: Tensor | None = None) -> None:
        """Labels [..., L], scores [..., classes], weights [...]."""
        hits, rows = count_hits(self.k, labels, predictions, weights)
        self.true_positive_at_k.add_(hits)
        getattr(self, self.missed).add_(rows * float(self.wanted(labels)) - hits)

    def compute(self) -> float:
        """Return the share as a number; NaN before the first update."""
        return float(self.true_positive_at_k / (self.true_positive_at_k + getattr(self, self.missed)))


class PrecisionAtKMetric(_AtKMetric):
    """The share of the k best classes that are labels.

    >>> import torch, cerebras.pytorch as cstorch
    >>> metric = cstorch.metrics.PrecisionAtKMetric(k=1)
    >>> metric(labels=torch.tensor([[1]]), predictions=torch.tensor([[0.1, 0.9]]))
    1.0
    """

    missed = "false_positive_at_k"

    def wanted(self, labels: Tensor) -> int:
        return self.k


class RecallAtKMetric(_AtKMetric):
    """The share of labels that are among the k best classes.

    >>> import torch, cerebras.pytorch as cstorch
    >>> metric = cstorch.metrics.RecallAtKMetric(k=1)
    >>> metric(labels=torch.tensor([[1]]), predictions=torch.tensor([[0.1, 0.9]]))
    1.0
    """

    missed = "false_negative_at_k"

    def wanted(self, labels: Tensor) -> int:
        return labels.shape[-1]
