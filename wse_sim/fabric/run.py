"""Runs a mesh cycle by cycle and says what came of it: cycles, memory, counters, and who waits for what."""

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
    """What came of a run.

    `status` is "finished", "deadlock" when nothing can happen any more, "livelock" when wavelets go round and no core
    can do anything, "max_cycles", or "error" when a core could not go on. `cycles` counts from 0 to the last thing
    that a core did. `memory` is [height, width, words] float32. `counters` has an array [height, width] for each of
    record.COUNTERS: cycles for what a core did, wavelets for what a router sent. `finished` has the cycle of the last
    thing that each core did. By colour: `sent` and `received` count the wavelets that cores gave and took,
    `copied` how many more went out of routers than came in, `left` those that are still on the way; so sent and copied
    are together received and left. `waits` names what is stuck, in words, up to WAITS_MOST.
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
        """`length` elements of a type from element `base` on, of the cores at columns `x` and rows `y`.

        bfloat16 comes as float32.
        """
        bits = self.memory.view(np.uint32 if ITEM_BYTES[dtype] == 4 else np.uint16)
        if not 0 <= base <= base + length <= bits.shape[-1]:
            raise LazyError(f"elements {base} to {base + length - 1} of {bits.shape[-1]}", hint="Read less.")
        return from_bits(np.ascontiguousarray(bits[y, x, base : base + length]), dtype)

    def expect_finished(self) -> "RunResult":
        """Itself. Raises LazyError with what waits if the run did not come to its end."""
        if self.status != "finished":
            shown = "\n  ".join(self.waits[:_MAX_SHOWN_WAITS])
            more = f"\n  and {len(self.waits) - _MAX_SHOWN_WAITS} more" if len(self.waits) > _MAX_SHOWN_WAITS else ""
            raise LazyError(f"{self.status} after {self.cycles} cycles", hint=f"{shown}{more}")
        return self


def simulate(mesh: Mesh, engine: str = "auto", threads: int = 1, max_cycles: int = MAX_CYCLES) -> RunResult:
    """Check a mesh and run it until nothing can happen any more, at most `max_cycles`.

    `engine` is "list" (visits what is active), "scan" (visits all cores) or "auto", which goes by how many are active.
    Neither it nor the number of threads changes a result. Raises LazyError or PlacementError for a mesh that cannot
    run.
    """
    if engine not in ENGINES:
        raise LazyError(f"there is no engine {engine!r}", hint=f"Use one of {', '.join(ENGINES)}.")
    if threads < 1 or max_cycles < 1:
        raise LazyError(f"{threads} threads and {max_cycles} cycles", hint="Give at least 1 of each.")
    check(mesh)
    state, rows = assemble_mesh(mesh)
    return read_result(mesh, state, rows, run_to_end(state, engine, threads, max_cycles), max_cycles)


def read_result(mesh: Mesh, state: EngineState, rows: ProgramRows, end: int, max_cycles: int) -> RunResult:
    """What the arrays say when the engine has stopped at cycle `end`."""
    grid, lanes = (mesh.height, mesh.width), number_lanes(mesh)
    faults = tuple(_describe_faults(mesh, state, rows))
    # A run of the whole wafer that stands still has millions of waits, and a thousand are enough to see why.
    waits = faults or tuple(islice(_describe_waits(mesh, state, rows, lanes), MAX_REPORTED_WAITS))
    occupancy = _queues_by_colour(lanes, state.occupancy())
    left = {c: n for c in mesh.colours if (n := int(occupancy[c].sum()))}
    # Finished is defined by what is left: nothing waits at an instruction, no task is pending and no queue holds a
    # word.
    status = "finished"
    if faults:
        status = "error"
    elif waits or left:
        # The engine stops early only when nothing can ever happen again; then what still waits waits for ever.
        stopped = "max_cycles" if end >= max_cycles else "deadlock"
        status = "livelock" if end < max_cycles and find_ring_lanes(state).any() else stopped
    return RunResult(
        status=status,
        # To the last thing that a core did: how long the engine looked on after that is no property of the program.
        cycles=int(end if status == "max_cycles" else state.cores[:, record.FINISHED].max(initial=0)),
        memory=state.memory.reshape(*grid, -1),
        # Copied by `_counters`: the state may be run on, and a result must not change with it.
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
    """What cores sent and received and what routers copied, by colour."""
    # What a core has sent is what was pushed on the lane that comes up its ramp.
    ramps = {c: lanes.of.get((k, RAMP), 0) for k, c in enumerate(lanes.colours)}
    all_pushed = state.queue_column(record.PUSHED)
    pushed, copied = (_queues_by_colour(lanes, table) for table in (all_pushed, state.queue_column(record.COPIED)))
    return {
        "sent": {c: int(all_pushed[sender_mask(mesh, c).reshape(-1), lane].sum()) for c, lane in ramps.items()},
        # What routers gave a core less what still lies in its queue is what the core took.
        "received": {c: int(pushed[c][:, -1].sum() - occupancy[c][:, -1].sum()) for c in lanes.colours},
        "copied": {c: int(copied[c][:, :-1].sum()) for c in lanes.colours},
    }


def _queues_by_colour(lanes: LaneNumbering, table: np.ndarray) -> dict[int, np.ndarray]:
    """Columns of queues as [cores, lanes of the colour and then the core's queue] for each colour."""
    tables = {}
    for k, colour in enumerate(lanes.colours):
        columns = sorted({lane for (number, _), lane in lanes.of.items() if number == k})
        tables[colour] = table[:, [*columns, lanes.count + k]]
    return tables


def _describe_faults(mesh: Mesh, state: EngineState, rows: ProgramRows) -> Iterator[str]:
    """A line for each core that could not go on."""
    for t in np.flatnonzero(state.cores[:, record.FAULT]):
        source = rows.source(int(state.cores[t, record.FAULT]) - 1)
        yield f"{_core_label(mesh, t)}: {source}: an index points outside the memory"


def _describe_waits(mesh: Mesh, state: EngineState, rows: ProgramRows, lanes: LaneNumbering) -> Iterator[str]:
    """A line for each thread that stands at an instruction, each blocked task, each queue that holds something."""
    threads, occupancy = state.threads(), state.occupancy()
    for t, u in np.argwhere(threads[:, :, record.PC] >= 0):
        row, ready, done = threads[t, u, : record.CREDIT].tolist()
        is_issued = ready < record.NEVER_CYCLE
        reason = _wait_reason(state, lanes, occupancy[t], t, row) if is_issued else "waits to be issued"
        yield f"{_core_label(mesh, t)}: {rows.source(row)} after {done if is_issued else 0} elements {reason}"
    active, blocked = state.cores[:, record.ACTIVE], state.cores[:, record.BLOCKED]
    for t in np.flatnonzero(active):
        for i, (name, _) in enumerate(mesh.programs[state.cores[t, record.PROGRAM]].tasks):
            if active[t] >> i & 1:
                does = "is active and blocked" if blocked[t] >> i & 1 else "is active and waits for its turn"
                yield f"{_core_label(mesh, t)}: task {name} {does}"
    # Wavelets that go round are not stuck, and the reader should look at their routes and not at who could take them.
    rings = find_ring_lanes(state)
    for j in range(lanes.count + len(lanes.colours)):
        for t in np.flatnonzero(occupancy[:, j]):
            goes_round = j < lanes.count and bool(rings[t, j])
            yield _describe_stuck_queue(mesh, state, lanes, (int(t), j), int(occupancy[t, j]), goes_round)


def _describe_stuck_queue(
    mesh: Mesh, state: EngineState, lanes: LaneNumbering, queue: tuple[int, int], count: int, goes_round: bool
) -> str:
    """What waits in a queue, or goes round."""
    t, j = queue
    if j >= lanes.count:
        return f"{_core_label(mesh, t)}: {count} of colour {lanes.colours[j - lanes.count]} wait to be received"
    colour = lanes.colours[int(state.lanes[j, record.LANE_COLOUR])]
    route = state.outputs()[t, j]
    outs = ", ".join(d for i, d in enumerate(DIRECTIONS) if route >> i & 1)
    here = f"router of {_core_label(mesh, t)}: {count} of colour {colour}"
    return (
        f"{here} go round, to {outs}" if goes_round else f"{here} wait to go to {outs or 'where no switch lets them'}"
    )


def _core_label(mesh: Mesh, t: Any) -> str:
    return core_name(int(t) % mesh.width, int(t) // mesh.width)


def _wait_reason(state: EngineState, lanes: LaneNumbering, occupancy: np.ndarray, t: int, row: int) -> str:
    """`held` is what the queues of the core have."""
    first = row + record.OPERANDS
    operands = state.code[first : first + 4 * record.OPERAND].reshape(4, record.OPERAND)
    # In the order in which the engine looks, so the reason is the one that kept it.
    for kind, base in operands[:, : record.STRIDE].tolist():
        if kind == record.RECEIVED and occupancy[lanes.count + base] == 0:
            return f"waits for colour {lanes.colours[base]}"
        if kind == record.SENT and occupancy[base] >= state.field(2)[t, base]:
            return f"waits for room on colour {lanes.colours[int(state.lanes[base, record.LANE_COLOUR])]}"
    return "goes on"
