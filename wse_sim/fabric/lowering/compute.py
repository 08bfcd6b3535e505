"""Compute and Local as steps of a core."""

import math

from lazytensor.errors import LazyError
from wse_sim.fabric.lowering.sheet import Sheet
from wse_sim.fabric.mesh import Cells
from wse_sim.fabric.program import Change, End, Instruction, Loop, Memory, Vector
from wse_sim.machine import Machine
from wse_sim.phase import Compute

UNROLLED = 32
"""Vector operations in one round of a loop that stands for many, so that its turns do not count."""


def compute_body(sheet: Sheet, phase: Compute) -> tuple[Instruction, ...]:
    """Instructions that take as long as a `Compute`, over one word that no phase uses."""
    machine = sheet.mesh.machine
    vector: list[Instruction] = []
    if phase.length:
        vector.append(_vector(phase, sheet.temporary(1)))
    if not phase.scalar_cycles:
        return _repeated(tuple(vector), phase.vectors, UNROLLED)
    turn = 1 if phase.vectors > 1 else 0
    scalar = _scalar(phase.scalar_cycles - turn, sheet.temporary(1), machine)
    return _repeated((*vector, *scalar), phase.vectors, 1)


def _vector(phase: Compute, scratch: int) -> Vector:
    """One operation; elements of 8 bytes count twice, and conflicts between banks lengthen it."""
    word = Memory(scratch, 0)
    length = max(1, round(phase.length * phase.slowdown * max(1, phase.itemsize / 4)))
    if phase.itemsize <= 2:
        raise LazyError(f"elements of {phase.itemsize} bytes do not lower to wavelets", todo="Use 4 bytes.")
    match phase.op:
        case "move":
            return Vector("move", (word, 0.0), length)
        case "add":
            return Vector("add", (word, word, 0.0), length)
        case "fma":
            return Vector("fmac", (word, word, 1.0, 0.0), length)
    raise LazyError(f"{phase.op!r} does not lower to wavelets", todo="Use fma, add or move.")


def _scalar(cycles: float, scratch: int, machine: Machine) -> tuple[Instruction, ...]:
    """Code that only takes time: single cycles, or one long move."""
    setup = machine.dsd_setup_cycles
    if cycles <= setup + 1:
        return (Change("unblock", "main"),) * round(cycles)
    elements = math.floor((cycles - setup) * machine.move_f32_per_cycle)
    return (Vector("move", (Memory(scratch, 0), 0.0), elements),)


def _repeated(body: tuple[Instruction, ...], times: int, unrolled: int) -> tuple[Instruction, ...]:
    """A body many times, so many of them in each round of a loop."""
    if not body or not times:
        return ()
    rounds, rest = divmod(times, unrolled)
    if rounds < 2:
        return body * times
    return (Loop(rounds), *body * unrolled, End(), *body * rest)


def lower_body(sheet: Sheet, body: tuple[Instruction, ...], x: Cells, y: Cells) -> None:
    if body:
        sheet.do(body, x, y)
