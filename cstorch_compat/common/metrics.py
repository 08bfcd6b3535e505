"""Metrics: state on the device that is updated in each step and read at the end."""

from abc import ABC, abstractmethod
from typing import Any

from cstorch_compat import run
from lazytensor import trace
from lazytensor.functions import pointwise as pw
from lazytensor.functions import reductions
from lazytensor.functions.creation import tensor
from lazytensor.nn.module import Module
from lazytensor.tensor import Tensor, grad_mode

_all: list["Metric"] = []


class Metric(Module, ABC):
    """Base of metrics. A subclass registers its state in `reset`, changes it in `update` and reads it in `compute`."""

    def __init__(self, name: str):
        super().__init__()
        self.name = name
        self._index = len(_all)
        self._value: Tensor | None = None
        _all.append(self)
        self.reset()

    @abstractmethod
    def reset(self) -> None:
        """Start over."""

    @abstractmethod
    def update(self, *args: Any, **kwargs: Any) -> None:
        """Take in a batch."""

    @abstractmethod
    def compute(self) -> Tensor:
        """The value so far."""

    def register_state(self, name: str, value: Tensor, persistent: bool = False) -> None:
        """Add a tensor that is carried from step to step."""
        made = value
        made.device = run.state_device()
        trace.register(made.cell, f"metrics.{self.name}.{self._index}.{name}")
        self.register_buffer(name, made, persistent)

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Update with a batch and give the value so far."""
        with grad_mode(False):
            self.update(*args, **kwargs)
            self._value = self.compute()
        _kept(self._value, self)
        return self._value

    def __float__(self) -> float:
        if self._value is None:
            return float("nan")
        with grad_mode(False):
            return float(self.compute())


def _kept(value: Tensor, metric: "Metric") -> None:
    """A metric's value is an output of the step, although no closure takes it."""
    if run.use_cs() and trace.current is not None:
        run.closure(lambda r: None, False)(value)


class AccuracyMetric(Metric):
    """The share of predictions that equal their labels, weighted if weights are given."""

    def reset(self) -> None:
        self.register_state("total_correct_predictions", tensor(0.0))
        self.register_state("total_num_tokens", tensor(0.0))

    def update(self, labels: Tensor, predictions: Tensor, weights: Tensor | None = None, dtype: Any = None) -> None:
        """labels and predictions of one shape; weights broadcast to it."""
        correct = pw.cast_to(pw.eq(labels, predictions), self.total_num_tokens.dtype)
        if weights is None:
            count: Any = float(labels.numel())  # type: ignore[attr-defined]
        else:
            correct = pw.mul(correct, weights)
            count = reductions.sum(pw.cast_to(weights, self.total_num_tokens.dtype))
        self.total_correct_predictions.add_(reductions.sum(correct))
        self.total_num_tokens.add_(count)

    def compute(self) -> Tensor:
        return pw.div(self.total_correct_predictions, self.total_num_tokens)


def get_all_metrics() -> dict[str, Metric]:
    """Every metric that was made, by name."""
    return {m.name: m for m in _all}


def compute_all_metrics() -> dict[str, float]:
    """The value of every metric."""
    return {m.name: float(m) for m in _all}
