"""Functions of elements by the machine code of compiled loops, over arrays of any size.

NumPy and compiled loops differ in the last bit of an exponential, a logarithm and their like. A graph that runs one
operation after the other calls these functions, so that its values are those of its compiled program. A kernel is
compiled at its first call and kept on disk; it holds for all sizes.
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
MAX_ELEMENTS = 1 << 31
"""Elements of one call: a kernel counts in 32 bits."""

Element = tuple[DType, float | None]
"""The type of an operand, and its value if that stands in the text of the kernel."""
Function = Callable[..., np.ndarray]


def element_function(n: Node) -> Function:
    """Return a function from the arrays of the operands of a pointwise node to its array, as compiled loops round it.

    Arrays of half types hold float32, rounded to the half type.
    """
    op, floats = OPS[n.op], n.type.dtype.kind == "f" or any(i.type.dtype.kind == "f" for i in n.inputs)
    if not floats or not has_function(n.op):
        return partial(op.eval, **n.attrs) if n.attrs else op.eval
    return partial(_mapped, _kernel(n.op, tuple(n.attrs.items()), tuple(map(_element, n.inputs)), n.type.dtype), n.type)


def _element(n: Node) -> Element:
    # The optimizer of LLVM turns a call of the C library with a constant into simpler ones: of `pow`, for example.
    if n.type.dtype is float64 and is_literal(n):
        return n.type.dtype, float(n.attrs["value"] if n.value is None else n.value.flat[0])
    return n.type.dtype, None


@lru_cache(MAX_KERNELS)
def _kernel(name: str, attrs: tuple[tuple[str, Any], ...], operands: tuple[Element, ...], result: DType) -> Any:
    """The kernel of one operation: (first, last, *operands that are arrays, result)."""
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
    run, chosen = kernel
    out = np.empty(type.shape, type.dtype.host)
    if out.size:
        flat = [in_order(arrays[k]) for k in chosen]
        for first in range(0, out.size, MAX_ELEMENTS):
            run(first, min(first + MAX_ELEMENTS, out.size), *flat, out.reshape(-1))
    return out


def in_order(array: np.ndarray) -> np.ndarray:
    """The elements of an array in one dimension, in order; a copy if they have another order in memory."""
    return np.asarray(array, order="C").reshape(-1)
