"""Host backend: compile a program into a flat list of functions, each bound to its arrays before the first step.

Temporary buffers share one aligned arena. State arrays belong to the store. Batch arrays are read where the caller has
them, or are copied if they are small. If a batch brings other arrays, only the instructions that read them are bound
again. A step allocates no large arrays.
"""

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from lazytensor import config
from lazytensor.compiler.arena import Arena, lay_out_buffers
from lazytensor.core.dtype import round_to
from lazytensor.errors import CompileError, ShapeError
from lazytensor.ir.program import Instr, Program
from lazytensor.ir.types import Type
from lazytensor.runtime import blas, instruction_timing, row_runs, schedule
from lazytensor.runtime.aligned_arrays import aligned_zeros, within
from lazytensor.runtime.backend import Store as StateStore
from lazytensor.runtime.binders import Bind, Compiled, Step, binder, timed
from lazytensor.runtime.result_blocks import ResultBlocks, owned_fetches
from lazytensor.system.threads import try_start

PAGE_BYTES = 4096
"""Size of a memory page, in bytes."""
TOUCHED_BYTES, TOUCHING = 1 << 23, 4
"""The first is the least number of bytes that a thread touches; the second is the maximum number of such threads."""
COPIED_BYTES = 1 << 19
"""Batch arrays up to this size, in bytes, are copied if Python code reads them.

The copy takes at most 30 us, which is less than to bind the instructions that read the array again.
"""
SMALL_BYTES = 1 << 14
"""Batch arrays up to this size, in bytes, are copied if only machine code reads them.

The copy takes less time than to change the addresses in the machine code's argument tables.
"""


class HostBackend:
    """A backend that runs programs on the host with NumPy, BLAS and compiled loop nests."""

    name = "host"

    def compile(self, program: Program, store: StateStore) -> "HostExecutable":
        """Bind a program to the state arrays of `store`.

        Raise CompileError if the host has no kernel of an instruction's name.
        """
        return HostExecutable(program, store)


class HostExecutable:
    """A program bound to its memory on the host. Steps run in the calling thread and a thread pool."""

    report: Any | None = None

    def __init__(self, program: Program, store: StateStore):
        self.program = program
        self._owned = owned_fetches(program)
        self.owned = frozenset(self._owned)
        self._blocks = {b: ResultBlocks(program.buffers[b].type) for b in self._owned.values()}
        self._is_handed_out = False
        is_alone = instruction_timing.current() is not None or not config.current().jit
        candidates = () if is_alone else row_runs.runs_of(program)
        self._arena = lay_out_buffers(program, self._blocks, [range(r.places[0], r.places[-1] + 1) for r in candidates])
        block = aligned_zeros(self._arena.size_bytes)
        touching = _touching(block)
        runs = {run.places[0]: run for run in candidates}
        outside = {b: blocks.array for b, blocks in self._blocks.items()}
        self._arrays = _memory(program, self._arena, block, store, outside)
        self._bound: list[Any] = [None] * len(program.batch)
        self._steps: list[Step] = []
        self._runs: list[Step] = []  # the steps grouped into chains; filled by the first call of `step`
        self._places: list[schedule.Place] = []
        # Users of buffers whose arrays may change from step to step. For machine code, by buffer, the words of its
        # argument tables that are addresses in the buffer; for other steps (position in `_steps`, instruction, binder).
        self._words: dict[int, list[schedule.Word]] = {b: [] for b in (*program.batch, *self._blocks)}
        self._moving: list[tuple[int, Instr, Bind]] = []
        self._compiled: Compiled = {}
        moving = _with_views(set(self._words), program)
        within = {k for run in runs.values() for k in run.places}
        for k, instr in enumerate(program.instrs):
            if k in runs:
                self._add_run(runs[k])
            elif k not in within and instr.kernel != "reshape":
                self._add(instr, may_move=bool(moving & {*instr.reads, *instr.writes}))
        self._copied = [
            (k, b, self._arrays[b], program.buffers[b].type.dtype.is_half)
            for k, b in _copied_batch(program, {b for _, instr, _ in self._moving for b in instr.reads})
        ]
        copied = {b for _, b, *_ in self._copied}
        self._read_in_place = [k for k, b in enumerate(program.batch) if b not in copied]
        self._fetches = [self._arrays[b] for b in program.fetches]
        self._by_fetch = [(k, b) for k, b in enumerate(program.fetches) if b in moving]
        # The address of each buffer in `_words`. To get it from NumPy takes a microsecond.
        self._addresses = {b: _address(self._arrays[b]) for b in self._words}
        self._copies = _final_copies(program)
        for thread in touching:
            thread.join()

    def _add(self, instr: Instr, may_move: bool) -> None:
        """Bind an instruction and add its steps to `_steps`.

        If `may_move`, its arrays may change from step to step: note its address words, or how to bind it again.
        """
        bind = timed(binder(instr, self.program, self._compiled), instr, self.program)
        steps = bind(self._operands(instr))
        parts = [step for step in steps if isinstance(step, schedule.Parts)]
        if may_move and len(parts) < len(steps):
            self._moving.append((len(self._steps), instr, bind))
        elif may_move:
            self._note_words(parts, (*instr.reads, *instr.writes))
        self._steps += steps

    def _add_run(self, run: row_runs.Run) -> None:
        step = run.bind([self._arrays[b] for b in run.operands], self._arena.views)
        self._note_words([step], run.operands)
        self._steps.append(step)

    def _note_words(self, parts: Sequence[schedule.Parts], operands: Sequence[int]) -> None:
        """Note the argument words of `parts` that are addresses in batch arrays or result blocks.

        `operands` are buffers.
        """
        for step in parts:
            for operand, word in step.addresses():
                owner = self._arena.views.get(operands[operand], operands[operand])
                if owner in self._words:
                    self._words[owner].append(word)

    def _operands(self, instr: Instr) -> list[np.ndarray]:
        return [self._arrays[b] for b in (*instr.reads, *instr.writes)]

    @property
    def arena_bytes(self) -> int:
        """The size of the memory block of the temporary buffers."""
        return self._arena.size_bytes

    def placement(self) -> str:
        """Return the byte offset of each temporary buffer in the arena, and the views, as text; see
        `Executable.placement`.
        """
        places = sorted(self._arena.offsets.items(), key=lambda item: item[1])
        lines = [f"buffer {b} from byte {at}: {self.program.buffers[b].type}" for b, at in places]
        lines += [f"buffer {b} is a view of {owner}" for b, owner in self._arena.views.items()]
        return "\n".join([f"arena of {self._arena.size_bytes} bytes", *lines])

    def step(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run one step and return the fetches; see `Executable.step`.

        Raise ShapeError if `batch` has another number of arrays than the program, or if an array has another shape. An
        array of another dtype is converted. The state arrays are overwritten. The next step overwrites the returned
        arrays, except those whose index is in `owned`.
        """
        if len(batch) != len(self._bound):
            raise ShapeError(
                f"the step takes {len(self._bound)} arrays, but the batch has {len(batch)}",
                hint="Pass as many arrays as the step takes.",
            )
        self._bring(batch)
        if self._is_handed_out:
            self._move()
        if not self._runs:
            self._runs, self._places = schedule.chains(self._steps)
        blas.hold()
        try:
            if len(self._runs) == 1 and isinstance(self._runs[0], schedule.Chain):
                self._runs[0]()
            else:
                with np.errstate(all="ignore"):  # overflow gives infinity, as on the device
                    for run in self._runs:
                        run()
            if self._copies:
                self._copy_state()
        finally:
            blas.release()
        if not self._blocks:
            return list(self._fetches)
        self._is_handed_out = True
        owned, blocks = self._owned, self._blocks
        return [blocks[owned[k]].hand_out(v) if k in owned else v for k, v in enumerate(self._fetches)]

    def _bring(self, batch: Sequence[np.ndarray]) -> None:
        """Copy the small arrays of a batch to their buffers, and bind the others if one is not that of the step before.

        Raise ShapeError for an array of another shape.
        """
        for k, b, place, is_half in self._copied:
            array = batch[k]
            # Most arrays fit as they are.
            if is_half or array.shape != place.shape or array.dtype is not place.dtype:
                array = _fitting(array, self.program.buffers[b].type, self.program.buffers[b].name)
            place[...] = array
        # If the data loader reuses its arrays, nothing has to be bound again.
        for k in self._read_in_place:
            if batch[k] is not self._bound[k]:
                self._take(batch)
                break

    def _take(self, batch: Sequence[np.ndarray]) -> None:
        """Bind the steps that read the batch to new arrays.

        An array is copied if its dtype or memory order does not fit, or if it is of a half type. Raise ShapeError for
        another shape.
        """
        program, arrays = self.program, self._arrays
        for k in self._read_in_place:
            b, array = program.batch[k], batch[k]
            arrays[b] = _fitting(array, program.buffers[b].type, program.buffers[b].name)
            # The caller may change the array that a converted copy was made of, so the next step converts again.
            self._bound[k] = array if arrays[b] is array else None
        self._bind_again({program.batch[k] for k in self._read_in_place})

    def _move(self) -> None:
        """Point each large result to another memory block, because the caller holds the block of the previous step."""
        for b, blocks in self._blocks.items():
            blocks.move()
            self._arrays[b] = blocks.array
        self._bind_again(set(self._blocks))
        self._is_handed_out = False

    def _bind_again(self, changed: set[int]) -> None:
        """Make all steps that use the buffers `changed`, or views of them, use the arrays now in `_arrays`."""
        # 1. Machine code has its addresses in tables: changing them is cheaper than binding the step again.
        for b in changed:
            address = _address(self._arrays[b])
            distance, self._addresses[b] = address - self._addresses[b], address
            for table, place in self._words[b] if distance else ():
                table[place] += distance
        moved = set(changed)
        for view, owner in self._arena.views.items():
            if owner in changed:
                self._arrays[view] = self._arrays[owner].reshape(self.program.buffers[view].type.shape)
                moved.add(view)
        # 2. Bind all other steps again. An instruction always binds to the same number of steps, so that the positions
        # in the list stay valid.
        for at, instr, bind in self._moving:
            if moved.isdisjoint(instr.reads) and moved.isdisjoint(instr.writes):
                continue
            for k, run in enumerate(bind(self._operands(instr))):
                self._steps[at + k] = run
                if self._runs:
                    schedule.replace(self._runs, self._places[at + k], run)
        for k, b in self._by_fetch:
            self._fetches[k] = self._arrays[b]

    def _copy_state(self) -> None:
        """Copy the new values of state that the step could not update in place into the state arrays."""
        arrays = self._arrays
        # Two states may swap values, so sources that are state are copied before any state is written.
        values = [arrays[new].copy() if is_state else arrays[new] for _, new, is_state in self._copies]
        for (old, _, _), value in zip(self._copies, values, strict=True):
            arrays[old].reshape(-1)[...] = value.reshape(-1)


def _copied_batch(program: Program, rebound: Collection[int]) -> list[tuple[int, int]]:
    """Return (index in the batch, buffer) of each batch array that is copied in each step rather than read in place.

    `rebound` are the buffers that Python code reads; for these the size limit is COPIED_BYTES, otherwise SMALL_BYTES.
    An array that the batch has twice is not copied. Neither is one that is fetched: the step would return its internal
    copy, which the next step overwrites.
    """
    fetched = set(program.fetches)
    return [
        (k, b)
        for k, b in enumerate(program.batch)
        if program.buffers[b].type.nbytes
        <= (SMALL_BYTES if _with_views({b}, program).isdisjoint(rebound) else COPIED_BYTES)
        and program.batch.count(b) == 1
        and not fetched & _with_views({b}, program)
    ]


def _with_views(owners: set[int], program: Program) -> set[int]:
    """Return `owners` and all buffers that are views ("reshape" results) of them."""
    buffers = set(owners)
    for instr in program.instrs:
        if instr.kernel == "reshape" and instr.reads[0] in buffers:
            buffers.add(instr.writes[0])
    return buffers


def _final_copies(program: Program) -> list[tuple[int, int, bool]]:
    """Return (old buffer, new buffer, whether the new one is a state buffer) of each state that is not updated in
    place.
    """
    state = {old for old, _ in program.state.values()}
    return [(old, new, new in state) for old, new in program.state.values() if old != new]


def _memory(
    program: Program, arena: Arena, block: np.ndarray, store: StateStore, outside: Mapping[int, np.ndarray]
) -> list[np.ndarray]:
    """Return the array of each buffer, by buffer index.

    State comes from `store`, temporary buffers from `block` (the arena) or from `outside` (large results). Arrays of
    the batch are zeros until the first step. Raise CompileError if a state array does not have the program's type.
    """
    arrays: list[np.ndarray] = []
    for b in program.buffers:
        if b.kind == "state":
            arrays.append(_of_state(store.array(b.name), b.type, b.name))
        elif b.kind == "const":
            arrays.append(np.ascontiguousarray(b.value, b.type.dtype.host).reshape(b.type.shape))
        elif b.index in outside:
            arrays.append(outside[b.index])
        elif b.index in arena.offsets:
            arrays.append(within(block, b.type.shape, b.type.dtype.host, arena.offsets[b.index]))
        else:
            arrays.append(np.zeros(b.type.shape, b.type.dtype.host))
    for view, owner in arena.views.items():
        arrays[view] = arrays[owner].reshape(program.buffers[view].type.shape)
    return arrays


def _touching(block: np.ndarray) -> list[threading.Thread]:
    """Start threads that write zeros to every page of `block`, which is zero already, and return those that started.

    The caller joins them after it has bound the program. The operating system allocates a page at its first use.
    """
    # The operating system allocates pages at their first use. For a large arena that takes as long as to bind the
    # program. In a virtual machine the hypervisor allocates, and threads that wait for it need no core: four threads
    # take half the time of one.
    count = min(TOUCHING, -(-block.size // TOUCHED_BYTES))
    pages = block[::PAGE_BYTES]
    threads = [
        threading.Thread(target=pages[len(pages) * k // count : len(pages) * (k + 1) // count].fill, args=(0,))
        for k in range(count)
    ]
    # If no thread can be started, the first step touches the pages.
    return [thread for thread in threads if try_start(thread)]


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _of_state(array: np.ndarray, type: Type, name: str) -> np.ndarray:
    """Return `array` itself. Raise CompileError if its shape, its dtype or its memory order is not that of `type`.

    `name` is the state's id, for the message. The memory has to be C-contiguous.
    """
    if array.shape != type.shape or array.dtype != type.dtype.host or not array.flags.c_contiguous:
        raise CompileError(
            f"state {name} is stored as {array.dtype}{list(array.shape)}, but the program needs {type}",
            hint="Restore the state of the program, or build the model with the sizes of the state.",
        )
    return array


def _fitting(array: np.ndarray, type: Type, name: str) -> np.ndarray:
    """Return `array` if it is C-contiguous and has the host dtype of `type`, and otherwise a converted copy.

    A half type is always copied and rounded. Raise ShapeError if the shape is not that of `type`. `name` is used in its
    message.
    """
    if array.shape != type.shape:
        raise ShapeError(
            f"batch element {name or ''} has the shape {list(array.shape)}, but the step was compiled for "
            f"{list(type.shape)}",
            hint="Use batches of one shape; drop_last=True of the DataLoader drops the last incomplete batch.",
        )
    # The caller may pass float32 values that were never rounded to the half type of the step.
    if type.dtype.is_half or array.dtype != type.dtype.host:
        with np.errstate(all="ignore"):
            return round_to(np.array(array, type.dtype.host, order="C"), type.dtype)
    return array if array.flags.c_contiguous else np.array(array, order="C")
