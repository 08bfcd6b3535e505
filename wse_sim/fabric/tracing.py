"""Trace what chosen cores do in every cycle, and draw the trace: a row for each core, cycles from left to right."""

from collections.abc import Sequence
from dataclasses import dataclass

from lazytensor.errors import LazyError
from wse_sim.fabric.assemble import EngineState, assemble_mesh
from wse_sim.fabric.mesh import Mesh, check
from wse_sim.fabric.program_rows import ProgramRows
from wse_sim.fabric.run import RunResult, read_result
from wse_sim.fabric.runner import EngineRunner
from wse_sim.isa import record

STATE_SIGNS = {"busy": "#", "on_input": "-", "on_output": "+", "on_memory": "m", "idle": " "}
"""What a core does in a cycle -> its character in a drawing."""
MAX_TRACED_CYCLES = 100_000
"""Default limit of a traced run, in cycles."""


@dataclass(frozen=True)
class Moment:
    """The state of one core at the end of a cycle.

    - `cycle`: the cycle
    - `x`, `y`: the core
    - `did`: a key of `STATE_SIGNS`
    - `stands_at`: the instruction of each thread that has one
    - `done`: elements that each of these threads has completed
    """

    cycle: int
    x: int
    y: int
    did: str
    stands_at: tuple[str, ...]
    done: tuple[int, ...]


def trace(
    mesh: Mesh, cores: Sequence[tuple[int, int]], max_cycles: int = MAX_TRACED_CYCLES
) -> tuple[RunResult, list[Moment]]:
    """Run a mesh as `simulate` does, and record what the cores `cores` (x, y) did in each cycle.

    Returns the result, which is that of `simulate`, and the moments in order of cycles, then of `cores`. The run stops
    after `max_cycles`. Every cycle is a call of the engine, so it is meant for small meshes. Raises LazyError for a
    core outside the mesh and for a mesh that cannot run.
    """
    for x, y in cores:
        if not (0 <= x < mesh.width and 0 <= y < mesh.height):
            raise LazyError(
                f"core ({x}, {y}) is outside the mesh of {mesh.width} x {mesh.height}", hint="Trace cores of the mesh."
            )
    check(mesh)
    state, rows = assemble_mesh(mesh)
    runner = EngineRunner(state)
    moments: list[Moment] = []
    while not runner.is_over and runner.now < max_cycles:
        now = runner.now
        # By list, since a scan would reset its counters in each cycle; the result is the same.
        runner.advance(now + 1, by_list=True)
        if runner.now > now:
            moments += [_record_moment(mesh, state, rows, now, x, y) for x, y in cores]
    return read_result(mesh, state, rows, runner.now, max_cycles), moments


def _record_moment(mesh: Mesh, state: EngineState, rows: ProgramRows, now: int, x: int, y: int) -> Moment:
    """Return the moment of core (`x`, `y`) from the engine's state after cycle `now`.

    Threads without an instruction are left out.
    """
    t = y * mesh.width + x
    standing = [thread for thread in state.threads()[t].tolist() if thread[record.PC] >= 0]
    places = tuple(rows.source(thread[record.PC]) for thread in standing)
    did = record.COUNTERS[state.cores[t, record.STATE]]
    return Moment(
        cycle=now, x=x, y=y, did=did, stands_at=places, done=tuple(thread[record.DONE] for thread in standing)
    )


def space_time(moments: Sequence[Moment], every: int = 1) -> str:
    """Return a drawing of a trace: a line for each core, a character for every `every`-th cycle.

    "#" is busy, "-" waits for input, "+" waits for output, "m" waits for memory, and a space is idle. Each line begins
    with "(x, y)"; cores are in the order of their first moment. Without moments the drawing is "".
    """
    lines: dict[tuple[int, int], list[str]] = {}
    for moment in moments:
        if moment.cycle % every == 0:
            lines.setdefault((moment.x, moment.y), []).append(STATE_SIGNS[moment.did])
    names = {cell: f"({cell[0]}, {cell[1]})" for cell in lines}
    width = max(map(len, names.values()), default=0)
    return "\n".join(f"{names[cell]:>{width}} {''.join(signs)}".rstrip() for cell, signs in lines.items())
