"""Cycles of instructions on one core, as the fabric's cores take them.

A vector operation takes its setup and then its elements at the rate of its unit and its memory banks; every jump back
to the start of a loop takes the machine's `loop_cycles`; any other control instruction takes one cycle.
"""

from dataclasses import replace
from functools import lru_cache

from wse_sim.isa.core_program import Branch, Instruction, LoopEnd, LoopStart, Vector
from wse_sim.isa.issue_rates import elements_per_wavelet, loop_back_cycles, step_rate, whole_cycles
from wse_sim.isa.record import FULL_RATE
from wse_sim.layout import ceil_div
from wse_sim.machine import Machine


def vector_cycles(vector: Vector, machine: Machine) -> int:
    """Setup and elements of one vector operation whose wavelets never wait."""
    # The engine advances in steps of one wavelet, and counts rates in millionths of a step: the same rounding here
    # keeps the two equal to the cycle.
    steps = ceil_div(vector.length, elements_per_wavelet(vector))
    return whole_cycles(machine.dsd_setup_cycles) + ceil_div(steps * FULL_RATE, step_rate(vector, machine))


def body_cycles(body: tuple[Instruction, ...], machine: Machine) -> int:
    """Cycles of instructions that run one after another, loops included.

    Raises ValueError for a branch, whose way depends on the data, and for a loop that does not end.
    """
    total, outside = 0, []
    for instruction in body:
        match instruction:
            case Vector():
                total += vector_cycles(instruction, machine)
            case LoopStart(times):
                # The cycle that issues the loop is paid outside of it, once.
                outside.append((total + 1, times))
                total = 0
            case LoopEnd() if outside:
                # The jump back is taken once less than the rounds: the last end falls through in a single cycle.
                before, times = outside.pop()
                total = before + times * total + (times - 1) * loop_back_cycles(machine) + 1
            case LoopEnd() | Branch():
                raise ValueError(f"`{instruction}` has no price of its own")
            # The scalar pipe's branches and dependences are not modelled: one cycle for each control instruction.
            case _:
                total += 1
    if outside:
        raise ValueError("a loop does not end")
    return total


def body_issue_cycles(body: tuple[Instruction, ...], machine: Machine) -> int:
    """The cycles of `body_cycles` in which the core issues something: of each setup and jump only the first."""
    return body_cycles(body, _issuing(machine))


@lru_cache(maxsize=64)
def _issuing(machine: Machine) -> Machine:
    """The machine if setups and jumps took only the cycle that issues them."""
    return replace(machine, dsd_setup_cycles=1, loop_cycles=0)
