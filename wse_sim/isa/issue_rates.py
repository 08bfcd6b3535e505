"""The rate of a vector operation on a machine, by its type, its bank conflicts and the elements of a wavelet."""

from typing import NamedTuple

from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES, Memory, Received, Sent, Vector
from wse_sim.isa.operations import OPERATIONS
from wse_sim.isa.record import FULL_RATE
from wse_sim.machine import Machine


def round_cycles(latency: float) -> int:
    """Return a latency of the machine rounded to whole cycles, as the engine uses it."""
    return round(latency)


def loop_back_cycles(machine: Machine) -> int:
    """Return the cycles of a jump back to the start of a loop; at least 1, the cycle that issues the loop's end."""
    return max(1, round_cycles(machine.loop_cycles))


class IssueDemand(NamedTuple):
    """The properties of a vector operation that determine its rate.

    - `op`: its name
    - `item_bytes`: bytes of its widest element type
    - `crosses`: True if it sends or receives wavelets
    - `elements`: elements of one step: 2 if it sends or receives a 16-bit type, else 1
    - `meets`: True if sources conflict in a memory bank
    """

    op: str
    item_bytes: int
    crosses: bool
    elements: int
    meets: bool


def issue_demand(vector: Vector, machine: Machine) -> IssueDemand:
    """Return the properties of a vector operation that determine its rate.

    Two sources in memory whose first words are in the same of `sram_banks` // 2 pairs of banks wait for each other
    (SPMM: N + 6 cycles become 2 N + 6; ALCF: one of four alignments), unless all sources repeat one element. The bases
    as written count, without the contributions of loops and indices.
    """
    # One pass over the operands, since a report calls this for every operation that it prices.
    widest, elements, crosses, moves = 0, 1, False, False
    first, banks, pairs = True, [], machine.sram_banks // 2
    for operand in vector.operands:
        if isinstance(operand, Memory):
            size = ITEM_BYTES[operand.dtype]
            # A bank delivers one word a cycle, and two sources are read at the same time. Words are interleaved over
            # the banks, so the first words determine whether the sources conflict all along.
            if not first:
                banks.append(operand.base * size // WORD_BYTES % pairs)
                moves = moves or bool(operand.stride or operand.outer)
        elif isinstance(operand, Received | Sent):
            size, crosses = ITEM_BYTES[operand.dtype], True
            # A wavelet is a word: two elements of a 16-bit type.
            if size < WORD_BYTES:
                elements = 2
        else:
            size = 0
        first = False
        # The widest type decides: a lane of 32 bits is two of 16 bits, also for the operand that needs only one.
        widest = max(widest, size)
    # Two sources with stride 0 are read once and kept, so they do not conflict in later cycles.
    return IssueDemand(vector.op, widest, crosses, elements, moves and len(set(banks)) < len(banks))


def step_rate(needs: IssueDemand, machine: Machine) -> int:
    """Return how many millionths of a step an operation advances in a cycle.

    A step is one element, or one wavelet of two elements (`needs.elements`). The result is at least 1.
    """
    full = machine.per_cycle(OPERATIONS[needs.op].unit, needs.item_bytes)
    if needs.meets:
        full /= machine.conflict_slowdown
    # A ramp carries one wavelet in a cycle, and on the WSE-3 a link needs 1.125 cycles for each (ALCF).
    if needs.crosses:
        full = min(full, needs.elements / machine.wavelet_cycles)
    # Whole millionths, so that rounding of floats cannot differ between machines; at least one, so that every run ends.
    return max(1, round(full / needs.elements * FULL_RATE))
