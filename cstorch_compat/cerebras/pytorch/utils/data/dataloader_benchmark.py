"""A benchmark of data loaders: the rate at which a loader provides batches."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cstorch_compat.files.tree import flatten
from lazytensor.core.pytree import TreeSpec, tree_structure
from lazytensor.display.table import rate_text

SAMPLING_INTERVAL_STEPS = 100
"""The default number of steps between two samples of the rates. The first step of each epoch is sampled."""
Nanoseconds = np.timedelta64


@dataclass(frozen=True)
class TensorSpec:
    """The shape and dtype of a tensor in a batch."""

    shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class BatchSpec:
    """The shapes, dtypes and nesting of a batch."""

    tensors: tuple[TensorSpec, ...]
    spec: TreeSpec

    def __hash__(self) -> int:
        return hash(self.tensors)

    @property
    def batch_size(self) -> int:
        """Return the size of the first dimension of the first tensor that has one, or 1 if there is none."""
        return next((t.shape[0] for t in self.tensors if t.shape), 1)


@dataclass
class BatchSpecOccurence:
    """The step and epoch, counted from 1, in which a batch form first occurs, and its number of occurrences."""

    epoch_step: int
    epoch: int
    count: int = 0


@dataclass
class BatchMetrics:
    """Rates at a sampled step, in steps per second.

    - `epoch_step`, `global_step`: the step in its epoch and overall, counted from 1.
    - `local_rate`: the rate of this step.
    - `global_rate`: the mean rate since the benchmark began.
    - `profile_activities`: always empty.
    - `sampling_time_ns`: the time of the sample in nanoseconds since the epoch.
    """

    epoch_step: int
    global_step: int
    local_rate: float
    global_rate: float
    profile_activities: dict[str, Any] = field(default_factory=dict)
    sampling_time_ns: int = 0


@dataclass
class EpochMetrics:
    """Measurements of one pass over the loader.

    - `iterator_creation`: the time to create the iterator, as a timedelta64.
    - `iteration_time`: the time to read the batches, as a timedelta64.
    - `total_steps`: the number of batches.
    - `batch_metrics`: the sampled rates.
    - `start_time_ns`, `end_time_ns`: in nanoseconds since the epoch.
    """

    iterator_creation: Any = field(default_factory=lambda: Nanoseconds(0, "ns"))
    iteration_time: Any = field(default_factory=lambda: Nanoseconds(0, "ns"))
    total_steps: int = 0
    batch_metrics: list[BatchMetrics] = field(default_factory=list)
    start_time_ns: int = field(default_factory=time.time_ns)
    end_time_ns: int = 0

    @property
    def total_time(self) -> Any:
        """Return the time to create the iterator and to read all batches."""
        return self.iterator_creation + self.iteration_time


@dataclass
class Metrics:
    """Results of a benchmark.

    - `dataloader_build_time`: the duration of the input function, as a timedelta64.
    - `epoch_metrics`: the measurements of each epoch.
    - `batch_specs`: the occurrences of each batch form.
    - `total_time`: the time of all epochs, as a timedelta64.
    - `global_rate`: steps per second over all epochs.
    - `is_partial`: whether the benchmark is still running.
    - `start_time_ns`, `end_time_ns`: in nanoseconds since the epoch.
    """

    dataloader_build_time: Any = field(default_factory=lambda: Nanoseconds(0, "ns"))
    epoch_metrics: list[EpochMetrics] = field(default_factory=list)
    batch_specs: dict[BatchSpec, BatchSpecOccurence] = field(default_factory=dict)
    total_time: Any = field(default_factory=lambda: Nanoseconds(0, "ns"))
    global_rate: float = 0.0
    is_partial: bool = True
    start_time_ns: int = field(default_factory=time.time_ns)
    end_time_ns: int = 0

    @property
    def total_steps(self) -> int:
        """Return the number of steps of all epochs."""
        return sum(epoch.total_steps for epoch in self.epoch_metrics)

    @property
    def global_sample_rate(self) -> float:
        """Return the number of samples per second over all epochs."""
        samples = sum(spec.batch_size * seen.count for spec, seen in self.batch_specs.items())
        return self.global_rate * samples / max(1, self.total_steps)

    def text(self) -> str:
        """Return the results as text for printing."""
        lines = [
            f"loader created in {_to_microseconds(self.dataloader_build_time):.1f} us; {self.total_steps} steps in "
            f"{_to_microseconds(self.total_time):.1f} us: {rate_text(self.global_rate)} steps/s, "
            f"{rate_text(self.global_sample_rate)} samples/s",
            *(
                f"  epoch {i}: {epoch.total_steps} steps, iterator created in "
                f"{_to_microseconds(epoch.iterator_creation):.1f} us, read in "
                f"{_to_microseconds(epoch.iteration_time):.1f} us"
                for i, epoch in enumerate(self.epoch_metrics, 1)
            ),
            *(
                f"  {seen.count} batches, the first in step {seen.epoch_step} of epoch {seen.epoch}, of "
                + ", ".join(f"{t.dtype}{list(t.shape)}" for t in spec.tensors)
                for spec, seen in self.batch_specs.items()
            ),
        ]
        return "\n".join(lines)


def benchmark_dataloader(
    input_fn: Callable[..., Iterable[Any]],
    num_epochs: int | None = None,
    steps_per_epoch: int | None = None,
    sampling_frequency: int | None = None,
    profile_activities: list[str] | None = None,
    print_metrics: bool = True,
) -> Metrics:
    """Measure how fast the loader that `input_fn` returns provides batches.

    - `num_epochs`: the number of passes over the loader; 1 if None.
    - `steps_per_epoch`: the maximum number of batches of a pass; None for all.
    - `sampling_frequency`: the number of steps between samples of the rates; 100 if None.
    - `profile_activities`: must be empty, because none are supported.
    - `print_metrics`: print the results.

    Raises ValueError for numbers below 1 and for a nonempty `profile_activities`.
    """
    counts = {"num_epochs": num_epochs, "steps_per_epoch": steps_per_epoch, "sampling_frequency": sampling_frequency}
    for name, value in counts.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} must be positive, but got {value}.\n  Pass a positive number.")
    if profile_activities:
        raise ValueError(
            f"Invalid profile activity: {profile_activities[0]}. Profiling is not supported in this version."
            "\n  Omit profile_activities."
        )
    metrics = Metrics()
    start = time.perf_counter_ns()
    loader = input_fn()
    metrics.dataloader_build_time = _elapsed_since(start)
    for number in range(1, (num_epochs or 1) + 1):
        _read_epoch(metrics, loader, number, steps_per_epoch, sampling_frequency or SAMPLING_INTERVAL_STEPS)
    # The time to create the loader is excluded, because a run creates it once.
    metrics.total_time = sum((e.total_time for e in metrics.epoch_metrics), Nanoseconds(0, "ns"))
    metrics.global_rate = metrics.total_steps / max(1e-9, _to_microseconds(metrics.total_time) / 1e6)
    metrics.is_partial, metrics.end_time_ns = False, time.time_ns()
    if print_metrics:
        print(metrics.text())
    return metrics


def _read_epoch(metrics: Metrics, loader: Iterable[Any], number: int, steps: int | None, frequency: int) -> None:
    """Read one epoch of `loader` and append its measurements to `metrics`.

    `number` is that of the epoch, from 1. It ends after `steps` batches, if that is not None, or when the loader is
    exhausted. Rates are recorded in the first step and every `frequency` steps. The form of each batch is counted.
    """
    epoch, before = EpochMetrics(), metrics.total_steps
    metrics.epoch_metrics.append(epoch)
    start = time.perf_counter_ns()
    # Creating the iterator is measured separately, because it starts the loader's workers.
    batches = iter(loader)
    epoch.iterator_creation = _elapsed_since(start)
    start = last = time.perf_counter_ns()
    while steps is None or epoch.total_steps < steps:
        try:
            batch = next(batches)
        except StopIteration:
            break
        now = time.perf_counter_ns()
        epoch.total_steps += 1
        # Rates are sampled, because recording every step would affect the measurement.
        if (epoch.total_steps - 1) % frequency == 0:
            overall = (time.time_ns() - metrics.start_time_ns) / 1e9
            rates = 1e9 / max(1, now - last), (before + epoch.total_steps) / max(overall, 1e-9)
            at = epoch.total_steps, before + epoch.total_steps
            epoch.batch_metrics.append(BatchMetrics(*at, *rates, sampling_time_ns=time.time_ns()))
        occurrence = metrics.batch_specs.setdefault(_batch_spec(batch), BatchSpecOccurence(epoch.total_steps, number))
        occurrence.count += 1
        # Exclude the bookkeeping above from the loader's time.
        last = time.perf_counter_ns()
    epoch.iteration_time, epoch.end_time_ns = _elapsed_since(start), time.time_ns()


def _batch_spec(batch: Any) -> BatchSpec:
    tensors = tuple(TensorSpec(tuple(t.shape), t.dtype) for _, t in flatten(batch))
    return BatchSpec(tensors, tree_structure(batch))


def _elapsed_since(start: int) -> Any:
    return Nanoseconds(time.perf_counter_ns() - start, "ns")


def _to_microseconds(span: Any) -> float:
    return float(span / Nanoseconds(1, "ns")) / 1e3
