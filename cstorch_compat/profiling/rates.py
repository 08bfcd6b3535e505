"""Rates of a run, and the time it waits for data."""

import json
import pathlib
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from lazytensor.display.table import rate_text

SMOOTH_FACTOR = 0.4
"""The weight of the previous rate in the smoothed rate."""


class RateTracker:
    """Counts per second: over the whole time, and smoothed over the intervals between calls of `rate`."""

    def __init__(self, smooth_factor: float | None = None):
        self._smooth = SMOOTH_FACTOR if smooth_factor is None else smooth_factor
        self.reset()

    def reset(self) -> None:
        """Set count, rate and time to zero."""
        self.total_count = 0.0
        self._rate = 0.0
        self.reset_time()

    def reset_time(self, offset: float = 0) -> None:
        """Restart the clock as if `offset` seconds had passed. The count is kept."""
        self._start = time.perf_counter() - offset
        # The second clock measures the time since the last call of `rate`.
        self._asked, self._asked_count = time.perf_counter(), self.total_count

    def add(self, count: float) -> None:
        """Add `count` to the total count."""
        self.total_count += count

    def elapsed_seconds(self) -> float:
        """Return the seconds since the clock was started."""
        return time.perf_counter() - self._start

    def rate(self) -> float:
        """Return the smoothed counts per second, updated by the interval since the last call.

        Each call changes the result: it is the rate of the interval, plus the smoothing factor times (last result -
        rate).
        """
        now = time.perf_counter()
        # The interval between two calls is one measurement, so frequent calls give noisy rates.
        latest = (self.total_count - self._asked_count) / max(now - self._asked, 1e-9)
        self._asked, self._asked_count = now, self.total_count
        self._rate = (1 - self._smooth) * latest + self._smooth * self._rate
        return self._rate

    def global_rate(self) -> float:
        """Return the counts per second since the clock was started."""
        return self.total_count / max(self.elapsed_seconds(), 1e-9)


class Activity(ABC):
    """The base class of measurements of a run. Subclasses are passed to the executor."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the profiler's attribute for this activity."""
        return cls.__name__

    @abstractmethod
    def update(self, batch_size: int | None) -> None:
        """Handle the end of a step with `batch_size` samples, or None if the number is unknown."""

    @abstractmethod
    def compute(self) -> Any:
        """Return the result of the measurement."""

    def __call__(self) -> Any:
        return self.compute()


class RateTrackerActivity(Activity):
    """Samples per second. The clock starts at the end of the first step, which includes compilation."""

    def __init__(self) -> None:
        self._tracker = RateTracker()
        self._is_first = True

    @classmethod
    def name(cls) -> str:
        """Return "rate_tracker"."""
        return "rate_tracker"

    def update(self, batch_size: int | None) -> None:
        """Count the samples of a step that has ended. None counts as 0.

        The first call also starts the clock.
        """
        # Exclude the first step, which includes compilation.
        if self._is_first:
            self._is_first = False
            self.reset_time()
        self._tracker.add(batch_size or 0)

    def reset_time(self) -> None:
        """Restart the clock. The number of samples is kept."""
        self._tracker.reset_time()

    @property
    def rate(self) -> float:
        """Smoothed samples per second. Each access updates it by the interval since the last one."""
        return self._tracker.rate()

    @property
    def global_rate(self) -> float:
        """Samples per second over the whole time."""
        return self._tracker.global_rate()

    @property
    def samples_per_sec(self) -> float:
        """The same as `global_rate`."""
        return self.global_rate

    @property
    def total_samples(self) -> float:
        """Number of samples of all steps that have ended."""
        return self._tracker.total_count

    @property
    def total_time(self) -> float:
        """Seconds since the clock was started."""
        return self._tracker.elapsed_seconds()

    @property
    def flops_utilization(self) -> None:
        """Always None. The wafer's report has the utilization."""
        return None

    def compute(self) -> dict[str, float | None]:
        """Return all of these values by name."""
        names = ("total_samples", "total_time", "rate", "global_rate", "samples_per_sec", "flops_utilization")
        return {name: getattr(self, name) for name in names}


class Profiler:
    """The measurements of a loop: activities as attributes, and rates as methods, as releases 1.9 to 2.1 have them.

    waits: seconds that the client has waited for the data of each worker
    seconds: seconds of the whole loop, set by `end`
    steps: number of steps that have ended

    Raises TypeError for an activity that is no subclass of Activity.
    """

    def __init__(self, activities: Sequence[type[Activity]] | None = None):
        for kind in activities or ():
            if not (isinstance(kind, type) and issubclass(kind, Activity)):
                raise TypeError(
                    f"Expected activity to be a subclass of Activity, got {type(kind)}\n  Pass a subclass of Activity."
                )
        followed: list[type[Activity]] = [RateTrackerActivity, *(activities or ())]
        self._activities: dict[str, Any] = {kind.name(): kind() for kind in followed}
        self._rates: RateTrackerActivity = self._activities[RateTrackerActivity.name()]
        self._began = time.perf_counter()
        self.waits: list[float] = []
        self.seconds = 0.0
        self.steps = 0

    def __getattr__(self, name: str) -> Any:
        # Read `__dict__`, because copying accesses attributes before __init__ has run.
        activities = self.__dict__.get("_activities", {})
        if name not in activities:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return activities[name]

    def step(self, batch_size: int | None) -> None:
        """Count a step, and update all activities at its end with `batch_size` samples."""
        self.steps += 1
        for activity in self._activities.values():
            activity.update(batch_size)

    def compiled(self) -> None:
        """Restart the clock of the rates, to exclude the compilation in the first step."""
        self._rates.reset_time()

    def rate(self) -> float:
        """Return the smoothed samples per second, updated by the interval since the last call."""
        return self._rates.rate

    def global_rate(self) -> float:
        """Return the samples per second over the whole time."""
        return self._rates.global_rate

    def samples_per_sec(self) -> float:
        """Return the same as `global_rate`."""
        return self._rates.global_rate

    def total_samples(self) -> float:
        """Return the number of samples of all steps that have ended."""
        return self._rates.total_samples

    def total_time(self) -> float:
        """Return the seconds since the clock was started."""
        return self._rates.total_time

    def end(self, waits: list[float]) -> None:
        """Store the final rates at the end of the loop, and the seconds waited for each worker."""
        self.seconds, self.waits = time.perf_counter() - self._began, waits
        self._final = self._rates.compute()

    def as_dict(self) -> dict[str, Any]:
        """Return the final rates, the steps, the seconds, and the waiting times. Requires `end`."""
        return {**self._final, "steps": self.steps, "seconds": self.seconds, "waits": self.waits}

    def save(self, folder: pathlib.Path) -> None:
        """Write the result of `as_dict` to performance.json in `folder`."""
        (folder / "performance.json").write_text(json.dumps(self.as_dict(), indent=4, sort_keys=True) + "\n")

    def text(self) -> str:
        """Return a line with the steps, samples, rate and share of time spent waiting for data. Requires `end`.

        If there are several workers, a line for each follows, longest waiting time first.
        """
        waited = sum(self.waits)
        share = waited / self.seconds if self.seconds else 0.0
        lines = [
            f"input: {self.steps} steps, {self._final['total_samples']:.0f} samples, "
            f"{rate_text(self._final['global_rate'] or 0.0)} samples/s; {share:.0%} of the time spent waiting for data"
        ]
        if len(self.waits) > 1:
            # Show the slowest worker first.
            by_wait = sorted(range(len(self.waits)), key=lambda rank: -self.waits[rank])
            lines += [
                f"  worker {rank}: {self.waits[rank]:.2f} s, {self.waits[rank] / max(waited, 1e-9):.0%} of the waiting"
                for rank in by_wait
            ]
        return "\n".join(lines)
