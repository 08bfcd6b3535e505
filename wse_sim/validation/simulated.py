"""The reading by simulation: each elementary phase runs on the smallest mesh that behaves like the whole.

The cycles of a sequence are summed, and equal rounds are multiplied, as with the barriers of `simulate_phase`. An
elementary phase runs on one line or one PE. Overlapping phases take the maximum of two times. The first is that of the
longest move on a line of full length. The second is that of all phases together on a corner of the rectangle, where
cores share issue slots and memories. Equal cut phases are simulated once.
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
    """Return the cycles of a phase on the simulated fabric, from its parts as the module describes.

    Raise UnsupportedPhaseError if a part of the program cannot be cut to a small mesh, or does not run on the fabric.
    """
    match phase:
        case Seq(parts):
            return sum(simulated_cycles(part, machine) for part in parts)
        case Repeat(times, body):
            return times * simulated_cycles(body, machine)
        case Rounds():
            return sum(times * simulated_cycles(part, machine) for part, times in phase.priced_rounds)
        case Par(parts):
            # The corner is too short for long lines, and a single line shows no sharing: the longer time is closer.
            alone = [simulated_cycles(part, machine) for part in parts if not isinstance(part, Compute | Local)]
            return max(_simulate_cycles(cut_to_corner(phase), machine), *alone)
    line = cut_to_line(phase)
    return simulated_cycles(line, machine) if isinstance(line, Repeat) else _simulate_cycles(line, machine)


@lru_cache(maxsize=4096)
def _simulate_cycles(phase: Phase, machine: Machine) -> float:
    """Return the cycles of a phase on the smallest mesh that contains it, with zeros in memory. Cached.

    Raise UnsupportedPhaseError if it does not run on the fabric.
    """
    width, height = mesh_extents(phase)
    memory = np.zeros((height, width, memory_words(phase, machine)), np.float32)
    try:
        return simulate_phase(phase, machine, memory).expect_finished().cycles
    except LazyError as e:
        hint = "Use the closed forms."
        raise UnsupportedPhaseError(f"{type(phase).__name__} does not run on the fabric: {e.what}", hint=hint) from e
