"""Metrics: state on the device that is updated in each step and read at the end."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from typing import Any

from cstorch_compat.names.builtin_errors import reraise_as_builtin
from cstorch_compat.run import process, steps
from cstorch_compat.run.wafer_state import WaferState
from lazytensor.core import storage
from lazytensor.core.dtype import float32
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction
from lazytensor.functional.creation import tensor
from lazytensor.functional.in_place import write_values
from lazytensor.nn.module import Module

_all_metrics = process.RunLocal[list["Metric"]](list)


class Metric(Module, ABC):
    """Base of metrics. A subclass registers its state in `reset`, changes it in `update` and reads it in `compute`.

    >>> import torch, cerebras.pytorch as cstorch
    >>> class Largest(cstorch.metrics.Metric):
    ...     def reset(self):
    ...         self.register_state("largest", torch.tensor(0.0))
    ...     def update(self, x):
    ...         self.largest.copy_(torch.maximum(self.largest, x.max()))
    ...     def compute(self):
    ...         return self.largest
    >>> metric = Largest("largest")
    >>> metric(torch.tensor([1.0, 3.0]))
    tensor(3.)
    """

    def __init__(self, name: str):
        super().__init__()
        self.name = name or type(self).__name__
        # The number among metrics of one name: it keeps their state apart, and names them in `get_all_metrics`.
        self._index = sum(m.name == self.name for m in _all_metrics.value)
        self.num_updates = 0
        self._value: Any = None
        # Strong: the values of all metrics may be asked for when the model that made them is gone.
        _all_metrics.value.append(self)
        self.reset()

    @abstractmethod
    def reset(self) -> None:
        """Start over."""

    @abstractmethod
    def update(self, *args: Any, **kwargs: Any) -> None:
        """Take in a batch."""

    @abstractmethod
    def compute(self) -> Any:
        """Return the value so far, as a tensor or a number."""

    def register_state(self, name: str, tensor: Tensor, persistent: bool = False) -> None:
        """Add a tensor that is carried from step to step."""
        # Made anew, the state would have another identity than in the traced step.
        if name in self._buffers:  # reset starts over in the state that is there
            write_values(self._buffers[name], tensor)
            return
        tensor.device = process.state_device()
        self.register_buffer(name, tensor, persistent)

    def _name_state(self) -> None:
        """Give state its identity, unless it has one as part of a prepared model, and let the client read it."""
        store = process.current_backend().store if process.use_cs() else None
        for name, buffer in self.named_buffers():
            # A metric inside of a model is named by `compile`, as any of its buffers.
            if not buffer.cell.state:
                storage.register(buffer.cell, f"metrics.{self.name}.{self._index}.{name}")
            # Weights come back on checkpoint steps alone; metrics are an exception of the system.
            if isinstance(store, WaferState):
                store.free.add(buffer.cell.state)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Update with a batch and give the value so far."""
        self._name_state()
        # A metric reads predictions that require gradients, and must not keep their graph from step to step.
        with grad_mode(False), reraise_as_builtin():
            self.update(*args, **kwargs)
            self.num_updates += 1
            self._value = self.compute()
        _keep_as_output(self._value, self)
        return self._value

    def __float__(self) -> float:
        if self._value is None and process.use_cs():
            raise RuntimeError(
                f"Trying to compute metric `{self.name}`, but the metric has not been updated. This is currently not "
                "supported when running on CSX. "
            )
        # On the CPU a share of nothing is NaN and a mean over no class is 0, as `compute` says itself.
        with grad_mode(False):
            return float(self.compute())


def _keep_as_output(value: Tensor, metric: "Metric") -> None:
    """A metric's value is an output of the step, although no closure takes it."""
    if process.use_cs() and storage.thread_state.current is not None:
        # A closure that does nothing: without an output that is fetched, the compiler would leave out state that
        # nothing else reads.
        steps.make_closure(lambda r: None, False)(value)


class AccuracyMetric(Metric):
    """The share of predictions that equal their labels, weighted if weights are given.

    >>> import torch, cerebras.pytorch as cstorch
    >>> accuracy = cstorch.metrics.AccuracyMetric("accuracy")
    >>> accuracy(labels=torch.tensor([1, 2]), predictions=torch.tensor([1, 0]))
    tensor(0.5000)
    """

    def reset(self) -> None:
        self.register_state("total_correct_predictions", tensor(0.0))
        self.register_state("total_num_tokens", tensor(0.0))

    def update(self, labels: Tensor, predictions: Tensor, weights: Tensor | None = None, dtype: Any = None) -> None:
        """labels and predictions of one shape; weights broadcast to it. What weighs 0 is not counted."""
        correct = pw.cast_to(labels == predictions, self.total_num_tokens.dtype)
        if weights is None:
            count: Any = float(labels.numel())
        else:
            correct = correct * weights
            # The original counts the places and weighs only the hits. With weights other than 0 and 1 the result is
            # no share any more; recorded, hence kept.
            count = reduction.sum(pw.cast_to(weights > 0, self.total_num_tokens.dtype))
        self.total_correct_predictions.add_(reduction.sum(correct))
        self.total_num_tokens.add_(count)

    def compute(self) -> Tensor:
        """float32[]; NaN before the first update."""
        share: Tensor = self.total_correct_predictions / self.total_num_tokens
        return share


class MeanMetric(Metric):
    """The mean of all values, weighted if weights are given.

    >>> import torch, cerebras.pytorch as cstorch
    >>> mean = cstorch.metrics.MeanMetric("mean")
    >>> mean(torch.tensor([2.0, 4.0]))
    tensor(3.)
    """

    def reset(self) -> None:
        self.register_state("mean_value", tensor(0.0))
        self.register_state("weight", tensor(0.0))

    def update(self, value: Any, weight: Any = 1.0, dtype: Any = None) -> None:
        """A number or tensor; a number for all of its elements or a tensor of weights for each."""
        values = pw.cast_to(value, dtype or float32) if isinstance(value, Tensor) else tensor(float(value))
        count: Tensor | float
        if isinstance(weight, Tensor):
            values, count = values * weight, reduction.sum(weight)
        else:
            values = values if weight == 1 else values * weight
            # A number that is known while tracing is a constant of the graph.
            count = float(weight) * values.numel()
        self.mean_value.add_(reduction.sum(values) if values.ndim else values)
        self.weight.add_(count)

    def compute(self) -> Tensor:
        """float32[]; NaN before the first update."""
        mean: Tensor = self.mean_value / self.weight
        return mean


class PerplexityMetric(Metric):
    """exp(loss per token).

    >>> import torch, cerebras.pytorch as cstorch
    >>> perplexity = cstorch.metrics.PerplexityMetric("perplexity")
    >>> perplexity(labels=torch.tensor([1, 2]), loss=torch.tensor(2.0))
    tensor(2.7183)
    """

    def reset(self) -> None:
        self.register_state("total_loss", tensor(0.0))
        self.register_state("total_num_tokens", tensor(0.0))

    def update(self, labels: Tensor, loss: Tensor, weights: Tensor | None = None, dtype: Any = None) -> None:
        """The loss summed over tokens; weights say how much each token counts."""
        count: Any = float(labels.numel()) if weights is None else reduction.sum(weights)
        self.total_loss.add_(pw.cast_to(loss, self.total_loss.dtype))
        self.total_num_tokens.add_(count)

    def compute(self) -> Tensor:
        """float32[]; NaN before the first update."""
        # Of the mean over all batches, not the mean of perplexities.
        return pw.exp(self.total_loss / self.total_num_tokens)


def get_all_metrics() -> Iterator[tuple[str, Metric]]:
    """Every metric that was made, with its name; those that share one are numbered: "loss.0", "loss.1".

    >>> import cerebras.pytorch as cstorch
    >>> loss = cstorch.metrics.MeanMetric("loss")
    >>> [name for name, metric in cstorch.metrics.get_all_metrics() if metric is loss]
    ['loss']
    """
    # Names are unique only when all metrics are there, so the suffix is given here and not when one is made.
    shared = Counter(m.name for m in _all_metrics.value)
    return ((m.name if shared[m.name] == 1 else f"{m.name}.{m._index}", m) for m in _all_metrics.value)


def compute_all_metrics() -> dict[str, float]:
    """The value of every metric."""
    return {name: float(m) for name, m in get_all_metrics()}
