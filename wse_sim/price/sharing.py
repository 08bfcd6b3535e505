"""What parts of a phase program that run at the same time take from one another on the cores that they share.

A core issues one thing in a cycle. Where two threads both could go on they take turns, so that each loses what the
other one does while it lasts: a move the words of the other that pass its cores, but no more than its own. Local work
leaves the turn to others while its operations are set up. Two local parts run one after the other, in one task; and
since tasks run to their end, a move that consists of several operations goes on after its first one only when local
work is through. Links are shared as well, but a core has but one ramp, so that its turns come first.

The sum of these is exact where all threads are ready all the time, as in streams of equal length; tests/wse_sim/
test_closed_forms.py says how far it is from the fabric elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from wse_sim.layout import Rect
from wse_sim.machine import Machine


@dataclass(frozen=True)
class Load:
    """A part on its own: where, how long, and what it does to others.

    `words` pass the cores on its slowest way, `beats` are the cycles that its busiest core issues something in, by so
    many `threads`, and `later_cycles` those that follow after its first operations. `lead_cycles` is local work of a
    move before it starts; `slack_cycles` are those that its cores may lose before it takes longer, since links bind it.
    In its first `quiet_cycles` nothing passes.
    """

    rects: tuple[Rect, ...] = ()
    cycles: float = 0
    words: float = 0
    beats: float = 0
    later_cycles: float = 0
    is_local: bool = True
    threads: int = 1
    lead_cycles: float = 0
    slack_cycles: float = 0
    quiet_cycles: float = 0

    @property
    def density(self) -> float:
        """The part of its time in which it could issue something."""
        return self.beats / self.cycles if self.is_local and self.cycles else 1

    def met_beats(self, move: "Load") -> float:
        """Those of this local work that come after a move has begun."""
        return self.density * max(0.0, self.cycles - move.quiet_cycles)

    def meets(self, other: "Load") -> bool:
        return any(a.overlaps(b) for a in self.rects for b in other.rects)

    def then(self, other: "Load") -> "Load":
        """Both, one after the other."""
        if not self.cycles or not other.cycles:
            return self if self.cycles else other
        return Load(
            tuple(dict.fromkeys(self.rects + other.rects)),
            self.cycles + other.cycles,
            self.words + other.words,
            self.beats + other.beats,
            self.later_cycles + other.cycles,
            self.is_local and other.is_local,
            max(self.threads, other.threads),
        )

    def times(self, n: int) -> "Load":
        later = self.later_cycles + (n - 1) * self.cycles
        if not n:
            return Load()
        sums = (n * self.cycles, n * self.words, n * self.beats, later)
        return Load(self.rects, *sums, self.is_local, self.threads)


def together(loads: Sequence[Load], machine: Machine) -> Load:
    """Parts at the same time, as one."""
    loads = [load for load in loads if load.cycles]
    if len(loads) < 2:
        return loads[0] if loads else Load()
    near = [[j for j, other in enumerate(loads) if j != i and load.meets(other)] for i, load in enumerate(loads)]
    taken = [_beside(load, [loads[j] for j in met]) for load, met in zip(loads, near, strict=True)]
    for load, met in zip(loads, near, strict=True):
        work = [taken[j] for j in met if loads[j].is_local]
        if work and not load.is_local and load.later_cycles:
            later = [other.later_cycles for other in (load, *(loads[j] for j in met)) if not other.is_local]
            taken.append(max(work) + sum(cycles + machine.task_start_cycles for cycles in later if cycles))
    return Load(
        tuple(dict.fromkeys(rect for load in loads for rect in load.rects)),
        min(max(taken), sum(load.cycles for load in loads)),
        max(load.words for load in loads),
        sum(load.beats for load in loads),
        max(load.later_cycles for load in loads),
        all(load.is_local for load in loads),
        max(load.threads for load in loads),
    )


def _beside(load: Load, others: Sequence[Load]) -> float:
    """Cycles of a part with others on its cores."""
    held = sum(_held(load, other) for other in others)
    waits: float = sum(other.threads for other in others if not other.is_local)
    if load.is_local or load.lead_cycles:
        waits += sum(other.lead_cycles for other in others)
    return load.cycles + waits + max(0.0, held - load.slack_cycles)


def _held(load: Load, other: Load) -> float:
    """What a part loses to another one on its cores.

    Local work that could issue something in a part d of its time, and waits for k threads each time, takes a turn of
    every 1 + (k - 1) d and leaves the rest to them.
    """
    if load.is_local and other.is_local:
        return other.cycles
    if load.is_local:
        turns = 1 + (other.threads - 1) * load.density
        return min(other.beats * other.threads * load.density / turns, other.threads * load.met_beats(other))
    if other.is_local:
        turns = 1 + (load.threads - 1) * other.density
        return min(load.words * other.density / turns, other.met_beats(load))
    return min(load.words, other.beats)
