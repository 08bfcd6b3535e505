"""The APIs of `torch.profiler` and `torch.utils.benchmark`: times of named blocks and statements on the host.

Tensors are lazy. The time of a block is that of recording its operations and of computing the values read in it.
"""

import json
import os
import socket
import statistics
import time
import timeit
from collections.abc import Callable, Iterable
from contextlib import ContextDecorator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from cstorch_compat.run.process import RunLocal
from lazytensor.display.table import Column, Table


class ProfilerActivity(Enum):
    """An enumeration of the activities that PyTorch can profile. Only the CPU is supported."""

    CPU, XPU, MTIA, CUDA, HPU, PrivateUse1 = range(6)


class ProfilerAction(Enum):
    """An enumeration of the actions of a profiler in a step."""

    NONE, WARMUP, RECORD, RECORD_AND_SAVE = range(4)


@dataclass(frozen=True)
class ProfiledSpan:
    """One execution of a named block, with its start and end in nanoseconds of `time.perf_counter_ns`."""

    key: str
    start_ns: int
    end_ns: int

    @property
    def cpu_time_total(self) -> float:
        """Return the duration in microseconds."""
        return (self.end_ns - self.start_ns) / 1000


_open_profilers: RunLocal[list["profile"]] = RunLocal(list)
"""The profilers that are recording."""


class record_function(ContextDecorator):
    """A context manager and decorator that records the time of a block under `name` in all open profilers."""

    def __init__(self, name: str, args: str | None = None):
        self.name = name
        self._starts: list[int] = []

    def _recreate_cm(self) -> "record_function":
        return record_function(self.name)

    def __enter__(self) -> "record_function":
        self._starts.append(time.perf_counter_ns())
        return self

    def __exit__(self, *_: object) -> None:
        span = ProfiledSpan(self.name, self._starts.pop(), time.perf_counter_ns())
        for profiler in _open_profilers.value:
            profiler.note(span)


@dataclass
class EventAverage:
    """All spans with the same name, `key`."""

    key: str
    spans: list[ProfiledSpan] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Return the number of spans."""
        return len(self.spans)

    @property
    def cpu_time_total(self) -> float:
        """Return the total duration in microseconds."""
        return sum(s.cpu_time_total for s in self.spans)

    self_cpu_time_total = cpu_time_total

    @property
    def cpu_time(self) -> float:
        """Return the mean duration in microseconds."""
        return self.cpu_time_total / self.count

    device_time_total = cuda_time_total = 0.0


class EventList(list[EventAverage]):
    """The recorded spans, grouped by name."""

    def table(self, sort_by: str | None = None, row_limit: int = 100, **_: Any) -> str:
        """Return a text table of names, times and counts, longest total first, with at most `row_limit` rows.

        A negative `row_limit` means all rows. `sort_by` has no effect.
        """
        rows = sorted(self, key=lambda e: -e.cpu_time_total)[: row_limit if row_limit >= 0 else None]
        columns = (
            Column("Name", is_words=True),
            Column("CPU total us"),
            Column("CPU time avg us"),
            Column("# of Calls"),
        )
        return Table(columns, [(e.key, round(e.cpu_time_total, 3), round(e.cpu_time, 3), e.count) for e in rows]).text()

    def total_average(self) -> EventAverage:
        """Return all spans as one group named "Total"."""
        return EventAverage("Total", [s for e in self for s in e.spans])

    @property
    def self_cpu_time_total(self) -> float:
        """Return the total duration of all spans in microseconds."""
        return self.total_average().cpu_time_total


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a function from the step number to the profiler's action in that step.

    After `skip_first` steps, each cycle consists of `wait`, `warmup` and `active` steps. The last active step has the
    action RECORD_AND_SAVE. There are `repeat` cycles, or no limit if it is 0. `skip_first_wait` has no effect.
    """

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        cycle = wait + warmup + active
        if step < 0 or (repeat > 0 and step // cycle >= repeat):
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def supported_activities() -> set[ProfilerActivity]:
    """Return the set of supported activities: the CPU."""
    return {ProfilerActivity.CPU}


class profile:
    """A profiler of `record_function` blocks and of steps. Operations, shapes and memory are not recorded.

    `schedule` selects the steps to record; all by default. `on_trace_ready` is called with the profiler at the end of
    each recorded cycle. Other options are ignored.
    """

    def __init__(
        self,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[["profile"], Any] | None = None,
        **_: Any,
    ):
        self.activities = set(activities or supported_activities())
        self.schedule, self.on_trace_ready = schedule or (lambda step: ProfilerAction.RECORD), on_trace_ready
        self.step_num, self.spans = 0, list[ProfiledSpan]()
        self._begin = 0

    def __enter__(self) -> "profile":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin recording."""
        _open_profilers.value.append(self)
        self._begin = time.perf_counter_ns()

    def stop(self) -> None:
        """End recording, and call `on_trace_ready` if it is set, spans exist, and the current step is recorded."""
        if self in _open_profilers.value:
            _open_profilers.value.remove(self)
        if (
            self.on_trace_ready is not None
            and self.spans
            and self._current_action()
            in (
                ProfilerAction.RECORD,
                ProfilerAction.RECORD_AND_SAVE,
            )
        ):
            self.on_trace_ready(self)

    def _current_action(self) -> ProfilerAction:
        return self.schedule(self.step_num)

    def note(self, span: ProfiledSpan) -> None:
        """Add a span if the action of the current step is RECORD or RECORD_AND_SAVE; otherwise drop it."""
        if self._current_action() in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self.spans.append(span)

    def step(self) -> None:
        """Record the current step as a span, and begin the next one.

        After a step with the action RECORD_AND_SAVE, `on_trace_ready` is called and the spans are cleared. Without
        `on_trace_ready` they are kept.
        """
        # The span belongs to the step that ends now, so it is added before the count increases.
        now, action = time.perf_counter_ns(), self._current_action()
        self.note(ProfiledSpan(f"ProfilerStep#{self.step_num}", self._begin, now))
        self.step_num, self._begin = self.step_num + 1, now
        if action is ProfilerAction.RECORD_AND_SAVE and self.on_trace_ready is not None:
            self.on_trace_ready(self)
            self.spans = []

    def events(self) -> list[ProfiledSpan]:
        """Return all recorded spans."""
        return list(self.spans)

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """Return the recorded spans grouped by name."""
        by_name: dict[str, EventAverage] = {}
        for span in self.spans:
            by_name.setdefault(span.key, EventAverage(span.key)).spans.append(span)
        return EventList(by_name.values())

    def export_chrome_trace(self, path: str) -> None:
        """Write the spans to the file `path` in Chrome's trace format."""
        # The format uses microseconds.
        events = [
            {"name": s.key, "ph": "X", "ts": s.start_ns / 1000, "dur": s.cpu_time_total, "pid": os.getpid(), "tid": 0}
            for s in self.spans
        ]
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"traceEvents": events}, f)

    @property
    def self_cpu_time_total(self) -> float:
        """Return the total duration of all spans in microseconds."""
        return self.key_averages().self_cpu_time_total

    def table(self, *args: Any, **kwargs: Any) -> str:
        """Return the table of `key_averages`."""
        return self.key_averages().table(*args, **kwargs)


class autograd_profile(profile):
    """The older profiler `torch.autograd.profiler.profile(enabled=...)`."""

    def __init__(self, enabled: bool = True, **options: Any):
        super().__init__(schedule=None if enabled else lambda step: ProfilerAction.NONE)


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Any:
    """Return a function for `on_trace_ready` that writes each trace to a new file for TensorBoard.

    The file is in the folder `dir_name`. The folder is created if needed. The file's name contains `worker_name`, by
    default host and process id. `use_gzip` has no effect.
    """

    def write(profiler: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        # TensorBoard distinguishes runs by host and process.
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        profiler.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json"))

    return write


@dataclass(frozen=True)
class Measurement:
    """The times of one statement.

    `raw_times` are in seconds, each for `number_per_run` executions.
    """

    number_per_run: int
    raw_times: list[float]
    title: str = ""

    @property
    def times(self) -> list[float]:
        """Return the time of one execution, in seconds, for each measurement."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        """Return the median time of an execution in seconds."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """Return the mean time of an execution in seconds."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """Return the interquartile range of the times in seconds; 0.0 for a single measurement."""
        if len(self.times) < 2:
            return 0.0
        quarters = statistics.quantiles(self.times, n=4, method="inclusive")
        return quarters[2] - quarters[0]

    def __repr__(self) -> str:
        return (
            f"<torch.utils.benchmark.utils.common.Measurement object>\n{self.title}\n  {self.median * 1e6:.2f} us\n"
            f"  {len(self.raw_times)} measurement{'s' * (len(self.raw_times) > 1)}, {self.number_per_run} runs per "
            "measurement, 1 thread"
        )


class Timer:
    """A timer of a statement, as `torch.utils.benchmark.Timer`.

    `global_setup`, `env`, `num_threads` and `language` are ignored.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = time.perf_counter,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ):
        self._timer = timeit.Timer(stmt, setup, timer, globals)
        self._title = ": ".join(filter(None, (label or stmt, sub_label, description)))

    def timeit(self, number: int = 1000000) -> Measurement:
        """Return the time of `number` executions as one measurement.

        A warm-up of `number` / 100 executions, at least 2, runs before it.
        """
        self._timer.timeit(max(number // 100, 2))
        return Measurement(number, [self._timer.timeit(number)], self._title)

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Measure blocks of executions until `min_run_time` seconds have passed.

        The block size is increased by factors of 10 until a block is long enough for the clock.
        """
        number, spent = 1, self._timer.timeit(1)
        while spent < min(min_run_time / 100, 0.01):
            number *= 10
            spent = self._timer.timeit(number)
        times: list[float] = []
        while sum(times) < min_run_time:
            times.append(self._timer.timeit(number))
        return Measurement(number, times, self._title)

    adaptive_autorange = blocked_autorange


class Compare:
    """A table of several measurements."""

    def __init__(self, results: Iterable[Measurement]):
        self._results = list(results)

    def __str__(self) -> str:
        columns = (Column("statement", is_words=True), Column("median us"))
        return Table(columns, [(m.title, round(m.median * 1e6, 2)) for m in self._results]).text()

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Append measurements."""
        self._results += results

    def trim_significant_figures(self) -> None:
        """Do nothing."""

    def colorize(self, rowwise: bool = False) -> None:
        """Do nothing."""

    def print(self) -> None:
        """Print the table."""
        print(self)
