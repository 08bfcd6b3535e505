"""Cycles of instructions on one core, as the fabric's cores take them.

A vector operation takes its setup and then its elements at the rate of its unit and its memory banks; every jump back
to the start of a loop takes the machine's `loop_cycles`; any other control instruction takes one cycle.
"""

from wse_sim.isa.core_program import Branch, Instruction, LoopEnd, LoopStart, Vector
from wse_sim.isa.issue_rates import IssueDemand, issue_demand, loop_back_cycles, round_cycles, step_rate
from wse_sim.isa.record import FULL_RATE
from wse_sim.layout import ceil_div
from wse_sim.machine import Machine

MIN_KEPT_INSTRUCTIONS, MAX_KEPT_BODIES = 200, 64
"""Instructions of a body from which on its times are kept, as many rectangles may run the same one; and of how many."""
_kept_times: dict[tuple[int, int], tuple[tuple[int, int], tuple[Instruction, ...], Machine]] = {}


def _element_cycles(vector: Vector, machine: Machine, rates: dict[IssueDemand, int]) -> int:
    """`rates` are those that are known of the machine."""
    needs = issue_demand(vector, machine)
    rate = rates.get(needs)
    if rate is None:
        rate = rates[needs] = step_rate(needs, machine)
    # The engine advances in steps of one wavelet, and counts rates in millionths of a step: the same rounding here
    # keeps the two equal to the cycle.
    return ceil_div(ceil_div(vector.length, needs.elements) * FULL_RATE, rate)


def body_cycles(body: tuple[Instruction, ...], machine: Machine) -> int:
    """Cycles of instructions that run one after another, loops included.

    Raises ValueError for a branch, whose way depends on the data, and for a loop that does not end.
    """
    return body_times(body, machine)[0]


def body_times(body: tuple[Instruction, ...], machine: Machine) -> tuple[int, int]:
    """`body_cycles`, and those of them in which the core issues something: of each setup and jump only the first."""
    if len(body) < MIN_KEPT_INSTRUCTIONS:
        return _compute_times(body, machine)
    # With both themselves, so that no other ones come by their numbers; another thread may empty the table.
    known = _kept_times.get((id(body), id(machine)))
    if known is None:
        if len(_kept_times) >= MAX_KEPT_BODIES:
            _kept_times.clear()
        known = _kept_times[id(body), id(machine)] = _compute_times(body, machine), body, machine
    return known[0]


def _compute_times(body: tuple[Instruction, ...], machine: Machine) -> tuple[int, int]:
    setup, jump = round_cycles(machine.dsd_setup_cycles), loop_back_cycles(machine)
    total = issuing = 0
    # Of one body alone: a table by machine would hash all of its figures for each operation.
    rates: dict[IssueDemand, int] = {}
    outside: list[tuple[int, int, int]] = []
    for instruction in body:
        match instruction:
            case Vector():
                elements = _element_cycles(instruction, machine, rates)
                total, issuing = total + setup + elements, issuing + 1 + elements
            case LoopStart(times):
                # The cycle that issues the loop is paid outside of it, once.
                outside.append((total + 1, issuing + 1, times))
                total = issuing = 0
            case LoopEnd() if outside:
                # The jump back is taken once less than the rounds: the last end falls through in a single cycle.
                before, issued, times = outside.pop()
                total = before + times * total + (times - 1) * jump + 1
                issuing = issued + times * issuing + (times - 1) + 1
            case LoopEnd() | Branch():
                raise ValueError(f"`{instruction}` has no price of its own")
            # The scalar pipe's branches and dependences are not modelled: one cycle for each control instruction.
            case _:
                total, issuing = total + 1, issuing + 1
    if outside:
        raise ValueError("a loop does not end")
    return total, issuing
