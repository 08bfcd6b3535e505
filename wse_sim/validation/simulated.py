"""The reading by simulation: leaf by leaf, each on the smallest mesh that behaves as the whole does.

Parts of a sequence add up and equal rounds are multiplied, as behind the barriers of `simulate_phase`. A leaf runs on
one line or on one PE. What runs beside each other takes as long as its longest move does alone, at its full length; or
as long as all of it does together on a corner of the rectangle, where the cores share their issue slots and memories,
if that is longer. Leaves that are equal after the cut run once.
"""

from functools import lru_cache

import numpy as np

from lazytensor.errors import LazyError
from wse_sim.fabric import simulate_phase
from wse_sim.machine import Machine
from wse_sim.phase import Compute, Local, Par, Phase, Repeat, Rounds, Seq
from wse_sim.validation.cut import cut_to_corner, cut_to_line, memory_words, mesh_extents
from wse_sim.validation.reading import UnsupportedPhaseError


def simulated_cycles(phase: Phase, machine: Machine) -> float:
    """Cycles on the simulated fabric. Raises NotRead if part of the program cannot be cut to a mesh of a few PEs."""
    match phase:
        case Seq(parts):
            return sum(simulated_cycles(part, machine) for part in parts)
        case Repeat(times, body):
            return times * simulated_cycles(body, machine)
        case Rounds():
            return sum(times * simulated_cycles(part, machine) for part, times in phase.priced_rounds)
        case Par(parts):
            # The corner is too short for the length of a line, a line alone has no sharing: whichever is longer is
            # closer.
            alone = [simulated_cycles(part, machine) for part in parts if not isinstance(part, Compute | Local)]
            return max(_simulate_cycles(cut_to_corner(phase), machine), *alone)
    line = cut_to_line(phase)
    return simulated_cycles(line, machine) if isinstance(line, Repeat) else _simulate_cycles(line, machine)


@lru_cache(maxsize=4096)
def _simulate_cycles(phase: Phase, machine: Machine) -> float:
    """Cycles of a phase on the smallest mesh that holds it; the numbers in memory do not matter."""
    width, height = mesh_extents(phase)
    memory = np.zeros((height, width, memory_words(phase, machine)), np.float32)
    try:
        return simulate_phase(phase, machine, memory).expect_finished().cycles
    except LazyError as e:
        hint = "Read it by the closed forms."
        raise UnsupportedPhaseError(f"{type(phase).__name__} does not run on the fabric: {e.what}", hint=hint) from e
