"""Strided windows (as_strided): diagonals, sliding windows, and any view that strides describe."""

import math
from typing import Any

import numpy as np

from lazytensor.core.dtype import int32
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import elementwise_work, illegal_with_hint, legal_by_decomposition
from lazytensor.ir.types import Type
from lazytensor.ops.op import call, const, full_like, op

Dims = tuple[int, ...]


def contiguous_strides(shape: Dims) -> Dims:
    """Return the strides, in elements, of a contiguous array. A dimension of extent 0 counts as 1, as in PyTorch."""
    out, step = [], 1
    for e in reversed(shape):
        out.append(step)
        # A dimension of extent 0 counts as 1, as in PyTorch.
        step *= max(e, 1)
    return tuple(reversed(out))


def _window_type(x: Type, *, size: Dims, stride: Dims, offset: int) -> Type:
    if len(size) != len(stride) or any(s < 0 for s in (*size, *stride)) or offset < 0:
        raise ShapeError(
            f"a window with size {list(size)}, stride {list(stride)} and offset {offset} is invalid",
            hint="Pass a size and strides of at least 0 that stay within the storage.",
        )
    last = offset + sum((e - 1) * s for e, s in zip(size, stride, strict=True))
    if 0 not in size and last >= x.size:
        raise ShapeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset} reach element "
            f"{last}, but there are {x.size}",
            hint="Use a smaller window.",
        )
    return Type(size, x.dtype)


def _window(x: np.ndarray, *, size: Dims, stride: Dims, offset: int) -> np.ndarray:
    if 0 in size:
        return np.empty(size, x.dtype)
    # Strides refer to the elements in row-major order. If x is not contiguous, this reshape copies it.
    flat = x.reshape(-1)[offset:]
    return np.lib.stride_tricks.as_strided(flat, size, tuple(s * flat.strides[0] for s in stride))


def is_injective(size: Dims, stride: Dims) -> bool:
    """Return whether no element can appear twice in a window. False means that one may, since the test is
    conservative.
    """
    reach = 0
    # In ascending order, each stride must exceed the reach of the shorter ones.
    for s, e in sorted((s, e) for s, e in zip(stride, size, strict=True) if e > 1):
        if s <= reach:
            return False
        reach += (e - 1) * s
    return True


def _window_sum(g: np.ndarray, *, shape: Dims, size: Dims, stride: Dims, offset: int) -> np.ndarray:
    """Return the gradient of a window: an array of `shape` to which each element of g is added where the window reads.

    `size`, `stride` and `offset` describe the window, in elements.
    """
    out = np.zeros(shape, g.dtype)
    seen = _window(out, size=size, stride=stride, offset=offset)
    if is_injective(size, stride):
        seen[...] = g
        return out
    # A window over element numbers gives the element of each place.
    places = _window(np.arange(out.size), size=size, stride=stride, offset=offset)
    np.add.at(out.reshape(-1), places, g)
    return out


def _window_as_points(x: Node, *, size: Dims, stride: Dims, offset: int) -> Node | None:
    """Return the window as a "gather_points" with a constant of the int32 coordinates of each element.

    Return None for a 0-d operand or an empty window.
    """
    shape = x.type.shape
    if not shape or 0 in size:
        return None
    places = _window(np.arange(math.prod(shape)), size=size, stride=stride, offset=offset)
    points = np.stack(np.unravel_index(places, shape), -1).astype(np.int32)
    return call("gather_points", x, const(points, Type(points.shape, int32)), sparse_grad=False)


def _put_window(base: np.ndarray, value: np.ndarray, **place: Any) -> np.ndarray:
    # The window is a view of the copy, which therefore has to be contiguous.
    out = np.array(base, order="C")
    _window(out, **place)[...] = value
    return out


def _put_window_vjp(g: Node, y: Node, base: Node, value: Node, **place: Any) -> tuple[Node, Node]:
    """Gradient rule of a write through a window.

    It is exact if no element appears twice; otherwise the last write wins.
    """
    inner = call("as_strided", g, **place)
    return call("strided_put", g, full_like(0, inner), **place), inner


op(
    # Diagonals use this operation. The vendor's front end does not have as_strided, so `csx_refused_names` refuses it.
    "as_strided",
    _window_type,
    _window,
    vjp=lambda g, y, x, **place: (call("strided_sum", g, shape=x.type.shape, **place),),
    put=lambda base, value, **place: call("strided_put", base, value, **place),
    work=elementwise_work(0),
    cirh=legal_by_decomposition(_window_as_points, "Use slices, or torch.stack of slices for overlapping windows."),
)
op(
    "strided_sum",
    lambda g, *, shape, **place: Type(shape, g.dtype),
    _window_sum,
    vjp=lambda gg, y, g, *, shape, **place: (call("as_strided", gg, **place),),
    work=elementwise_work(1),
    cirh=illegal_with_hint("Use slices, or torch.stack of slices for overlapping windows; their gradient is padding."),
)
op(
    "strided_put",
    lambda base, value, **place: base,
    _put_window,
    vjp=_put_window_vjp,
    work=elementwise_work(0),
    cirh=illegal_with_hint("Write torch.where(mask, new, old), or torch.cat of the parts."),
)
