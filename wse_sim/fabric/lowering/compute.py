"""Lower `Compute` and `Local` phases to instructions of a core."""

import math

from wse_sim.fabric.lowering.sheet import MeshWriter
from wse_sim.fabric.mesh import CellIndex
from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES, Instruction, LoopEnd, LoopStart, Memory, TaskChange, Vector
from wse_sim.isa.issue_rates import loop_back_cycles, vector_rate
from wse_sim.machine import Machine
from wse_sim.phase import Compute

_VECTOR_FORMS: dict[str, tuple[str, tuple[float | None, ...]]] = {
    "move": ("move", (0.0,)),
    "add": ("add", (None, 0.0)),
    "fma": ("fmac", (None, 1.0, 0.0)),
    "special": ("exp", (0.0,)),
}
"""Operation of a `Compute` -> (instruction with the same rate, its sources); None stands for the scratch word."""
MAX_UNROLLED_VECTORS = 128
"""Maximum number of vector operations in one round of a generated loop, so that the cost of its jump is negligible."""

MAX_SINGLE_CYCLE_INSTRUCTIONS = 48
"""Up to this many cycles of scalar code are single-cycle instructions; longer code is one move of the same duration."""


def compute_body(sheet: MeshWriter, phase: Compute) -> tuple[Instruction, ...]:
    """Return instructions that take about as long as a `Compute`.

    They work on one word that no phase uses, which is reserved here. Scalar code is represented by instructions of one
    cycle, a move, or the jumps of a loop.
    """
    # A `Compute` has no operands, so one scratch word is read and written repeatedly.
    machine, scratch = sheet.mesh.machine, sheet.allocate_words(1)
    if not phase.length:
        return _scalar_instructions(phase.vectors * phase.scalar_cycles, scratch, machine)
    vector = _compute_vector(phase, scratch, machine)
    loop_back = loop_back_cycles(machine)
    # A loop costs a jump in every round. If the kernel's scalar code is at least as long, the jump replaces part of it.
    # Otherwise a round has enough vectors to make the jump negligible.
    if phase.vectors <= MAX_UNROLLED_VECTORS or phase.scalar_cycles < loop_back:
        return _repeat_body(
            (vector, *_scalar_instructions(phase.scalar_cycles, scratch, machine)), phase.vectors, MAX_UNROLLED_VECTORS
        )
    return _repeat_body(
        (vector, *_scalar_instructions(phase.scalar_cycles - loop_back, scratch, machine)), phase.vectors, 1
    )


def _compute_vector(phase: Compute, scratch: int, machine: Machine) -> Vector:
    """Return one vector operation of the duration of one of the phase's, on the word at address `scratch`.

    Wide elements and bank conflicts are represented by a greater length.
    """
    # Cores have no wider types: eight bytes become twice as many elements of four bytes.
    dtype = "float16" if phase.itemsize <= 2 else "float32"
    word = Memory(scratch * WORD_BYTES // ITEM_BYTES[dtype], stride=0, dtype=dtype)
    rate = vector_rate(phase.op, phase.itemsize, phase.apart, machine)
    cycles = round(math.ceil(phase.length / rate) * phase.slowdown)
    length = max(1, math.floor(cycles * machine.per_cycle(phase.op, ITEM_BYTES[dtype])))
    name, sources = _VECTOR_FORMS[phase.op]
    return Vector(name, operands=(word, *(word if source is None else source for source in sources)), length=length)


def _scalar_instructions(cycles: float, scratch: int, machine: Machine) -> tuple[Instruction, ...]:
    """Return instructions that only take `cycles` cycles: single-cycle instructions, or one move if there are many.

    The move writes to the word at address `scratch`. Up to `MAX_SINGLE_CYCLE_INSTRUCTIONS` cycles are rounded.
    """
    setup = machine.dsd_setup_cycles
    if cycles <= MAX_SINGLE_CYCLE_INSTRUCTIONS:
        # Unblocking a task that is not blocked has no effect and takes exactly one cycle.
        return (TaskChange("unblock", "main"),) * round(cycles)
    elements = math.floor((cycles - setup) * machine.move_f32_per_cycle)
    return (Vector("move", operands=(Memory(scratch, 0), 0.0), length=elements),)


def _repeat_body(body: tuple[Instruction, ...], times: int, unrolled: int) -> tuple[Instruction, ...]:
    """Return the instructions `body` repeated `times` times: a loop with `unrolled` copies in each round, then the
    rest.

    With less than two full rounds there is no loop, only copies.
    """
    if not body or not times:
        return ()
    rounds, rest = divmod(times, unrolled)
    if rounds < 2:
        return body * times
    return (LoopStart(rounds), *body * unrolled, LoopEnd(), *body * rest)


def lower_body(sheet: MeshWriter, body: tuple[Instruction, ...], x: CellIndex, y: CellIndex) -> None:
    """Append the instructions `body` to the current strand of the cores at `x`, `y`, unless it is empty."""
    if body:
        sheet.do(body, x, y)
