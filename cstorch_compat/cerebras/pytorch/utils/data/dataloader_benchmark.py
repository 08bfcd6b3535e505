"""How fast a data loader is by itself."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cstorch_compat.files.tree import flatten
from lazytensor.core.pytree import TreeSpec, tree_structure
from lazytensor.display.table import rate_text

SAMPLING_INTERVAL_STEPS = 100
"""Steps from one sample of the rates to the next, the first step of each epoch being one."""
Nanoseconds = np.timedelta64


@dataclass(frozen=True)
class TensorSpec:
    """The form of a tensor in a batch."""

    shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class BatchSpec:
    """The form of a batch."""

    tensors: tuple[TensorSpec, ...]
    spec: TreeSpec

    def __hash__(self) -> int:
        return hash(self.tensors)

    @property
    def batch_size(self) -> int:
        """The number of samples; 1 where there is no tensor with a dimension."""
        return next((t.shape[0] for t in self.tensors if t.shape), 1)


@dataclass
class BatchSpecOccurence:
    """Where a form of batches comes first, counted from 1, and how often it comes."""

    epoch_step: int
    epoch: int
    count: int = 0


@dataclass
class BatchMetrics:
    """Rates in steps per second: of the step alone, and of the time since the benchmark began."""

    epoch_step: int
    global_step: int
    local_rate: float
    global_rate: float
    profile_activities: dict[str, Any] = field(default_factory=dict)
    sampling_time_ns: int = 0


@dataclass
class EpochMetrics:
    """One pass over the loader."""

    iterator_creation: Any = field(default_factory=lambda: Nanoseconds(0, "ns"))
    iteration_time: Any = field(default_factory=lambda: Nanoseconds(0, "ns"))
    total_steps: int = 0
    batch_metrics: list[BatchMetrics] = field(default_factory=list)
    start_time_ns: int = field(default_factory=time.time_ns)
    end_time_ns: int = 0

    @property
    def total_time(self) -> Any:
        """Making the iterator and reading it to the end."""
        return self.iterator_creation + self.iteration_time


@dataclass
class Metrics:
    """What a benchmark found. Rates are in steps per second, times in nanoseconds."""

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
        """The steps of all epochs."""
        return sum(epoch.total_steps for epoch in self.epoch_metrics)

    @property
    def global_sample_rate(self) -> float:
        """Samples per second."""
        samples = sum(spec.batch_size * seen.count for spec, seen in self.batch_specs.items())
        return self.global_rate * samples / max(1, self.total_steps)

    def text(self) -> str:
        """The figures as a table."""
        lines = [
            f"loader made in {_to_microseconds(self.dataloader_build_time):.1f} us; {self.total_steps} steps in "
            f"{_to_microseconds(self.total_time):.1f} us: {rate_text(self.global_rate)} steps/s, "
            f"{rate_text(self.global_sample_rate)} samples/s",
            *(
                f"  epoch {i}: {epoch.total_steps} steps, iterator made in "
                f"{_to_microseconds(epoch.iterator_creation):.1f} us, read in "
                f"{_to_microseconds(epoch.iteration_time):.1f} us"
                for i, epoch in enumerate(self.epoch_metrics, 1)
            ),
            *(
                f"  {seen.count} batches, first in step {seen.epoch_step} of epoch {seen.epoch}, of "
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
    """Read the loader of an input function, for an epoch if no number is given, and say how fast it is.

    Raises ValueError for numbers below 1, and for `profile_activities`, of which there are none.
    """
    counts = {"num_epochs": num_epochs, "steps_per_epoch": steps_per_epoch, "sampling_frequency": sampling_frequency}
    for name, value in counts.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} must be positive, but got {value}.")
    if profile_activities:
        raise ValueError(f"Invalid profile activity: {profile_activities[0]}. There are none in this version.")
    metrics = Metrics()
    start = time.perf_counter_ns()
    loader = input_fn()
    metrics.dataloader_build_time = _elapsed_since(start)
    for number in range(1, (num_epochs or 1) + 1):
        _read_epoch(metrics, loader, number, steps_per_epoch, sampling_frequency or SAMPLING_INTERVAL_STEPS)
    # Without making the loader: it is made once, however long a run is.
    metrics.total_time = sum((e.total_time for e in metrics.epoch_metrics), Nanoseconds(0, "ns"))
    metrics.global_rate = metrics.total_steps / max(1e-9, _to_microseconds(metrics.total_time) / 1e6)
    metrics.is_partial, metrics.end_time_ns = False, time.time_ns()
    if print_metrics:
        print(metrics.text())
    return metrics


def _read_epoch(metrics: Metrics, loader: Iterable[Any], number: int, steps: int | None, frequency: int) -> None:
    """One epoch."""
    epoch, before = EpochMetrics(), metrics.total_steps
    metrics.epoch_metrics.append(epoch)
    start = time.perf_counter_ns()
    # Apart from reading: a loader with workers spends its time here to start them.
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
        # Sampled, since noting every step would be part of what is measured.
        if (epoch.total_steps - 1) % frequency == 0:
            overall = (time.time_ns() - metrics.start_time_ns) / 1e9
            rates = 1e9 / max(1, now - last), (before + epoch.total_steps) / max(overall, 1e-9)
            at = epoch.total_steps, before + epoch.total_steps
            epoch.batch_metrics.append(BatchMetrics(*at, *rates, sampling_time_ns=time.time_ns()))
        occurrence = metrics.batch_specs.setdefault(_batch_spec(batch), BatchSpecOccurence(epoch.total_steps, number))
        occurrence.count += 1
        # Behind the bookkeeping, which is not the loader's time.
        last = time.perf_counter_ns()
    epoch.iteration_time, epoch.end_time_ns = _elapsed_since(start), time.time_ns()


def _batch_spec(batch: Any) -> BatchSpec:
    tensors = tuple(TensorSpec(tuple(t.shape), t.dtype) for _, t in flatten(batch))
    return BatchSpec(tensors, tree_structure(batch))


def _elapsed_since(start: int) -> Any:
    return Nanoseconds(time.perf_counter_ns() - start, "ns")


def _to_microseconds(span: Any) -> float:
    return float(span / Nanoseconds(1, "ns")) / 1e3
