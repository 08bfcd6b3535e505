"""Arena: byte offsets of all temporary buffers in one block of memory.

Buffers with disjoint live ranges share bytes.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lazytensor.ir.program import Program
from lazytensor.runtime.aligned_arrays import ALIGNMENT


@dataclass(frozen=True)
class Arena:
    """Byte offset of each temporary buffer that owns memory, the views of other buffers, and the size of the block."""

    offsets: dict[int, int]
    views: dict[int, int]  # buffer made by "reshape" -> buffer that owns the memory
    size_bytes: int


def find_buffer_views(program: Program) -> dict[int, int]:
    """Return {buffer made by "reshape": buffer that owns its memory}. A view of a view is mapped to the owner."""
    views: dict[int, int] = {}
    for instr in program.instrs:
        if instr.kernel == "reshape":
            views[instr.writes[0]] = views.get(instr.reads[0], instr.reads[0])
    return views


def lay_out_buffers(program: Program, outside: Collection[int] = (), together: Collection[range] = ()) -> Arena:
    """Assign a byte offset to each temporary buffer that is not in `outside` (indices of buffers with memory
    elsewhere).

    Buffers are taken in order of their first write. Each gets the smallest free gap that is large enough, or else the
    end of the block. `together` are ranges of instructions that run at the same time; buffers used in such a range live
    throughout it.
    """
    views = find_buffer_views(program)
    first, last = _lifetimes(program, views, {k: run for run in together for k in run})
    dying: dict[int, list[int]] = {}
    for b, time in last.items():
        dying.setdefault(time, []).append(b)
    # Sweep through time: the bytes of a buffer after its last use are free for later buffers.
    free: list[tuple[int, int]] = []  # (offset, bytes), sorted, never touching
    offsets: dict[int, int] = {}
    top = 0
    born = sorted((time, b) for b, time in first.items() if b not in outside)
    clock = 0
    for time, b in born:
        for t in range(clock, time):
            for dead in dying.get(t, ()):
                if dead in offsets:
                    free = _free_block(free, offsets[dead], _aligned_bytes(program, dead))
        clock = max(clock, time)
        need = _aligned_bytes(program, b)
        # Best fit keeps large gaps whole. The lowest of equal gaps is used, so that layouts are reproducible.
        fitting = [(size, at) for at, size in free if size >= need]
        if fitting:
            size, at = min(fitting)
            free.remove((at, size))
            if size > need:
                free.append((at + need, size - need))
                free.sort()
        else:
            at, top = top, top + need
        offsets[b] = at
    return Arena(offsets, views, top)


def _lifetimes(
    program: Program, views: dict[int, int], together: Mapping[int, range]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return two dicts for the temporary buffers: the position of the first instruction that uses each, and of the
    last.

    A buffer that is fetched or becomes new state lives to the end, the number of instructions. `views` maps views to
    their buffers. For an instruction in `together`, the whole range of instructions counts.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for time, instr in enumerate(program.instrs):
        for b in (views.get(b, b) for b in (*instr.reads, *instr.writes)):
            if program.buffers[b].kind == "temp":
                first.setdefault(b, together.get(time, (time,))[0])
                last[b] = together.get(time, (time,))[-1]
    # Fetches and new state are read after the last instruction.
    end = len(program.instrs)
    for b in (*program.fetches, *(new for _, new in program.state.values())):
        owner = views.get(b, b)
        if owner in last:
            last[owner] = end
    return first, last


def _aligned_bytes(program: Program, b: int) -> int:
    type = program.buffers[b].type
    return max(1, -(-type.size * type.dtype.host.itemsize // ALIGNMENT)) * ALIGNMENT


def _free_block(free: list[tuple[int, int]], at: int, size: int) -> list[tuple[int, int]]:
    """Return a new free list, sorted (offset, bytes), with the block of `size` bytes at `at`, merged with its
    neighbours.
    """
    merged: list[tuple[int, int]] = []
    for offset, length in sorted([*free, (at, size)]):
        if merged and merged[-1][0] + merged[-1][1] == offset:
            merged[-1] = (merged[-1][0], merged[-1][1] + length)
        else:
            merged.append((offset, length))
    return merged
