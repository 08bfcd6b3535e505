"""Estimate the cost of phases that run at the same time and share cores.

A core issues one thing in a cycle. If two threads are ready they alternate, so each loses the cycles that the other one
issues in the meantime. A move loses at most as many cycles as it has words. Local work leaves the issue slot to others
during the setup of its operations. Two local parts run one after the other, in one task. Tasks run to their end, so a
move of several operations continues after its first operation only when local work has finished. Links are shared too,
but each core has only one ramp, which is the tighter bound.

The sum is exact if all threads are always ready, as in streams of equal length. The tests in
tests/wse_sim/cost_model/test_closed_forms.py state the difference from the simulated fabric in other cases.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wse_sim.layout import Rect
from wse_sim.machine import Machine

_MAX_PAIRWISE_PARTS = 8
"""Up to this many parts, `_find_overlaps` compares pairs one by one; for more parts it uses arrays."""


@dataclass(frozen=True)
class PhaseLoad:
    """The cores, the duration and the issue cycles of a part of a `Par`.

    - `rects`: rectangles of its cores
    - `cycles`: its duration without other parts
    - `words`: wavelets through the cores of its slowest path
    - `issue_cycles`: cycles in which its busiest core issues something
    - `later_cycles`: the part of `cycles` after its first operations
    - `later_words`: the part of `words` that later operations issue
    - `is_local`: True if it sends no wavelets
    - `threads`: threads of a core that issue at the same time
    - `lead_cycles`: local work of a move before its first word
    - `issue_slack_cycles`: issue cycles that cores may lose without a delay, because links limit the move
    - `quiet_cycles`: cycles at the start without a wavelet
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
        """The fraction of its time in which it could issue something; 1 for a move."""
        # A move counts as always ready: if its words wait, they wait for cores, which are the shared resource.
        return self.issue_cycles / self.cycles if self.is_local and self.cycles else 1

    def contended_cycles(self, move: "PhaseLoad") -> float:
        """Return the issue cycles of this local part after `move` has begun to pass wavelets."""
        return self.density * max(0.0, self.cycles - move.quiet_cycles)

    def meets(self, other: "PhaseLoad") -> bool:
        """Return True if the two parts have a core in common."""
        # Parts of one kernel usually have the same rectangle object.
        is_same = bool(self.rects) and self.rects == other.rects
        return is_same or any(a.overlaps(b) for a in self.rects for b in other.rects)

    def then(self, other: "PhaseLoad") -> "PhaseLoad":
        """Return the load of this part and then `other`; if one of them has no cycles, return the other one.

        All operations of `other` count as later ones. `lead_cycles`, `issue_slack_cycles` and `quiet_cycles` are reset
        to 0.
        """
        if not self.cycles or not other.cycles:
            return self if self.cycles else other
        # Lead, slack and quiet cycles describe a single move; for a sequence only the sums matter to other parts.
        return PhaseLoad(
            rects=tuple(dict.fromkeys(self.rects + other.rects)),
            cycles=self.cycles + other.cycles,
            words=self.words + other.words,
            issue_cycles=self.issue_cycles + other.issue_cycles,
            # All of the second part starts from another task, so local work at the same time can delay it.
            later_cycles=self.later_cycles + other.cycles,
            later_words=self.later_words + other.words,
            is_local=self.is_local and other.is_local,
            threads=max(self.threads, other.threads),
        )

    def times(self, n: int) -> "PhaseLoad":
        """Return the load of `n` repetitions, one after the other. Return an empty load if `n` is 0.

        Cycles, words and issue cycles are multiplied by `n`. `later_cycles` and `later_words` grow by the cycles and
        words of n - 1 rounds, because these start after an operation of the first. Rectangles, threads and `is_local`
        do not change; `lead_cycles`, `issue_slack_cycles` and `quiet_cycles` are reset to 0.
        """
        if not n:
            return PhaseLoad()
        return PhaseLoad(
            rects=self.rects,
            cycles=n * self.cycles,
            words=n * self.words,
            issue_cycles=n * self.issue_cycles,
            # Every round but the first begins after an operation of the previous round.
            later_cycles=self.later_cycles + (n - 1) * self.cycles,
            later_words=self.later_words + (n - 1) * self.words,
            is_local=self.is_local,
            threads=self.threads,
        )


def combine_loads(loads: Sequence[PhaseLoad], machine: Machine) -> PhaseLoad:
    """Return the load of `loads` that run at the same time.

    Its cycles include the estimated delays by sharing cores, and are at most the sum of all. Loads without cycles are
    ignored; a single load is returned as it is, and an empty one if there is none.
    """
    loads = [load for load in loads if load.cycles]
    if len(loads) < 2:
        return loads[0] if loads else PhaseLoad()
    near = _find_overlaps(loads)
    ends = [_shared_cycles(load, [loads[j] for j in others]) for load, others in zip(loads, near, strict=True)]
    for load, others in zip(loads, near, strict=True):
        work = [ends[j] for j in others if loads[j].is_local]
        # Tasks run to their end. So the later operations of a move, and of all moves on its cores, start only when the
        # local work has finished, each from a task with its start latency.
        if work and not load.is_local and load.later_cycles:
            later = [other.later_cycles for other in (load, *(loads[j] for j in others)) if not other.is_local]
            ends.append(max(work) + sum(cycles + machine.task_start_cycles for cycles in later if cycles))
    return PhaseLoad(
        rects=tuple(dict.fromkeys(rect for load in loads for rect in load.rects)),
        # The delays are an estimate; running one after the other is an upper bound.
        cycles=min(max(ends), sum(load.cycles for load in loads)),
        words=max(load.words for load in loads),
        issue_cycles=sum(load.issue_cycles for load in loads),
        later_cycles=max(load.later_cycles for load in loads),
        later_words=max(load.later_words for load in loads),
        is_local=all(load.is_local for load in loads),
        threads=max(load.threads for load in loads),
    )


def _find_overlaps(loads: Sequence[PhaseLoad]) -> list[list[int]]:
    """Return for each part the sorted indices of the other parts that share a core with it."""
    if len(loads) <= _MAX_PAIRWISE_PARTS:
        return [[j for j, other in enumerate(loads) if j != i and load.meets(other)] for i, load in enumerate(loads)]
    # Convolutions have hundreds of lines at the same time, and so hundreds of thousands of pairs: all are compared at
    # once.
    owners = np.array([i for i, load in enumerate(loads) for _ in load.rects])
    x, y, width, height = np.array([rect.as_tuple() for load in loads for rect in load.rects]).T[:, :, None]
    in_columns, in_rows = (start < (start + extent).T for start, extent in ((x, width), (y, height)))
    one, other = np.nonzero(in_columns & in_columns.T & in_rows & in_rows.T)
    near: list[set[int]] = [set() for _ in loads]
    for i, j in zip(owners[one], owners[other], strict=True):
        near[i].add(int(j))
    return [sorted(others - {i}) for i, others in enumerate(near)]


def _shared_cycles(load: PhaseLoad, others: Sequence[PhaseLoad]) -> float:
    """Return the cycles of `load` if `others`, which share cores with it, run at the same time."""
    contention = sum(_contention_cycles(load, other) for other in others)
    # The main thread issues the first operations of all moves one after another, a cycle each, before it continues.
    waits: float = sum(other.threads for other in others if not other.is_local)
    # A move copies the words that it would overwrite in the same thread that runs local work, so one waits for the
    # other.
    if load.is_local or load.lead_cycles:
        waits += sum(other.lead_cycles for other in others)
    # A move that links limit has spare issue cycles: only a loss beyond them delays it.
    return load.cycles + waits + max(0.0, contention - load.issue_slack_cycles)


def _contention_cycles(load: PhaseLoad, other: PhaseLoad) -> float:
    """Return the issue cycles that `load` loses to `other` on the same cores.

    Two local parts run one after the other, so all of `other` is lost. Two moves alternate until the shorter one ends.
    Local work with density d that competes with k threads of a move gets one of every 1 + (k - 1) d turns.
    """
    if load.is_local and other.is_local:
        return other.cycles
    if load.is_local:
        turns = 1 + (other.threads - 1) * load.density
        # Words of later operations arrive after the local work.
        issued = max(0.0, other.issue_cycles - other.later_words)
        # Each of its issue cycles can be lost at most once to each thread of the move.
        asked = other.threads * load.contended_cycles(other)
        return min(issued * other.threads * load.density / turns, asked)
    if other.is_local:
        turns = 1 + (load.threads - 1) * other.density
        words = max(0.0, load.words - load.later_words)
        return min(words * other.density / turns, other.contended_cycles(load))
    # Two moves alternate word by word until the shorter one has finished.
    return min(load.words, other.issue_cycles)
