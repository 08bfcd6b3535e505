"""Strided windows on the elements in order: diagonals, sliding windows, and whatever strides can describe."""

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
    """How many elements lie between neighbours of each dimension when the elements lie in order."""
    out, step = [], 1
    for e in reversed(shape):
        out.append(step)
        # An empty dimension has strides too, those of a dimension of 1, as in PyTorch.
        step *= max(e, 1)
    return tuple(reversed(out))


def _window_type(x: Type, *, size: Dims, stride: Dims, offset: int) -> Type:
    if len(size) != len(stride) or any(s < 0 for s in (*size, *stride)) or offset < 0:
        raise ShapeError(f"a window of size {list(size)}, stride {list(stride)}, offset {offset} does not exist")
    last = offset + sum((e - 1) * s for e, s in zip(size, stride, strict=True))
    if 0 not in size and last >= x.size:
        raise ShapeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset} reach element {last}, "
            f"and there are {x.size}",
            hint="Take a smaller window.",
        )
    return Type(size, x.dtype)


def _window(x: np.ndarray, *, size: Dims, stride: Dims, offset: int) -> np.ndarray:
    if 0 in size:
        return np.empty(size, x.dtype)
    # Strides count elements in order, whatever the memory of x looks like: transposed arrays are copied by this
    # reshape.
    flat = x.reshape(-1)[offset:]
    return np.lib.stride_tricks.as_strided(flat, size, tuple(s * flat.strides[0] for s in stride))


def is_injective(size: Dims, stride: Dims) -> bool:
    """Whether surely no element is seen twice."""
    reach = 0
    # From the shortest stride up, each has to step over all that the shorter ones reach.
    for s, e in sorted((s, e) for s, e in zip(stride, size, strict=True) if e > 1):
        if s <= reach:
            return False
        reach += (e - 1) * s
    return True


def _window_sum(g: np.ndarray, *, shape: Dims, size: Dims, stride: Dims, offset: int) -> np.ndarray:
    out = np.zeros(shape, g.dtype)
    seen = _window(out, size=size, stride=stride, offset=offset)
    if is_injective(size, stride):
        seen[...] = g
        return out
    # The window over the numbers of the elements tells which of them each place sees, and how often.
    places = _window(np.arange(out.size), size=size, stride=stride, offset=offset)
    np.add.at(out.reshape(-1), places, g)
    return out


def _window_as_points(x: Node, *, size: Dims, stride: Dims, offset: int) -> Node | None:
    """The elements by their coordinates, one constant row for each."""
    shape = x.type.shape
    if not shape or 0 in size:
        return None
    places = _window(np.arange(math.prod(shape)), size=size, stride=stride, offset=offset)
    points = np.stack(np.unravel_index(places, shape), -1).astype(np.int32)
    return call("gather_points", x, const(points, Type(points.shape, int32)), sparse_grad=False)


def _put_window(base: np.ndarray, value: np.ndarray, **place: Any) -> np.ndarray:
    # Written through the window, so the copy has to lie in order.
    out = np.array(base, order="C")
    _window(out, **place)[...] = value
    return out


def _put_window_vjp(g: Node, y: Node, base: Node, value: Node, **place: Any) -> tuple[Node, Node]:
    """Exact where the window sees no element twice; elsewhere the last writer of a place wins, as in memory."""
    inner = call("as_strided", g, **place)
    return call("strided_put", g, full_like(0, inner), **place), inner


op(
    # Diagonals come this way. The vendor's front end does not know as_strided itself, which `csx_refused_names`
    # refuses.
    "as_strided",
    _window_type,
    _window,
    vjp=lambda g, y, x, **place: (call("strided_sum", g, shape=x.type.shape, **place),),
    put=lambda base, value, **place: call("strided_put", base, value, **place),
    work=elementwise_work(0),
    cirh=legal_by_decomposition(_window_as_points, "Take slices, or torch.stack of slices for overlapping windows."),
)
op(
    "strided_sum",
    lambda g, *, shape, **place: Type(shape, g.dtype),
    _window_sum,
    vjp=lambda gg, y, g, *, shape, **place: (call("as_strided", gg, **place),),
    work=elementwise_work(1),
    cirh=illegal_with_hint("Take slices, or torch.stack of slices for overlapping windows; their gradient is padding."),
)
op(
    "strided_put",
    lambda base, value, **place: base,
    _put_window,
    vjp=_put_window_vjp,
    work=elementwise_work(0),
    cirh=illegal_with_hint("Write torch.where(mask, new, old), or torch.cat of the parts."),
)
