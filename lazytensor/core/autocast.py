"""Automatic casts: matrix products run in a half type, losses in float32.

The casts are inserted when an operation is recorded, not by a compiler pass. Scripts therefore see the same dtypes as
on the system (for example, the output of a linear layer is float16), and gradients are cast by the rule of the cast
operation. No casts are made unless a half type is set; the wafer backend sets one while it traces.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lazytensor.core.dtype import DType, cbfloat16, float16, float32
from lazytensor.ir.graph import Node, is_recorded_separately
from lazytensor.ops.elementwise import cast
from lazytensor.ops.op import call


class _AutocastState(threading.local):
    """The half types that are active in each thread, as in PyTorch:

    `half` for the wafer's casts, `host` for PyTorch's.
    """

    half: DType | None = None
    host: DType | None = None


autocast_state = _AutocastState()


def half_type() -> DType | None:
    """Return the type for matrix products, or None if no automatic casts are active."""
    return autocast_state.half


@contextmanager
def autocast(half: DType | None) -> Iterator[None]:
    """Enable automatic casts to `half` in the block; None disables them."""
    before, autocast_state.half = autocast_state.half, half
    try:
        yield
    finally:
        autocast_state.half = before


def host_half_type() -> DType | None:
    """Return the type for layer products inside `torch.autocast("cpu")`, or None outside."""
    return autocast_state.host


@contextmanager
def host_autocast(half: DType | None) -> Iterator[None]:
    """Enable PyTorch's casts for the CPU in the block, for layer products and losses only; None disables them."""
    before, autocast_state.host = autocast_state.host, half
    try:
        yield
    finally:
        autocast_state.host = before


def convert_operand(x: Node, dtype: DType) -> Node:
    """Return `x` converted to `dtype`, as an operand of an operation; `x` itself if it has that type.

    While the wafer's casts are active (`autocast`), the cast is mostly the operation "convert" instead of "cast", so
    that the gradients of several uses of `x` are added in the type of `x`.
    """
    if x.type.dtype is dtype:
        return x
    is_shared = autocast_state.half is not None and not is_recorded_separately(x)
    return call("convert", x, dtype=dtype) if is_shared else cast(x, dtype)


def cast_to_half(*nodes: Node) -> tuple[Node, ...]:
    """Return the operands of a matrix product, with float32 ones cast to the active half type.

    If no half type is active, they are unchanged. If the half type is cbfloat16, float16 operands are cast to it too.
    Operands of other types, such as float64 or integers, are never cast.
    """
    # Without automatic casts operands stay unchanged, because PyTorch on the CPU does not convert mixed types either.
    half = autocast_state.half
    if half is None:
        return nodes
    # PyTorch has no cbfloat16, so scripts use float16 tensors for it.
    widths = (float32, float16) if half is cbfloat16 else (float32,)
    return tuple([convert_operand(n, half) if n.type.dtype in widths else n for n in nodes])


def cast_layer_operands(*nodes: Node) -> tuple[Node, ...]:
    """Return the operands of a layer's product, cast to the active half type.

    Inside `host_autocast` (PyTorch's `torch.autocast("cpu")`), float32 and half types are cast to the type of that
    block; float64 and integers are unchanged. Otherwise the casts are those of `cast_to_half`.
    """
    host = autocast_state.host
    if host is None:
        return nodes if autocast_state.half is None else cast_to_half(*nodes)
    # The other half type is cast too; float64 is not.
    return tuple(cast(n, host) if n.type.dtype is float32 or n.type.dtype.is_half else n for n in nodes)


def cast_to_float32(*nodes: Node) -> tuple[Node, ...]:
    """Return the operands of a loss with half types cast to float32; other types are unchanged.

    All are unchanged if neither the wafer's casts (`autocast`) nor PyTorch's (`host_autocast`) are active.
    """
    if autocast_state.half is None and autocast_state.host is None:
        return nodes
    return tuple(convert_operand(n, float32) if n.type.dtype.is_half else n for n in nodes)
