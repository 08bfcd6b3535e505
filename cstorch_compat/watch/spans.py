"""What the host does and when, noted while a run is followed: spans of time on lanes, and the steps of the wafer.

Nothing is noted unless `follow` was called; what asks for a span otherwise gets one that does nothing.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

clock = time.perf_counter
"""Seconds; one clock for all processes of a machine, so that workers can say when they were at work."""
STEPS, CLOSURES = "steps", "closures"
"""The lanes that every run has."""


@dataclass(frozen=True)
class Span:
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
class Record:
    """All that was noted of a run."""

    start_s: float = field(default_factory=clock)
    spans: list[Span] = field(default_factory=list)
    wafer: list[WaferStep] = field(default_factory=list)
    samples: list[tuple[float, int]] = field(default_factory=list)  # when, and how many in all


_NOTHING = nullcontext()
# One record for the process, as it has one run: spans begin deep in loaders and sessions.
_record: Record | None = None


def follow() -> Record:
    """Begin to note what the run does."""
    global _record
    _record = Record()
    return _record


def forget() -> None:
    """Note nothing more."""
    global _record
    _record = None


def span(lane: str, name: str, **details: Any) -> AbstractContextManager[None]:
    """A block that takes its time on a lane."""
    # Of a run that nobody follows a step pays one comparison.
    return _NOTHING if _record is None else _timed(_record, lane, name, details)


@contextmanager
def _timed(record: Record, lane: str, name: str, details: dict[str, Any]) -> Iterator[None]:
    began = clock()
    try:
        yield
    finally:
        # Of a block that raised too: it is where a run ends that one wants to see.
        record.spans.append(Span(lane, name, began, clock(), details))


def add(lane: str, name: str, start_s: float, end_s: float, **details: Any) -> None:
    """Something that was done elsewhere, such as in a worker."""
    if _record is not None:
        _record.spans.append(Span(lane, name, start_s, end_s, details))


def on_wafer(number: int, executable: Any) -> None:
    """A step goes to what executes it."""
    if _record is not None:
        _record.wafer.append(WaferStep(number, clock(), executable))


def count(samples: int) -> None:
    """So many more samples were trained on."""
    if _record is not None:
        before = _record.samples[-1][1] if _record.samples else 0
        _record.samples.append((clock(), before + samples))


def whole(at_us: float) -> float:
    """Microseconds in whole nanoseconds, which is what viewers of traces count in."""
    return round(at_us * 1000) / 1000


def extent(start_us: float, long_us: float) -> dict[str, float]:
    """Start and length of a slice, as Chrome's format names them, in whole nanoseconds."""
    # From the end as a viewer has it: rounded apart, a slice would reach a nanosecond into the next one.
    start, end = whole(start_us), whole(start_us + max(0.0, long_us))
    return {"ts": start, "dur": whole(end - start)}
