"""Runs a mesh cycle by cycle and says what came of it: cycles, memory, counters, and who waits for what."""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from types import ModuleType
from typing import Any

import numpy as np

from lazytensor.errors import LazyError
from wse_sim.fabric.assemble import CODE_COLUMNS, COUNTERS, NEVER, RECEIVED, SENT, Listing, State, assemble
from wse_sim.fabric.mesh import DIRECTIONS, RAMP, Mesh, at, check

ENGINES = ("auto", "list", "scan")
SCAN_FROM = 20_000
"""Cores from which `auto` uses threads: two launches a cycle cost more than a smaller mesh gains."""
MAX_CYCLES = 1_000_000_000
WAITS_MOST = 1000
_SHOWN = 8


@dataclass
class Result:
    """What came of a run.

    `status` is "finished", "deadlock" or "max_cycles". `cycles` counts from 0 to the last thing that happened.
    `memory` is [height, width, words]. `counters` has an array [height, width] for each of COUNTERS: cycles for what a
    core did, wavelets for what a router sent. `finished` has the cycle of the last thing that each core did. `sent` and
    `received` count the wavelets that cores gave and took, `left` those that are still on the way, by colour. `waits`
    names what is stuck, in words, up to WAITS_MOST.
    """

    status: str
    cycles: int
    memory: np.ndarray
    counters: dict[str, np.ndarray]
    finished: np.ndarray
    waits: tuple[str, ...]
    sent: dict[int, int]
    received: dict[int, int]
    left: dict[int, int]
    state_bytes: int

    def expect_finished(self) -> "Result":
        """Itself. Raises LazyError with what waits if the run did not come to its end."""
        if self.status != "finished":
            shown = "\n  ".join(self.waits[:_SHOWN])
            more = f"\n  and {len(self.waits) - _SHOWN} more" if len(self.waits) > _SHOWN else ""
            raise LazyError(f"{self.status} after {self.cycles} cycles", todo=f"{shown}{more}")
        return self


def simulate(mesh: Mesh, engine: str = "auto", threads: int = 1, max_cycles: int = MAX_CYCLES) -> Result:
    """Check a mesh and run it until nothing can happen any more, at most `max_cycles`.

    `engine` is "list" (one thread, visits what is active), "scan" (all cores, on `threads`) or "auto". Neither changes
    a result. Raises LazyError or PlacementError for a mesh that cannot run.
    """
    if engine not in ENGINES:
        raise LazyError(f"there is no engine {engine!r}", todo=f"Use one of {', '.join(ENGINES)}.")
    if threads < 1 or max_cycles < 1:
        raise LazyError(f"{threads} threads and {max_cycles} cycles", todo="Give at least 1 of each.")
    check(mesh)
    state, listing = assemble(mesh)
    cores = mesh.width * mesh.height
    if engine == "auto":
        engine = "scan" if threads > 1 and cores >= SCAN_FROM else "list"
    end = _run(state, engine, threads, max_cycles)
    return read_result(mesh, state, listing, end, max_cycles)


def load_engine() -> ModuleType:
    """The compiled engine; the first call loads Numba."""
    return importlib.import_module("wse_sim.fabric.kernel")


def _run(state: State, engine: str, threads: int, max_cycles: int) -> int:
    kernel = load_engine()
    if engine == "list":
        return kernel.run_list(state.addresses(), 0, max_cycles)
    numba = importlib.import_module("numba")
    before = numba.get_num_threads()
    threads = min(threads, numba.config.NUMBA_NUM_THREADS)
    numba.set_num_threads(threads)
    try:
        return kernel.run_scan(state.addresses(), 0, max_cycles, threads)
    finally:
        numba.set_num_threads(before)


def read_result(mesh: Mesh, state: State, listing: Listing, end: int, max_cycles: int) -> Result:
    """What the arrays say when the engine has stopped at cycle `end`."""
    grid = (mesh.height, mesh.width)
    waits = tuple(islice(_waiting(mesh, state, listing), WAITS_MOST))
    tail, head = _by_colour(mesh, state, state.tail), _by_colour(mesh, state, state.head)
    left = {c: n for c in mesh.colours if (n := int((tail[c] - head[c]).sum()))}
    status = "max_cycles" if end >= max_cycles else ("deadlock" if waits or left else "finished")
    return Result(
        status=status,
        cycles=int(end if status == "max_cycles" else state.cores[:, 5].max(initial=0)),
        memory=state.memory.reshape(*grid, -1),
        counters={name: state.counters[:, i].reshape(grid) for i, name in enumerate(COUNTERS)},
        finished=state.cores[:, 5].reshape(grid),
        waits=waits,
        sent={c: int(tail[c][0, mesh.sources(c) == RAMP].sum()) for c in mesh.colours},
        received={c: int(head[c][1].sum()) for c in mesh.colours},
        left=left,
        state_bytes=state.bytes,
    )


def _by_colour(mesh: Mesh, state: State, counts: np.ndarray) -> dict[int, np.ndarray]:
    """Counts of queues as [router or core, height, width] for each colour."""
    table = counts.reshape(2, mesh.height, mesh.width, int(state.shape[0]))
    return {c: table[..., i] for i, c in enumerate(mesh.colours)}


def _waiting(mesh: Mesh, state: State, listing: Listing) -> Iterator[str]:
    """A line for each thread that stands at an instruction, each blocked task, each queue that holds something."""
    for t, u in np.argwhere(state.threads[:, :, 0] >= 0):
        row, ready, done, _ = state.threads[t, u]
        reason = _reason(mesh, state, int(t), int(row)) if ready != NEVER else "waits to be issued"
        yield f"{_place(mesh, t)}: {listing.sources[row // CODE_COLUMNS]} after {done} elements {reason}"
    for t in np.flatnonzero(state.cores[:, 1] & state.cores[:, 2]):
        both = state.cores[t, 1] & state.cores[t, 2]
        tasks = [name for i, (name, _) in enumerate(mesh.programs[state.cores[t, 0]].tasks) if both >> i & 1]
        yield f"{_place(mesh, t)}: task {', '.join(tasks)} is active and blocked"
    colours, shift = int(state.shape[0]), len(state.head) // 2
    for q in np.flatnonzero(state.tail - state.head):
        t, k = divmod(int(q) % shift, colours)
        count, colour = state.tail[q] - state.head[q], mesh.colours[k]
        outs = ", ".join(d for i, d in enumerate(DIRECTIONS) if state.route[q % shift] >> i & 1)
        todo = f"to go to {outs}" if q < shift else "to be received"
        yield f"{'router of ' if q < shift else ''}{_place(mesh, t)}: {count} of colour {colour} wait {todo}"


def _place(mesh: Mesh, t: Any) -> str:
    return at(int(t) % mesh.width, int(t) // mesh.width)


def _reason(mesh: Mesh, state: State, t: int, row: int) -> str:
    colours, shift = int(state.shape[0]), len(state.head) // 2
    operands = state.code[row // CODE_COLUMNS, 7:].reshape(4, 3)
    for kind, base, _ in operands:
        q = t * colours + int(base)
        if kind == RECEIVED and state.head[shift + q] == state.tail[shift + q]:
            return f"waits for colour {mesh.colours[base]}"
        if kind == SENT and state.tail[q] - state.head[q] >= state.cap[q]:
            return f"waits for room on colour {mesh.colours[base]}"
    return "goes on"
