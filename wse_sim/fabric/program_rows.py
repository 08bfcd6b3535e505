"""Encode core programs as rows of integers for the engine, and map each row to its instruction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from wse_sim.fabric.mesh import RAMP, Mesh
from wse_sim.isa import record
from wse_sim.isa.core_program import (
    COMPARISONS,
    ITEM_BYTES,
    MAX_OUTER_DIMENSIONS,
    SWITCH_COMMANDS,
    WORD_BYTES,
    Branch,
    ConfigureSwitch,
    ControlWavelet,
    CoreProgram,
    Instruction,
    LoopEnd,
    LoopStart,
    Memory,
    Operand,
    Received,
    Sent,
    TaskChange,
    Vector,
)
from wse_sim.isa.issue_rates import (
    descriptor_load_cycles,
    issue_demand,
    loop_back_cycles,
    round_cycles,
    step_rate,
)
from wse_sim.isa.operations import OPERATIONS
from wse_sim.isa.rounding import round_constant
from wse_sim.machine import Machine

_TASK_CHANGE_CODES = {"activate": record.ACTIVATE, "block": record.BLOCK, "unblock": record.UNBLOCK}


@dataclass
class ProgramRows:
    """All programs of a mesh as arrays.

    - `code`: the rows of all programs, then the extras of operands (see `record.EXTRAS`), as one flat array
    - `entries`: [programs, TASK_ENTRIES], the row of each task's first instruction
    - `named`: [programs, names], for each name that a control wavelet can carry the program's task of that name, or -1
    - `constants`: the constants of operands, float32
    - `sources`: a description of each row
    """

    code: np.ndarray
    entries: np.ndarray
    named: np.ndarray
    constants: np.ndarray
    sources: list[str]

    def source(self, row: int) -> str:
        """Return the description of the instruction at offset `row` in `code`."""
        return self.sources[row // record.INSTRUCTION]


@dataclass
class _Assembler:
    """The growing tables of an assembly: rows, descriptions, constants and extras.

    `lanes` maps (colour number, source) to a lane, `colours` a colour to its number, and `names` are those of
    `control_task_names`.
    """

    machine: Machine
    lanes: Mapping[tuple[int, int], int]
    colours: Mapping[int, int]
    names: Sequence[str]
    # Lists during the assembly; they become arrays at the end.
    rows: list[list[int]] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    # Entry 0 is unused: the array must not be empty, since the engine takes its address.
    constants: list[float] = field(default_factory=lambda: [0.0])
    extras: list[list[int]] = field(default_factory=list)

    def queue(self, colour: int) -> int:
        """Return the number of the core's receive queue for a colour; these follow the queues of the lanes."""
        return max(1, len(set(self.lanes.values()))) + self.colours[colour]

    def constant(self, value: float) -> int:
        self.constants.append(value)
        return len(self.constants) - 1


def assemble_programs(mesh: Mesh, lanes: Mapping[tuple[int, int], int]) -> ProgramRows:
    """Return all programs of a mesh as rows; `lanes` maps (colour number, source) to a lane.

    Without programs there is one STOP row.
    """
    names = control_task_names(mesh)
    assembler = _Assembler(mesh.machine, lanes=lanes, colours={c: k for k, c in enumerate(mesh.colours)}, names=names)
    entries = np.zeros((max(1, len(mesh.programs)), record.TASK_ENTRIES), np.int32)
    named = np.full((max(1, len(mesh.programs)), max(1, len(names))), -1, np.int32)
    for i, program in enumerate(mesh.programs):
        tasks = [name for name, _ in program.tasks]
        named[i, : len(names)] = [tasks.index(name) if name in tasks else -1 for name in names]
        for j, (name, body) in enumerate(program.tasks):
            entries[i, j] = len(assembler.rows) * record.INSTRUCTION
            _write_task(assembler, program, name, body, tasks)
    if not assembler.rows:
        assembler.rows.append(_blank_row(record.STOP))
    return ProgramRows(
        _assemble_code(assembler), entries, named, np.array(assembler.constants, np.float32), assembler.sources
    )


def control_task_names(mesh: Mesh) -> list[str]:
    """Return the sorted names of tasks that control wavelets of the mesh's programs activate."""
    controls = (i for p in mesh.programs for _, i in p.numbered_instructions() if isinstance(i, ControlWavelet))
    return sorted({i.task for i in controls if i.task})


def _assemble_code(assembler: _Assembler) -> np.ndarray:
    """Return the rows and then the extras of an assembly as one flat int32 array.

    The number of an operand's extras, counted from 1, is replaced by their offset in this array; 0, for none, stays.
    """
    first = len(assembler.rows) * record.INSTRUCTION
    rows = np.array(assembler.rows, np.int32)
    for i in range(4):
        column = record.OPERANDS + i * record.OPERAND + record.EXTRA
        has = (rows[:, column] > 0) & (rows[:, record.OP] < record.FIRST_CONTROL)
        rows[has, column] = first + (rows[has, column] - 1) * record.EXTRAS
    return np.concatenate([rows.reshape(-1), np.array(assembler.extras, np.int32).reshape(-1)])


def _write_task(
    assembler: _Assembler, program: CoreProgram, name: str, body: Sequence[Instruction], tasks: list[str]
) -> None:
    """Append the rows of a task's instructions, and a STOP row, with a description of each to `assembler.sources`."""
    # Loops are resolved here: a loop end has the row that it jumps to, so the engine needs no stack.
    open_loops: list[tuple[int, int]] = []
    loads = descriptor_load_cycles(body, assembler.machine)
    for j, instruction in enumerate(body):
        assembler.sources.append(f"{program.name}, {name}.{j}, `{instruction}`")
        row = _instruction_row(assembler, instruction, program, open_loops, tasks)
        row[record.SETUP] += loads[j]
        assembler.rows.append(row)
    assembler.rows.append(_blank_row(record.STOP))
    assembler.sources.append(f"{program.name}, end of {name}")


def _blank_row(op: int) -> list[int]:
    # Every row is as wide as the widest instruction, so rows are at multiples of that width.
    return [op] + [0] * (record.INSTRUCTION - 1)


def _instruction_row(
    assembler: _Assembler,
    instruction: Instruction,
    program: CoreProgram,
    open_loops: list[tuple[int, int]],
    tasks: list[str],
) -> list[int]:
    """Return the row of an instruction; `tasks` are the names of the program's tasks in order.

    `open_loops` has (row after its start, rounds) for each enclosing loop; loop starts and ends update it.
    """
    match instruction:
        case Vector():
            return _vector_row(assembler, instruction, program, tasks)
        case LoopStart(times):
            open_loops.append(((len(assembler.rows) + 1) * record.INSTRUCTION, times))
            row = _control_row(record.LOOP, len(open_loops) - 1)
            # The cycle that issues the loop start. The caller adds loads of descriptors.
            row[record.SETUP] = 1
            return row
        case LoopEnd():
            start, times = open_loops.pop()
            row = _control_row(record.END, len(open_loops), start, times)
            # The engine reads this column when the end jumps.
            row[record.SETUP] = loop_back_cycles(assembler.machine)
            return row
        case Branch(address, comparison, value, task):
            row = _control_row(record.BRANCH, address, assembler.constant(value))
            row[record.ASYNC], row[record.TASK] = COMPARISONS.index(comparison), tasks.index(task)
            return row
        case TaskChange(verb, task):
            row = _blank_row(_TASK_CHANGE_CODES[verb])
            row[record.TASK] = tasks.index(task)
            return row
        case ControlWavelet(colour, commands, task):
            # The first command is in the lowest bits: each router takes those and shifts.
            bits = sum(SWITCH_COMMANDS.index(c) << record.COMMAND_BITS * i for i, c in enumerate(commands))
            bits |= (assembler.names.index(task) + 1 if task else 0) << record.TASK_SHIFT
            return _control_row(record.SEND_CONTROL, assembler.lanes[assembler.colours[colour], RAMP], bits)
        case ConfigureSwitch(colour, position):
            return _control_row(record.CONFIGURE, assembler.colours[colour], position)


def _control_row(op: int, a: int, b: int = 0, times: int = 0) -> list[int]:
    row = _blank_row(op)
    row[record.OPERANDS], row[record.OPERANDS + 1], row[record.LENGTH] = a, b, times
    return row


def _vector_row(assembler: _Assembler, vector: Vector, program: CoreProgram, tasks: list[str]) -> list[int]:
    """Return the row of a vector operation; its constants and extras are appended to `assembler`."""
    # The engine's constant for an operation is its name in capitals.
    row = _blank_row(getattr(record, vector.op.upper()))
    needs = issue_demand(vector, assembler.machine)
    row[record.LENGTH], row[record.STEP] = vector.length, needs.elements
    row[record.RATE] = step_rate(needs, assembler.machine)
    row[record.ASYNC], row[record.ADVANCES] = int(vector.is_async), int(vector.advance)
    row[record.SETUP] = round_cycles(assembler.machine.dsd_setup_cycles)
    row[record.KIND] = record.PLAIN if _is_plain(vector) else record.GENERAL
    if vector.then:
        row[record.THEN], row[record.TASK] = _TASK_CHANGE_CODES[vector.then[0]], tasks.index(vector.then[1])
    target = vector.operands[0]
    assert isinstance(target, Memory | Sent)
    row[record.TO_LANE] = assembler.lanes[assembler.colours[target.colour], RAMP] if isinstance(target, Sent) else -1
    # At most three, since no operation has more sources.
    queues = [assembler.queue(o.colour) for o in vector.operands if isinstance(o, Received)]
    row[record.INPUT_QUEUES : record.OPERANDS] = [
        *queues,
        *[-1] * (record.OPERANDS - record.INPUT_QUEUES - len(queues)),
    ]
    for i in range(4):
        first = record.OPERANDS + i * record.OPERAND
        row[first : first + record.OPERAND] = (
            _operand_columns(assembler, vector.operands[i], vector.length, program.words, target.dtype)
            if i < len(vector.operands)
            else [record.NONE, 0, 0, 0, 0]
        )
    return row


def _is_plain(vector: Vector) -> bool:
    typed = [o for o in vector.operands if isinstance(o, Memory | Received | Sent)]
    flat = all(not o.outer for o in typed if isinstance(o, Memory))
    return OPERATIONS[vector.op].is_plain and flat and all(o.dtype == "float32" for o in typed)


def _operand_columns(assembler: _Assembler, operand: Operand, length: int, words: int, dtype: str) -> list[int]:
    """Return the columns of one operand: kind, base, stride, type, number of its extras (0 for none).

    The base is an element of memory, the number of a colour to receive, a lane to send on, or the number of a constant.
    `dtype` is the type of the destination, to which constants are rounded. Constants and extras are appended to
    `assembler`.
    """
    match operand:
        case Memory(base, stride):
            extra = _append_extra(assembler, operand, length, words)
            return [record.MEMORY, base, stride, record.TYPES.index(operand.dtype), extra]
        case Received(colour):
            return [record.RECEIVED, assembler.colours[colour], 0, record.TYPES.index(operand.dtype), 0]
        case Sent(colour):
            lane = assembler.lanes[assembler.colours[colour], RAMP]
            return [record.SENT, lane, 0, record.TYPES.index(operand.dtype), 0]
    return [record.CONSTANT, assembler.constant(round_constant(operand, dtype)), 0, record.TYPES.index(dtype), 0]


def _append_extra(assembler: _Assembler, memory: Memory, length: int, words: int) -> int:
    """Append the properties of an operand that do not fit its columns to `assembler.extras`.

    They are steps of loops, outer dimensions, and an index. Return their number, from 1, or 0 if there are none.
    """
    if not (any(memory.steps) or memory.outer or memory.index is not None):
        return 0
    row = [0] * record.EXTRAS
    row[record.STEPS : record.STEPS + len(memory.steps)] = memory.steps
    # Missing outer dimensions have extent 1, so the engine always handles three.
    pairs = [(1, 0)] * (MAX_OUTER_DIMENSIONS - len(memory.outer)) + list(memory.outer)
    row[record.OUTER : record.OUTER + 2 * MAX_OUTER_DIMENSIONS] = [number for pair in pairs for number in pair]
    row[record.INNER] = length
    for extent, _ in memory.outer:
        row[record.INNER] //= extent
    # The engine adds the index to the base; LOW, HIGH and LIMIT determine which bases keep all elements inside the
    # memory.
    row[record.INDEX] = -1 if memory.index is None else memory.index
    row[record.INDEX_STEP] = memory.index_step
    row[record.LOW], row[record.HIGH] = memory.reach(length)
    row[record.LIMIT] = words * WORD_BYTES // ITEM_BYTES[memory.dtype]
    assembler.extras.append(row)
    return len(assembler.extras)
