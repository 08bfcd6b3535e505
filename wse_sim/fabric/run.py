"""Runs a mesh cycle by cycle and says what came of it: cycles, memory, counters, and who waits for what."""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from lazytensor.errors import LazyError
from wse_sim.fabric.assemble import COUNTERS, NEVER, RECEIVED, SENT, Listing, State, assemble
from wse_sim.fabric.mesh import DIRECTIONS, Mesh, at, check

ENGINES = ("auto", "list", "scan")
SCAN_FROM = 20_000
"""Cores from which `auto` uses threads: two launches a cycle cost more than a smaller mesh gains."""
MAX_CYCLES = 1_000_000_000
_SHOWN = 8


@dataclass
class Result:
    """What came of a run.

    `status` is "finished", "deadlock" or "max_cycles". `cycles` counts from 0 to the last thing that happened.
    `memory` is [height, width, words]. `counters` has an array [height, width] for each of COUNTERS: cycles for what a
    core did, wavelets for what a router sent. `waits` names what is stuck, in words. `left` counts the wavelets that
    are still on the way, by colour.
    """

    status: str
    cycles: int
    memory: np.ndarray
    counters: dict[str, np.ndarray]
    finished: np.ndarray
    waits: tuple[str, ...]
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
    return _result(mesh, state, listing, end, max_cycles)


def _kernel() -> ModuleType:
    """The compiled engine; the first call loads Numba."""
    return importlib.import_module("wse_sim.fabric.kernel")


def _run(state: State, engine: str, threads: int, max_cycles: int) -> int:
    kernel, cores = _kernel(), len(state.grants)
    if engine == "list":
        awake, lists = np.zeros(cores, np.int32), np.zeros((2, cores), np.int32)
        return kernel.run_list(*state.arrays, awake, lists, 0, max_cycles)
    numba = importlib.import_module("numba")
    before = numba.get_num_threads()
    threads = min(threads, numba.config.NUMBA_NUM_THREADS)
    numba.set_num_threads(threads)
    try:
        return kernel.run_scan(*state.arrays, 0, max_cycles, threads)
    finally:
        numba.set_num_threads(before)


def _result(mesh: Mesh, state: State, listing: Listing, end: int, max_cycles: int) -> Result:
    grid = (mesh.height, mesh.width)
    waits = tuple(_waiting(mesh, state, listing))
    left = _left(mesh, state)
    status = "max_cycles" if end >= max_cycles else ("deadlock" if waits or left else "finished")
    return Result(
        status=status,
        cycles=int(end if status == "max_cycles" else state.cores[:, 5].max(initial=0)),
        memory=state.memory.reshape(*grid, -1),
        counters={name: state.counters[:, i].reshape(grid) for i, name in enumerate(COUNTERS)},
        finished=state.cores[:, 5].reshape(grid),
        waits=waits,
        left=left,
        state_bytes=state.bytes,
    )


def _left(mesh: Mesh, state: State) -> dict[int, int]:
    colours = int(state.shape[0])
    lengths = (state.tail - state.head).reshape(2, -1, colours).sum((0, 1))
    return {c: int(n) for c, n in zip(mesh.colours, lengths, strict=False) if n}


def _waiting(mesh: Mesh, state: State, listing: Listing) -> list[str]:
    """A line for each thread that stands at an instruction, each task that is active but blocked, each full router."""
    lines = []
    for t, u in np.argwhere(state.threads[:, :, 0] >= 0):
        row, ready, done, _ = state.threads[t, u]
        reason = _reason(mesh, state, int(t), int(row)) if ready != NEVER else "waits to be issued"
        lines.append(f"{_place(mesh, t)}: {listing.sources[row]} after {done} elements {reason}")
    for t in np.flatnonzero(state.cores[:, 1] & state.cores[:, 2]):
        both = state.cores[t, 1] & state.cores[t, 2]
        tasks = [name for i, (name, _) in enumerate(mesh.programs[state.cores[t, 0]].tasks) if both >> i & 1]
        lines.append(f"{_place(mesh, t)}: task {', '.join(tasks)} is active and blocked")
    lines += _stuck_routers(mesh, state)
    return lines


def _stuck_routers(mesh: Mesh, state: State) -> Iterator[str]:
    colours, shift = int(state.shape[0]), len(state.head) // 2
    for q in np.flatnonzero(state.tail[:shift] - state.head[:shift]):
        t, k = divmod(int(q), colours)
        outs = [d for i, d in enumerate(DIRECTIONS) if state.route[q] >> i & 1]
        yield f"router of {_place(mesh, t)}: colour {mesh.colours[k]} waits to go to {', '.join(outs)}"


def _place(mesh: Mesh, t: Any) -> str:
    return at(int(t) % mesh.width, int(t) // mesh.width)


def _reason(mesh: Mesh, state: State, t: int, row: int) -> str:
    colours, shift = int(state.shape[0]), len(state.head) // 2
    operands = state.code[row, 7:].reshape(4, 3)
    for kind, base, _ in operands:
        q = t * colours + int(base)
        if kind == RECEIVED and state.head[shift + q] == state.tail[shift + q]:
            return f"waits for colour {mesh.colours[base]}"
        if kind == SENT and state.tail[q] - state.head[q] >= state.cap[q]:
            return f"waits for room on colour {mesh.colours[base]}"
    return "goes on"
