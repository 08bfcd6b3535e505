"""Automatic casts: which operations run in the half type and which in float32.

The casts are made where an operation is recorded, not by a later pass over the graph: the script then sees the dtype
that it would see on the system (the logits of a linear layer are float16), and the casts of the gradient follow from
the gradient of a cast. Off unless a half type is set; the wafer backend sets one while it traces.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lazytensor.core.dtype import DType, cbfloat16, float16, float32
from lazytensor.ir.graph import Node, is_recorded_separately
from lazytensor.ops.elementwise import cast
from lazytensor.ops.op import call


class _AutocastState(threading.local):
    """The casts of each thread, as in PyTorch. Every recorded operation reads them, and no argument goes that deep."""

    half: DType | None = None
    host: DType | None = None  # what products run in where a script asks for PyTorch's casts on a CPU


_autocast_state = _AutocastState()


def half_type() -> DType | None:
    """The type that matrix products run in, or None while no casts are made."""
    return _autocast_state.half


@contextmanager
def autocast(half: DType | None) -> Iterator[None]:
    """Make casts to `half` in the block; None switches them off."""
    before, _autocast_state.half = _autocast_state.half, half
    try:
        yield
    finally:
        _autocast_state.half = before


def host_half_type() -> DType | None:
    """The type of products inside of `torch.autocast("cpu")`, or None outside."""
    return _autocast_state.host


@contextmanager
def host_autocast(half: DType | None) -> Iterator[None]:
    """Make PyTorch's casts on a CPU in the block: of products and losses alone; None switches them off."""
    before, _autocast_state.host = _autocast_state.host, half
    try:
        yield
    finally:
        _autocast_state.host = before


def convert_operand(x: Node, dtype: DType) -> Node:
    """Return x in the type that an operation takes it in; the same node if it has that type already.

    While automatic casts are made, each call has a cast of its own: gradients of calls are added in the type of x.
    """
    if x.type.dtype is dtype:
        return x
    is_shared = _autocast_state.half is not None and not is_recorded_separately(x)
    return call("convert", x, dtype=dtype) if is_shared else cast(x, dtype)


def cast_to_half(*nodes: Node) -> tuple[Node, ...]:
    """The operands of a matrix product: float32 becomes the half type."""
    # Off means untouched, not "to float32": what a script mixes on the CPU has to stay as PyTorch leaves it.
    half = _autocast_state.half
    if half is None:
        return nodes
    # PyTorch has no cbfloat16: with that half type float16 tensors stand for it.
    widths = (float32, float16) if half is cbfloat16 else (float32,)
    return tuple([convert_operand(n, half) if n.type.dtype in widths else n for n in nodes])


def cast_layer_operands(*nodes: Node) -> tuple[Node, ...]:
    """The operands of a layer's product: as `cast_to_half`, and inside of PyTorch's casts on a CPU in their type."""
    host = _autocast_state.host
    if host is None:
        return nodes if _autocast_state.half is None else cast_to_half(*nodes)
    # The other half type is cast too, and double is left alone.
    return tuple(cast(n, host) if n.type.dtype is float32 or n.type.dtype.is_half else n for n in nodes)


def cast_to_float32(*nodes: Node) -> tuple[Node, ...]:
    """The operands of a loss: half types become float32."""
    if _autocast_state.half is None and _autocast_state.host is None:
        return nodes
    return tuple(convert_operand(n, float32) if n.type.dtype.is_half else n for n in nodes)
