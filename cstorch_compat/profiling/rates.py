"""How fast a run goes, and what it waits for."""

import json
import pathlib
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from lazytensor.display.table import rate_text

SMOOTH_FACTOR = 0.4
"""The weight of the rate before in the present one."""


class RateTracker:
    """Counts per second, over all the time, and smoothed over the times when the rate was asked for."""

    def __init__(self, smooth_factor: float | None = None):
        self._smooth = SMOOTH_FACTOR if smooth_factor is None else smooth_factor
        self.reset()

    def reset(self) -> None:
        """Begin at zero."""
        self.total_count = 0.0
        self._rate = 0.0
        self.reset_time()

    def reset_time(self, offset: float = 0) -> None:
        """Begin to measure time, as if `offset` seconds were over; what was counted stays counted."""
        self._start = time.perf_counter() - offset
        # Two clocks: one for all of the time, one since the rate was asked for.
        self._asked, self._asked_count = time.perf_counter(), self.total_count

    def add(self, count: float) -> None:
        """So many more."""
        self.total_count += count

    def elapsed_seconds(self) -> float:
        """The time that is measured."""
        return time.perf_counter() - self._start

    def rate(self) -> float:
        """Counts per second since it was last asked for, smoothed."""
        now = time.perf_counter()
        # What happened between two questions counts as one measurement, so that a script that asks often sees more
        # noise.
        latest = (self.total_count - self._asked_count) / max(now - self._asked, 1e-9)
        self._asked, self._asked_count = now, self.total_count
        self._rate = (1 - self._smooth) * latest + self._smooth * self._rate
        return self._rate

    def global_rate(self) -> float:
        """Counts per second of all the time."""
        return self.total_count / max(self.elapsed_seconds(), 1e-9)


class Activity(ABC):
    """Something that is followed in the course of a run; subclasses are given to the executor."""

    @classmethod
    def name(cls) -> str:
        """The attribute of the profiler by which it is found."""
        return cls.__name__

    @abstractmethod
    def update(self, batch_size: int | None) -> None:
        """A step is over."""

    @abstractmethod
    def compute(self) -> Any:
        """What there is to report."""

    def __call__(self) -> Any:
        return self.compute()


class RateTrackerActivity(Activity):
    """Samples per second. The clock starts when the first step, which is compiled, is over."""

    def __init__(self) -> None:
        self._tracker = RateTracker()
        self._is_first = True

    @classmethod
    def name(cls) -> str:
        """`rate_tracker`."""
        return "rate_tracker"

    def update(self, batch_size: int | None) -> None:
        """A step with so many samples is over; None counts nothing."""
        # The first step compiles, which would spoil the rate of the whole run.
        if self._is_first:
            self._is_first = False
            self.reset_time()
        self._tracker.add(batch_size or 0)

    def reset_time(self) -> None:
        """Start the clock anew."""
        self._tracker.reset_time()

    @property
    def rate(self) -> float:
        """Samples per second since it was last asked for, smoothed."""
        return self._tracker.rate()

    @property
    def global_rate(self) -> float:
        """Samples per second of all the time."""
        return self._tracker.global_rate()

    @property
    def samples_per_sec(self) -> float:
        """The same as `global_rate`."""
        return self.global_rate

    @property
    def total_samples(self) -> float:
        """The samples of all steps that are over."""
        return self._tracker.total_count

    @property
    def total_time(self) -> float:
        """Seconds on the clock."""
        return self._tracker.elapsed_seconds()

    @property
    def flops_utilization(self) -> None:
        """None: the wafer report has it."""
        return None

    def compute(self) -> dict[str, float | None]:
        """All of it by name."""
        names = ("total_samples", "total_time", "rate", "global_rate", "samples_per_sec", "flops_utilization")
        return {name: getattr(self, name) for name in names}


class Profiler:
    """What an executor follows: its activities as attributes, and the rates that releases 1.9 to 2.1 call as methods.

    `waits` are the seconds that the client has waited for each worker's data, `seconds` those of the whole loop.
    """

    def __init__(self, activities: Sequence[type[Activity]] | None = None):
        for kind in activities or ():
            if not (isinstance(kind, type) and issubclass(kind, Activity)):
                raise TypeError(f"Expected activity to be a subclass of Activity, got {type(kind)}")
        followed: list[type[Activity]] = [RateTrackerActivity, *(activities or ())]
        self._activities: dict[str, Any] = {kind.name(): kind() for kind in followed}
        self._rates: RateTrackerActivity = self._activities[RateTrackerActivity.name()]
        self._began = time.perf_counter()
        self.waits: list[float] = []
        self.seconds = 0.0
        self.steps = 0

    def __getattr__(self, name: str) -> Any:
        # By __dict__, for copying asks for names before __init__ has run.
        activities = self.__dict__.get("_activities", {})
        if name not in activities:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return activities[name]

    def step(self, batch_size: int | None) -> None:
        """A step is over."""
        self.steps += 1
        for activity in self._activities.values():
            activity.update(batch_size)

    def compiled(self) -> None:
        """The first step is over on the wafer too: what it took does not count."""
        self._rates.reset_time()

    def rate(self) -> float:
        """Samples per second since it was last asked for, smoothed."""
        return self._rates.rate

    def global_rate(self) -> float:
        """Samples per second of all the time."""
        return self._rates.global_rate

    def samples_per_sec(self) -> float:
        """The same as `global_rate`."""
        return self._rates.global_rate

    def total_samples(self) -> float:
        """The samples of all steps that are over."""
        return self._rates.total_samples

    def total_time(self) -> float:
        """Seconds on the clock."""
        return self._rates.total_time

    def end(self, waits: list[float]) -> None:
        """The loop is over."""
        self.seconds, self.waits = time.perf_counter() - self._began, waits
        self._final = self._rates.compute()

    def as_dict(self) -> dict[str, Any]:
        """The rates at the end of the loop, and the waiting."""
        return {**self._final, "steps": self.steps, "seconds": self.seconds, "waits": self.waits}

    def save(self, folder: pathlib.Path) -> None:
        """Write the rates to performance.json."""
        (folder / "performance.json").write_text(json.dumps(self.as_dict(), indent=4, sort_keys=True) + "\n")

    def text(self) -> str:
        """The rates in a line, and for several workers a line for each, the one that was waited for most first."""
        waited = sum(self.waits)
        share = waited / self.seconds if self.seconds else 0.0
        lines = [
            f"input: {self.steps} steps, {self._final['total_samples']:.0f} samples, "
            f"{rate_text(self._final['global_rate'] or 0.0)} samples/s; {share:.0%} of the time spent waiting for data"
        ]
        if len(self.waits) > 1:
            # The worker that the client waits for most is the one to make faster.
            by_wait = sorted(range(len(self.waits)), key=lambda rank: -self.waits[rank])
            lines += [
                f"  worker {rank}: {self.waits[rank]:.2f} s, {self.waits[rank] / max(waited, 1e-9):.0%} of the waiting"
                for rank in by_wait
            ]
        return "\n".join(lines)
