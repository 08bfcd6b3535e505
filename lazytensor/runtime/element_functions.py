"""Elementwise functions by the machine code of compiled loops, over arrays of any size.

NumPy and compiled loops differ in the last bit of an exponential, a logarithm and similar functions. Graphs that run
one operation after the other call these functions, so that their values equal those of the compiled program. A kernel
is compiled at its first call and kept on disk; it works for all sizes.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from lazytensor.compiler.codegen import generate
from lazytensor.compiler.scalar_bodies import has_function, is_literal
from lazytensor.core.dtype import DType, float64
from lazytensor.ir.graph import Node
from lazytensor.ir.nest import Access, Loop, Nest, NestStore, Scalar
from lazytensor.ir.operation import OPS
from lazytensor.ir.types import Type
from lazytensor.runtime import jit

MAX_KERNELS = 1024
"""Maximum number of compiled kernels that are kept in memory."""
MAX_ELEMENTS = 1 << 31
"""Maximum number of elements in one kernel call, because a kernel counts elements in 32 bits."""

Element = tuple[DType, float | None]
"""The dtype of an operand, and its value if the value is part of the kernel's text (None for an array operand)."""
Function = Callable[..., np.ndarray]


def element_function(n: Node) -> Function:
    """Return a function that computes a pointwise node from the arrays of its operands, with the bits of compiled
    loops.

    Arrays of half types hold float32 values that are rounded to the half type; the returned function does not round its
    result. Without a floating-point operand or result, or for an operation that compiles to no function call, return
    NumPy's function.
    """
    op, floats = OPS[n.op], n.type.dtype.kind == "f" or any(i.type.dtype.kind == "f" for i in n.inputs)
    if not floats or not has_function(n.op):
        return partial(op.eval, **n.attrs) if n.attrs else op.eval
    return partial(_mapped, _kernel(n.op, tuple(n.attrs.items()), tuple(map(_element, n.inputs)), n.type.dtype), n.type)


def _element(n: Node) -> Element:
    # A float64 constant is part of the kernel's text, as in compiled loops: LLVM's optimizer simplifies calls of the C
    # library with constants, for example of `pow`.
    if n.type.dtype is float64 and is_literal(n):
        return n.type.dtype, float(n.attrs["value"] if n.value is None else n.value.flat[0])
    return n.type.dtype, None


@lru_cache(MAX_KERNELS)
def _kernel(name: str, attrs: tuple[tuple[str, Any], ...], operands: tuple[Element, ...], result: DType) -> Any:
    """Return (kernel, indices): the compiled kernel (first, last, *array operands, result) of one operation, and the
    indices of the operands that are arrays.

    An operand with a number is a constant of the kernel's text. Kernels are cached.
    """
    body: list[Scalar] = []
    inputs: list[Type] = []
    for dtype, value in operands:
        body.append(Scalar("load", dtype, (), len(inputs)) if value is None else Scalar("const", dtype, (), value))
        inputs += [Type((1,), dtype)] if value is None else []
    body.append(Scalar(name, result, tuple(range(len(body))), dict(attrs) or None, "special"))
    in_order = Access((1,))
    nest = Nest(
        name=name,
        loops=(Loop("i0", 1),),
        inputs=tuple(inputs),
        outputs=(Type((1,), result),),
        reads=(in_order,) * len(inputs),
        writes=(in_order,),
        body=tuple(body),
        stores=(NestStore(0, len(body) - 1),),
    )
    chosen = tuple(k for k, (_, value) in enumerate(operands) if value is None)
    return jit.load(generate(nest, is_cut=True)), chosen


def _mapped(kernel: tuple[Any, Sequence[int]], type: Type, *arrays: np.ndarray) -> np.ndarray:
    """Apply a kernel to arrays and return a new array of `type`'s shape and host dtype.

    `kernel` is the result of `_kernel`: the function and the indices of the arrays that it takes. A large array is
    computed in pieces.
    """
    run, chosen = kernel
    out = np.empty(type.shape, type.dtype.host)
    if out.size:
        flat = [in_order(arrays[k]) for k in chosen]
        for first in range(0, out.size, MAX_ELEMENTS):
            run(first, min(first + MAX_ELEMENTS, out.size), *flat, out.reshape(-1))
    return out


def in_order(array: np.ndarray) -> np.ndarray:
    """Return the elements of an array as one dimension in C order; a copy only if the memory order differs."""
    return np.asarray(array, order="C").reshape(-1)
