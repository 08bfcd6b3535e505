"""Schedules of steps: neighbouring steps of a program run one after the other in one call of machine code.

A `Parts` is one step, cut into parts that threads share. A `Chain` is a sequence of steps that the machine code in
`lazytensor.runtime.compiled_kernels.scheduler` runs without the Python interpreter, which takes long to wake a thread.
The parts depend only on shapes, so the bits of a result do not depend on the number of threads.
"""

import atexit
import ctypes
import functools
import importlib
import itertools
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from lazytensor.errors import CompileError
from lazytensor.kernels.loop_parts import LINE
from lazytensor.kernels.routine import Routine
from lazytensor.llvm.bound_code import Bound, Kernel
from lazytensor.runtime import blas, jit, thread_pool
from lazytensor.runtime.compiled_kernels.scheduler import BLOCK_WORDS
from lazytensor.system.threads import try_start

Step = Callable[[], object]
Refusal = Callable[[], Exception]
Word = tuple[Any, int]
"""A word of an argument table: the table (an array of int64) and the index in it."""
_WORD = ctypes.c_int64
_THREAD_WORDS = 8
"""Words per thread: a whole cache line, of which the first word is the address of the thread's scratch buffer."""
_OWN = 4
"""Index of the argument of a routine that is the scratch buffer of the thread."""


@functools.cache
def can_share() -> bool:
    """Return whether threads of machine code can wait for each other on this system.

    If not, programs run in one thread.
    """
    way: str = _thread_instructions().way_to_wait()
    return way != ""


def _thread_instructions() -> Any:
    # Imported when it is needed because importing LLVM takes a tenth of a second.
    return importlib.import_module("lazytensor.llvm.thread_instructions")


class RoutinePart:
    """A part of a routine, as the scheduler calls it.

    Before a call the scheduler writes the address of the thread's scratch buffer to the address `memory`. After it, the
    scheduler writes the returned truth value to the address `result`; `result` is 0 if the kernel returns nothing.
    """

    __slots__ = ("argument", "function", "held", "kept", "memory", "places", "refused", "result")

    def __init__(self, call: Bound):
        self.function, self.argument, self.refused = call.function, call.argument, _WORD(0)
        self.memory = call.argument + 8 * _OWN
        self.result = ctypes.addressof(self.refused) if call.gives == "bool" else 0
        # The operands follow phase, part, geometry and the two scratch buffers.
        self.held, self.places, self.kept = call.held, call.places[3:], call.held[1][2:4]


class Parts:
    """A step as parts that any thread may run: one entry of the scheduler's table for each call.

    - `calls`: the bound calls, one per part.
    - `operands`: for each array argument of a call, the index of the operand of the step that it is a part of.
    - `own`: float32 elements of scratch buffer that each thread needs.
    - `refusal`: None, or a function that makes the error to raise if a part refuses its operands.

    A `Parts` does not keep the arrays of its calls alive.
    """

    __slots__ = ("calls", "count", "entries", "operands", "own", "refusal")

    def __init__(self, calls: Sequence[Any], operands: Sequence[int], own: int = 0, refusal: Refusal | None = None):
        self.own, self.refusal = own, refusal
        self.calls, self.operands, self.count = tuple(calls), operands, len(calls)
        words = [
            word for c in calls for word in (c.function, c.argument, getattr(c, "memory", 0), getattr(c, "result", 0))
        ]
        self.entries = (_WORD * len(words))(*words)
        # Drop the references to the arrays: a block of results is free when the last reference to it is gone.
        for call in calls:
            call.held = call.held[:1]

    def __call__(self) -> object:
        """Run this step as a chain of one."""
        return Chain([self])()

    def addresses(self) -> Iterator[tuple[int, Word]]:
        """Yield (index of the operand, `Word` that holds the address) for each array argument of the calls."""
        for call in self.calls:
            for place, operand in zip(call.places, self.operands, strict=True):
                yield operand, (call.held[0], place)


def routine(function: Kernel, work: Routine, arrays: tuple[np.ndarray, ...]) -> list[Step]:
    """Return the phases of a routine as steps that a chain can run: one `Parts` per phase.

    `function` is the compiled kernel of `work`, and `arrays` are its flat operands and results.
    """
    shared = _crew(thread_pool.team().threads).shared(work.shared)
    operands: Sequence[int] = range(len(arrays))
    steps: list[Step] = []
    refusal = partial(work.error, work.refusal) if work.refusal else None
    for phase, count in enumerate(work.parts):
        # `shared[:0]` is a placeholder: the scheduler writes the address of the thread's scratch buffer for each part.
        arguments = work.geometry, shared, shared[:0], *arrays
        calls = function.bound_parts([(phase, k) for k in range(count)], arguments)
        steps.append(Parts([RoutinePart(c) for c in calls], operands, max(work.own, 1), refusal))
    return steps


def shared(calls: Sequence[Any], operands: Sequence[int], run: Step) -> Step:
    """Return `calls` as a `Parts` if all of them are machine code without a result, and otherwise `run`.

    `run` does the same work from Python. `operands` is the argument of `Parts`.
    """
    return Parts(calls, operands) if all(getattr(c, "gives", "") == "void" for c in calls) else run


def product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Bound | None:
    """Return out = a @ b as a bound call of single-threaded BLAS.

    `a`, `b` and `out` are matrices or stacks of matrices. Return None if BLAS cannot read them in place: if they are
    not float32, differ in their number of dimensions, are empty, have strides that BLAS does not take, or if BLAS has
    no usable `sgemm`.
    """
    address = blas.sgemm()
    fits = a.dtype == b.dtype == out.dtype == np.float32 and a.ndim == b.ndim == out.ndim >= 2
    if address is None or not fits or min(*out.shape, *a.shape) == 0:
        return None
    stack, sides = _stack(a, b, out), [_side(x) for x in (a, b, out)]
    if stack is None or None in sides or sides[2][0] == _FLIPPED:  # type: ignore[index]
        return None
    (flip_a, pitch_a), (flip_b, pitch_b), (_, pitch_c) = sides  # type: ignore[misc]
    places = [x.__array_interface__["data"][0] for x in (a, b, out)]
    m, n, k = *out.shape[-2:], a.shape[-1]
    words = (address, flip_a, flip_b, m, n, k, places[0], pitch_a, places[1], pitch_b, places[2], pitch_c, *stack)
    words += _tile(m, n, k, flip_a, flip_b)
    # Distances in bytes: between rows of a, between columns of b, and between terms of a sum in a and in b.
    across = 4 * (pitch_a if flip_a == _STRAIGHT else 1), 4 * (pitch_b if flip_b == _FLIPPED else 1)
    along = 4 * (1 if flip_a == _STRAIGHT else pitch_a), 4 * (1 if flip_b == _FLIPPED else pitch_b)
    call = jit.machine_code(jit.read_kernel("batched_matmul")).bound(*words, *across, *along)
    # The arguments that are addresses of a, b and out.
    call.places = (6, 8, 10)
    return call


_STRAIGHT, _FLIPPED = 111, 112  # CblasNoTrans and CblasTrans


SMALL = 1_000_000  # OpenBLAS copies no panels of products with at most this many multiplications
SMALL_TURNED = 1024  # the same limit in elements of the result, if the second matrix is transposed
LONGEST = 192  # the maximum number of terms per sum in a tile; with these the widest tiles are small enough
TILE = 32  # the preferred number of rows of a tile


def _tile(m: int, n: int, k: int, flip_a: int, flip_b: int) -> tuple[int, int, int]:
    """Return rows, columns and depth of the tiles into which a product of `m` x `k` and `k` x `n` matrices is cut.

    The tiles are so small that OpenBLAS does not copy the matrices; the tile is (m, n, k), the whole product, where
    that does not pay. Measured with the kernels of OpenBLAS 0.3 for AVX-512: 80 to 110 GFLOP/s per core, and 65 to 95
    with copies.
    """
    turned = SMALL_TURNED if flip_b == _FLIPPED else SMALL
    if m * n <= min(SMALL // k, turned) or not blas.has_small_kernels() or flip_a == flip_b == _FLIPPED:
        return m, n, k
    # Without panels a long sum reads strided memory, so it is cut into pieces, unless both matrices are contiguous
    # along the sum.
    depth = k if (flip_a, flip_b) == (_STRAIGHT, _FLIPPED) else -(-k // -(-k // LONGEST))
    area = min(SMALL // depth, turned)
    tiles = [(height, area // height // LINE * LINE) for height in (min(m, TILE), min(m, LINE))]
    height, width = max(tiles, key=lambda tile: tile[0] * tile[1])
    return (height, min(width, 4 * TILE), depth) if width else (m, n, k)


def _side(x: np.ndarray) -> tuple[int, int] | None:
    """Return how BLAS reads the matrices of a stack: (_STRAIGHT or _FLIPPED, elements between lines); None if it
    cannot.
    """
    (rows, columns), (far, near) = x.shape[-2:], x.strides[-2:]
    # A dimension of one element may have any stride.
    if (near == 4 or columns == 1) and (rows == 1 or far >= 4 * columns) and far % 4 == 0:
        return _STRAIGHT, max(far // 4 if rows > 1 else columns, columns)
    if (far == 4 or rows == 1) and (columns == 1 or near >= 4 * rows) and near % 4 == 0:
        return _FLIPPED, max(near // 4 if columns > 1 else rows, rows)
    return None


def _stack(*arrays: np.ndarray) -> tuple[int, ...] | None:
    """Return the number of matrices in the stacks, and for each array the bytes between two matrices.

    Return None if the leading shapes differ, or if one distance per array does not describe the stack.
    """
    lead = arrays[0].shape[:-2]
    if any(x.shape[:-2] != lead for x in arrays):
        return None
    if not lead:
        return 1, 0, 0, 0
    wide = [d for d, extent in enumerate(lead) if extent > 1]
    for x in arrays:
        if any(x.strides[d] != x.strides[e] * lead[e] for d, e in itertools.pairwise(wide)):
            return None
    return (math.prod(lead), *(x.strides[wide[-1]] if wide else 0 for x in arrays))


class _Crew:
    """A thread pool of machine code. Its threads serve one block of shared words.

    The threads start when there is something to share, and end with the process.
    """

    def __init__(self, threads: int):
        memory = np.zeros(BLOCK_WORDS + 8, np.int64)
        start = -memory.ctypes.data % 64 // 8  # align to a cache line: no two words that threads write share one
        self._words = memory[start : start + BLOCK_WORDS]
        self.block = self._words.ctypes.data
        self.lock = threading.Lock()
        self._waiting = threads - 1
        self._threads: list[threading.Thread] = []
        self._stop: Kernel | None = None
        # The scratch buffer of each thread, and as the last one that of a whole routine. A buffer that is too small is
        # replaced but never freed, because a running routine may still use it.
        self._memory = [np.zeros(0, np.float32)] * (threads + 1)
        self._outgrown: list[np.ndarray] = []
        self.places = np.zeros((threads, _THREAD_WORDS), np.int64)
        self.first_place = self.places.ctypes.data

    def prepare(self, elements: int) -> None:
        """Start the threads and give each of them at least `elements` float32 of scratch buffer.

        Call it with the lock held.
        """
        if self._waiting:
            self._start()
        if self._memory[0].size < elements:
            for thread in range(len(self.places)):
                self.places[thread, 0] = self._grown(thread, elements).ctypes.data

    def shared(self, elements: int) -> np.ndarray:
        """Return a scratch buffer of at least `elements` float32 for a whole routine. Other routines overwrite it."""
        return self._grown(-1, elements)

    def _grown(self, number: int, elements: int) -> np.ndarray:
        """Return scratch buffer `number` with at least `elements` float32 that begin at a cache line; replace it if too
        small.

        A new buffer is zero. The replaced one is kept alive.
        """
        if self._memory[number].size < elements:
            self._outgrown.append(self._memory[number])
            block = np.zeros(elements + LINE, np.float32)
            self._memory[number] = block[-block.ctypes.data % (4 * LINE) // 4 :]
        return self._memory[number]

    def _start(self) -> None:
        _thread_instructions().prepare_words(self.block)
        # `stop` is loaded now: nothing should be compiled when the process ends.
        serve, self._stop = scheduler("serve"), scheduler("stop")
        for k in range(self._waiting):
            target = serve.bound(self.block, self.places[k + 1].ctypes.data)
            thread = threading.Thread(target=target, name="lazywafer", daemon=True)
            # If the system starts no more threads, the pool is smaller; the calling thread runs parts in any case.
            if not try_start(thread):
                break
            self._threads.append(thread)
        self._waiting = 0

    def stop(self) -> None:
        """End the threads, because machine code must not run when its memory is freed at the end of the process.

        Wait at most a second for each thread.
        """
        if self._stop is not None:
            self._stop(self.block)
        for thread in self._threads:
            thread.join(1)


@functools.cache
def scheduler(name: str) -> Kernel:
    """Return the kernel `name` ("run", "serve" or "stop") of the scheduler module as machine code."""
    return jit.machine_code(jit.read_kernel("scheduler"), name)


_crews: dict[int, _Crew] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_crews.clear)  # threads do not survive a fork


@atexit.register
def _stop() -> None:
    for crew in _crews.values():
        crew.stop()


def _crew(threads: int) -> _Crew:
    threads = threads if can_share() else 1
    if threads not in _crews:
        _crews[threads] = _Crew(threads)
    return _crews[threads]


class Chain:
    """Steps that run one after the other in one call of machine code."""

    def __init__(self, steps: Sequence[Parts]):
        self._threads = thread_pool.team().threads
        self._steps = list(steps)
        self._table = (_WORD * (2 * len(steps)))()
        self._shares = False
        self._crew: _Crew | None = None  # the pool of the last call; it differs in a forked process
        self._own = max(step.own for step in steps)
        for k, step in enumerate(steps):
            self.put(k, step)

    def put(self, k: int, step: Parts) -> None:
        """Replace step `k` by `step`."""
        self._steps[k] = step
        self._table[2 * k], self._table[2 * k + 1] = step.count, ctypes.addressof(step.entries)
        self._shares |= step.count > 1 or step.own > 0

    def __call__(self) -> None:
        """Run the steps. Only one Python thread at a time uses the thread pool; others wait for its lock.

        Without parts to share, the calling thread runs all steps. Otherwise raise the error of the last step if that
        step refuses its operands.
        """
        crew = _crew(self._threads)
        if self._crew is not crew:
            arguments = crew.block, ctypes.addressof(self._table), len(self._steps), crew.first_place
            self._crew, self._run = crew, scheduler("run").bound(*arguments)
        if not self._shares:
            self._run()
            return
        with crew.lock:
            crew.prepare(self._own)
            self._run()
        last = self._steps[-1]
        if last.refusal and any(part.refused.value for part in last.calls):
            raise last.refusal()


Place = tuple[Chain | None, int]


def chains(steps: Sequence[Step]) -> tuple[list[Step], list[Place]]:
    """Group neighbouring `Parts` of `steps` into chains, each of which one call of machine code runs.

    Return the list of steps to call, and for each given step its place: (chain, index in the chain), or (None, index in
    the returned list) if it is not in a chain. A step that may refuse its operands ends its chain.
    """
    result: list[Step] = []
    places: list[Place] = []
    # A step that may refuse its operands ends a chain, because the steps after it must not run then.
    refusing = itertools.accumulate((getattr(step, "refusal", None) is not None for step in steps), initial=0)
    pairs = zip(steps, refusing, strict=False)
    for (is_chain, _), group in itertools.groupby(pairs, lambda pair: (isinstance(pair[0], Parts), pair[1])):
        members = [step for step, _ in group]
        if is_chain:
            chain = Chain([s for s in members if isinstance(s, Parts)])
            places += [(chain, k) for k in range(len(members))]
            result.append(chain)
        else:
            places += [(None, len(result) + k) for k in range(len(members))]
            result += members
    return result, places


def replace(runs: list[Step], place: Place, step: Step) -> None:
    """Replace the step at `place` in `runs`, in place, by `step`, which is the same step bound to other arrays.

    `place` is one that `chains` returned. Raise CompileError if the old step is in a chain and the new one is not
    machine code.
    """
    chain, k = place
    if chain is None:
        runs[k] = step
    elif isinstance(step, Parts):
        chain.put(k, step)
    else:
        raise CompileError(
            "a step that was compiled to machine code cannot be compiled for its new arrays",
            hint="Call the step with the arrays of its first run.",
        )
