"""Releases 1.8 and 1.9: metrics that are told where to compute."""

from collections.abc import Iterator

from cstorch_compat.metrics import metric


class AccuracyMetric(metric.AccuracyMetric):
    """The share of right predictions; computed on the system, whatever is said."""

    def __init__(self, name: str = "accuracy", compute_on_system: bool = True):
        super().__init__(name)


class PerplexityMetric(metric.PerplexityMetric):
    """exp(loss per token); computed on the system, whatever is said."""

    def __init__(self, name: str = "perplexity", compute_on_system: bool = True):
        super().__init__(name)


class Values(dict[str, float]):
    """Values by the name of the metric. A loop over it gives pairs, as in release 1.8; it is a dict otherwise."""

    def __iter__(self) -> Iterator[tuple[str, float]]:  # type: ignore[override]
        return iter(self.items())


def compute_all_metrics() -> Values:
    """The value of every metric."""
    return Values(metric.compute_all_metrics())
