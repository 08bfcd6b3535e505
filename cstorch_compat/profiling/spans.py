"""The record of a run: time spans of the host's work on lanes, and the steps of the wafer.

Nothing is recorded before `start_recording`; the functions then have no effect.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

clock = time.perf_counter
"""The clock of all spans, in seconds.

It is the same for all processes of a machine, so workers can report their times.
"""
STEP_LANE, CLOSURE_LANE = "steps", "closures"
"""The lanes of every run: steps, and closures."""


@dataclass(frozen=True)
class HostSpan:
    """Work on a lane from `start_s` to `end_s`. Viewers show `details` with it."""

    lane: str
    name: str
    start_s: float
    end_s: float
    details: dict[str, Any]


@dataclass(frozen=True)
class WaferStep:
    """A step that was passed to the wafer at `start_s`. Its plan is in `executable`."""

    number: int
    start_s: float
    executable: Any


@dataclass
class RunRecord:
    """The record of a run: `samples` are times and total numbers of samples."""

    start_s: float = field(default_factory=clock)
    spans: list[HostSpan] = field(default_factory=list)
    wafer: list[WaferStep] = field(default_factory=list)
    samples: list[tuple[float, int]] = field(default_factory=list)  # time, and total number of samples


_NULL_CONTEXT = nullcontext()
# Global, because a process has one run and spans begin deep inside loaders and sessions.
_current_record: RunRecord | None = None


def start_recording() -> RunRecord:
    """Start a new record, which replaces a current one, and return it."""
    global _current_record
    _current_record = RunRecord()
    return _current_record


def stop_recording() -> None:
    """Stop recording and forget the current record. The object returned by `start_recording` is not changed."""
    global _current_record
    _current_record = None


def record_span(lane: str, name: str, **details: Any) -> AbstractContextManager[None]:
    """Return a context manager that records its duration on `lane`. It does nothing if there is no record."""
    # Without a record, a step only pays one comparison.
    return _NULL_CONTEXT if _current_record is None else _record_timed_span(_current_record, lane, name, details)


@contextmanager
def _record_timed_span(record: RunRecord, lane: str, name: str, details: dict[str, Any]) -> Iterator[None]:
    """Record the duration of the block, also if it raises."""
    began = clock()
    try:
        yield
    finally:
        # Also record a block that raised, because it shows where the run ended.
        record.spans.append(HostSpan(lane, name, began, clock(), details))


def add_span(lane: str, name: str, start_s: float, end_s: float, **details: Any) -> None:
    """Record work that was done elsewhere, such as in a worker. Does nothing unless a run is recorded."""
    if _current_record is not None:
        _current_record.spans.append(HostSpan(lane, name, start_s, end_s, details))


def record_wafer_step(number: int, executable: Any) -> None:
    """Record that a step is now passed to `executable`. Does nothing unless a run is recorded."""
    if _current_record is not None:
        _current_record.wafer.append(WaferStep(number, clock(), executable))


def count_samples(samples: int) -> None:
    """Add `samples` to the number of samples of the run. Does nothing unless a run is recorded."""
    if _current_record is not None:
        before = _current_record.samples[-1][1] if _current_record.samples else 0
        _current_record.samples.append((clock(), before + samples))


def round_to_nanoseconds(at_us: float) -> float:
    """Return a time in microseconds rounded to whole nanoseconds, the resolution of trace viewers."""
    return round(at_us * 1000) / 1000


def slice_times(start_us: float, long_us: float) -> dict[str, float]:
    """Return "ts" and "dur" of a slice in Chrome's trace format, rounded to whole nanoseconds.

    A negative length becomes 0.
    """
    # Round the end and subtract: rounding start and length separately could overlap the next slice by a nanosecond.
    start, end = round_to_nanoseconds(start_us), round_to_nanoseconds(start_us + max(0.0, long_us))
    return {"ts": start, "dur": round_to_nanoseconds(end - start)}
