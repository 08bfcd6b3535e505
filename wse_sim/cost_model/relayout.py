"""Closed forms of a change of layout: what lies in one way over cores goes to where another layout has it."""

import math

from wse_sim.isa.issue_rates import round_cycles
from wse_sim.layout import ceil_div
from wse_sim.machine import Machine


def relayout_cycles(words: int, width: int, height: int, machine: Machine) -> int:
    """Cycles in which `words`, spread evenly over the rectangle, go to any other places.

    Half of them go along rows first and then along columns, and half the other way round, so that both have links at
    work. Half of the words of a line cross its middle, half of those each way, and a link passes one in a cycle: with P
    PEs and B words from each to each other that is B P^2 / 4, the bound by the bisection of an all-to-all along a line.
    """
    if not words or width * height == 1:
        return 0
    return ceil_div(words, 4 * min(width, height)) + math.ceil((width + height - 2) * machine.hop_cycles)


def adapter_cycles(port_words: int, machine: Machine) -> int:
    """Cycles in which a port takes `port_words` in the parts of one layer and gives them in those of another.

    One after the other, as its core does both. Source: the ports of `wse_sim.pipeline`, which run so on simulated
    cores; `tests/wse_sim/planner/test_routing.py` holds this to what they are busy.
    """
    return 2 * (round_cycles(machine.dsd_setup_cycles) + port_words) if port_words else 0
