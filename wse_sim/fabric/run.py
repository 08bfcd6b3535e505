"""Run a mesh cycle by cycle, and report its cycles, memory and counters and which threads and queues are stuck."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from lazytensor.errors import LazyError
from wse_sim.fabric.assemble import EngineState, LaneNumbering, assemble_mesh, number_lanes
from wse_sim.fabric.mesh import DIRECTIONS, RAMP, Mesh, check, core_name, sender_mask
from wse_sim.fabric.program_rows import ProgramRows
from wse_sim.fabric.runner import ENGINES, find_ring_lanes, run_to_end
from wse_sim.isa import record
from wse_sim.isa.core_program import ITEM_BYTES
from wse_sim.isa.rounding import from_bits

MAX_CYCLES = 1_000_000_000
MAX_REPORTED_WAITS = 1000
_MAX_SHOWN_WAITS = 8


@dataclass
class RunResult:
    """The result of a run.

    - `status`: "finished"; "deadlock", nothing can change any more; "livelock", wavelets circulate and no core can do
      anything; "max_cycles"; or "error", a core failed
    - `cycles`: cycles from 0 to the last activity of a core
    - `memory`: [height, width, words], float32
    - `counters`: name of `record.COUNTERS` -> [height, width]; cycles by what a core did, wavelets that a router sent
    - `finished`: [height, width], the cycle of each core's last activity
    - `waits`: descriptions of what is stuck, up to `MAX_REPORTED_WAITS`
    - `sent`, `received`: colour -> wavelets that cores sent and received
    - `copied`: colour -> how many more wavelets left routers than entered them
    - `left`: colour -> wavelets that are still in queues; sent + copied = received + left
    - `state_bytes`: host memory of the engine's arrays
    """

    status: str
    cycles: int
    memory: np.ndarray
    counters: dict[str, np.ndarray]
    finished: np.ndarray
    waits: tuple[str, ...]
    sent: dict[int, int]
    received: dict[int, int]
    copied: dict[int, int]
    left: dict[int, int]
    state_bytes: int

    def read(self, x: Any, y: Any, base: int, length: int, dtype: str = "float32") -> np.ndarray:
        """Return `length` elements of `dtype` from element `base` on, of the cores at columns `x` and rows `y`.

        `x` and `y` are NumPy indices; the elements are the last axis. bfloat16 comes as float32. Raises LazyError for
        elements outside the memory.
        """
        bits = self.memory.view(np.uint32 if ITEM_BYTES[dtype] == 4 else np.uint16)
        if not 0 <= base <= base + length <= bits.shape[-1]:
            what = f"elements {base} to {base + length - 1} are read from a memory of {bits.shape[-1]} elements"
            raise LazyError(what, hint="Read fewer elements, or start at another one.")
        return from_bits(np.ascontiguousarray(bits[y, x, base : base + length]), dtype)

    def expect_finished(self) -> "RunResult":
        """Return the result itself.

        Raises LazyError, with the first entries of `waits`, if `status` is not "finished".
        """
        if self.status != "finished":
            shown = "\n  ".join(self.waits[:_MAX_SHOWN_WAITS])
            more = f"\n  and {len(self.waits) - _MAX_SHOWN_WAITS} more" if len(self.waits) > _MAX_SHOWN_WAITS else ""
            what = f"the run did not finish: {self.status} after {self.cycles} cycles"
            raise LazyError(what, hint=f"{shown}{more}")
        return self


def simulate(mesh: Mesh, engine: str = "auto", threads: int = 1, max_cycles: int = MAX_CYCLES) -> RunResult:
    """Check a mesh and run it until nothing can change any more, for at most `max_cycles` cycles.

    `engine` is "list" (visit active cores), "scan" (visit all cores) or "auto" (choose by the fraction of active
    cores). Neither the engine nor the number of `threads` changes a result. Raises LazyError or PlacementError for a
    mesh that cannot run, and LazyError for an invalid argument. Deadlocks and faults are reported in `status`, not
    raised.
    """
    if engine not in ENGINES:
        raise LazyError(f"engine {engine!r} is unknown", hint=f"Use one of {', '.join(ENGINES)}.")
    if threads < 1 or max_cycles < 1:
        what = f"a run with {threads} threads and at most {max_cycles} cycles cannot start"
        raise LazyError(what, hint="Give at least 1 thread and 1 cycle.")
    check(mesh)
    state, rows = assemble_mesh(mesh)
    return read_result(mesh, state, rows, run_to_end(state, engine, threads, max_cycles), max_cycles)


def read_result(mesh: Mesh, state: EngineState, rows: ProgramRows, end: int, max_cycles: int) -> RunResult:
    """Return the result of a run whose engine has stopped at cycle `end`; `status` is as in `RunResult`.

    `max_cycles` was the limit of the run. The memory of the result is that of `state`; counters are copies.
    """
    grid, lanes = (mesh.height, mesh.width), number_lanes(mesh)
    faults = tuple(_describe_faults(mesh, state, rows))
    # A stuck run of the whole wafer has millions of waits; a thousand are enough to see the reason.
    waits = faults or tuple(islice(_describe_waits(mesh, state, rows, lanes), MAX_REPORTED_WAITS))
    occupancy = _queues_by_colour(lanes, state.occupancy())
    left = {c: n for c in mesh.colours if (n := int(occupancy[c].sum()))}
    # A run has finished if no thread is at an instruction, no task is pending and no queue has a wavelet.
    status = "finished"
    if faults:
        status = "error"
    elif waits or left:
        # The engine stops early only if nothing can change again, so waiting threads would wait forever.
        stopped = "max_cycles" if end >= max_cycles else "deadlock"
        status = "livelock" if end < max_cycles and find_ring_lanes(state).any() else stopped
    return RunResult(
        status=status,
        # The last activity of a core; how long the engine ran after it is no property of the program.
        cycles=int(end if status == "max_cycles" else state.cores[:, record.FINISHED].max(initial=0)),
        memory=state.memory.reshape(*grid, -1),
        # Copied by `_counters`, since the state may be run on and a result must not change with it.
        counters={name: column.reshape(grid) for name, column in _counters(state)},
        finished=state.cores[:, record.FINISHED].reshape(grid),
        waits=waits,
        **_colour_traffic(mesh, state, lanes, occupancy),
        left=left,
        state_bytes=state.bytes,
    )


def _counters(state: EngineState) -> Iterator[tuple[str, np.ndarray]]:
    for i, name in enumerate(record.COUNTERS):
        yield name, state.cores[:, record.COUNTERS_AT + i].copy()


def _colour_traffic(
    mesh: Mesh, state: EngineState, lanes: LaneNumbering, occupancy: dict[int, np.ndarray]
) -> dict[str, dict[int, int]]:
    """Return the fields `sent`, `received` and `copied` of a result."""
    # The wavelets that a core has sent are those pushed on the lane of its ramp.
    ramps = {c: lanes.of.get((k, RAMP), 0) for k, c in enumerate(lanes.colours)}
    all_pushed = state.queue_column(record.PUSHED)
    pushed, copied = (_queues_by_colour(lanes, table) for table in (all_pushed, state.queue_column(record.COPIED)))
    return {
        "sent": {c: int(all_pushed[sender_mask(mesh, c).reshape(-1), lane].sum()) for c, lane in ramps.items()},
        # The wavelets that a core has received are those pushed to its queue minus those still in it.
        "received": {c: int(pushed[c][:, -1].sum() - occupancy[c][:, -1].sum()) for c in lanes.colours},
        "copied": {c: int(copied[c][:, :-1].sum()) for c in lanes.colours},
    }


def _queues_by_colour(lanes: LaneNumbering, table: np.ndarray) -> dict[int, np.ndarray]:
    """Return colour -> [cores, the colour's lanes and then the core's receive queue].

    `table` has a column for each queue.
    """
    tables = {}
    for k, colour in enumerate(lanes.colours):
        columns = sorted({lane for (number, _), lane in lanes.of.items() if number == k})
        tables[colour] = table[:, [*columns, lanes.count + k]]
    return tables


def _describe_faults(mesh: Mesh, state: EngineState, rows: ProgramRows) -> Iterator[str]:
    """Yield a line for each core that failed."""
    for t in np.flatnonzero(state.cores[:, record.FAULT]):
        source = rows.source(int(state.cores[t, record.FAULT]) - 1)
        yield f"{_core_label(mesh, t)}: {source}: an index points outside the memory"


def _describe_waits(mesh: Mesh, state: EngineState, rows: ProgramRows, lanes: LaneNumbering) -> Iterator[str]:
    """Yield a line for each thread at an instruction, each active task and each queue that is not empty, in
    this order.
    """
    threads, occupancy = state.threads(), state.occupancy()
    for t, u in np.argwhere(threads[:, :, record.PC] >= 0):
        row, ready, done = threads[t, u, : record.CREDIT].tolist()
        is_issued = ready < record.NEVER_CYCLE
        reason = _wait_reason(state, lanes, occupancy[t], t, row) if is_issued else "waits to be issued"
        yield f"{_core_label(mesh, t)}: {rows.source(row)} {reason} after {done if is_issued else 0} elements"
    active, blocked = state.cores[:, record.ACTIVE], state.cores[:, record.BLOCKED]
    for t in np.flatnonzero(active):
        for i, (name, _) in enumerate(mesh.programs[state.cores[t, record.PROGRAM]].tasks):
            if active[t] >> i & 1:
                does = "is active and blocked" if blocked[t] >> i & 1 else "is active and waits for its turn"
                yield f"{_core_label(mesh, t)}: task {name} {does}"
    # Circulating wavelets are not stuck: their routes are the cause, not a missing receiver.
    rings = find_ring_lanes(state)
    for j in range(lanes.count + len(lanes.colours)):
        for t in np.flatnonzero(occupancy[:, j]):
            goes_round = j < lanes.count and bool(rings[t, j])
            yield _describe_stuck_queue(mesh, state, lanes, (int(t), j), int(occupancy[t, j]), goes_round)


def _describe_stuck_queue(
    mesh: Mesh, state: EngineState, lanes: LaneNumbering, queue: tuple[int, int], count: int, goes_round: bool
) -> str:
    """Return a line that describes the `count` wavelets of a queue (core, queue number), which are stuck or circulate.

    With `goes_round` they circulate.
    """
    t, j = queue
    if j >= lanes.count:
        colour = lanes.colours[j - lanes.count]
        return f"{_core_label(mesh, t)}: colour {colour} waits to be received; wavelets in the queue: {count}"
    colour = lanes.colours[int(state.lanes[j, record.LANE_COLOUR])]
    route = state.outputs()[t, j]
    outs = ", ".join(d for i, d in enumerate(DIRECTIONS) if route >> i & 1)
    does = f"waits to go to {outs}" if outs else "waits for a switch position that routes it"
    does = f"circulates to {outs}" if goes_round else does
    return f"router of {_core_label(mesh, t)}: colour {colour} {does}; wavelets in the queue: {count}"


def _core_label(mesh: Mesh, t: Any) -> str:
    return core_name(int(t) % mesh.width, int(t) // mesh.width)


def _wait_reason(state: EngineState, lanes: LaneNumbering, occupancy: np.ndarray, t: int, row: int) -> str:
    """Return why the instruction at `row` of core `t` waits: for a colour, for room on a colour, or "goes on" for
    neither.

    `occupancy` is the number of wavelets in each queue of the core.
    """
    first = row + record.OPERANDS
    operands = state.code[first : first + 4 * record.OPERAND].reshape(4, record.OPERAND)
    # In the engine's order, so that the reason is the one that stopped it.
    for kind, base in operands[:, : record.STRIDE].tolist():
        if kind == record.RECEIVED and occupancy[lanes.count + base] == 0:
            return f"waits for colour {lanes.colours[base]}"
        if kind == record.SENT and occupancy[base] >= state.field(2)[t, base]:
            return f"waits for space in the queue of colour {lanes.colours[int(state.lanes[base, record.LANE_COLOUR])]}"
    return "runs"
