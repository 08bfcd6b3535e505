"""Views whose elements overlap: writes to windows that see an element several times, and operands that are written to.

The layout of a view is that of an array of one byte for each element of the storage, seen through the same lens.
"""

from typing import Any, TypeAlias

import numpy as np

from lazytensor import source
from lazytensor.dtype import int64
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type
from lazytensor.ops import OPS, call, const
from lazytensor.ops.index import place
from lazytensor.ops.strided import is_injective, order_strides

Tensor: TypeAlias = Any
"""A `lazytensor.tensor.Tensor`, whose module is built on this one."""


def through(array: np.ndarray, t: Tensor) -> np.ndarray:
    """Return what an array in the shape of a storage shows through the lens of a tensor."""
    for name, attrs in t.lens:
        array = OPS[name].eval(array, **dict(attrs))
    return array


def has_repeats(t: Tensor) -> bool:
    """Return whether a view in the lens of a tensor may see an element of the storage several times."""
    for name, attrs in t.lens:
        if name == "broadcast_in_dim":
            return True
        if name == "as_strided" and not is_injective(dict(attrs)["size"], dict(attrs)["stride"]):
            return True
    return False


def written(t: Tensor, base: Node, value: Node) -> Node | None:
    """Return `base`, the value of the storage of `t`, with `value` at the elements that `t` shows.

    Return None if the lens has no view that sees elements several times, or if all of them get one value. Raises
    ShapeError if `t` shows an element several times, unless all of them get one value.
    """
    if not has_repeats(t):
        return None
    size = base.type.size
    places = through(np.arange(size).reshape(base.type.shape), t).reshape(-1)
    if np.unique(places).size != places.size:
        if value.op == "full" and t.lens[-1][0] == "as_strided":
            return None
        raise ShapeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location.",
            where=source.where(),
            hint="Please clone() the tensor before performing the operation.",
        )
    flat, values = call("reshape", base, shape=(size,)), call("reshape", value, shape=(places.size,))
    at = const(places.astype(np.int64), Type(places.shape, int64))
    return call("reshape", place(flat, values, (at,), (0,)), shape=base.type.shape)


def refuse_overlap(x: Tensor, *operands: Tensor) -> None:
    """Raise ShapeError if an operand shows some of the elements that are written to, at other places than `x`.

    PyTorch's rule: only views without gaps are compared.
    """
    sharing = [o for o in operands if o.cell is x.cell and o.lens != x.lens]
    if not sharing or any(name == "as_strided" for t in (x, *sharing) for name, _ in t.lens):
        return
    shape = x.cell.type.shape
    bytes_ = np.lib.stride_tricks.as_strided(np.empty(1, np.uint8), shape, order_strides(shape))
    target = _extent_in(bytes_, x)
    for o in sharing:
        other = _extent_in(bytes_, o)
        if target is None or other is None or target == other:
            continue
        if target[0] < other[1] and other[0] < target[1]:
            raise ShapeError(
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                "memory location.",
                where=source.where(),
                hint="Please clone() the tensor before performing the operation.",
            )


def _extent_in(bytes_: np.ndarray, t: Tensor) -> tuple[int, int, tuple[int, ...]] | None:
    """Return where a view begins and ends, and its strides; None for a view with gaps, or without elements."""
    layout = through(bytes_, t)
    dims = sorted((s, e) for s, e in zip(layout.strides, layout.shape, strict=True) if e != 1)
    step = 1
    for s, e in dims:
        if s != step:
            return None
        step *= e
    start = layout.__array_interface__["data"][0]
    moving = tuple(s for s, e in zip(layout.strides, layout.shape, strict=True) if e != 1)
    return (start, start + layout.size, moving) if layout.size else None
