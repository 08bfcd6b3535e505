"""Chains: neighbouring steps of a program that machine code runs one after the other, in parts that a crew shares.

Between the steps of a chain no thread needs the interpreter, which takes long to wake one. Bits depend on the parts
only, and the parts on shapes only. The machine code is `lazytensor.runtime.compiled_kernels.scheduler`.
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
"""A table of arguments, and a place in it."""
_WORD = ctypes.c_int64
_THREAD_WORDS = 8
"""Words of each thread, of which the first is the address of its working memory: a cache line."""
_OWN = 4
"""The argument of a routine that is the working memory of its thread."""


@functools.cache
def can_share() -> bool:
    """Return whether threads of machine code can wait for each other on this system; else programs run with one."""
    # Imported here: LLVM takes a tenth of a second.
    way: str = importlib.import_module("lazytensor.llvm.thread_instructions").way_to_wait()
    return way != ""


class RoutinePart:
    """A part of a routine. The scheduler puts the working memory of the thread at `memory` and the result at `result`.

    Both are addresses; `result` is 0 if the kernel returns nothing.
    """

    __slots__ = ("argument", "function", "held", "kept", "memory", "places", "refused", "result")

    def __init__(self, call: Bound):
        self.function, self.argument, self.refused = call.function, call.argument, _WORD(0)
        self.memory = call.argument + 8 * _OWN
        self.result = ctypes.addressof(self.refused) if call.gives == "bool" else 0
        # Behind phase, part, geometry and both memories come the operands.
        self.held, self.places, self.kept = call.held, call.places[3:], call.held[1][2:4]


class Parts:
    """A step as parts that any thread may run: an entry of the scheduler for each.

    `operands` says of each array of a call which operand of the step it is a part of. The arrays are kept elsewhere.
    Parts of a routine need `own` elements of float32 for each thread; with a `refusal` they may refuse their operands.
    """

    __slots__ = ("calls", "count", "entries", "operands", "own", "refusal")

    def __init__(self, calls: Sequence[Any], operands: Sequence[int], own: int = 0, refusal: Refusal | None = None):
        self.own, self.refusal = own, refusal
        self.calls, self.operands, self.count = tuple(calls), operands, len(calls)
        words = [
            word for c in calls for word in (c.function, c.argument, getattr(c, "memory", 0), getattr(c, "result", 0))
        ]
        self.entries = (_WORD * len(words))(*words)
        # Arrays that move are not held on to where they were: who holds a block of results tells whether it is free.
        for call in calls:
            call.held = call.held[:1]

    def __call__(self) -> object:
        """Run it by itself."""
        return Chain([self])()

    def addresses(self) -> Iterator[tuple[int, Word]]:
        """The operand of each address that its calls have, and where the address stands."""
        for call in self.calls:
            for place, operand in zip(call.places, self.operands, strict=True):
                yield operand, (call.held[0], place)


def routine(function: Kernel, work: Routine, arrays: tuple[np.ndarray, ...]) -> list[Step]:
    """Return the phases of a routine as steps that a chain can take."""
    shared = _crew(thread_pool.team().threads).shared(work.shared)
    operands: Sequence[int] = range(len(arrays))
    steps: list[Step] = []
    refusal = partial(work.error, work.refusal) if work.refusal else None
    for phase, count in enumerate(work.parts):
        # The memory of a thread takes its place in the table when a part runs.
        arguments = work.geometry, shared, shared[:0], *arrays
        calls = function.bound_parts([(phase, k) for k in range(count)], arguments)
        steps.append(Parts([RoutinePart(c) for c in calls], operands, max(work.own, 1), refusal))
    return steps


def shared(calls: Sequence[Any], operands: Sequence[int], run: Step) -> Step:
    """Return a step that a chain can take, if all calls are machine code without a result; else return `run`."""
    return Parts(calls, operands) if all(getattr(c, "gives", "") == "void" for c in calls) else run


def product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Bound | None:
    """Return out = a @ b as a call of BLAS; None for other operands than matrices that BLAS can read in place.

    The operands may be stacks of matrices. BLAS runs with one thread.
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
    # From row to row of a and from column to column of b, and along the sums.
    across = 4 * (pitch_a if flip_a == _STRAIGHT else 1), 4 * (pitch_b if flip_b == _FLIPPED else 1)
    along = 4 * (1 if flip_a == _STRAIGHT else pitch_a), 4 * (1 if flip_b == _FLIPPED else pitch_b)
    call = jit.machine_code(jit.read_kernel("batched_matmul")).bound(*words, *across, *along)
    # The addresses of both matrices and of their product among the arguments.
    call.places = (6, 8, 10)
    return call


_STRAIGHT, _FLIPPED = 111, 112  # how CBLAS calls a matrix and a transposed one


SMALL = 1_000_000  # products of numbers, up to which OpenBLAS reads matrices where they are and copies no panels
SMALL_TURNED = 1024  # numbers of the result, up to which it does so where the second matrix is transposed
LONGEST = 192  # terms of a sum, up to which the widest tiles are small enough
TILE = 32


def _tile(m: int, n: int, k: int, flip_a: int, flip_b: int) -> tuple[int, int, int]:
    """Rows, columns and depth of the tiles that a product is made of: where it pays, so small that nothing is copied.

    Measured with the kernels of OpenBLAS 0.3 for AVX-512: 80 to 110 GFLOP/s of a core, and 65 to 95 with copies.
    """
    turned = SMALL_TURNED if flip_b == _FLIPPED else SMALL
    if m * n <= min(SMALL // k, turned) or not blas.has_small_kernels() or flip_a == flip_b == _FLIPPED:
        return m, n, k
    # Without panels a long sum runs through memory: in pieces, but where both run along it, which is as fast.
    depth = k if (flip_a, flip_b) == (_STRAIGHT, _FLIPPED) else -(-k // -(-k // LONGEST))
    area = min(SMALL // depth, turned)
    tiles = [(height, area // height // LINE * LINE) for height in (min(m, TILE), min(m, LINE))]
    height, width = max(tiles, key=lambda tile: tile[0] * tile[1])
    return (height, min(width, 4 * TILE), depth) if width else (m, n, k)


def _side(x: np.ndarray) -> tuple[int, int] | None:
    """How BLAS reads the matrices of a stack: whether flipped, and how many elements apart their lines are."""
    (rows, columns), (far, near) = x.shape[-2:], x.strides[-2:]
    # A dimension of one element may have any stride.
    if (near == 4 or columns == 1) and (rows == 1 or far >= 4 * columns) and far % 4 == 0:
        return _STRAIGHT, max(far // 4 if rows > 1 else columns, columns)
    if (far == 4 or rows == 1) and (columns == 1 or near >= 4 * rows) and near % 4 == 0:
        return _FLIPPED, max(near // 4 if columns > 1 else rows, rows)
    return None


def _stack(*arrays: np.ndarray) -> tuple[int, ...] | None:
    """How many matrices, and how many bytes apart they are in each array; None where no one number says it."""
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
    """Threads that serve one block; they start when there is something to share, and end with the process."""

    def __init__(self, threads: int):
        memory = np.zeros(BLOCK_WORDS + 8, np.int64)
        start = -memory.ctypes.data % 64 // 8  # words that several threads write are on cache lines of their own
        self._words = memory[start : start + BLOCK_WORDS]
        self.block = self._words.ctypes.data
        self.lock = threading.Lock()
        self._waiting = threads - 1
        self._threads: list[threading.Thread] = []
        self._stop: Kernel | None = None
        # Where the memory of each thread is, and behind them all that of a routine as a whole. None is ever given back:
        # what it is too small for now has grown out of it, but may still run in it.
        self._memory = [np.zeros(0, np.float32)] * (threads + 1)
        self._outgrown: list[np.ndarray] = []
        self.places = np.zeros((threads, _THREAD_WORDS), np.int64)
        self.first_place = self.places.ctypes.data

    def prepare(self, elements: int) -> None:
        """Have all threads, and each own so much memory; called with the lock."""
        if self._waiting:
            self._start()
        if self._memory[0].size < elements:
            for thread in range(len(self.places)):
                self.places[thread, 0] = self._grown(thread, elements).ctypes.data

    def shared(self, elements: int) -> np.ndarray:
        """Memory for a routine as a whole, whose content is of none for long."""
        return self._grown(-1, elements)

    def _grown(self, number: int, elements: int) -> np.ndarray:
        if self._memory[number].size < elements:
            self._outgrown.append(self._memory[number])
            block = np.zeros(elements + LINE, np.float32)
            self._memory[number] = block[-block.ctypes.data % (4 * LINE) // 4 :]
        return self._memory[number]

    def _start(self) -> None:
        # `stop` is loaded now: nothing should be compiled when the process ends.
        serve, self._stop = scheduler("serve"), scheduler("stop")
        for k in range(self._waiting):
            target = serve.bound(self.block, self.places[k + 1].ctypes.data)
            thread = threading.Thread(target=target, name="lazywafer", daemon=True)
            # Fewer, if the system starts no more; without any the caller runs all parts.
            if not try_start(thread):
                break
            self._threads.append(thread)
        self._waiting = 0

    def stop(self) -> None:
        """Have the threads end: machine code must not run when its memory is given back."""
        if self._stop is not None:
            self._stop(self.block)
        for thread in self._threads:
            thread.join(1)


@functools.cache
def scheduler(name: str) -> Kernel:
    """Return a kernel of the scheduler as machine code."""
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
    """Steps one after the other in one call."""

    def __init__(self, steps: Sequence[Parts]):
        self._threads = thread_pool.team().threads
        self._steps = list(steps)
        self._table = (_WORD * (2 * len(steps)))()
        self._shares = False
        self._crew: _Crew | None = None  # of the last call; a fork has other threads
        self._own = max(step.own for step in steps)
        for k, step in enumerate(steps):
            self.put(k, step)

    def put(self, k: int, step: Parts) -> None:
        """Have another step in place of one."""
        self._steps[k] = step
        self._table[2 * k], self._table[2 * k + 1] = step.count, ctypes.addressof(step.entries)
        self._shares |= step.count > 1 or step.own > 0

    def __call__(self) -> None:
        """Run them; of several threads that run chains one at a time has the crew and its memory.

        Raises the error of the last step where that refuses its operands.
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
    """The same steps with neighbours in chains; and of each step its chain, if any, and its number there or here."""
    result: list[Step] = []
    places: list[Place] = []
    # What may refuse its operands ends a chain: the steps behind it must not run then.
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
    """Put another step where one was that was bound to other arrays."""
    chain, k = place
    if chain is None:
        runs[k] = step
    elif isinstance(step, Parts):
        chain.put(k, step)
    else:
        raise CompileError("a step that was machine code is none with other arrays")
