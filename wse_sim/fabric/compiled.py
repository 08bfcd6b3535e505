"""Decorators that compile the engine's functions, and a record of raw pointers to the arrays of a mesh.

Only the entry point's machine code is cached on disk. Everything that it calls is compiled into it, so `ENGINE_DIGEST`,
a hash of all source files, is part of the cache key.
"""

import hashlib
import os
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from wse_sim.machine_code import kept

# All files that are compiled into the entry point. If one is missing, old machine code stays in use after an edit.
ENGINE_FILES = (
    "isa/record",
    *("fabric/compiled", "fabric/elements", "fabric/router", "fabric/vector_steps", "fabric/core", "fabric/engine"),
)
_PACKAGE = Path(__file__).parent.parent
ENGINE_DIGEST = hashlib.blake2b(b"".join((_PACKAGE / f"{name}.py").read_bytes() for name in ENGINE_FILES)).hexdigest()
"""A hash of the text of all `ENGINE_FILES`."""

MAX_SPINS_BEFORE_YIELD = 2000
"""How often a thread polls a barrier before it yields the processor: about the duration of a cycle of a small mesh."""
_YIELD_FUNCTION = "sched_yield" if os.name == "posix" else "SwitchToThread"

Pointers = namedtuple(
    "Pointers",
    "ints bytes longs floats words halves code entries named constants lanes lists sync "
    "cores width nlanes colours threads mask stride words_per_core depth queued positions queues queue names "
    "ramp_up ramp_down hop turn task_start sweep",
)
"""Pointers to the arrays of a mesh, and its sizes.

`ints`, `bytes` and `longs` point to the records of the cores, and `floats`, `words` and `halves` to their memories, as
different types. The sizes are those of `record.SHAPE_FIELDS`; `mask` is the slots of a queue minus one. Arrays would be
reference-counted in every call, which is seven times as slow.
"""


# Numba's and llvmlite's functions have no type annotations.
_intrinsic: Callable[[Any], Any] = intrinsic
_pointer_type: Callable[[Any], Any] = types.CPointer
_library_function: Callable[..., Any] = cgutils.get_or_insert_function
Int = Any
"""An integer in compiled code: an `int` in Python, a word of 32 or 64 bits in Numba."""
Truth = Any
"""A truth value in compiled code."""
Real = Any
"""A floating-point number in compiled code: float32, or float64 within a library routine."""


def compile_inlined(function: Any) -> Any:
    """Compile a function that only compiled code calls, and let LLVM inline it. A division by zero gives an
    infinity.
    """
    # No wrappers are compiled, since Python does not call it.
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
    return njit(function, error_model="numpy", **options)


def compile_expanded(function: Any) -> Any:
    """Compile a function, and insert its body into its callers before they are compiled.

    Otherwise it would be optimised once for itself and again inside each function above it, which takes most of the
    compile time on the long path from the entry point to a core's operation. A division by zero gives an infinity.
    """
    return njit(function, inline="always", error_model="numpy")


def compile_entry_point(signature: str) -> Callable[[Any], Any]:
    """Return a decorator that compiles the engine's entry point for `signature`, or loads it from the disk cache.

    The compiled function releases the interpreter's lock, so other Python threads run while it does.
    """
    # A division by zero gives an infinity, as in NumPy, since the engine cannot report an exception.
    return kept(signature, identity=ENGINE_DIGEST, nogil=True)


def _make_pointer_cast(element: Any) -> Any:
    """Return a compiled function that converts an address (int64) to a pointer to `element`."""

    def typed(typingctx: Any, address: Any) -> Any:
        def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            # Numba has no public cast from an integer to a pointer.
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return _pointer_type(element)(types.int64), lower

    return _intrinsic(typed)


def _make_bitcast(source: Any, target: Any, llvm: Any) -> Any:
    """Return a compiled function that reinterprets the bits of a `source` value as `target`.

    `llvm` is its LLVM type.
    """

    def typed(typingctx: Any, value: Any) -> Any:
        def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            # Like `ndarray.view` for one value, without going through memory.
            return builder.bitcast(args[0], llvm)

        return target(source), lower

    return _intrinsic(typed)


int32_pointer, int8_pointer, int64_pointer = (
    _make_pointer_cast(types.int32),
    _make_pointer_cast(types.int8),
    _make_pointer_cast(types.int64),
)
float32_pointer, uint16_pointer = _make_pointer_cast(types.float32), _make_pointer_cast(types.uint16)
float_to_bits = _make_bitcast(types.float32, types.int32, ir.IntType(32))
bits_to_float = _make_bitcast(types.int32, types.float32, ir.FloatType())


@_intrinsic
def lowest_set_bit(typingctx: Any, bits: Any) -> Any:
    """Return the index of the lowest bit that is set; `bits` must not be 0."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # The 1 promises that the argument is never 0, which makes it a single machine instruction.
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), lower


@_intrinsic
def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Prefetch, for writing, the cache line of element `index` of `array`, a pointer to int32. No data changes."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, word = ir.IntType(8), ir.IntType(32)
        address = builder.bitcast(builder.gep(args[0], [args[1]]), byte.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), word, word, word])
        function = _library_function(builder.module, kind, "llvm.prefetch.p0")
        # Arguments: for writing (1), highest locality (3), data cache (1).
        builder.call(function, [address, word(1), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(_pointer_type(types.int32), types.int64), lower


@_intrinsic
def _atomic_add(typingctx: Any, address: Any, amount: Any) -> Any:
    """Add `amount` atomically to the int64 word at the pointer `address`, and return its previous value.

    It is sequentially consistent: all threads see earlier writes after it.
    """

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # Sequentially consistent: writes before the barrier have to be visible to all threads after it.
        return builder.atomic_rmw("add", args[0], args[1], "seq_cst")

    return types.int64(_pointer_type(types.int64), types.int64), lower


@_intrinsic
def _yield_processor(typingctx: Any) -> Any:
    """Let another thread run on this processor."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(_library_function(builder.module, kind, _YIELD_FUNCTION), [])
        return context.get_dummy_value()

    return types.void(), lower


@compile_inlined
def wait_at_barrier(sync: Any, threads: Int) -> None:
    """Wait until `threads` threads have called this function, and then reset the barrier for its next use.

    `sync` points to the word that counts arrivals. A thread polls it, and after `MAX_SPINS_BEFORE_YIELD` polls yields
    the processor between them.
    """
    # The lower half counts arrivals, the upper half generations; adding 0 is an atomic load.
    before = _atomic_add(sync, 0)
    generation = before >> 32
    if (_atomic_add(sync, 1) & 0xFFFF) + 1 == threads:
        # The last thread starts the next generation and resets the arrivals, in one atomic addition.
        _atomic_add(sync, (np.int64(1) << 32) - threads)
        return
    spins = 0
    while _atomic_add(sync, 0) >> 32 == generation:
        spins += 1
        if spins > MAX_SPINS_BEFORE_YIELD:
            # With more threads than processors the missing thread may need this processor.
            _yield_processor()


@compile_inlined
def make_pointers(at: np.ndarray, lists: np.ndarray, sync: np.ndarray) -> Pointers:
    """Return the pointers to the arrays of an `EngineState`, and the sizes in its `shape`.

    `at` has the addresses of its arrays in order. `lists` has the bits of cores to visit, and `sync` the words that
    threads share; both are passed as arrays. All arrays must outlive the pointers.
    """
    # In the order of the fields of `Pointers`, several of which are views of one array; `record.SHAPE_FIELDS` names the
    # sizes.
    shape = int32_pointer(at[0])
    return Pointers(
        int32_pointer(at[1]), int8_pointer(at[1]), int64_pointer(at[1]), float32_pointer(at[2]),
        int32_pointer(at[2]), uint16_pointer(at[2]), int32_pointer(at[3]), int32_pointer(at[4]),
        int32_pointer(at[5]), float32_pointer(at[6]), int32_pointer(at[7]), int64_pointer(lists.ctypes.data),
        int64_pointer(sync.ctypes.data),
        np.int64(shape[0]), np.int64(shape[1]), np.int64(shape[2]), np.int64(shape[3]), np.int64(shape[4]),
        np.int64(shape[5] - 1), np.int64(shape[6]), np.int64(shape[7]), np.int64(shape[8] * 4), np.int64(shape[9]),
        np.int64(shape[10]), np.int64(shape[11]), np.int64(shape[12]), np.int64(shape[13]), np.int64(shape[14]),
        np.int64(shape[15]), np.int64(shape[16]), np.int64(shape[17]), np.int64(shape[18]), np.int64(shape[19]),
    )  # fmt: skip
