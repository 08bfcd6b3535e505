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

    `words` pass the cores on its slowest way, `beats` are the cycles that its busiest core issues something in, and
    `later_cycles` those that follow after its first operations.
    """

    rects: tuple[Rect, ...] = ()
    cycles: float = 0
    words: float = 0
    beats: float = 0
    later_cycles: float = 0
    is_local: bool = True

    @property
    def density(self) -> float:
        """The part of its time in which it could issue something."""
        return self.beats / self.cycles if self.is_local and self.cycles else 1

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
        )

    def times(self, n: int) -> "Load":
        later = self.later_cycles + (n - 1) * self.cycles
        return Load(self.rects, n * self.cycles, n * self.words, n * self.beats, later, self.is_local) if n else Load()


def together(loads: Sequence[Load], machine: Machine) -> Load:
    """Parts at the same time, as one."""
    loads = [load for load in loads if load.cycles]
    if len(loads) < 2:
        return loads[0] if loads else Load()
    near = [[j for j, other in enumerate(loads) if j != i and load.meets(other)] for i, load in enumerate(loads)]
    taken = [load.cycles + sum(_held(load, loads[j]) for j in met) for load, met in zip(loads, near, strict=True)]
    for load, met in zip(loads, near, strict=True):
        work = [taken[j] for j in met if loads[j].is_local]
        if work and not load.is_local and load.later_cycles:
            taken.append(max(work) + machine.task_start_cycles + load.later_cycles)
    return Load(
        tuple(dict.fromkeys(rect for load in loads for rect in load.rects)),
        min(max(taken), sum(load.cycles for load in loads)),
        max(load.words for load in loads),
        sum(load.beats for load in loads),
        max(load.later_cycles for load in loads),
        all(load.is_local for load in loads),
    )


def _held(load: Load, other: Load) -> float:
    """What a part loses to another one on its cores."""
    if load.is_local and other.is_local:
        return other.cycles
    if load.is_local:
        return min(other.beats * load.density, load.beats)
    return min(load.words * other.density, other.beats)
