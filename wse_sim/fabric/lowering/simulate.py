"""Run a phase program as wavelets: one run for each part of a `Seq` or `Repeat`, with the memories carried over.

Between two parts of a sequence there is an ideal barrier without a cost: the next part begins in the cycle after the
last core has finished, with new routes. So the cycles of the runs add up. Inside a `Par`, or with `overlap`, a core
continues with the next step as soon as it can.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from lazytensor.errors import LazyError
from wse_sim.cost_model.reduction_tree import choose_all_reduce, choose_plane, choose_reduce
from wse_sim.fabric.lowering.compute import compute_body, lower_body
from wse_sim.fabric.lowering.lines import PELines
from wse_sim.fabric.lowering.moves import lower_broadcast, lower_shift
from wse_sim.fabric.lowering.reductions import ALGORITHMS, WordBlock, lower_ring, lower_snake
from wse_sim.fabric.lowering.sheet import MeshWriter
from wse_sim.fabric.lowering.streams import lower_stream
from wse_sim.fabric.mesh import Mesh
from wse_sim.fabric.run import RunResult, simulate
from wse_sim.isa.core_program import WORD_BYTES
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.phase import AllReduce, Broadcast, Compute, Local, Par, Phase, Reduce, Repeat, Rounds, Seq, Shift, Stream

MEMORY_AXES = 3
SNAKE, RING = "snake", "ring"


def simulate_phase(phase: Phase, machine: Machine | str, memory: Any, overlap: bool = False, **how: Any) -> RunResult:
    """Run a phase program on the mesh of `memory`, [height, width, words] of 32-bit words.

    The PE in column x and row y has memory[y, x]. The result has the memories after the run, and the sums of cycles and
    counters over all parts. A part that does not finish ends the run. With `overlap` the whole program runs without
    barriers. `machine` may be a name. `how` is passed to `simulate`. Raises LazyError for another kind of memory, for a
    phase without a lowering, and for an unknown machine.
    """
    memory = np.ascontiguousarray(memory)
    if memory.dtype.itemsize != WORD_BYTES or memory.ndim != MEMORY_AXES:
        what = f"the memory is an array of {memory.dtype} with shape {list(memory.shape)}"
        raise LazyError(what, hint="Give an array [height, width, words] of 32-bit elements.")
    words, machine = memory.view(np.float32), Machine.of(machine)
    total: RunResult | None = None
    # Rounds of a loop are equal phases: their mesh is built once, and only the memories are exchanged.
    meshes: dict[Phase, Mesh] = {}
    # Without `overlap` each part is a separate run, so that the times of a sequence add up exactly.
    for part in [phase] if overlap else split_at_barriers(phase):
        if part not in meshes:
            meshes[part] = mesh_of(part, machine, *words.shape)
        done = _run_mesh(meshes[part], words, how)
        words = done.memory
        total = done if total is None else _join_results(total, done)
        if done.status != "finished":
            break
    # For an empty program, an empty mesh gives a result of zeros.
    if total is None:
        total = simulate(Mesh(machine, words.shape[1], words.shape[0]), **how)
    return replace(total, memory=words.view(memory.dtype))


def split_at_barriers(phase: Phase) -> Iterator[Phase]:
    """Yield the parts of a program between its barriers, in order."""
    match phase:
        case Seq(parts) | Rounds(parts=parts):
            for part in parts:
                yield from split_at_barriers(part)
        case Repeat(times, body):
            for _ in range(times):
                yield from split_at_barriers(body)
        case _:
            yield phase


def mesh_of(phase: Phase, machine: Machine | str, height: int, width: int, words: int) -> Mesh:
    """Return a mesh of `height` x `width` cores that runs a phase without barriers; without data in its memories.

    The phases use the first `words` words of each core; temporaries come after them. Raises LazyError for a `Par`
    within another kind of phase, such as a `Seq`.
    """
    sheet = MeshWriter(Mesh(machine, width, height), words)
    # Each part of a Par has a separate strand on every core; the writer makes tasks of them.
    for part in _concurrent_parts(phase):
        sheet.begin_strand()
        _lower_phase(sheet, part)
    return sheet.finish()


def _concurrent_parts(phase: Phase) -> Iterator[Phase]:
    """Yield the parts of a phase that run at the same time; nested Pars are flattened."""
    for part in phase.parts if isinstance(phase, Par) else ():
        yield from _concurrent_parts(part)
    if not isinstance(phase, Par):
        yield phase


def _run_mesh(mesh: Mesh, words: np.ndarray, how: dict[str, Any]) -> RunResult:
    mesh.reload(words)
    done = simulate(mesh, **how)
    # After the phase's words there are temporaries of the lowering, which the next part must not see.
    return replace(done, memory=np.ascontiguousarray(done.memory[:, :, : words.shape[-1]]))


def _join_results(first: RunResult, second: RunResult) -> RunResult:
    """Return the result of two runs, one after the other.

    Cycles, counters and wavelets are added, and `state_bytes` is the larger one. `finished` counts from the start of
    the first run. The rest is that of the second run.
    """
    # A core without activity in the second run keeps the cycle in which it finished in the first.
    waited = np.where(second.finished > 0, first.cycles + second.finished, first.finished)
    return replace(
        second,
        cycles=first.cycles + second.cycles,
        counters={name: first.counters[name] + counts for name, counts in second.counters.items()},
        finished=waited,
        sent=_sum_by_colour(first.sent, second.sent),
        copied=_sum_by_colour(first.copied, second.copied),
        received=_sum_by_colour(first.received, second.received),
        state_bytes=max(first.state_bytes, second.state_bytes),
    )


def _sum_by_colour(first: dict[int, int], second: dict[int, int]) -> dict[int, int]:
    return {colour: first.get(colour, 0) + second.get(colour, 0) for colour in sorted(first | second)}


def _lower_phase(sheet: MeshWriter, phase: Phase) -> None:
    """Append a phase to the current strand."""
    match phase:
        case Seq(parts) | Rounds(parts=parts):
            for part in parts:
                _lower_phase(sheet, part)
        case Repeat(times, body):
            for _ in range(times):
                _lower_phase(sheet, body)
        case Par():
            what = "a Par inside a part of another Par cannot be lowered to wavelets"
            raise LazyError(what, hint="Move the parts of the inner Par to the outer one.")
        case Compute(rect):
            lower_body(sheet, compute_body(sheet, phase), *_rect_cells(rect))
        case Local(rect, body):
            lower_body(sheet, body, *_rect_cells(rect))
        case Stream():
            if phase.bytes:
                lower_stream(sheet, phase)
        case _ if phase.words:
            _lower_move(sheet, phase)


def _rect_cells(rect: Rect) -> tuple[np.ndarray, np.ndarray]:
    return PELines(rect, "x").cells(range(rect.width))


def _lower_move(sheet: MeshWriter, phase: Shift | Broadcast | Reduce | AllReduce) -> None:
    """Append a move to the current strand."""
    match phase:
        case Shift():
            lower_shift(sheet, phase)
        case Broadcast():
            lower_broadcast(sheet, phase)
        case Reduce():
            _lower_reduce(sheet, phase)
        case AllReduce():
            _lower_all_reduce(sheet, phase)


def _lower_reduce(sheet: MeshWriter, phase: Reduce) -> None:
    """Append a reduction: along lines, or over a rectangle by rows and then a column, or by one chain ("snake").

    Lines of one PE need nothing. Without an algorithm the fastest by the cost model is chosen.
    """
    rect, machine = phase.rect, sheet.mesh.machine
    if phase.axis == "xy":
        if rect.area > 1 and choose_plane(rect, phase.words, phase.algorithm, machine) == SNAKE:
            lower_snake(sheet, rect, WordBlock.of(phase))
            return
        # Rows first: then one column has all sums, and the second step is one short line.
        _lower_reduce(sheet, replace(phase, axis="x"))
        _lower_reduce(sheet, replace(phase, axis="y", rect=Rect(rect.x, rect.y, 1, rect.height)))
        return
    lines = PELines(rect, phase.axis, phase.groups)
    if lines.length < 2:
        return
    name = phase.algorithm or choose_reduce(lines.length, phase.words, machine)
    ALGORITHMS[name](sheet, lines, WordBlock.of(phase), phase.size)


def _lower_all_reduce(sheet: MeshWriter, phase: AllReduce) -> None:
    """Append an all-reduce: a ring, or a reduction followed by a broadcast of the result.

    Over "xy" rings are along the rows and then along the columns. Lines of one PE need nothing.
    """
    if phase.axis == "xy" and phase.algorithm == RING:
        _lower_all_reduce(sheet, replace(phase, axis="x"))
        _lower_all_reduce(sheet, replace(phase, axis="y"))
        return
    if phase.axis != "xy":
        lines = PELines(phase.rect, phase.axis, phase.groups)
        if lines.length < 2:
            return
        if (phase.algorithm or choose_all_reduce(lines.length, phase.words, sheet.mesh.machine)) == RING:
            lower_ring(sheet, lines, WordBlock.of(phase))
            return
    rect, axis, words, groups, at = phase.rect, phase.axis, phase.words, phase.groups, phase.at
    same = (rect, axis, words, groups)
    _lower_reduce(
        sheet,
        Reduce(*same, algorithm=phase.algorithm, size=phase.size, at=at, dtype=phase.dtype, combine=phase.combine),
    )
    lower_broadcast(sheet, Broadcast(*same, take=at, put=at))
