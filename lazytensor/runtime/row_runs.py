"""Run neighbouring instructions over the same rows together, block by block, so that a block stays in a cache.

An intermediate array that only these instructions use is never written to memory: each block overwrites the same few
rows of a scratch buffer. The rows of the next block are prefetched while the current block is computed.
"""

import ctypes
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from lazytensor.compiler.arena import find_buffer_views
from lazytensor.compiler.codegen import arrange_loops, distinct_slots, generate, parallel_loop
from lazytensor.ir.nest import Access, Nest, rebase_to_first_elements
from lazytensor.ir.program import Instr, Program
from lazytensor.kernels import BY_NAME
from lazytensor.kernels.loop_parts import bounds
from lazytensor.runtime import jit, schedule

LEAST_BYTES = 1 << 21  # minimum size of a run's scratch buffers; a second-level cache holds a thread's share of less
BLOCK_BYTES = 1 << 16  # target size of a block, over all operands
_WORD = ctypes.c_int64


@dataclass(frozen=True)
class Loop:
    """An instruction as a loop over independent rows.

    - `instr`: the instruction.
    - `text`: a function that generates the text of its kernel.
    - `extent`: the number of rows.
    - `arguments`: for each argument of the kernel, the index of the instruction's operand that it is.
    - `starts`: for each argument, its first element.
    - `strides`: for each argument, the elements per row.
    - `local`: for each argument, whether a row accesses only its own elements.
    """

    instr: Instr
    text: Callable[[], str]
    extent: int
    arguments: tuple[int, ...]
    starts: tuple[int, ...]
    strides: tuple[int, ...]
    local: tuple[bool, ...]

    @property
    def operands(self) -> tuple[int, ...]:
        """Return the buffer of each argument."""
        operands = (*self.instr.reads, *self.instr.writes)
        return tuple(operands[k] for k in self.arguments)


def _loop(instr: Instr, program: Program) -> Loop | None:
    """Return the row loop of an instruction, or None if the instruction is not a loop over independent rows.

    It is one if it is a suitable nest or a library kernel that computes row by row (`is_by_rows`).
    """
    operands = (*instr.reads, *instr.writes)
    if instr.nest is not None:
        return _loop_of_nest(instr, instr.nest, operands)
    kernel = BY_NAME.get(instr.kernel)
    if kernel is None or not kernel.is_by_rows or kernel.source is None:
        return None
    types = tuple(program.buffers[b].type for b in operands)
    count = len(instr.reads)
    extent = types[0].size // types[0].shape[-1]
    return Loop(
        instr=instr,
        text=partial(kernel.source, instr.attrs, types[count:], types[:count]),
        extent=extent,
        arguments=tuple(range(len(types))),
        starts=(0,) * len(types),
        strides=tuple(t.size // extent for t in types),
        local=(True,) * len(types),
    )


def _loop_of_nest(instr: Instr, nest: Nest, operands: tuple[int, ...]) -> Loop | None:
    """Return the row loop of a nest.

    Return None if its outermost loop is a reduction, if it uses loop indices as values, or if a row is not one stride.
    """
    slots = distinct_slots(operands)
    nest, starts = rebase_to_first_elements(nest, slots)
    shape = arrange_loops(nest)
    # An "index" scalar needs the row number in the whole array, which a block does not have.
    if parallel_loop(shape) != 0 or any(s.op == "index" for s in shape.body):
        return None
    accesses: list[list[Access]] = [[] for _ in starts]
    for slot, access in zip(slots, (*shape.reads, *shape.writes), strict=True):
        accesses[slot].append(access)
    if any(a.strides[0] != each[0].strides[0] for each in accesses for a in each):
        return None
    inner = [loop.extent for loop in shape.loops[1:]]

    def is_local(a: Access) -> bool:
        reach = sum(s * (e - 1) for s, e in zip(a.strides[1:], inner, strict=True))
        return min(a.strides) >= 0 and a.offset + reach < a.strides[0]

    return Loop(
        instr=instr,
        text=partial(generate, nest, slots, is_cut=True),
        extent=shape.loops[0].extent,
        arguments=tuple(slots.index(k) for k in range(len(starts))),
        starts=starts,
        strides=tuple(each[0].strides[0] for each in accesses),
        local=tuple(all(map(is_local, each)) for each in accesses),
    )


@dataclass
class Run:
    """Neighbouring instructions that run over the same rows.

    - `loops`: their row loops, in program order.
    - `places`: their positions in the program; views may come between them.
    - `scratch`: the temporary buffers that only these instructions use. Only a block of their rows is kept.
    """

    loops: list[Loop] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    scratch: frozenset[int] = frozenset()

    @property
    def operands(self) -> list[int]:
        """Return the buffers of all arguments, one instruction after the other."""
        return [b for loop in self.loops for b in loop.operands]

    def takes(self, new: Loop, owners: dict[int, int]) -> bool:
        """Return whether the loop `new` can join this run.

        Every row count must be a multiple of the smallest one. A buffer that a loop of the run writes must be accessed
        by all loops with the same rows. `owners` maps views to the buffers that own their memory.
        """
        extents = [loop.extent for loop in (*self.loops, new)]
        if any(e % min(extents) for e in extents):
            return False
        # A buffer that one loop writes must have the same row layout in every loop that uses it, so that its elements
        # are in the same block.
        spans: dict[int, set[int]] = {}
        written = {owners.get(b, b) for loop in (*self.loops, new) for b in loop.instr.writes}
        for loop in (*self.loops, new):
            for b, stride, is_local in zip(loop.operands, loop.strides, loop.local, strict=True):
                spans.setdefault(owners.get(b, b), set()).add(stride * loop.extent if is_local else -1)
        return all(len(spans[b]) == 1 and -1 not in spans[b] for b in written)

    def bind(self, arrays: Sequence[np.ndarray], owners: dict[int, int]) -> schedule.Parts:
        """Return the run as parts that threads share. The kernels are compiled.

        `arrays` holds the arrays of `operands`; `owners` is as in `takes`. A scratch buffer is not moved from block to
        block.
        """
        rows = min(loop.extent for loop in self.loops)
        kernels: list[Any] = [jit.load(loop.text()) for loop in self.loops]
        units = [loop.extent // rows for loop in self.loops]
        # Bytes per row of each operand.
        steps = [
            stride * unit * loop_array.itemsize
            for loop, unit, some in zip(self.loops, units, self._split(arrays), strict=True)
            for stride, loop_array in zip(loop.strides, some, strict=True)
        ]
        block = max(1, BLOCK_BYTES // max(sum(steps), 1))
        ahead = self._ahead(steps, owners)
        calls = []
        for first, last in bounds(rows, max(loop.instr.work.flops for loop in self.loops)):
            words = [last - first, block, len(kernels), len(steps), len(ahead)]
            pointers: list[int] = []
            tables = []
            at = iter(zip(steps, self.operands, strict=True))
            for kernel, unit, loop, some in zip(kernels, units, self.loops, self._split(arrays), strict=True):
                flat = [a.reshape(-1)[s:] for a, s in zip(some, loop.starts, strict=True)]
                call = kernel.bound(0, 0, *flat)
                tables.append(call.held[0])
                words += [call.function, call.argument, unit]
                for place, a, (step, b) in zip(call.places, flat, at, strict=False):
                    base = a.__array_interface__["data"][0] + first * step
                    is_scratch = owners.get(b, b) in self.scratch
                    pointers += [call.argument + 8 * place, base, 0 if is_scratch else step]
            streams = [
                word for k in ahead for word in (arrays[k].__array_interface__["data"][0] + first * steps[k], steps[k])
            ]
            calls.append(Blocks(words, pointers, streams, tables))
        return schedule.Parts(calls, [*range(len(steps)), *ahead])

    def _ahead(self, steps: Sequence[int], owners: dict[int, int]) -> list[int]:
        """Return the indices of the operands to prefetch: one per buffer that the run reads row by row and does not
        write.
        """
        written = {owners.get(b, b) for loop in self.loops for b in loop.instr.writes}
        first: dict[int, int] = {}
        for k, b in enumerate(self.operands):
            if steps[k] and owners.get(b, b) not in written:
                first.setdefault(b, k)
        return list(first.values())

    def _split(self, arrays: Sequence[np.ndarray]) -> list[Sequence[np.ndarray]]:
        """Split a sequence that is parallel to `operands` into one piece per instruction."""
        split, at = [], 0
        for loop in self.loops:
            split.append(arrays[at : at + len(loop.arguments)])
            at += len(loop.arguments)
        return split


class Blocks:
    """A part of a run: some rows as a bound call of `compiled_kernels.row_blocks`.

    It has the attributes of `Bound`. Its table holds the address of the words, followed by the words themselves.
    """

    __slots__ = ("argument", "function", "gives", "held", "kept", "places")

    def __init__(self, words: list[int], pointers: list[int], streams: list[int], tables: list[Any]):
        table = (_WORD * (1 + len(words) + len(pointers) + len(streams)))(0, *words, *pointers, *streams)
        self.function, self.argument = jit.machine_code(jit.read_kernel("row_blocks")).address, ctypes.addressof(table)
        table[0], self.gives = self.argument + ctypes.sizeof(_WORD), "void"
        self.held, self.kept = (table,), tables
        first = 1 + len(words)
        end = first + len(pointers)
        self.places = (*range(first + 1, end, 3), *range(end, end + len(streams), 2))


def runs_of(program: Program) -> list[Run]:
    """Return the runs of a program whose shared temporary buffers take at least LEAST_BYTES, more than a cache
    holds.

    A run is a group of neighbouring instructions over the same rows; views between them do not end it.
    """
    buffers = _Buffers(program)
    runs: list[Run] = []
    for is_loop, group in groupby(
        (k for k, instr in enumerate(program.instrs) if instr.kernel != "reshape"),
        lambda k: _may_be_loop(program.instrs[k]),
    ):
        places = list(group)
        # A cheap test first: analysing the loops takes some time, and most programs have nothing to gain.
        if is_loop and buffers.nbytes(buffers.handed_on(places)) >= LEAST_BYTES:
            runs += _runs(program, places, buffers)
    return runs


def _may_be_loop(instr: Instr) -> bool:
    return instr.nest is not None or getattr(BY_NAME.get(instr.kernel), "is_by_rows", False)


def _runs(program: Program, places: list[int], buffers: "_Buffers") -> list[Run]:
    """Group the instructions at `places` (positions in the program) into runs, each as long as possible.

    Return those with LEAST_BYTES of scratch buffers.
    """
    runs = [Run()]
    for k in places:
        loop = _loop(program.instrs[k], program)
        if loop is None or not runs[-1].takes(loop, buffers.owners):
            runs.append(Run())
        if loop is not None and runs[-1].takes(loop, buffers.owners):
            runs[-1].loops.append(loop)
            runs[-1].places.append(k)
    for run in runs:
        run.scratch = buffers.handed_on(run.places)
    return [run for run in runs if buffers.nbytes(run.scratch) >= LEAST_BYTES]


class _Buffers:
    """The uses of each buffer in a program. A view counts as the buffer that owns its memory."""

    def __init__(self, program: Program):
        self.program, self.owners = program, find_buffer_views(program)
        outside = {*program.fetches, *(b for pair in program.state.values() for b in pair)}
        self._outside = {self.owners.get(b, b) for b in outside}
        self._users: dict[int, list[int]] = {}
        for k, instr in enumerate(program.instrs):
            if instr.kernel != "reshape":
                for b in {self.owners.get(b, b) for b in (*instr.reads, *instr.writes)}:
                    self._users.setdefault(b, []).append(k)

    def handed_on(self, places: Collection[int]) -> frozenset[int]:
        """Return the temporary buffers that the instructions at `places` write and that no other instruction uses.

        Fetches and state are not among them.
        """
        within = set(places)
        written = {self.owners.get(b, b) for k in places for b in self.program.instrs[k].writes} - self._outside
        return frozenset(
            b for b in written if self.program.buffers[b].kind == "temp" and within.issuperset(self._users[b])
        )

    def nbytes(self, some: Collection[int]) -> int:
        """Return the total size of the buffers `some`, in bytes."""
        return sum(self.program.buffers[b].type.nbytes for b in some)
