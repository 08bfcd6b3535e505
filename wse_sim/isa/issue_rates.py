"""How fast an operation runs on a machine: rates by type, conflicts of banks, and what a wavelet carries."""

from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES, Memory, Received, Sent, Vector
from wse_sim.isa.operations import OPERATIONS
from wse_sim.isa.record import FULL_RATE
from wse_sim.machine import Machine


def whole_cycles(latency: float) -> int:
    """A latency of the machine in whole cycles, as the engine needs it."""
    return round(latency)


def loop_back_cycles(machine: Machine) -> int:
    """Cycles of a jump back to the start of a loop: no less than the one in which its end is issued."""
    return max(1, whole_cycles(machine.loop_cycles))


def elements_per_wavelet(vector: Vector) -> int:
    """How many elements an operation advances at once: two where it sends or receives 16-bit types."""
    for operand in vector.operands:
        if isinstance(operand, Received | Sent) and ITEM_BYTES[operand.dtype] < WORD_BYTES:
            return 2
    return 1


def rate(vector: Vector, machine: Machine) -> float:
    """Elements that a cycle takes, by the widest type of the operation.

    Two sources in memory that start in the same of four pairs of banks wait for each other (SPMM: N + 6 cycles become
    2 N + 6; ALCF: one of four alignments). Bases as written count, without what loops and indices add.
    """
    # One pass over the operands, as a report asks this of every operation that it prices.
    widest, crosses, moves = 0, False, False
    banks: list[int] = []
    for n, operand in enumerate(vector.operands):
        if isinstance(operand, Memory):
            size = ITEM_BYTES[operand.dtype]
            # A bank delivers one word a cycle and two sources read at the same time. Words go round the banks, so where
            # they begin says whether they meet all along.
            if n:
                banks.append(operand.base * size // WORD_BYTES % (machine.sram_banks // 2))
                moves = moves or bool(operand.stride or operand.outer)
        elif isinstance(operand, Received | Sent):
            size, crosses = ITEM_BYTES[operand.dtype], True
        else:
            continue
        widest = max(widest, size)
    # The widest type decides: a lane of 32 bits is two of 16, also for the operand that needs only one.
    full = machine.per_cycle(OPERATIONS[vector.op].unit, widest)
    # Two sources that stand still are read once and kept: they cannot meet in a later cycle.
    if moves and len(set(banks)) < len(banks):
        full /= machine.conflict_slowdown
    # A ramp carries one wavelet a cycle, and on the WSE-3 a link takes 1.125 cycles for each (ALCF).
    if crosses:
        full = min(full, elements_per_wavelet(vector) / machine.wavelet_cycles)
    return full


def step_rate(vector: Vector, machine: Machine) -> int:
    """Millionths of a step that a cycle takes; a step is one element or one wavelet of two."""
    # Whole millionths, so that no rounding of floats can differ between machines; at least one, or a run would never
    # end.
    return max(1, round(rate(vector, machine) / elements_per_wavelet(vector) * FULL_RATE))
