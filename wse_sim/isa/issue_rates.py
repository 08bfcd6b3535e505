"""Setup and rate of a vector operation on a machine, by its type, descriptors, memory banks and wavelets."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wse_sim.isa.core_program import (
    ITEM_BYTES,
    WORD_BYTES,
    Instruction,
    LoopEnd,
    LoopStart,
    Memory,
    Operand,
    Received,
    Sent,
    Vector,
)
from wse_sim.isa.operations import OPERATIONS
from wse_sim.isa.record import FULL_RATE
from wse_sim.machine import Machine

# Two words of a source are read together: a port is 64 bits wide.
_PORT_WORDS = 2


def round_cycles(latency: float) -> int:
    """Return a latency of the machine rounded to whole cycles, as the engine uses it."""
    return round(latency)


def ramp_latencies(machine: Machine) -> tuple[int, int]:
    """Return the whole cycles (from a core to its router, from a router to its core), which add up to 2 T_R.

    An odd sum has the longer latency on the way to the core, which can use a wavelet from the next cycle on.
    """
    both = max(1, round_cycles(2 * machine.ramp_cycles))
    return both // 2, both - both // 2


def loop_back_cycles(machine: Machine) -> int:
    """Return the cycles of a jump back to the start of a loop; at least 1, the cycle that issues the loop's end."""
    return max(1, round_cycles(machine.loop_cycles))


@dataclass
class _LoopLevel:
    """A loop, or the whole body: where it starts, its operations and inner loops in order, and their operands.

    - `start`: index of the loop start, -1 for the body
    - `parts`: indices of its own vector operations, and its inner loops
    - `operands`: operands of all vector operations, also of those in inner loops
    """

    start: int
    parts: "list[int | _LoopLevel]" = field(default_factory=list)
    operands: set[tuple[Operand, ...]] = field(default_factory=set)


def descriptor_load_cycles(body: Sequence[Instruction], machine: Machine) -> list[int]:
    """Return, for each instruction of `body`, the cycles in which descriptors are loaded before it.

    Operands that cross the fabric are loaded for every operation, since a move uses its descriptors up. Others stay in
    registers. A loop with at most `machine.descriptors` different operations loads each of them once, at its start, and
    an operation outside of loops is loaded at its first occurrence. If a loop or the body has more, its own operations
    load their descriptors every time, and its inner loops at their start.
    """
    cycles = round_cycles(machine.descriptor_load_cycles)
    loads = [0] * len(body)
    if not cycles:
        return loads
    open_levels = [_LoopLevel(-1)]
    for i, instruction in enumerate(body):
        level = open_levels[-1]
        if isinstance(instruction, LoopStart):
            inner = _LoopLevel(i)
            level.parts.append(inner)
            open_levels.append(inner)
        elif isinstance(instruction, LoopEnd) and len(open_levels) > 1:
            open_levels[-2].operands |= open_levels.pop().operands
        elif isinstance(instruction, Vector):
            if _crosses_fabric(instruction):
                loads[i] = cycles
            else:
                level.parts.append(i)
                level.operands.add(instruction.operands)
    _add_loads(open_levels[0], body, machine.descriptors, cycles, loads)
    return loads


def _add_loads(level: _LoopLevel, body: Sequence[Instruction], registers: int, cycles: int, loads: list[int]) -> None:
    """Set in `loads` the cycles of all loads of descriptors inside of `level`, `cycles` for each operation."""
    fits = len(level.operands) <= registers
    if fits and level.start >= 0:
        loads[level.start] = cycles * len(level.operands)
        return
    loaded: set[tuple[Operand, ...]] = set()
    for part in level.parts:
        if isinstance(part, _LoopLevel):
            _add_loads(part, body, registers, cycles, loads)
            # Operations that ran before the loop have their descriptors in registers already.
            if fits:
                loads[part.start] = cycles * len(part.operands - loaded)
                loaded |= part.operands
        elif not fits:
            loads[part] = cycles
        elif (operands := _operands_at(body, part)) not in loaded:
            loads[part] = cycles
            loaded.add(operands)


def _operands_at(body: Sequence[Instruction], i: int) -> tuple[Operand, ...]:
    vector = body[i]
    assert isinstance(vector, Vector)
    return vector.operands


def _crosses_fabric(vector: Vector) -> bool:
    return any(isinstance(operand, Received | Sent) for operand in vector.operands)


class IssueDemand(NamedTuple):
    """The properties of a vector operation that determine its rate.

    - `unit`: the rate of the machine that applies, see `Machine.per_cycle`
    - `item_bytes`: bytes of its widest element type
    - `crosses`: True if it sends or receives wavelets
    - `elements`: elements of one step: 2 if it sends or receives a 16-bit type, else 1
    - `meets`: True if two sources start in the same pair of memory banks
    - `is_shifted`: True if words of two sources that are read together share a pair of banks
    """

    unit: str
    item_bytes: int
    crosses: bool
    elements: int
    meets: bool
    is_shifted: bool


def issue_demand(vector: Vector, machine: Machine) -> IssueDemand:
    """Return the properties of a vector operation that determine its rate.

    Words are interleaved over `bank_pairs` pairs of banks, and a pair delivers one word a cycle. Two sources in
    memory whose first words are in the same pair wait for each other (SPMM: N + 6 cycles become 2 N + 6; ALCF: one of
    four alignments), unless all sources repeat one element. The bases as written count, without the contributions of
    loops and indices.

    A multiply-add that adds to its destination is part of a product if an enclosing loop moves a factor and not the
    sum.
    """
    # One pass over the operands, since a report calls this for every operation that it prices.
    widest, elements, crosses, moves = 0, 1, False, False
    first, banks, moving, pairs = True, [], [], machine.bank_pairs
    for operand in vector.operands:
        if isinstance(operand, Memory):
            size = ITEM_BYTES[operand.dtype]
            # A bank delivers one word a cycle, and two sources are read at the same time. Words are interleaved over
            # the banks, so the first words determine whether the sources conflict all along.
            if not first:
                banks.append(operand.base * size // WORD_BYTES % pairs)
                if operand.stride or operand.outer:
                    moves = True
                    moving.append(operand)
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
    unit = OPERATIONS[vector.op].unit
    if unit == "add" and widest == WORD_BYTES:
        # A source that repeats one element is read once, so only the others can meet in later cycles.
        starts = [source.base * ITEM_BYTES[source.dtype] // WORD_BYTES for source in moving]
        meets, is_shifted = _meet_in_banks(starts, pairs)
        return IssueDemand(unit, widest, crosses, elements, meets, is_shifted)
    if unit == "fma" and _is_product(vector):
        unit = "product"
    # Two sources with stride 0 are read once and kept, so they do not conflict in later cycles.
    return IssueDemand(unit, widest, crosses, elements, moves and len(set(banks)) < len(banks), False)


def _meet_in_banks(starts: Sequence[int], pairs: int) -> tuple[bool, bool]:
    """Return (whether two sources start in one pair of banks, whether words that are read together share a pair).

    `starts` are the first words of the sources.
    """
    if len(starts) < 2:
        return False, False
    # The port reads the next word too, so sources do not meet only if they start two pairs apart.
    words = {(start + i) % pairs for start in starts for i in range(_PORT_WORDS)}
    return len({start % pairs for start in starts}) < len(starts), len(words) < _PORT_WORDS * len(starts)


def vector_rate(op: str, itemsize: int, apart: int | None, machine: Machine) -> float:
    """Return the elements per cycle of vector operations with the rate `op` of the machine, all operands in memory.

    `apart` is the number of words between the starts of its two sources; None if only one is in memory.
    """
    meets = is_shifted = False
    if apart is not None:
        meets, is_shifted = _meet_in_banks((0, apart), machine.bank_pairs)
    return _element_rate(op, itemsize, meets, is_shifted, machine)


def _is_product(vector: Vector) -> bool:
    """Return whether a multiply-add adds to a sum that an enclosing loop does not move, while it moves a factor."""
    target, *factors, addend = vector.operands
    if not isinstance(target, Memory) or target != addend or not target.stride:
        return False
    moved = _moved_by(factor for factor in factors if isinstance(factor, Memory))
    return bool(moved - _moved_by((target,)))


def _moved_by(operands: Iterable[Memory]) -> set[int]:
    """Return the depths of the loops that move any of the operands."""
    return {depth for operand in operands for depth, step in enumerate(operand.steps) if step}


def step_rate(needs: IssueDemand, machine: Machine) -> int:
    """Return how many millionths of a step an operation advances in a cycle.

    A step is one element, or one wavelet of two elements (`needs.elements`). The result is at least 1.
    """
    full = _element_rate(needs.unit, needs.item_bytes, needs.meets, needs.is_shifted, machine)
    # A ramp carries one wavelet in a cycle, and on the WSE-3 a link needs 1.125 cycles for each (ALCF).
    if needs.crosses:
        full = min(full, needs.elements / machine.wavelet_cycles)
    # Whole millionths, so that rounding of floats cannot differ between machines; at least one, so that every run ends.
    return max(1, round(full / needs.elements * FULL_RATE))


def _element_rate(unit: str, itemsize: int, meets: bool, is_shifted: bool, machine: Machine) -> float:
    """Return the elements per cycle of an operation in memory; `meets` and `is_shifted` as in `IssueDemand`."""
    full = machine.per_cycle(unit, itemsize)
    if unit == "add" and itemsize == WORD_BYTES:
        if meets:
            return machine.conflict_add_f32_per_cycle
        return machine.shifted_add_f32_per_cycle if is_shifted else full
    return full / machine.conflict_slowdown if meets else full
