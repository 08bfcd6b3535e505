"""Readings: functions that return the cycles of a phase program.

A model takes a reading as its argument, so that all columns of the table come from the same program.
"""

from collections.abc import Callable

from lazytensor.errors import LazyError
from wse_sim.cost_model.cost import cost
from wse_sim.machine import Machine
from wse_sim.phase import Phase

CycleReading = Callable[[Phase, Machine], float]


class UnsupportedPhaseError(LazyError):
    """Raised by a reading that cannot price a program, for example because no small mesh represents it."""


def closed_form_cycles(phase: Phase, machine: Machine) -> float:
    """Return the cycles of a phase by the closed forms."""
    return cost(phase, machine).cycles
