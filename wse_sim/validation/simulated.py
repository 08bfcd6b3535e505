"""The reading by simulation: a phase program wavelet by wavelet, run after run."""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from lazytensor.errors import LazyError
from wse_sim.cost import cost
from wse_sim.fabric import simulate_phase
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import AllReduce, Broadcast, Compute, Local, Par, Phase, Reduce, Repeat, Seq, Shift, Stream
from wse_sim.validation.reading import NotRead

CORE_CYCLES_MOST = 1e7
"""Cores times cycles of one part that are still simulated: a second or less."""


def simulated(phase: Phase, machine: Machine) -> float:
    """Cycles on the simulated fabric. Raises NotRead if a part of the program is too large for it or has no lowering.

    A part that comes several times is simulated once: its cycles do not depend on the data.
    """
    match phase:
        case Seq(parts):
            return sum(simulated(one, machine) for one in parts)
        case Repeat(times, body):
            return times * simulated(body, machine)
    return _run(_one_of_many(phase), machine)


def _one_of_many(phase: Phase) -> Phase:
    """One core or one line: all others do the same beside it and share no link with it."""
    match phase:
        case Compute() | Local():
            return replace(phase, rect=Rect(0, 0, 1, 1))
        case Shift() if phase.axis != "xy":
            return replace(phase, rect=_line(phase, 1), axis="x")
        case Broadcast() | Reduce() | AllReduce() if phase.axis != "xy":
            return replace(phase, rect=_line(phase, phase.groups), axis="x", groups=1)
    return phase


def _line(phase: Shift | Broadcast | Reduce | AllReduce, groups: int) -> Rect:
    return Rect(0, 0, (phase.rect.width if phase.axis == "x" else phase.rect.height) // groups, 1)


@lru_cache(maxsize=1024)
def _run(phase: Phase, machine: Machine) -> int:
    width, height, words = _extents(phase)
    expected = cost(phase, machine).cycles
    if width * height * expected > CORE_CYCLES_MOST:
        raise NotRead(f"{width} x {height} cores for {expected} cycles", todo="Read it by the closed forms.")
    try:
        memory = np.zeros((height, width, words), np.float32)
        return simulate_phase(phase, machine, memory).expect_finished().cycles
    except LazyError as e:
        raise NotRead(f"{type(phase).__name__} is not simulated: {e.what}", todo="Use the closed forms.") from e


def _extents(phase: Phase) -> tuple[int, int, int]:
    """The width, height and words for each PE of a mesh that holds a phase."""
    match phase:
        case Par(parts):
            found = [_extents(part) for part in parts]
            return tuple(max(n) for n in zip(*found, strict=True)) if found else (1, 1, 1)
        case Stream(rect):
            return rect.x + rect.width + 1, rect.y + rect.height + 1, phase.at + phase.bytes // 4 + 1
        case Shift(rect) | Broadcast(rect):
            words = max(phase.take, phase.put) + phase.words
        case Reduce(rect) | AllReduce(rect):
            words = phase.at + phase.words
        case Compute(rect) | Local(rect):
            words = 1
        case _:
            raise NotRead(f"{type(phase).__name__} beside others is not simulated", todo="Use the closed forms.")
    return rect.x + rect.width, rect.y + rect.height, max(1, words)
