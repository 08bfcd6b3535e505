"""How fast an operation runs on a machine: rates by type, conflicts of banks, and what a wavelet carries."""

from typing import NamedTuple

from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES, Memory, Received, Sent, Vector
from wse_sim.isa.operations import OPERATIONS
from wse_sim.isa.record import FULL_RATE
from wse_sim.machine import Machine


def round_cycles(latency: float) -> int:
    """A latency of the machine in whole cycles, as the engine needs it."""
    return round(latency)


def loop_back_cycles(machine: Machine) -> int:
    """Cycles of a jump back to the start of a loop: no less than the one in which its end is issued."""
    return max(1, round_cycles(machine.loop_cycles))


class IssueDemand(NamedTuple):
    """What of an operation decides how fast it runs."""

    op: str
    item_bytes: int
    crosses: bool
    elements: int
    meets: bool


def issue_demand(vector: Vector, machine: Machine) -> IssueDemand:
    """What of an operation decides how fast it runs: its widest type, elements that it advances at once, conflicts.

    Two sources in memory that start in the same of four pairs of banks wait for each other (SPMM: N + 6 cycles become
    2 N + 6; ALCF: one of four alignments). Bases as written count, without what loops and indices add.
    """
    # One pass over the operands, as a report asks this of every operation that it prices.
    widest, elements, crosses, moves = 0, 1, False, False
    first, banks, pairs = True, [], machine.sram_banks // 2
    for operand in vector.operands:
        if isinstance(operand, Memory):
            size = ITEM_BYTES[operand.dtype]
            # A bank delivers one word a cycle and two sources read at the same time. Words go round the banks, so where
            # they begin says whether they meet all along.
            if not first:
                banks.append(operand.base * size // WORD_BYTES % pairs)
                moves = moves or bool(operand.stride or operand.outer)
        elif isinstance(operand, Received | Sent):
            size, crosses = ITEM_BYTES[operand.dtype], True
            # A wavelet is a word: two elements where the operation sends or receives 16-bit types.
            if size < WORD_BYTES:
                elements = 2
        else:
            size = 0
        first = False
        # The widest type decides: a lane of 32 bits is two of 16, also for the operand that needs only one.
        widest = max(widest, size)
    # Two sources that stand still are read once and kept: they cannot meet in a later cycle.
    return IssueDemand(vector.op, widest, crosses, elements, moves and len(set(banks)) < len(banks))


def step_rate(needs: IssueDemand, machine: Machine) -> int:
    """Millionths of a step that a cycle takes; a step is one element or one wavelet of two."""
    full = machine.per_cycle(OPERATIONS[needs.op].unit, needs.item_bytes)
    if needs.meets:
        full /= machine.conflict_slowdown
    # A ramp carries one wavelet a cycle, and on the WSE-3 a link takes 1.125 cycles for each (ALCF).
    if needs.crosses:
        full = min(full, needs.elements / machine.wavelet_cycles)
    # Whole millionths, so that no rounding of floats can differ between machines; at least one, or a run would never
    # end.
    return max(1, round(full / needs.elements * FULL_RATE))
