"""Timelines: spans of cycles on lanes, made from tasks with dependencies."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TimelineTask:
    """Something that takes cycles on a lane once the tasks `after` (positions in the list) are done."""

    lane: str
    label: str
    cycles: int
    after: tuple[int, ...] = ()


@dataclass(frozen=True)
class TimeSpan:
    """A task in time. `cause` is the span whose end let this one start, or None for the very start."""

    lane: str
    label: str
    start_cycles: int
    end_cycles: int
    cause: int | None = None


@dataclass(frozen=True)
class Timeline:
    """Spans in the order of their tasks.

    >>> import lazytensor as lt, wse_sim
    >>> tiny = wse_sim.plan(lt.trace(lt.nn.Linear(64, 10), lt.ones(32, 64)), "tiny", "pipelined")
    >>> sorted(tiny.chosen.timeline.lanes)
    ['end', 'feed', 'matmul']
    """

    spans: tuple[TimeSpan, ...]

    @property
    def end_cycles(self) -> int:
        """When the last span ends."""
        return max((s.end_cycles for s in self.spans), default=0)

    @property
    def lanes(self) -> dict[str, tuple[TimeSpan, ...]]:
        """The spans of each lane in order of time."""
        lanes: dict[str, list[TimeSpan]] = {}
        for span in sorted(self.spans, key=lambda s: (s.start_cycles, s.end_cycles)):
            lanes.setdefault(span.lane, []).append(span)
        return {lane: tuple(spans) for lane, spans in lanes.items()}

    def busy_cycles(self, lane: str) -> int:
        """Cycles in which a lane does something."""
        return sum(s.end_cycles - s.start_cycles for s in self.spans if s.lane == lane)

    def critical_path(self) -> tuple[TimeSpan, ...]:
        """The spans, without a gap from 0 to the end, that decide how long it all takes."""
        if not self.spans:
            return ()
        # Backwards from whatever ends last.
        at: int | None = max(range(len(self.spans)), key=lambda i: self.spans[i].end_cycles)
        path: list[TimeSpan] = []
        while at is not None:
            path.append(self.spans[at])
            at = self.spans[at].cause
        return tuple(reversed(path))


def schedule_tasks(tasks: Sequence[TimelineTask]) -> Timeline:
    """Start each task as soon as its lane is free and what it waits for is done, in the order of the list.

    A task may wait only for earlier ones.
    """
    spans: list[TimeSpan] = []
    last_on: dict[str, int] = {}
    for task in tasks:
        # A lane does one thing at a time, so the task before on it is one more to wait for.
        waits = [*task.after, *([last_on[task.lane]] if task.lane in last_on else [])]
        # The last to end is the one that let it start: following these links back gives the critical path.
        cause = max(waits, key=lambda i: spans[i].end_cycles, default=None)
        start = spans[cause].end_cycles if cause is not None else 0
        last_on[task.lane] = len(spans)
        spans.append(TimeSpan(task.lane, task.label, start, start + task.cycles, cause))
    return Timeline(tuple(spans))
