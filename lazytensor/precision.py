"""Automatic casts: which operations run in the half type and which in float32.

The casts are made where an operation is recorded, not by a later pass over the graph: the script then sees the dtype
that it would see on the system (the logits of a linear layer are float16), and the casts of the gradient follow from
the gradient of a cast. Off unless a half type is set; the wafer backend sets one while it traces.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lazytensor.dtype import DType, cbfloat16, float16, float32
from lazytensor.ir.graph import Node, is_apart
from lazytensor.ops.elementwise import cast
from lazytensor.ops.op import call


class _Casts(threading.local):
    """The casts of each thread, as in PyTorch. Every recorded operation reads them, and no argument goes that deep."""

    half: DType | None = None
    host: DType | None = None  # what products run in where a script asks for PyTorch's casts on a CPU


_casts = _Casts()


def half_type() -> DType | None:
    """The type that matrix products run in, or None while no casts are made."""
    return _casts.half


@contextmanager
def autocast(half: DType | None) -> Iterator[None]:
    """Make casts to `half` in the block; None switches them off."""
    before, _casts.half = _casts.half, half
    try:
        yield
    finally:
        _casts.half = before


def host_half_type() -> DType | None:
    """The type of products inside of `torch.autocast("cpu")`, or None outside."""
    return _casts.host


@contextmanager
def host_autocast(half: DType | None) -> Iterator[None]:
    """Make PyTorch's casts on a CPU in the block: of products and losses alone; None switches them off."""
    before, _casts.host = _casts.host, half
    try:
        yield
    finally:
        _casts.host = before


def converted(x: Node, dtype: DType) -> Node:
    """Return x in the type that an operation takes it in; the same node if it has that type already.

    While automatic casts are made, each call has a cast of its own: gradients of calls are added in the type of x.
    """
    if x.type.dtype is dtype:
        return x
    is_shared = _casts.half is not None and not is_apart(x)
    return call("convert", x, dtype=dtype) if is_shared else cast(x, dtype)


def lowered(*nodes: Node) -> tuple[Node, ...]:
    """The operands of a matrix product: float32 becomes the half type."""
    # Off means untouched, not "to float32": what a script mixes on the CPU has to stay as PyTorch leaves it.
    half = _casts.half
    if half is None:
        return nodes
    # PyTorch has no cbfloat16: with that half type float16 tensors stand for it.
    widths = (float32, float16) if half is cbfloat16 else (float32,)
    return tuple([converted(n, half) if n.type.dtype in widths else n for n in nodes])


def multiplied(*nodes: Node) -> tuple[Node, ...]:
    """The operands of a layer's product: as `lowered`, and inside of PyTorch's casts on a CPU in their type."""
    host = _casts.host
    if host is None:
        return nodes if _casts.half is None else lowered(*nodes)
    # The other half type is cast too, and double is left alone.
    return tuple(cast(n, host) if n.type.dtype is float32 or n.type.dtype.is_half else n for n in nodes)


def raised(*nodes: Node) -> tuple[Node, ...]:
    """The operands of a loss: half types become float32."""
    if _casts.half is None and _casts.host is None:
        return nodes
    return tuple(converted(n, float32) if n.type.dtype.is_half else n for n in nodes)
