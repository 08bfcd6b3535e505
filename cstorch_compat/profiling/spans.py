"""What the host does and when, noted while a run is followed: spans of time on lanes, and the steps of the wafer.

Nothing is noted unless `start_recording` was called; what asks for a span otherwise gets one that does nothing.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

clock = time.perf_counter
"""Seconds; one clock for all processes of a machine, so that workers can say when they were at work."""
STEP_LANE, CLOSURE_LANE = "steps", "closures"
"""The lanes that every run has."""


@dataclass(frozen=True)
class HostSpan:
    """From `start_s` to `end_s` something was done on a lane; `details` are shown beside it."""

    lane: str
    name: str
    start_s: float
    end_s: float
    details: dict[str, Any]


@dataclass(frozen=True)
class WaferStep:
    """A step that was handed to the wafer at `start_s`; `executable` knows what it takes there."""

    number: int
    start_s: float
    executable: Any


@dataclass
class RunRecord:
    """All that was noted of a run."""

    start_s: float = field(default_factory=clock)
    spans: list[HostSpan] = field(default_factory=list)
    wafer: list[WaferStep] = field(default_factory=list)
    samples: list[tuple[float, int]] = field(default_factory=list)  # when, and how many in all


_NULL_CONTEXT = nullcontext()
# One record for the process, as it has one run: spans begin deep in loaders and sessions.
_current_record: RunRecord | None = None


def start_recording() -> RunRecord:
    """Begin to note what the run does."""
    global _current_record
    _current_record = RunRecord()
    return _current_record


def stop_recording() -> None:
    """Note nothing more."""
    global _current_record
    _current_record = None


def record_span(lane: str, name: str, **details: Any) -> AbstractContextManager[None]:
    """A block that takes its time on a lane."""
    # Of a run that nobody follows a step pays one comparison.
    return _NULL_CONTEXT if _current_record is None else _record_timed_span(_current_record, lane, name, details)


@contextmanager
def _record_timed_span(record: RunRecord, lane: str, name: str, details: dict[str, Any]) -> Iterator[None]:
    began = clock()
    try:
        yield
    finally:
        # Of a block that raised too: it is where a run ends that one wants to see.
        record.spans.append(HostSpan(lane, name, began, clock(), details))


def add_span(lane: str, name: str, start_s: float, end_s: float, **details: Any) -> None:
    """Something that was done elsewhere, such as in a worker."""
    if _current_record is not None:
        _current_record.spans.append(HostSpan(lane, name, start_s, end_s, details))


def record_wafer_step(number: int, executable: Any) -> None:
    """A step goes to what executes it."""
    if _current_record is not None:
        _current_record.wafer.append(WaferStep(number, clock(), executable))


def count_samples(samples: int) -> None:
    """So many more samples were trained on."""
    if _current_record is not None:
        before = _current_record.samples[-1][1] if _current_record.samples else 0
        _current_record.samples.append((clock(), before + samples))


def round_to_nanoseconds(at_us: float) -> float:
    """Microseconds in whole nanoseconds, which is what viewers of traces count in."""
    return round(at_us * 1000) / 1000


def slice_times(start_us: float, long_us: float) -> dict[str, float]:
    """Start and length of a slice, as Chrome's format names them, in whole nanoseconds."""
    # From the end as a viewer has it: rounded apart, a slice would reach a nanosecond into the next one.
    start, end = round_to_nanoseconds(start_us), round_to_nanoseconds(start_us + max(0.0, long_us))
    return {"ts": start, "dur": round_to_nanoseconds(end - start)}
