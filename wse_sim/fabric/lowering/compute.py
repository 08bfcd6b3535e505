"""Compute and Local as steps of a core."""

import math

from wse_sim.fabric.lowering.sheet import MeshWriter
from wse_sim.fabric.mesh import CellIndex
from wse_sim.isa.core_program import ITEM_BYTES, WORD_BYTES, Instruction, LoopEnd, LoopStart, Memory, TaskChange, Vector
from wse_sim.isa.issue_rates import loop_back_cycles
from wse_sim.machine import Machine
from wse_sim.phase import Compute

_VECTOR_FORMS: dict[str, tuple[str, tuple[float | None, ...]]] = {
    "move": ("move", (0.0,)),
    "add": ("add", (None, 0.0)),
    "fma": ("fmac", (None, 1.0, 0.0)),
    "special": ("exp", (0.0,)),
}
"""The instruction that stands for an operation, and its sources: None for the word itself."""
MAX_UNROLLED_VECTORS = 128
"""Vector operations in one round of a loop that stands for many, so that its turns do not count."""

MAX_SINGLE_CYCLE_INSTRUCTIONS = 48
"""Cycles of scalar code that are instructions of one cycle each; more of it is one long move."""


def compute_body(sheet: MeshWriter, phase: Compute) -> tuple[Instruction, ...]:
    """Instructions that take as long as a `Compute`, over one word that no phase uses."""
    # A price has no operands: one word outside of all data is read and written over and over.
    machine, scratch = sheet.mesh.machine, sheet.allocate_words(1)
    if not phase.length:
        return _scalar_instructions(phase.vectors * phase.scalar_cycles, scratch, machine)
    vector = _compute_vector(phase, scratch, machine)
    loop_back = loop_back_cycles(machine)
    # A loop costs its jump on every round. If the kernel's own scalar code is at least as long, the jump is part of it;
    # else so many vectors go into a round that the jump does not show.
    if phase.vectors <= MAX_UNROLLED_VECTORS or phase.scalar_cycles < loop_back:
        return _repeat_body(
            (vector, *_scalar_instructions(phase.scalar_cycles, scratch, machine)), phase.vectors, MAX_UNROLLED_VECTORS
        )
    return _repeat_body(
        (vector, *_scalar_instructions(phase.scalar_cycles - loop_back, scratch, machine)), phase.vectors, 1
    )


def _compute_vector(phase: Compute, scratch: int, machine: Machine) -> Vector:
    """One operation; wide elements and conflicts between banks make it longer, as a core has no such types or banks."""
    # Cores have no wider types: eight bytes become twice as many elements of four.
    dtype = "float16" if phase.itemsize <= 2 else "float32"
    word = Memory(scratch * WORD_BYTES // ITEM_BYTES[dtype], stride=0, dtype=dtype)
    cycles = round(math.ceil(phase.length / machine.per_cycle(phase.op, phase.itemsize)) * phase.slowdown)
    length = max(1, math.floor(cycles * machine.per_cycle(phase.op, ITEM_BYTES[dtype])))
    name, sources = _VECTOR_FORMS[phase.op]
    return Vector(name, operands=(word, *(word if source is None else source for source in sources)), length=length)


def _scalar_instructions(cycles: float, scratch: int, machine: Machine) -> tuple[Instruction, ...]:
    """Code that only takes time: single cycles, or one long move."""
    setup = machine.dsd_setup_cycles
    if cycles <= MAX_SINGLE_CYCLE_INSTRUCTIONS:
        # Unblocking what is not blocked does nothing, in exactly one cycle.
        return (TaskChange("unblock", "main"),) * round(cycles)
    elements = math.floor((cycles - setup) * machine.move_f32_per_cycle)
    return (Vector("move", operands=(Memory(scratch, 0), 0.0), length=elements),)


def _repeat_body(body: tuple[Instruction, ...], times: int, unrolled: int) -> tuple[Instruction, ...]:
    """A body many times, so many of them in each round of a loop."""
    if not body or not times:
        return ()
    rounds, rest = divmod(times, unrolled)
    if rounds < 2:
        return body * times
    return (LoopStart(rounds), *body * unrolled, LoopEnd(), *body * rest)


def lower_body(sheet: MeshWriter, body: tuple[Instruction, ...], x: CellIndex, y: CellIndex) -> None:
    """Append a body to the strand of these cores, if there is one."""
    if body:
        sheet.do(body, x, y)
