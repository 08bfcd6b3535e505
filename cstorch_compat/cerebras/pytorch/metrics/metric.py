"""The base class of metrics, the metrics of language models, and the list of all metrics of the run.

The state of a metric is on the device. It is updated in each step and carried to the next one.
"""

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
"""All metrics of the run, in the order of creation."""


class Metric(Module, ABC):
    """The base class of metrics.

    A subclass registers its state in `reset`, changes it in `update` and reads it in `compute`. Calling the metric
    updates it and returns its current value. `float(metric)` computes the current value; on CSX it raises RuntimeError
    before the first update. If `name` is empty, the class name is used.

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
        # The index among metrics of the same name. It keeps their state apart, and `get_all_metrics` appends it to the
        # name.
        self._index = sum(m.name == self.name for m in _all_metrics.value)
        self.num_updates = 0
        self._value: Any = None
        # The list holds strong references, because values may be read after the model that created the metric is gone.
        _all_metrics.value.append(self)
        self.reset()

    @abstractmethod
    def reset(self) -> None:
        """Register the metric's state with its initial values. A later call resets the state to them."""

    @abstractmethod
    def update(self, *args: Any, **kwargs: Any) -> None:
        """Update the metric's state from one batch."""

    @abstractmethod
    def compute(self) -> Any:
        """Return the current value of the metric as a tensor or a number."""

    def register_state(self, name: str, tensor: Tensor, persistent: bool = False) -> None:
        """Register a tensor that is carried from step to step, as a buffer on the device of the run.

        The device of `tensor` is changed in place. If `name` is registered already, only write the values of `tensor`
        into the existing buffer. `persistent` is that of `Module.register_buffer`.
        """
        # A new buffer would be a different state than that of the traced step, so the existing one is overwritten.
        if name in self._buffers:
            write_values(self._buffers[name], tensor)
            return
        tensor.device = process.state_device()
        self.register_buffer(name, tensor, persistent)

    def _name_state(self) -> None:
        """Register the buffers as state of the run, and allow the client to read them after every step on CSX.

        Buffers that belong to a prepared model are registered already and keep their names.
        """
        store = process.current_backend().store if process.use_cs() else None
        for name, buffer in self.named_buffers():
            # `compile` names the buffers of a metric that is part of a model.
            if not buffer.cell.state:
                storage.register(buffer.cell, f"metrics.{self.name}.{self._index}.{name}")
            # The system returns weights on checkpoint steps only, but metrics after every step.
            if isinstance(store, WaferState):
                store.free.add(buffer.cell.state)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Update the metric with a batch, and return the result of `compute`. Arguments go to `update`.

        No gradients are recorded. Errors are raised as built-in exceptions. In a traced step on CSX the result is an
        output of the step, so that the state is kept.
        """
        self._name_state()
        # Predictions may require gradients, whose graph must not be kept from step to step.
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
                "\n  Call the metric in each step before compute()."
            )
        # On the CPU `compute` itself defines the value before the first update, such as NaN or 0.
        with grad_mode(False):
            return float(self.compute())


def _keep_as_output(value: Tensor, metric: "Metric") -> None:
    """Mark `value` as an output of the traced step, so that the compiler keeps the metric's state. CSX only."""
    if process.use_cs() and storage.thread_state.current is not None:
        # A step closure without effect makes `value` an output. Otherwise the compiler would remove state that nothing
        # reads.
        steps.make_closure(lambda r: None, False)(value)


class AccuracyMetric(Metric):
    """The fraction of predictions that equal their labels.

    >>> import torch, cerebras.pytorch as cstorch
    >>> accuracy = cstorch.metrics.AccuracyMetric("accuracy")
    >>> accuracy(labels=torch.tensor([1, 2]), predictions=torch.tensor([1, 0]))
    tensor(0.5000)
    """

    def reset(self) -> None:
        self.register_state("total_correct_predictions", tensor(0.0))
        self.register_state("total_num_tokens", tensor(0.0))

    def update(self, labels: Tensor, predictions: Tensor, weights: Tensor | None = None, dtype: Any = None) -> None:
        """Count the correct predictions of a batch.

        `labels` and `predictions` have the same shape, to which `weights` broadcast. Elements of weight 0 are ignored.
        A weighted hit counts with its weight, while the total counts each element of positive weight once.
        """
        correct = pw.cast_to(labels == predictions, self.total_num_tokens.dtype)
        if weights is None:
            count: Any = float(labels.numel())
        else:
            correct = correct * weights
            # The original weights only the hits. For weights other than 0 and 1 the result is therefore not a fraction.
            # This matches values recorded from release 2.10.
            count = reduction.sum(pw.cast_to(weights > 0, self.total_num_tokens.dtype))
        self.total_correct_predictions.add_(reduction.sum(correct))
        self.total_num_tokens.add_(count)

    def compute(self) -> Tensor:
        """Return the accuracy as a float32 scalar tensor; NaN before the first update."""
        share: Tensor = self.total_correct_predictions / self.total_num_tokens
        return share


class MeanMetric(Metric):
    """The weighted mean of all values given to the metric.

    >>> import torch, cerebras.pytorch as cstorch
    >>> mean = cstorch.metrics.MeanMetric("mean")
    >>> mean(torch.tensor([2.0, 4.0]))
    tensor(3.)
    """

    def reset(self) -> None:
        self.register_state("mean_value", tensor(0.0))
        self.register_state("weight", tensor(0.0))

    def update(self, value: Any, weight: Any = 1.0, dtype: Any = None) -> None:
        """Add `value`, a number or a tensor, to the mean.

        `weight` is a number for all elements, or a tensor with one weight for each element. `dtype` is the dtype to
        which a tensor is cast first; float32 if None.
        """
        values = pw.cast_to(value, dtype or float32) if isinstance(value, Tensor) else tensor(float(value))
        count: Tensor | float
        if isinstance(weight, Tensor):
            values, count = values * weight, reduction.sum(weight)
        else:
            values = values if weight == 1 else values * weight
            # A number is a constant of the traced graph.
            count = float(weight) * values.numel()
        self.mean_value.add_(reduction.sum(values) if values.ndim else values)
        self.weight.add_(count)

    def compute(self) -> Tensor:
        """Return the weighted mean as a float32 scalar tensor; NaN before the first update."""
        mean: Tensor = self.mean_value / self.weight
        return mean


class PerplexityMetric(Metric):
    """The perplexity: the exponential of the mean loss per token over all batches.

    >>> import torch, cerebras.pytorch as cstorch
    >>> perplexity = cstorch.metrics.PerplexityMetric("perplexity")
    >>> perplexity(labels=torch.tensor([1, 2]), loss=torch.tensor(2.0))
    tensor(2.7183)
    """

    def reset(self) -> None:
        self.register_state("total_loss", tensor(0.0))
        self.register_state("total_num_tokens", tensor(0.0))

    def update(self, labels: Tensor, loss: Tensor, weights: Tensor | None = None, dtype: Any = None) -> None:
        """Add a batch's `loss`, summed over its tokens.

        The number of tokens is the number of `labels`, or the sum of `weights` if given.
        """
        count: Any = float(labels.numel()) if weights is None else reduction.sum(weights)
        self.total_loss.add_(pw.cast_to(loss, self.total_loss.dtype))
        self.total_num_tokens.add_(count)

    def compute(self) -> Tensor:
        """Return exp(total loss / total tokens) as a float32 scalar tensor; NaN before the first update."""
        # This is the exponential of the mean over all batches, not the mean of perplexities.
        return pw.exp(self.total_loss / self.total_num_tokens)


def get_all_metrics() -> Iterator[tuple[str, Metric]]:
    """Yield the name and the object of every metric of the run.

    Metrics that share a name get a numeric suffix: "loss.0", "loss.1".

    >>> import cerebras.pytorch as cstorch
    >>> loss = cstorch.metrics.MeanMetric("loss")
    >>> [name for name, metric in cstorch.metrics.get_all_metrics() if metric is loss]
    ['loss']
    """
    # The suffix depends on later metrics, so it is added here and not in the constructor.
    shared = Counter(m.name for m in _all_metrics.value)
    return ((m.name if shared[m.name] == 1 else f"{m.name}.{m._index}", m) for m in _all_metrics.value)


def compute_all_metrics() -> dict[str, float]:
    """Return the current value of every metric of the run by name, with names as in `get_all_metrics`."""
    return {name: float(m) for name, m in get_all_metrics()}
