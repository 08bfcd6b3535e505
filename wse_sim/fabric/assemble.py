"""A mesh as the arrays that the engine runs on: one row for each instruction, queue, core and thread.

Colours are renumbered to those that have routes. A queue holds `queue_depth` wavelets and, since a wavelet lies in the
queue that it travels to, as many more as the wire before it is long. Latencies are rounded to whole cycles.
"""

from dataclasses import dataclass

import numpy as np

from wse_sim.fabric.mesh import RAMP, Mesh
from wse_sim.fabric.program import (
    COMPARISONS,
    LOOPS_DEEPEST,
    Branch,
    Change,
    End,
    Instruction,
    Loop,
    Memory,
    Operand,
    Program,
    Received,
    Vector,
)
from wse_sim.machine import Machine

CODE_COLUMNS = 19
TASK_COLUMNS = 32
CORE_COLUMNS = 6 + LOOPS_DEEPEST
COUNTERS = ("busy", "on_input", "on_output", "on_memory", "idle", "north", "east", "south", "west", "ramp")
OPCODES = {"move": 0, "add": 1, "mul": 2, "max": 3, "fmac": 4}
LOOP, END, BRANCH, STOP = 6, 7, 8, 12
CHANGES = {"activate": 9, "block": 10, "unblock": 11}
CONSTANT, MEMORY, RECEIVED, SENT, NONE = range(5)
IDLE_STATE = 4
NEVER = 1 << 30
FULL_RATE = 1000
FLOATS = ("value", "constants", "memory")
_UNITS = {"move": "move", "add": "add", "mul": "add", "max": "add", "fmac": "fma"}


@dataclass
class State:
    """All arrays, in the order in which the engine takes them."""

    shape: np.ndarray
    head: np.ndarray
    tail: np.ndarray
    stamp: np.ndarray
    cap: np.ndarray
    value: np.ndarray
    route: np.ndarray
    code: np.ndarray
    entries: np.ndarray
    constants: np.ndarray
    cores: np.ndarray
    threads: np.ndarray
    memory: np.ndarray
    counters: np.ndarray
    grants: np.ndarray
    awake: np.ndarray
    lists: np.ndarray

    def addresses(self) -> np.ndarray:
        """Where the arrays lie, for the engine, which checks neither types nor bounds."""
        for name, array in vars(self).items():
            wanted = np.float32 if name in FLOATS else np.int32
            assert array.dtype == wanted, name
            assert array.flags.c_contiguous, name
        return np.array([a.ctypes.data for a in vars(self).values()], np.int64)

    @property
    def bytes(self) -> int:
        return sum(a.nbytes for a in vars(self).values())


@dataclass
class Listing:
    """The programs as rows, and which instruction each row came from."""

    code: np.ndarray
    entries: np.ndarray
    constants: np.ndarray
    sources: list[str]


def assemble(mesh: Mesh) -> tuple[State, Listing]:
    """The arrays of a mesh that was checked, at cycle 0."""
    slots = {colour: i for i, colour in enumerate(mesh.colours)}
    listing = _assemble_programs(mesh, slots)
    cores, colours = mesh.width * mesh.height, max(1, len(slots))
    route, cap = _routers(mesh, colours)
    ring = 1 << int(cap.max() - 1).bit_length()
    queues = 2 * cores * colours
    machine, threads = mesh.machine, 1 + _microthreads(mesh)
    shape = [cores, colours, ring, mesh.width, whole(machine.ramp_cycles), whole(machine.hop_cycles)]
    shape = [colours, cores, *shape[2:], whole(machine.turn_cycles), threads, mesh.words, 0, 0]
    state = State(
        shape=np.array(shape, np.int32),
        head=np.zeros(queues, np.int32),
        tail=np.zeros(queues, np.int32),
        stamp=np.zeros(queues * ring, np.int32),
        cap=cap,
        value=np.zeros(queues * ring, np.float32),
        route=route,
        code=listing.code,
        entries=listing.entries,
        constants=listing.constants,
        cores=np.zeros((cores, CORE_COLUMNS), np.int32),
        threads=np.zeros((cores, threads, 4), np.int32),
        memory=mesh.memory().reshape(cores, mesh.words),
        counters=np.zeros((cores, len(COUNTERS)), np.int32),
        grants=np.zeros(cores, np.int32),
        awake=np.zeros(cores, np.int32),
        lists=np.zeros((2, cores), np.int32),
    )
    _start(state, mesh)
    return state, listing


def whole(cycles: float) -> int:
    """A latency in whole cycles, as the engine needs it."""
    return round(cycles)


def _start(state: State, mesh: Mesh) -> None:
    """Put the main thread of every core that has a program at its first task."""
    programs = mesh.program_at.reshape(-1)
    state.cores[:, 0] = programs
    state.cores[:, 3] = IDLE_STATE
    state.threads[:, :, 0] = -1
    state.threads[:, :, 1] = NEVER
    first = state.entries[programs, 0]
    runs = (programs >= 0) & (state.code[first // CODE_COLUMNS, 0] != STOP)
    state.threads[runs, 0, 0] = first[runs]


def _microthreads(mesh: Mesh) -> int:
    """As many as a program can use, and no more than the machine has."""
    used = [sum(isinstance(i, Vector) and i.is_async for _, i in p.numbered()) for p in mesh.programs]
    return min(int(mesh.machine.microthreads), max(used, default=0))


def _routers(mesh: Mesh, colours: int) -> tuple[np.ndarray, np.ndarray]:
    """The word of each router queue (outputs in 5 bits, then the source), and what every queue can hold."""
    machine = mesh.machine
    depth, ramp, hop = machine.queue_depth, whole(machine.ramp_cycles), whole(machine.hop_cycles)
    hop += whole(machine.turn_cycles)
    route = np.zeros((mesh.height, mesh.width, colours), np.int32)
    held = np.full((2, *route.shape), int(depth) + max(ramp, 1) - 1, np.int32)
    for i, colour in enumerate(mesh.colours):
        source = mesh.sources(colour)
        route[:, :, i] = np.where(source < 0, 0, mesh.outputs(colour) | source << 5)
        held[0, :, :, i] = int(depth) + np.where(source == RAMP, ramp, hop - 1)
    return route.reshape(-1), held.reshape(-1)


def _assemble_programs(mesh: Mesh, slots: dict[int, int]) -> Listing:
    rows: list[list[int]] = []
    sources: list[str] = []
    constants: list[float] = [0.0]
    entries = np.zeros((max(1, len(mesh.programs)), TASK_COLUMNS), np.int32)
    for i, program in enumerate(mesh.programs):
        for task, (name, body) in enumerate(program.tasks):
            entries[i, task] = len(rows) * CODE_COLUMNS
            open_loops: list[int] = []
            for j, instruction in enumerate(body):
                sources.append(f"{program.name}, {name}.{j}, `{instruction}`")
                rows.append(_row(instruction, program, len(rows), open_loops, slots, constants, mesh.machine))
            rows.append(_blank(STOP))
            sources.append(f"{program.name}, end of {name}")
    code = np.array(rows or [_blank(STOP)], np.int32)
    return Listing(code, entries, np.array(constants, np.float32), sources)


def _blank(op: int) -> list[int]:
    return [op] + [0] * (CODE_COLUMNS - 1)


def _row(
    instruction: Instruction,
    program: Program,
    place: int,
    open_loops: list[int],
    slots: dict[int, int],
    constants: list[float],
    machine: Machine,
) -> list[int]:
    tasks = [name for name, _ in program.tasks]
    match instruction:
        case Vector():
            return _vector_row(instruction, tasks, slots, constants, machine)
        case Loop(times):
            open_loops.append((place + 1) * CODE_COLUMNS)
            row = _blank(LOOP)
            row[1], row[8] = times, len(open_loops) - 1
            return row
        case End():
            row = _blank(END)
            row[8], row[9] = len(open_loops) - 1, open_loops.pop()
            return row
        case Branch(address, comparison, value, task):
            row = _blank(BRANCH)
            row[3], row[5], row[8], row[9] = COMPARISONS.index(comparison), tasks.index(task), address, len(constants)
            constants.append(value)
            return row
        case Change(verb, task):
            row = _blank(CHANGES[verb])
            row[5] = tasks.index(task)
            return row


def _vector_row(
    vector: Vector, tasks: list[str], slots: dict[int, int], constants: list[float], machine: Machine
) -> list[int]:
    row = _blank(OPCODES[vector.op])
    row[1:7] = [vector.length, rate(vector, machine), int(vector.is_async), 0, 0, whole(machine.dsd_setup_cycles)]
    if vector.then:
        row[4], row[5] = CHANGES[vector.then[0]], tasks.index(vector.then[1])
    for i in range(4):
        row[7 + 3 * i : 10 + 3 * i] = (
            _operand(vector.operands[i], slots, constants) if i < len(vector.operands) else [NONE, 0, 0]
        )
    return row


def _operand(operand: Operand, slots: dict[int, int], constants: list[float]) -> list[int]:
    match operand:
        case Memory(base, stride):
            return [MEMORY, base, stride]
        case float() | int():
            constants.append(operand)
            return [CONSTANT, len(constants) - 1, 0]
        case _:
            return [RECEIVED if isinstance(operand, Received) else SENT, slots[operand.colour], 0]


def rate(vector: Vector, machine: Machine) -> int:
    """Thousandths of an element that a cycle takes.

    A wavelet carries one element. Two sources in memory that start in the same of four pairs of banks wait for each
    other: half the rate (SPMM: N + 6 cycles become 2 N + 6; ALCF: one of four alignments).
    """
    full = machine.per_cycle(_UNITS[vector.op], 4)
    sources = [o for o in vector.operands[1:] if isinstance(o, Memory)]
    banks = [o.base % (machine.sram_banks // 2) for o in sources]
    if len(set(banks)) < len(banks) and any(o.stride for o in sources):
        full /= 2
    if any(not isinstance(o, Memory | float | int) for o in vector.operands):
        full = min(full, 1 / machine.wavelet_cycles)
    return max(1, round(full * FULL_RATE))
