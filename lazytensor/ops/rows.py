"""Rows, parts and turns that CIRH knows by name, where the host sees indexing, slices and concatenations."""

from lazytensor.cirh.layers import gathering
from lazytensor.cirh.spelling import typed
from lazytensor.dtype import int64
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import decomposed
from lazytensor.ir.types import Type
from lazytensor.ops.elementwise import cast, ne, where
from lazytensor.ops.formula import composite
from lazytensor.ops.index import pick, place
from lazytensor.ops.op import call, full, full_like
from lazytensor.ops.shape import Dims, reshape, slice_
from lazytensor.ops.wafer import part_limits

NO_PADDING = -1
"""What the front end takes for the row without a gradient where there is none."""


def _rows(x: Node, numbers: Node, *, dim: int) -> Node:
    return pick(x, (cast(numbers, int64),), (dim,))


def _rows_type(x: Type, numbers: Type, *, dim: int) -> Type:
    if len(numbers.shape) != 1 or numbers.dtype.kind != "i":
        raise ShapeError(f"rows are named by a vector of integers, not by {numbers}")
    return Type((*x.shape[:dim], *numbers.shape, *x.shape[dim + 1 :]), x.dtype)


# Two names for one reading: CIRH's Gather takes a vector of int32 as it is, where indexing converts to int64.
composite("gather_rows", _rows, _rows_type, cirh=typed("Gather", gathering))


def _embedding(weight: Node, numbers: Node, *, padding: int) -> Node:
    return pick(weight, (cast(numbers, int64),), (0,))


def _embedding_parts(weight: Node, numbers: Node, *, padding: int) -> Node:
    flat = reshape(numbers, (numbers.type.size,))
    # Gather takes one vector: the numbers are laid flat before, and the rows put into their shape after it.
    rows = call("gather_rows", weight, flat, dim=0)
    return reshape(rows, (*numbers.type.shape, *weight.type.shape[1:]))


def _embedding_vjp(g: Node, y: Node, weight: Node, numbers: Node, *, padding: int) -> tuple[Node, None]:
    return call("embedding_grad", g, numbers, rows=weight.type.shape[0], padding=padding), None


def _flat_gradient(g: Node, numbers: Node, padding: int) -> tuple[Node, Node]:
    """The numbers as a vector, and a row of the gradient for each; rows of the padding are zero."""
    flat = reshape(numbers, (numbers.type.size,))
    rows = reshape(g, (*flat.type.shape, g.type.shape[-1]))
    # Compared with `padding` also where the layer has none, since the front end's text shows that comparison always.
    counts = reshape(ne(flat, padding), (*flat.type.shape, 1))
    wide = call("broadcast_in_dim", counts, shape=rows.type.shape, dims=(0, 1))
    return flat, where(wide, rows, 0)


def _embedding_grad(g: Node, numbers: Node, *, rows: int, padding: int) -> Node:
    table = full(0, Type((rows, g.type.shape[-1]), g.type.dtype))
    flat, values = _flat_gradient(g, numbers, padding)
    return place(table, values, (cast(flat, int64),), (0,), True)


def _embedding_grad_parts(g: Node, numbers: Node, *, rows: int, padding: int) -> Node:
    table = full(0, Type((rows, g.type.shape[-1]), g.type.dtype))
    flat, values = _flat_gradient(g, numbers, padding)
    # ScatterNd does not count from the end, where an index in PyTorch may.
    from_end = flat < 0
    inside = where(from_end, flat + rows, flat)
    return call("scatter_points", table, reshape(inside, (*flat.type.shape, 1)), values)


def _embedding_type(weight: Type, numbers: Type, *, padding: int) -> Type:
    if numbers.dtype.kind != "i":
        raise ShapeError(f"an embedding is indexed by integers, not by {numbers}")
    return Type((*numbers.shape, *weight.shape[1:]), weight.dtype)


composite("embedding", _embedding, _embedding_type, vjp=_embedding_vjp, cirh=decomposed(_embedding_parts))
composite(
    "embedding_grad",
    _embedding_grad,
    lambda g, numbers, *, rows, padding: Type((rows, g.shape[-1]), g.dtype),
    cirh=decomposed(_embedding_grad_parts),
)


def _part(x: Node, *, dim: int, sizes: Dims, index: int) -> Node:
    return slice_(x, *part_limits(x.type.shape, dim, sizes, index))


def _put_part(base: Node, value: Node, *, dim: int, sizes: Dims, index: int) -> Node:
    starts, limits = part_limits(base.type.shape, dim, sizes, index)
    return call("slice_update", base, value, starts=starts, limits=limits, strides=(1,) * len(starts))


composite(
    "part",
    _part,
    lambda x, *, dim, sizes, index: Type((*x.shape[:dim], sizes[index], *x.shape[dim + 1 :]), x.dtype),
    put=_put_part,
    cirh=decomposed(lambda x, *, index, **attrs: call("result", call("split", x, **attrs), index=index)),
    saves=False,
)


def _turned(x: Node, *, shift: int, dim: int) -> Node:
    extent = x.type.shape[dim]
    cut = (extent - shift) % extent
    parts = (part_limits(x.type.shape, dim, (cut, extent - cut), k) for k in (1, 0))
    return call("concat", *(slice_(x, *limits) for limits in parts), dim=dim)


def _turned_parts(x: Node, *, shift: int, dim: int) -> Node:
    """Place i comes from (i + cut) mod extent, computed with integers."""
    extent = x.type.shape[dim]
    places = call("arange", start=0, step=1, type=Type((extent,), int64))
    moved = places + (extent - shift) % extent
    # CIRH has no remainder of integers: it is written with the quotient.
    whole_turns = call("integer_div", moved, full_like(extent, moved)) * extent
    return call("gather_rows", x, moved - whole_turns, dim=dim)


composite("turn", _turned, lambda x, **attrs: x, cirh=decomposed(_turned_parts))
