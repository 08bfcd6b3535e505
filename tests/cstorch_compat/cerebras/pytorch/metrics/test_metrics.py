"""Laws of metrics: perfect predictions score 1, reset forgets, order does not matter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cstorch_compat.cerebras.pytorch.metrics import classification as classes
from cstorch_compat.cerebras.pytorch.metrics import metric as metrics
from cstorch_compat.cerebras.pytorch.metrics import ranking
from lazytensor.functional.creation import tensor

LABELS = ((1, 0, 0, 0, 1, 0, 0, 2), (2, 2, 0, 1, 3, 1, 2, 3))
PREDICTIONS = ((1, 1, 1, 0, 1, 2, 0, 3), (2, 0, 2, 1, 3, 1, 2, 3))
"""Two batches of four classes."""
PERFECT = [
    lambda: metrics.AccuracyMetric("a"),
    lambda: classes.DiceCoefficientMetric(4),
    lambda: classes.MeanIOUMetric(4),
    lambda: classes.FBetaScoreMetric(4),
]


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    monkeypatch.setattr(metrics._all_metrics, "value", [])


@pytest.mark.parametrize("make", PERFECT)
@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=9))
def test_perfect_predictions_score_one(make, labels):
    metric, given_labels = make(), tensor(labels)
    metric(labels=given_labels, predictions=given_labels)
    assert float(metric) == pytest.approx(1.0)


@pytest.mark.parametrize("make", PERFECT)
def test_batches_count_in_any_order_and_reset_forgets(make):
    forward, backward = make(), make()
    for a, b in zip((0, 1), (1, 0), strict=True):
        forward(labels=tensor(LABELS[a]), predictions=tensor(PREDICTIONS[a]))
        backward(labels=tensor(LABELS[b]), predictions=tensor(PREDICTIONS[b]))
    assert float(forward) == pytest.approx(float(backward))
    forward.reset()
    forward(labels=tensor(LABELS[0]), predictions=tensor(LABELS[0]))
    assert float(forward) == pytest.approx(1.0)


def test_macro_average_of_perfect_predictions_of_all_classes_is_one():
    metric, labels = classes.FBetaScoreMetric(4, 2.0, "macro"), tensor([0, 1, 2, 3, 1])
    metric(labels=labels, predictions=labels)
    assert float(metric) == pytest.approx(1.0)


def test_names_are_made_unique():
    for name in ("loss", "loss", "other"):
        metrics.MeanMetric(name)
    assert [name for name, _ in metrics.get_all_metrics()] == ["loss.0", "loss.1", "other"]


def test_mean_is_weighted():
    metric = metrics.MeanMetric("m")
    metric(tensor([1.0, 3.0]), weight=tensor([3.0, 1.0]))
    assert float(metric) == pytest.approx(1.5)


@pytest.mark.parametrize("curve", ["ROC", "PR"])
def test_separated_scores_have_area_one(curve):
    metric = ranking.AUCMetric(curve=curve)
    metric(labels=tensor([True, True, False, False]), predictions=tensor([0.9, 0.8, 0.2, 0.1]))
    assert float(metric) == pytest.approx(1.0, abs=1e-4)


def test_precision_and_recall_count_the_best():
    scores, labels = tensor([[0.1, 0.9, 0.5], [0.3, 0.2, 0.1]]), tensor([[1], [2]])
    precision, recall = ranking.PrecisionAtKMetric(2), ranking.RecallAtKMetric(2)
    precision(labels=labels, predictions=scores)
    recall(labels=labels, predictions=scores)
    assert (float(precision), float(recall)) == (pytest.approx(0.25), pytest.approx(0.5))


def test_an_unknown_average_is_refused():
    with pytest.raises(ValueError, match="average_type"):
        classes.FBetaScoreMetric(3, average_type="bogus")


@pytest.mark.parametrize(
    "labels, predictions, ignored, want",
    [([2, 0], [2, 0], None, 0.5), ([2], [2], [0], 1 / 3), ([1, 2], [0, 2], [], 0.25)],
)
def test_macro_average_counts_a_class_that_does_not_occur_as_0(labels, predictions, ignored, want):
    metric = classes.FBetaScoreMetric(4, average_type="macro", ignore_labels=ignored)
    metric(labels=tensor(labels), predictions=tensor(predictions))
    assert float(metric) == pytest.approx(want)
