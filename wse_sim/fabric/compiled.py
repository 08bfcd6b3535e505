"""How the engine is compiled: pointers to the arrays of a mesh, and the decorators of its functions.

Only the entry point is kept on disk; what it calls is compiled into it, so `ENGINE_DIGEST` of all files is part of its
name.
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

# Everything that ends up inside the entry points. A file that is missing here would leave old machine code in use after
# an edit.
ENGINE_FILES = (
    "isa/record",
    *("fabric/compiled", "fabric/elements", "fabric/router", "fabric/vector_steps", "fabric/core", "fabric/engine"),
)
_PACKAGE = Path(__file__).parent.parent
ENGINE_DIGEST = hashlib.blake2b(b"".join((_PACKAGE / f"{name}.py").read_bytes() for name in ENGINE_FILES)).hexdigest()

MAX_SPINS_BEFORE_YIELD = 2000
"""How often a thread asks for the others before it gives way: about as long as a cycle of a small mesh takes."""
_YIELD_FUNCTION = "sched_yield" if os.name == "posix" else "SwitchToThread"

Pointers = namedtuple(
    "Pointers",
    "ints bytes longs floats words halves code entries named constants lanes lists sync "
    "cores width nlanes colours threads mask stride words_per_core depth queued positions queues queue names "
    "ramp hop turn task_start sweep",
)
"""Where the arrays of a mesh lie, and its sizes. As arrays they would be counted in every call: seven times as slow.

`ints`, `bytes` and `longs` are the records of the cores, `floats`, `words` and `halves` their memories.
"""


# Numba's and llvmlite's own interfaces are not typed; what this file makes of them is.
_intrinsic: Callable[[Any], Any] = intrinsic
_pointer_type: Callable[[Any], Any] = types.CPointer
_library_function: Callable[..., Any] = cgutils.get_or_insert_function
Int = Any
"""A whole number in compiled code: an int to a reader, a word of 32 or 64 bits to Numba."""
Truth = Any
"""What compiled code takes as true or not."""
Real = Any
"""A number with a fraction in compiled code: float32, and float64 within a library routine."""


def compile_inlined(function: Any) -> Any:
    """Compile a function that only the engine calls."""
    # Nobody calls a leaf from Python, so its wrappers would be compiled for nothing.
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
    return njit(function, error_model="numpy", **options)


def compile_expanded(function: Any) -> Any:
    """Put the text of a function into its callers before they are compiled.

    A leaf is optimised once for itself and again inside each function above it; on the long way from the entry point
    down to a core's operation that would take most of the time of compiling.
    """
    return njit(function, inline="always", error_model="numpy")


def compile_entry_point(signature: str) -> Callable[[Any], Any]:
    """Compile an entry point, or load it. It lets other threads run."""
    # A division by zero gives an infinity, as in NumPy, and not an exception that the engine could not report.
    return kept(signature, identity=ENGINE_DIGEST, nogil=True)


def _make_pointer_cast(element: Any) -> Any:
    """A function from an address to a pointer to `element`."""

    def typed(typingctx: Any, address: Any) -> Any:
        def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            # Numba has no cast from a number to a pointer in its public interface.
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return _pointer_type(element)(types.int64), lower

    return _intrinsic(typed)


def _make_bitcast(source: Any, target: Any, llvm: Any) -> Any:
    """A function that reads the bits of one type as another."""

    def typed(typingctx: Any, value: Any) -> Any:
        def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            # As `ndarray.view`, for one value and without a detour through memory.
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
    """The number of the lowest bit that is set."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # The 1 says that the argument is never 0: then it is a single machine instruction.
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), lower


@_intrinsic
def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Ask for the line of the processor's cache in which an element of an array of int32 lies."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, word = ir.IntType(8), ir.IntType(32)
        address = builder.bitcast(builder.gep(args[0], [args[1]]), byte.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), word, word, word])
        function = _library_function(builder.module, kind, "llvm.prefetch.p0")
        # To write (1), with the highest locality (3), into the data cache (1).
        builder.call(function, [address, word(1), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(_pointer_type(types.int32), types.int64), lower


@_intrinsic
def _atomic_add(typingctx: Any, address: Any, amount: Any) -> Any:
    """Add to a word that threads share. Returns what it was."""

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        # Sequentially consistent: what a thread wrote before it arrived has to be visible to all that pass the barrier.
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
    """Wait until all threads are here. `sync` has their number, and on another line how often they met."""
    # The lower half counts arrivals, the upper half generations; adding 0 is an atomic load.
    before = _atomic_add(sync, 0)
    generation = before >> 32
    if (_atomic_add(sync, 1) & 0xFFFF) + 1 == threads:
        # The last one opens the next generation and takes the arrivals back, in one addition that nobody can see half
        # done.
        _atomic_add(sync, (np.int64(1) << 32) - threads)
        return
    spins = 0
    while _atomic_add(sync, 0) >> 32 == generation:
        spins += 1
        if spins > MAX_SPINS_BEFORE_YIELD:
            # With more threads than processors the missing one may need this very processor.
            _yield_processor()


@compile_inlined
def make_pointers(at: np.ndarray, lists: np.ndarray, sync: np.ndarray) -> Pointers:
    """`at` has the addresses of the arrays of a State, in their order; the others come as arrays."""
    # The order is that of the fields of `Pointers`, of which several are views of one array; `record.SHAPE_FIELDS`
    # names the sizes.
    shape = int32_pointer(at[0])
    return Pointers(
        int32_pointer(at[1]), int8_pointer(at[1]), int64_pointer(at[1]), float32_pointer(at[2]),
        int32_pointer(at[2]), uint16_pointer(at[2]), int32_pointer(at[3]), int32_pointer(at[4]),
        int32_pointer(at[5]), float32_pointer(at[6]), int32_pointer(at[7]), int64_pointer(lists.ctypes.data),
        int64_pointer(sync.ctypes.data),
        np.int64(shape[0]), np.int64(shape[1]), np.int64(shape[2]), np.int64(shape[3]), np.int64(shape[4]),
        np.int64(shape[5] - 1), np.int64(shape[6]), np.int64(shape[7]), np.int64(shape[8] * 4), np.int64(shape[9]),
        np.int64(shape[10]), np.int64(shape[11]), np.int64(shape[12]), np.int64(shape[13]), np.int64(shape[14]),
        np.int64(shape[15]), np.int64(shape[16]), np.int64(shape[17]), np.int64(shape[18]),
    )  # fmt: skip
