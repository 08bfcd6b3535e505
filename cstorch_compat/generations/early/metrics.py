"""Metrics of releases 1.8 and 1.9, which take `compute_on_system`."""

from collections.abc import Iterator
from typing import Any

from cstorch_compat.cerebras.pytorch.metrics import metric
from cstorch_compat.run import process, setting_checks
from lazytensor.core import source
from lazytensor.errors import OptionInvalid


class _ComputeOnSystemMetric(metric.Metric):
    """A metric with the argument `compute_on_system`. On CSX, which is weight streaming, False raises OptionInvalid.

    Source: the page "cstorch API" of release 1.8, "Evaluation Metrics".
    """

    def __init__(self, name: str, compute_on_system: bool = True):
        is_on_system: bool = setting_checks.make_type_check(bool)("compute_on_system", compute_on_system)
        _require_system(name, is_on_system)
        super().__init__(name)
        self._is_on_system = is_on_system

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Update the metric with a batch, and return its current value.

        Raises OptionInvalid on CSX if the metric was created with `compute_on_system=False`.
        """
        # Check again, because a metric may be created before the backend.
        _require_system(self.name, self._is_on_system)
        return super().forward(*args, **kwargs)


def _require_system(name: str, is_on_system: bool) -> None:
    if process.use_cs() and not is_on_system:
        raise OptionInvalid(
            f"the metric {name!r} has compute_on_system=False, but weight streaming computes metrics on the system",
            where=source.where(),
            hint="Pass compute_on_system=True.",
        )


class AccuracyMetric(_ComputeOnSystemMetric, metric.AccuracyMetric):
    """The fraction of correct predictions. Raises OptionInvalid on CSX with `compute_on_system=False`."""

    def __init__(self, name: str = "accuracy", compute_on_system: bool = True):
        super().__init__(name, compute_on_system)


class PerplexityMetric(_ComputeOnSystemMetric, metric.PerplexityMetric):
    """The exponential of the mean loss per token. Raises OptionInvalid on CSX with `compute_on_system=False`."""

    def __init__(self, name: str = "perplexity", compute_on_system: bool = True):
        super().__init__(name, compute_on_system)


class MetricValues(dict[str, float]):
    """A dict of metric values by name, whose iteration yields pairs (name, value), as in release 1.8."""

    def __iter__(self) -> Iterator[tuple[str, float]]:  # type: ignore[override]
        return iter(self.items())


def compute_all_metrics() -> MetricValues:
    """Return the current value of every metric by name."""
    return MetricValues(metric.compute_all_metrics())
