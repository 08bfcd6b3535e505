"""What parts of a phase program that run at the same time take from one another on the cores that they share.

A core issues one thing in a cycle. Where two threads both could go on they take turns, so that each loses what the
other one does while it lasts: a move the words of the other that pass its cores, but no more than its own. Local work
leaves the turn to others while its operations are set up. Two local parts run one after the other, in one task; and
since tasks run to their end, a move that consists of several operations goes on after its first one only when local
work is through. Links are shared as well, but a core has but one ramp, so that its turns come first.

The sum of these is exact where all threads are ready all the time, as in streams of equal length; tests/wse_sim/
cost_model/test_closed_forms.py says how far it is from the fabric elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wse_sim.layout import Rect
from wse_sim.machine import Machine

_MAX_PAIRWISE_PARTS = 8
"""Parts of which pairs are compared one by one."""


@dataclass(frozen=True)
class PhaseLoad:
    """A part on its own: where, how long, and what it does to others.

    `words` pass the cores on its slowest way, `issue_cycles` are those that its busiest core issues something in, by so
    many `threads`, and `later_cycles` those that follow after its first operations, which issue `later_words` of all.
    `lead_cycles` is local work of a
    move before it starts; `issue_slack_cycles` are those that its cores may lose before it takes longer, since links
    bind it. In its first `quiet_cycles` nothing passes.
    """

    rects: tuple[Rect, ...] = ()
    cycles: float = 0
    words: float = 0
    issue_cycles: float = 0
    later_cycles: float = 0
    later_words: float = 0
    is_local: bool = True
    threads: int = 1
    lead_cycles: float = 0
    issue_slack_cycles: float = 0
    quiet_cycles: float = 0

    @property
    def density(self) -> float:
        """The part of its time in which it could issue something."""
        # A move is taken as ready all the time: when its words wait, they wait for cores, and these are what is shared.
        return self.issue_cycles / self.cycles if self.is_local and self.cycles else 1

    def contended_cycles(self, move: "PhaseLoad") -> float:
        """The issue cycles of this local work that come after a move has begun."""
        return self.density * max(0.0, self.cycles - move.quiet_cycles)

    def meets(self, other: "PhaseLoad") -> bool:
        """Whether the two have a core in common."""
        # Parts of one kernel have the same rectangle, mostly the same object.
        is_same = bool(self.rects) and self.rects == other.rects
        return is_same or any(a.overlaps(b) for a in self.rects for b in other.rects)

    def then(self, other: "PhaseLoad") -> "PhaseLoad":
        """Both, one after the other."""
        if not self.cycles or not other.cycles:
            return self if self.cycles else other
        # Lead, slack and quiet cycles are lost here: they say when a single move begins and what binds it, and of a
        # sequence only the sums matter to those beside it.
        return PhaseLoad(
            rects=tuple(dict.fromkeys(self.rects + other.rects)),
            cycles=self.cycles + other.cycles,
            words=self.words + other.words,
            issue_cycles=self.issue_cycles + other.issue_cycles,
            # All of the second part starts from a task of its own, so that local work beside it can hold it up.
            later_cycles=self.later_cycles + other.cycles,
            later_words=self.later_words + other.words,
            is_local=self.is_local and other.is_local,
            threads=max(self.threads, other.threads),
        )

    def times(self, n: int) -> "PhaseLoad":
        """The same `n` times, one after the other."""
        if not n:
            return PhaseLoad()
        return PhaseLoad(
            rects=self.rects,
            cycles=n * self.cycles,
            words=n * self.words,
            issue_cycles=n * self.issue_cycles,
            # Every round but the first begins after an operation of the round before.
            later_cycles=self.later_cycles + (n - 1) * self.cycles,
            later_words=self.later_words + (n - 1) * self.words,
            is_local=self.is_local,
            threads=self.threads,
        )


def combine_loads(loads: Sequence[PhaseLoad], machine: Machine) -> PhaseLoad:
    """Parts at the same time, as one."""
    loads = [load for load in loads if load.cycles]
    if len(loads) < 2:
        return loads[0] if loads else PhaseLoad()
    near = _find_overlaps(loads)
    ends = [_shared_cycles(load, [loads[j] for j in others]) for load, others in zip(loads, near, strict=True)]
    for load, others in zip(loads, near, strict=True):
        work = [ends[j] for j in others if loads[j].is_local]
        # Tasks run to their end. So the later operations of a move, and those of all moves on its cores, start only
        # when the local work is through, each from a task that takes its cycles to start.
        if work and not load.is_local and load.later_cycles:
            later = [other.later_cycles for other in (load, *(loads[j] for j in others)) if not other.is_local]
            ends.append(max(work) + sum(cycles + machine.task_start_cycles for cycles in later if cycles))
    return PhaseLoad(
        rects=tuple(dict.fromkeys(rect for load in loads for rect in load.rects)),
        # What parts lose to one another is an estimate; never is it worse than to run one after the other.
        cycles=min(max(ends), sum(load.cycles for load in loads)),
        words=max(load.words for load in loads),
        issue_cycles=sum(load.issue_cycles for load in loads),
        later_cycles=max(load.later_cycles for load in loads),
        later_words=max(load.later_words for load in loads),
        is_local=all(load.is_local for load in loads),
        threads=max(load.threads for load in loads),
    )


def _find_overlaps(loads: Sequence[PhaseLoad]) -> list[list[int]]:
    """For each part the others with which it has a core in common, by number."""
    if len(loads) <= _MAX_PAIRWISE_PARTS:
        return [[j for j, other in enumerate(loads) if j != i and load.meets(other)] for i, load in enumerate(loads)]
    # Hundreds of lines beside each other, as convolutions have, are hundreds of thousands of pairs: compared at once.
    owners = np.array([i for i, load in enumerate(loads) for _ in load.rects])
    x, y, width, height = np.array([rect.as_tuple() for load in loads for rect in load.rects]).T[:, :, None]
    in_columns, in_rows = (start < (start + extent).T for start, extent in ((x, width), (y, height)))
    one, other = np.nonzero(in_columns & in_columns.T & in_rows & in_rows.T)
    near: list[set[int]] = [set() for _ in loads]
    for i, j in zip(owners[one], owners[other], strict=True):
        near[i].add(int(j))
    return [sorted(others - {i}) for i, others in enumerate(near)]


def _shared_cycles(load: PhaseLoad, others: Sequence[PhaseLoad]) -> float:
    """Cycles of a part with others on its cores."""
    contention = sum(_contention_cycles(load, other) for other in others)
    # The main thread issues the first operations of all moves one after another, a cycle each, before it goes on.
    waits: float = sum(other.threads for other in others if not other.is_local)
    # A move saves what it would overwrite in the same thread as local work runs, so one waits for the other there.
    if load.is_local or load.lead_cycles:
        waits += sum(other.lead_cycles for other in others)
    # A move that its links bind has turns to spare: only what goes beyond them makes it longer.
    return load.cycles + waits + max(0.0, contention - load.issue_slack_cycles)


def _contention_cycles(load: PhaseLoad, other: PhaseLoad) -> float:
    """What a part loses to another one on its cores.

    Local work that could issue something in a part d of its time, and waits for k threads each time, takes a turn of
    every 1 + (k - 1) d and leaves the rest to them.
    """
    if load.is_local and other.is_local:
        return other.cycles
    if load.is_local:
        turns = 1 + (other.threads - 1) * load.density
        # Words of later operations come when local work is through.
        issued = max(0.0, other.issue_cycles - other.later_words)
        # It cannot lose more turns than it asks for itself: each of them at most once to each thread of the move.
        asked = other.threads * load.contended_cycles(other)
        return min(issued * other.threads * load.density / turns, asked)
    if other.is_local:
        turns = 1 + (load.threads - 1) * other.density
        words = max(0.0, load.words - load.later_words)
        return min(words * other.density / turns, other.contended_cycles(load))
    # Two moves alternate word by word until the shorter one is through.
    return min(load.words, other.issue_cycles)
