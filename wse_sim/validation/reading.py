"""How a phase program is read as cycles. A model takes a reading, so that every column comes from one program."""

from collections.abc import Callable

from lazytensor.errors import LazyError
from wse_sim.cost_model.cost import cost
from wse_sim.machine import Machine
from wse_sim.phase import Phase

CycleReading = Callable[[Phase, Machine], float]


class UnsupportedPhaseError(LazyError):
    """A reading cannot take this program: no small mesh stands for its own, for example."""


def closed_form_cycles(phase: Phase, machine: Machine) -> float:
    """Cycles by the closed forms."""
    return cost(phase, machine).cycles
