"""Cycles of instructions on one core, equal to those of the simulated cores in `fabric`.

A vector operation takes its setup, and then its elements at the rate of its unit and its memory banks. Its descriptors
are loaded first if they are not in registers. Every jump back to the start of a loop takes the machine's `loop_cycles`.
Any other control instruction takes one cycle.
"""

from wse_sim.isa.core_program import Branch, Instruction, LoopEnd, LoopStart, Vector
from wse_sim.isa.issue_rates import (
    IssueDemand,
    descriptor_load_cycles,
    issue_demand,
    loop_back_cycles,
    round_cycles,
    step_rate,
)
from wse_sim.isa.record import FULL_RATE
from wse_sim.layout import ceil_div
from wse_sim.machine import Machine

MIN_KEPT_INSTRUCTIONS, MAX_KEPT_BODIES = 200, 64
"""Times are cached for bodies of at least this many instructions, since many rectangles may run the same body; at most
64 bodies are cached.
"""
_kept_times: dict[tuple[int, int], tuple[tuple[int, int], tuple[Instruction, ...], Machine]] = {}


def _element_cycles(vector: Vector, machine: Machine, rates: dict[IssueDemand, int]) -> int:
    """Return the cycles of a vector operation's elements, without its setup, rounded up.

    `rates` caches the rates of `machine`; missing ones are added.
    """
    needs = issue_demand(vector, machine)
    rate = rates.get(needs)
    if rate is None:
        rate = rates[needs] = step_rate(needs, machine)
    # The engine advances in steps of one wavelet and counts rates in millionths of a step. The same rounding here keeps
    # both equal to the cycle.
    return ceil_div(ceil_div(vector.length, needs.elements) * FULL_RATE, rate)


def body_cycles(body: tuple[Instruction, ...], machine: Machine) -> int:
    """Return the cycles of the instructions `body`, run one after another, with their loops.

    Raises ValueError for a branch, whose target depends on the data, and for a loop without an end.
    """
    return body_times(body, machine)[0]


def body_times(body: tuple[Instruction, ...], machine: Machine) -> tuple[int, int]:
    """Return (cycles, issue cycles) of the instructions `body`.

    Issue cycles are those in which the core issues something: of a setup, and of a jump back to a loop's start, only
    the first cycle counts. Results of bodies of at least `MIN_KEPT_INSTRUCTIONS` are cached by the identity of `body`
    and `machine`. Raises ValueError as `body_cycles` does.
    """
    if len(body) < MIN_KEPT_INSTRUCTIONS:
        return _compute_times(body, machine)
    # The entry keeps references to both objects, so that their ids stay valid. Another thread may clear the table.
    known = _kept_times.get((id(body), id(machine)))
    if known is None:
        if len(_kept_times) >= MAX_KEPT_BODIES:
            _kept_times.clear()
        known = _kept_times[id(body), id(machine)] = _compute_times(body, machine), body, machine
    return known[0]


def _compute_times(body: tuple[Instruction, ...], machine: Machine) -> tuple[int, int]:
    """Return (cycles, issue cycles) of `body` without the cache; see `body_times`.

    Issue cycles count a setup or a jump back as one cycle. Raises ValueError for a branch, and for a loop without
    start or end.
    """
    setup, jump = round_cycles(machine.dsd_setup_cycles), loop_back_cycles(machine)
    total = issuing = 0
    # A table for this call only: one for all machines would hash all fields of the machine for each operation.
    rates: dict[IssueDemand, int] = {}
    outside: list[tuple[int, int, int]] = []
    for instruction, load in zip(body, descriptor_load_cycles(body, machine), strict=True):
        match instruction:
            case Vector():
                elements = _element_cycles(instruction, machine, rates)
                total, issuing = total + load + setup + elements, issuing + 1 + elements
            case LoopStart(times):
                # The cycle that issues the loop start is counted once, outside of the loop.
                outside.append((total + 1 + load, issuing + 1, times))
                total = issuing = 0
            case LoopEnd() if outside:
                # The jump back is taken once less than there are rounds; the last end takes a single cycle.
                before, issued, times = outside.pop()
                total = before + times * total + (times - 1) * jump + 1
                issuing = issued + times * issuing + (times - 1) + 1
            case LoopEnd() | Branch():
                raise ValueError(
                    f"`{instruction}` has no fixed number of cycles\n  Use vector operations and closed loops only."
                )
            # Stalls of the scalar pipe are not modelled: one cycle for each control instruction.
            case _:
                total, issuing = total + 1, issuing + 1
    if outside:
        raise ValueError(f"a loop of {outside[-1][2]} rounds has no end\n  Close the loop in the program.")
    return total, issuing
