"""Binders: functions from the arrays of an instruction's operands to the steps that run it.

An instruction is run by a loop nest compiled for it, by a compiled routine of this package, by BLAS in parts, or by
NumPy.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lazytensor import config
from lazytensor.compiler.codegen import distinct_slots, generate, thread_parts
from lazytensor.core.dtype import DType, float32
from lazytensor.errors import CompileError
from lazytensor.ir.nest import Nest, Scalar, elementwise_nest, rebase_to_first_elements
from lazytensor.ir.nest_reference import evaluate
from lazytensor.ir.program import Instr, Program
from lazytensor.ir.types import Type
from lazytensor.kernels import BY_NAME
from lazytensor.kernels.loop_parts import Bounds
from lazytensor.kernels.matmul import MATMUL
from lazytensor.kernels.routine import Routine
from lazytensor.kernels.routines import routine_of
from lazytensor.ops.op import OPS
from lazytensor.runtime import blas, instruction_timing, jit, schedule, thread_pool

Step = Callable[[], object]
Bind = Callable[[list[np.ndarray]], list[Step]]
Compiled = dict[tuple[int, tuple[int, ...]], tuple[Nest, Bind]]
"""Compiled nests, by the identity of the nest and the slots of its operands."""


def timed(bind: Bind, instr: Instr, program: Program) -> Bind:
    """Return `bind` itself, or inside `instruction_timing.follow()` a binder whose steps also record their time.

    A binder is a function from the arrays of an instruction's operands to the steps (functions) that run it.
    """
    timings = instruction_timing.current()
    if timings is None:
        return bind
    way = _way(instr, program)
    return lambda arrays: [timings.timed(step, instr, way) for step in bind(arrays)]


def _way(instr: Instr, program: Program) -> str:
    """Return what runs an instruction: "machine code", "BLAS" or "NumPy". With LT_JIT=0 it is never machine code."""
    kernel = BY_NAME.get(instr.kernel)
    if config.current().jit:
        types = [tuple(program.buffers[b].type for b in side) for side in (instr.writes, instr.reads)]
        text = kernel.source(instr.attrs, *types) if kernel is not None and kernel.source is not None else ""
        if instr.nest is not None or text or _routine(instr, *types) is not None:
            return "machine code"
    return "BLAS" if kernel is not None and kernel.cut is not None else instruction_timing.NUMPY


def binder(instr: Instr, program: Program, compiled: Compiled) -> Bind:
    """Return a function from the arrays of an instruction's operands (inputs, then results) to the steps that run it.

    `compiled` is a cache of compiled nests, to which the function adds. Raise CompileError if the host has no such
    kernel.
    """
    if instr.nest is not None:
        return _nest_binder(instr.nest, (*instr.reads, *instr.writes), compiled)
    ins = tuple(program.buffers[b].type for b in instr.reads)
    outs = tuple(program.buffers[b].type for b in instr.writes)
    return kernel_binder(instr, outs, ins, compiled)


def kernel_binder(
    instr: Instr, outs: tuple[Type, ...], ins: tuple[Type, ...], compiled: Compiled, is_general: bool = False
) -> Bind:
    """Return a function from the arrays of the operands (inputs, then results) to the steps that run a library kernel.

    `outs` and `ins` are the types of the results and inputs. If `is_general`, no machine code is compiled for the
    shapes of the operands; the bits of the results are the same. Results of half types are rounded in place by a
    further step. Raise CompileError if the host has no such kernel.
    """
    if instr.kernel not in BY_NAME:
        raise CompileError(
            f"the host has no kernel {instr.kernel}",
            where=instr.where,
            hint="Report it as a bug of the compiler, with the output of LT_DEBUG=2.",
        )
    kernel = BY_NAME[instr.kernel]
    # BLAS and NumPy compute half types in float32, so their results have to be rounded.
    rounders = [_rounder(t, k + len(ins), compiled) for k, t in enumerate(outs) if t.dtype.is_half]
    routine = _routine(instr, outs, ins)
    has_text = kernel.source is not None and config.current().jit and not is_general
    text = kernel.source(instr.attrs, outs, ins) if has_text else ""  # type: ignore[misc]
    if routine is not None:
        loaded = replace(routine, is_special=False) if routine.is_special and is_general else routine
        code, work = jit.load_routine(loaded), routine
        first: Bind = partial(_routine_steps, code, work)
    elif text:
        function = jit.load(text)
        bounds = kernel.parts(instr.attrs, outs, ins) if kernel.parts is not None else ()
        first = partial(_shared_steps, function, bounds, [(k, 0) for k in range(len(ins) + len(outs))])
    elif kernel.cut is not None:
        first = partial(_cut_steps, kernel.cut, instr.attrs, len(ins))
    else:
        first = partial(_library_steps, kernel.bind, instr.attrs, len(ins))
    return lambda arrays: [*first(arrays), *(step for r in rounders for step in r(arrays))]


def _routine(instr: Instr, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the compiled routine for an instruction, or None if there is none for it or if LT_JIT=0.

    A matrix product has one only if BLAS has kernels for small matrices (AVX-512).
    """
    # The routine for matmul pays only with AVX-512: on other processors BLAS is as fast.
    is_ours = config.current().jit and (instr.kernel != MATMUL.name or blas.has_small_kernels())
    return routine_of(instr, outs, ins) if is_ours else None


def _routine_steps(code: Any, work: Routine, arrays: list[np.ndarray]) -> list[Step]:
    """Return the steps of a routine over `arrays`, flattened."""
    flat = tuple(a.reshape(-1) for a in arrays)
    return schedule.routine(code, work, flat)


def _cut_steps(cut: Any, attrs: Any, count: int, arrays: list[np.ndarray]) -> list[Step]:
    """Return a product cut into parts of BLAS as one step. With LT_JIT=0 Python threads run the parts.

    `cut` is that of `Kernel`, and the first `count` of `arrays` are inputs.
    """
    parts = cut(attrs, tuple(arrays[count:]), tuple(arrays[:count]))
    run = _run_of(parts)
    if not config.current().jit:
        return [run]
    return [schedule.shared([schedule.product(*p.args) for p in parts], (0, 1, count), run)]


def _run_of(parts: list[Any]) -> Step:
    """Return the only one of `parts`, or a function that runs them all, shared by Python threads."""
    if len(parts) == 1:
        return parts[0]  # type: ignore[no-any-return]
    return partial(thread_pool.team().share, lambda part, thread: parts[part](), len(parts))


def _library_steps(bind: Any, attrs: Any, count: int, arrays: list[np.ndarray]) -> list[Step]:
    """Return the NumPy function of a kernel, bound to its attributes and arrays, as one step."""
    return [bind(attrs, tuple(arrays[count:]), tuple(arrays[:count]))]


def _nest_binder(nest: Nest, operands: tuple[int, ...], compiled: Compiled) -> Bind:
    """Return the binder of a loop nest, and add it to the cache `compiled`. With LT_JIT=0 the nest is interpreted.

    `operands` are the buffers of inputs and results; equal buffers become one argument of the compiled function.
    """
    if not config.current().jit:
        count = len(nest.inputs)
        return lambda arrays: [partial(evaluate, nest, arrays[:count], arrays[count:], _meaning)]
    slots = distinct_slots(operands)
    # Equal layers share one nest object. The cache keeps the nest alive, so that its id is not reused.
    if (id(nest), slots) not in compiled:
        moved, starts = rebase_to_first_elements(nest, slots)
        # For each argument of the compiled function: the first operand that is this buffer, and the first element.
        first = [(slots.index(k), start) for k, start in enumerate(starts)]
        bind = partial(_shared_steps, jit.load(generate(moved, slots)), thread_parts(moved), first)
        compiled[id(nest), slots] = nest, bind
    return compiled[id(nest), slots][1]


def _shared_steps(
    function: Any, bounds: Bounds, order: Sequence[tuple[int, int]], arrays: list[np.ndarray]
) -> list[Step]:
    """Return a list of the one step that runs a compiled loop, cut at `bounds` into parts for the thread pool.

    `bounds` has (first, end) of each part; if it is empty, one call runs the whole loop. `order` gives for each array
    argument of `function` the index of its array and the first element to pass.
    """
    flat = tuple(arrays[k].reshape(-1)[start:] for k, start in order)
    runs = function.bound_parts(bounds or ((),), flat)
    return [schedule.shared(runs, [k for k, _ in order], _run_of(runs))]


def _meaning(op: str, attrs: Any) -> Callable[..., Any]:
    return partial(OPS[op].eval, **attrs) if attrs else OPS[op].eval


def _rounder(type: Type, position: int, compiled: Compiled) -> Bind:
    """Return a binder that rounds the result of a library kernel in place to its half type.

    A binder is a function from arrays to steps. `position` is the index of the result among the operands. `compiled` is
    the cache of compiled nests.
    """
    nest = _rounding_nest(type.size, type.dtype)
    bind = _nest_binder(nest, (0, 0), compiled)

    def rounded(arrays: list[np.ndarray]) -> list[Step]:
        steps = bind([arrays[position], arrays[position]])
        for step in steps:
            if isinstance(step, schedule.Parts):
                step.operands = [position] * len(step.operands)
        return steps

    return rounded


def _rounding_nest(size: int, dtype: DType) -> Nest:
    """Return the nest that rounds `size` float32 elements to a half type."""
    # The load is declared float32, so that the conversion to the half type is one that rounds.
    body = (Scalar("load", float32, (), 0), Scalar("cast", dtype, (0,), unit="move"))
    return elementwise_nest("round", Type((size,), dtype), body)
