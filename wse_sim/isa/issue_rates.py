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
    return 2 if any(ITEM_BYTES[o.dtype] < WORD_BYTES for o in vector.operands if isinstance(o, Received | Sent)) else 1


def rate(vector: Vector, machine: Machine) -> float:
    """Elements that a cycle takes, by the widest type of the operation.

    Two sources in memory that start in the same of four pairs of banks wait for each other (SPMM: N + 6 cycles become
    2 N + 6; ALCF: one of four alignments). Bases as written count, without what loops and indices add.
    """
    typed = [o for o in vector.operands if isinstance(o, Memory | Received | Sent)]
    # The widest type decides: a lane of 32 bits is two of 16, also for the operand that needs only one.
    full = machine.per_cycle(OPERATIONS[vector.op].unit, max(ITEM_BYTES[o.dtype] for o in typed))
    sources = [o for o in vector.operands[1:] if isinstance(o, Memory)]
    # A bank delivers one word a cycle and two sources read at the same time. Words go round the banks, so where they
    # begin says whether they meet all along.
    banks = [o.base * ITEM_BYTES[o.dtype] // WORD_BYTES % (machine.sram_banks // 2) for o in sources]
    # Two sources that stand still are read once and kept: they cannot meet in a later cycle.
    if len(set(banks)) < len(banks) and any(o.stride or o.outer for o in sources):
        full /= machine.conflict_slowdown
    # A ramp carries one wavelet a cycle, and on the WSE-3 a link takes 1.125 cycles for each (ALCF).
    if any(not isinstance(o, Memory) for o in typed):
        full = min(full, elements_per_wavelet(vector) / machine.wavelet_cycles)
    return full


def step_rate(vector: Vector, machine: Machine) -> int:
    """Millionths of a step that a cycle takes; a step is one element or one wavelet of two."""
    # Whole millionths, so that no rounding of floats can differ between machines; at least one, or a run would never
    # end.
    return max(1, round(rate(vector, machine) / elements_per_wavelet(vector) * FULL_RATE))
