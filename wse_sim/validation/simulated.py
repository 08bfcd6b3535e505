"""The reading by simulation: reductions and broadcasts along an axis, wavelet by wavelet."""

from dataclasses import replace

import numpy as np

from wse_sim.fabric import ALGORITHMS, simulate_phase
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import Broadcast, Phase, Reduce, Repeat, Seq
from wse_sim.validation.reading import NotRead


def simulated(phase: Phase, machine: Machine) -> float:
    """Cycles on the simulated fabric. Raises NotRead if part of the program cannot be lowered to it."""
    match phase:
        case Seq(parts):
            return sum(simulated(one, machine) for one in parts)
        case Repeat(times, body):
            return times * simulated(body, machine)
        case Reduce() | Broadcast() if phase.axis != "xy":
            return _line(phase, machine)
    raise NotRead(f"{type(phase).__name__} is not simulated", todo="Read it by the closed forms.")


def _line(phase: Reduce | Broadcast, machine: Machine) -> float:
    """One line of the phase: the others do the same beside it, and share no link with it."""
    length = (phase.rect.width if phase.axis == "x" else phase.rect.height) // phase.groups
    one = replace(phase, rect=Rect(0, 0, length, 1), axis="x", groups=1)
    if isinstance(one, Reduce) and one.algorithm and one.algorithm not in ALGORITHMS:
        raise NotRead(f"{one.algorithm} is not lowered", todo="Read it by the closed forms.")
    return simulate_phase(one, machine, np.zeros((1, length, phase.words), np.float32)).cycles
