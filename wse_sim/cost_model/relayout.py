"""Closed forms for a change of layout: moving words from one distribution over PEs to another."""

import math

from wse_sim.isa.issue_rates import round_cycles
from wse_sim.layout import ceil_div
from wse_sim.machine import Machine


def relayout_cycles(words: int, width: int, height: int, machine: Machine) -> int:
    """Return the cycles that moving `words` words to any other distribution over a rectangle takes.

    The words are evenly distributed over `width` x `height` PEs. Half of them travel along rows first and then columns,
    the other half along columns first, so that links of both axes are busy. Half of the words of a line cross its
    middle, half of those in each direction, and a link passes one word in a cycle. With P PEs and B words from each to
    each other, that is B P^2 / 4, the bisection bound of an all-to-all along a line. Without words, or with one PE, the
    result is 0.
    """
    if not words or width * height == 1:
        return 0
    return ceil_div(words, 4 * min(width, height)) + math.ceil((width + height - 2) * machine.hop_cycles)


def adapter_cycles(port_words: int, machine: Machine) -> int:
    """Return the cycles in which a port converts `port_words` words from one layer's layout to the next one's.

    The port receives them all and then sends them; the two do not overlap, since one core does both. Source: the ports
    of `wse_sim.pipeline`, which run in this way on simulated cores; `tests/wse_sim/planner/test_routing.py` compares
    this formula with their busy cycles.
    """
    return 2 * (round_cycles(machine.loaded_setup_cycles) + port_words) if port_words else 0
