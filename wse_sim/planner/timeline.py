"""Timelines: spans of cycles on lanes, scheduled from tasks with dependencies."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TimelineTask:
    """A task that occupies `lane` for `cycles` after the tasks `after` (indices in the list of tasks) have ended."""

    lane: str
    label: str
    cycles: int
    after: tuple[int, ...] = ()


@dataclass(frozen=True)
class TimeSpan:
    """A scheduled task, from the cycle in which it can start until it ends.

    - `lane`, `label`: its lane and its name
    - `start_cycles`, `end_cycles`: its first cycle, and the cycle after the last
    - `cause`: index of the span whose end started it, None for one that starts at cycle 0
    - `wait_cycles`: cycles in which it waits, for example for weights that are still arriving. They are counted at its
      start, wherever they are
    """

    lane: str
    label: str
    start_cycles: int
    end_cycles: int
    cause: int | None = None
    wait_cycles: int = 0

    @property
    def busy_start_cycles(self) -> int:
        """Return the first cycle after all of its waiting."""
        return self.start_cycles + self.wait_cycles


@dataclass(frozen=True)
class Timeline:
    """The spans of a step, in the order of their tasks.

    >>> import lazytensor as lt, wse_sim
    >>> tiny = wse_sim.plan(lt.trace(lt.nn.Linear(64, 10), lt.ones(32, 64)), "tiny", "pipelined")
    >>> sorted(tiny.chosen.timeline.lanes)
    ['end', 'feed', 'matmul']
    """

    spans: tuple[TimeSpan, ...]

    @property
    def end_cycles(self) -> int:
        """Return the cycle in which the last span ends; 0 without spans."""
        return max((s.end_cycles for s in self.spans), default=0)

    @property
    def lanes(self) -> dict[str, tuple[TimeSpan, ...]]:
        """Return a mapping from lane to its spans, ordered by start and end."""
        lanes: dict[str, list[TimeSpan]] = {}
        for span in sorted(self.spans, key=lambda s: (s.start_cycles, s.end_cycles)):
            lanes.setdefault(span.lane, []).append(span)
        return {lane: tuple(spans) for lane, spans in lanes.items()}

    def busy_cycles(self, lane: str) -> int:
        """Return the total cycles of the spans on `lane`, without those in which they wait."""
        return sum(s.end_cycles - s.busy_start_cycles for s in self.spans if s.lane == lane)

    def critical_path(self) -> tuple[TimeSpan, ...]:
        """Return the chain of spans from cycle 0 to the end, without gaps, that determines the total time.

        The chain ends with the span that ends last, the first of several. It is () without spans.
        """
        if not self.spans:
            return ()
        # Follow the causes backwards from the span that ends last.
        at: int | None = max(range(len(self.spans)), key=lambda i: self.spans[i].end_cycles)
        path: list[TimeSpan] = []
        while at is not None:
            path.append(self.spans[at])
            at = self.spans[at].cause
        return tuple(reversed(path))


def schedule_tasks(tasks: Sequence[TimelineTask]) -> Timeline:
    """Return the timeline of `tasks`, which start in list order.

    A task starts when the previous task on its lane and its dependencies have ended, else at cycle 0. The one that ends
    last is its cause. It may depend only on earlier tasks.
    """
    spans: list[TimeSpan] = []
    last_on: dict[str, int] = {}
    for task in tasks:
        # A lane runs one task at a time, so a task also waits for the previous one on its lane.
        waits = [*task.after, *([last_on[task.lane]] if task.lane in last_on else [])]
        # The dependency that ends last is the cause. Following causes backwards gives the critical path.
        cause = max(waits, key=lambda i: spans[i].end_cycles, default=None)
        start = spans[cause].end_cycles if cause is not None else 0
        last_on[task.lane] = len(spans)
        spans.append(TimeSpan(task.lane, task.label, start, start + task.cycles, cause))
    return Timeline(tuple(spans))
