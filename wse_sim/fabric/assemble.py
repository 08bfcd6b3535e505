"""Convert a mesh to the arrays that the engine runs on: records of cores, instructions and lanes.

Colours are renumbered to those that have routes. A colour is one lane or, if switches change its source, one lane for
each source direction. A queue has room for `queue_depth` wavelets. A wavelet is stored in the queue that it travels to,
so a queue also has a slot for each cycle of the wire before it. Latencies are rounded to whole cycles.
"""

from dataclasses import dataclass

import numpy as np

from lazytensor.errors import LazyError
from wse_sim.fabric.mesh import DIRECTION_OFFSETS, RAMP, Mesh, neighbour_values
from wse_sim.fabric.program_rows import ProgramRows, assemble_programs
from wse_sim.isa import record
from wse_sim.isa.core_program import MAX_SWITCH_POSITIONS, Memory, Vector
from wse_sim.isa.issue_rates import ramp_latencies, round_cycles

# Lanes are bits of a signed 64-bit word, without its sign.
MAX_LANES = 62
# Heads and tails are bytes, so a queue has at most 128 slots, and wires need some of them.
MAX_QUEUE_DEPTH = 120


@dataclass
class EngineState:
    """The arrays of a mesh, in the order in which the engine takes them.

    - `shape`: sizes, see `record.SHAPE_FIELDS`
    - `cores`: [cores, words of a record], int32; see `record`
    - `memory`: [cores, words], float32
    - `code`, `entries`, `named`, `constants`: see `ProgramRows`
    - `lanes`: [lanes, `record.LANE`], see `LaneNumbering.table`
    """

    shape: np.ndarray
    cores: np.ndarray
    memory: np.ndarray
    code: np.ndarray
    entries: np.ndarray
    named: np.ndarray
    constants: np.ndarray
    lanes: np.ndarray

    def addresses(self) -> np.ndarray:
        """Return the addresses of the arrays, in the order of the fields, as int64; the engine checks
        neither types nor bounds.
        """
        for name, array in vars(self).items():
            wanted = np.float32 if name in ("memory", "constants") else np.int32
            # The engine reads through raw pointers: a wrong type would silently be read as other numbers.
            assert array.dtype == wanted, name
            assert array.flags.c_contiguous, name
        return np.array([a.ctypes.data for a in vars(self).values()], np.int64)

    def size(self, name: str) -> int:
        """Return the entry `name` of `shape`."""
        return int(self.shape[record.SHAPE_FIELDS.index(name)])

    def threads(self) -> np.ndarray:
        """Return a copy of the records of all threads, [cores, threads, columns]; see `record` for the columns."""
        count = self.size("threads")
        part = self.cores[:, record.THREADS_AT : record.THREADS_AT + count * record.THREAD]
        return part.reshape(len(part), count, record.THREAD)

    def field(self, number: int) -> np.ndarray:
        """Return a view of bytes of the queues, [cores, queues]: heads (`number` 0), tails (1) or capacities (2)."""
        first = 4 * self.size("bytes_at") + number * self.size("queued")
        return self.cores.view(np.uint8)[:, first : first + self.size("lanes") + self.size("colours")]

    def outputs(self) -> np.ndarray:
        """Return a view [cores, lanes and colours] of bytes: the current routes of lanes, then the switches of
        colours.
        """
        first = 4 * self.size("bytes_at") + 3 * self.size("queued")
        return self.cores.view(np.uint8)[:, first : first + self.size("lanes") + self.size("colours")]

    def occupancy(self) -> np.ndarray:
        """Return the number of wavelets in each queue, int32 [cores, queues], including those on the wire to it."""
        # Heads and tails are bytes that wrap around, and so is their difference.
        counts: np.ndarray = self.field(1) - self.field(0)
        return counts.astype(np.int32)

    def queue_column(self, column: int) -> np.ndarray:
        """Return a view of one column of the queues' records, [cores, queues], such as `record.PUSHED` or
        `record.COPIED`.
        """
        first, step = self.size("queues_at"), self.size("queue")
        return self.cores[:, first + column : first + step * (self.size("lanes") + self.size("colours")) : step]

    @property
    def bytes(self) -> int:
        """Bytes of host memory that all arrays take."""
        return sum(a.nbytes for a in vars(self).values())


@dataclass(frozen=True)
class LaneNumbering:
    """The numbers of colours and lanes.

    `colours` lists the colours that have routes; the index of a colour is its number. `of` maps (colour number, source
    direction) to a lane.
    """

    colours: tuple[int, ...]
    of: dict[tuple[int, int], int]

    @property
    def count(self) -> int:
        """Number of lanes of a router, at least 1."""
        return max(1, len(set(self.of.values())))

    def table(self) -> np.ndarray:
        """Return int32 [lanes, 5]: for each lane the lane at the next router in each of four directions, and the
        colour's number.

        The next lane is 0 where the colour has none.
        """
        table = np.zeros((self.count, record.LANE), np.int32)
        for (k, _), lane in self.of.items():
            # A wavelet that leaves in direction d arrives at the next router from the opposite side, and is in the lane
            # of that side.
            table[lane] = [*(self.of.get((k, (d + 2) % 4), 0) for d in DIRECTION_OFFSETS), k]
        return table


def number_lanes(mesh: Mesh) -> LaneNumbering:
    """Return the lane numbering of a mesh.

    A colour has one lane if no router takes it from two sources, else one for each source that occurs on the mesh.
    Raises LazyError if it needs more than `MAX_LANES` lanes.
    """
    numbers: dict[tuple[int, int], int] = {}
    count = 0
    for k, colour in enumerate(mesh.colours):
        sources = [mesh.sources(colour, p) for p in mesh.positions(colour)]
        # A colour whose switches never change its source needs only one lane. Most colours are such, which saves
        # queues.
        highest = np.max(sources, axis=0)
        is_single = all(bool(np.all((one < 0) | (one == highest))) for one in sources)
        used = sorted({int(i) for one in sources for i in np.unique(one) if i >= 0})
        for rank, source in enumerate(range(RAMP + 1) if is_single else used):
            numbers[k, source] = count if is_single else count + rank
        count += 1 if is_single else len(used)
    if count > MAX_LANES:
        what = f"the colours of the mesh and their sources need {count} lanes, but a router has at most {MAX_LANES}"
        raise LazyError(what, hint="Use fewer colours, or switch the source of fewer colours.")
    return LaneNumbering(tuple(mesh.colours), numbers)


def assemble_mesh(mesh: Mesh) -> tuple[EngineState, ProgramRows]:
    """Return the state of a mesh at cycle 0, and its program rows. The mesh must have passed `check`."""
    lanes = number_lanes(mesh)
    rows = assemble_programs(mesh, lanes.of)
    sizes = _shape_entries(mesh, lanes, rows)
    cores = sizes["cores"]
    state = EngineState(
        shape=np.array([sizes[name] for name in record.SHAPE_FIELDS], np.int32),
        cores=np.zeros((cores, sizes["stride"]), np.int32),
        memory=mesh.memory().reshape(cores, mesh.words),
        code=rows.code,
        entries=rows.entries,
        named=rows.named,
        constants=rows.constants,
        lanes=lanes.table(),
    )
    _start_main_threads(state, mesh)
    _write_routes(state, mesh, lanes)
    return state, rows


def _shape_entries(mesh: Mesh, lanes: LaneNumbering, rows: ProgramRows) -> dict[str, int]:
    """Return the entries of `shape` by name; see `record.SHAPE_FIELDS`.

    Raises LazyError for a machine with deeper queues than `MAX_QUEUE_DEPTH`.
    """
    machine, threads = mesh.machine, 1 + _microthread_count(mesh)
    if machine.queue_depth > MAX_QUEUE_DEPTH:
        raise LazyError(
            f"machine {machine.name!r} has queues of {machine.queue_depth} wavelets, but the engine supports "
            f"{MAX_QUEUE_DEPTH}",
            hint=f"Use a machine with a queue_depth of at most {MAX_QUEUE_DEPTH}.",
        )
    colours = max(1, len(lanes.colours))
    # Padding is never written, so it always compares as empty.
    queued = -(-(lanes.count + colours) // 8) * 8  # the engine compares eight heads and tails at once
    # A power of two, so that a slot is a bit mask of the head.
    ring = 1 << (max(_queue_capacities(mesh)) - 1).bit_length()
    bytes_at = record.THREADS_AT + threads * record.THREAD
    assert bytes_at % 2 == 0, "the heads of queues must begin at a multiple of 64 bits"
    positions_at = bytes_at + -(-(3 * queued + lanes.count + colours) // 4)
    queues_at, queue = positions_at + lanes.count, record.RING_AT + 2 * ring
    up, down = ramp_latencies(machine)
    stride = queues_at + queue * (lanes.count + colours)
    return {
        "cores": mesh.width * mesh.height, "width": mesh.width, "lanes": lanes.count, "colours": colours,
        "threads": threads, "ring": ring, "stride": stride + stride % 2, "words": mesh.words, "bytes_at": bytes_at,
        "queued": queued, "positions_at": positions_at, "queues_at": queues_at, "queue": queue,
        "names": rows.named.shape[1],
        "ramp_up": up, "ramp_down": down, "hop": round_cycles(machine.hop_cycles),
        "turn": round_cycles(machine.turn_cycles), "task_start": round_cycles(machine.task_start_cycles),
        # A fault has to stop all cores in the same cycle; in a longer sweep some would be ahead.
        "sweep": 1 if _can_fail(mesh) else record.MAX_SWEEP_CYCLES,
    }  # fmt: skip


def _can_fail(mesh: Mesh) -> bool:
    """Return True if an operand has an index, which may point outside a memory and end the run in that cycle."""
    vectors = (i for p in mesh.programs for _, i in p.numbered_instructions() if isinstance(i, Vector))
    return any(isinstance(o, Memory) and o.index is not None for v in vectors for o in v.operands)


def _start_main_threads(state: EngineState, mesh: Mesh) -> None:
    """Set the main thread of every core that has a program to the start of its first task, and all others to idle.

    A core whose first task is empty stays idle too.
    """
    programs = mesh.program_at.reshape(-1)
    state.cores[:, record.PROGRAM] = programs
    state.cores[:, record.STATE] = record.IDLE
    for u in range(state.size("threads")):
        state.cores[:, record.THREADS_AT + u * record.THREAD + record.PC] = -1
        state.cores[:, record.THREADS_AT + u * record.THREAD + record.READY] = record.NEVER_CYCLE
    first = state.entries[programs, 0]
    # A program without instructions has ended and must not count as active.
    runs = (programs >= 0) & (state.code[first + record.OP] != record.STOP)
    state.cores[runs, record.THREADS_AT + record.PC] = first[runs]


def _microthread_count(mesh: Mesh) -> int:
    """Return the number of microthreads that cores need: the most asynchronous operations of a program, or the
    machine's number if that is smaller.
    """
    used = [sum(isinstance(i, Vector) and i.is_async for _, i in p.numbered_instructions()) for p in mesh.programs]
    return min(int(mesh.machine.microthreads), max(used, default=0))


def _queue_capacities(mesh: Mesh) -> tuple[int, int, int]:
    """Return the capacities, in wavelets, of three kinds of queues: what they store, and what is on the wire before
    them.

    They are: in a router, fed by its core; in a router, fed by another router at a turn; in a core.
    """
    machine = mesh.machine
    # A wavelet is in the queue that it travels to from the moment it is sent. So a queue has slots for what it stores
    # and for what is on the wire before it, one wavelet for each cycle.
    depth, (up, down) = int(machine.queue_depth), ramp_latencies(machine)
    hop = round_cycles(machine.hop_cycles) + round_cycles(machine.turn_cycles)
    return depth + up, depth + max(hop, 1) - 1, depth + max(down, 1) - 1


def _straight_routers(mesh: Mesh, colour: int, source: int) -> np.ndarray:
    """Return a mask [height, width] of routers whose queue from direction `source` is fed without a turn.

    It is so if the neighbour there never sends `colour` on after a turn, at any switch position.
    """
    turns = np.zeros((mesh.height, mesh.width), bool)
    for p in mesh.positions(colour):
        # A turn makes the wire longer (20 cycles on the WSE-3), so a queue that is fed without one has fewer slots.
        before = neighbour_values(mesh.sources(colour, p), source, RAMP)
        gives = neighbour_values(mesh.outputs(colour, p), source, 0) >> (source + 2) % 4 & 1 == 1
        turns |= gives & (before < RAMP) & ((before ^ source) & 1 == 1)
    return ~turns


def _write_routes(state: EngineState, mesh: Mesh, lanes: LaneNumbering) -> None:
    """Write the routes of all switch positions, the current outputs, the switches, and the capacities of queues to
    `state`.

    Switches are at position 0, the outputs are its routes, and the last position of a colour is that of the whole mesh.
    """
    after_core, after_router, in_core = _queue_capacities(mesh)
    holds, outputs, turn = state.field(2), state.outputs(), round_cycles(mesh.machine.turn_cycles)
    # From the general to the special case: cores, routers fed by routers, then routers fed by a core or without a turn.
    holds[:] = in_core
    holds[:, : lanes.count] = after_router
    routes = state.cores[:, state.size("positions_at") :]
    for k, colour in enumerate(lanes.colours):
        last = max(mesh.positions(colour))
        outputs[:, lanes.count + k] = last << record.LAST_SHIFT
        for p in range(MAX_SWITCH_POSITIONS):
            for source in range(RAMP + 1):
                here = (mesh.sources(colour, p) == source).reshape(-1)
                if not here.any():
                    continue
                lane = lanes.of[k, source]
                route = (mesh.outputs(colour, p) | source << record.SOURCE_SHIFT).reshape(-1)[here]
                routes[here, lane] |= route << 8 * p
                if source == RAMP:
                    holds[here, lane] = after_core
                elif turn:
                    holds[here & _straight_routers(mesh, colour, source).reshape(-1), lane] = after_router - turn
                if p == 0:
                    outputs[here, lane] = route
