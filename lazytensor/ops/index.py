"""Indexing: gather and scatter along one dimension, and indexing with tuples of index tensors.

Each read is the gradient of a write and the reverse, so the two pairs are closed under differentiation.
"""

from typing import Any

import numpy as np

from lazytensor.cirh.layers import gather_attributes, scatter_attributes
from lazytensor.cirh.spelling import typed_operation
from lazytensor.core.dtype import int64
from lazytensor.errors import IndexInvalid, ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import elementwise_work, illegal_with_hint, legal_by_decomposition
from lazytensor.ir.reduction import REDUCTIONS
from lazytensor.ir.types import Type, Work
from lazytensor.ops.elementwise import eq, where
from lazytensor.ops.op import call, full, full_like, op
from lazytensor.ops.shape import Dims, reshape


def check_bounds(index: np.ndarray, extent: int, dim: int, low: int = 0) -> None:
    """Raise IndexInvalid if an element of `index` is not in low..extent - 1. An empty index is valid.

    `dim` is only named in the message.
    """
    if not index.size:
        return
    for place in (int(index.min()), int(index.max())):
        if not low <= place < extent:
            raise IndexInvalid(
                f"index {place} is out of bounds for dimension {dim} with size {extent}",
                hint="Pass an index within the dimension.",
            )


def _open_grid_index(index: np.ndarray, extent: int, dim: int) -> tuple[np.ndarray, ...]:
    """Return an index tuple that takes index[i] along `dim`, and i itself along the other dimensions.

    Raise IndexInvalid if an index is negative or not below `extent`.
    """
    check_bounds(index, extent, dim)
    # Open grids broadcast against the index, so no further array of its size is built.
    places = list(np.ogrid[tuple(slice(e) for e in index.shape)])
    places[dim] = index
    return tuple(places)


def _gather_type(x: Type, index: Type, *, dim: int) -> Type:
    if index.dtype is not int64 or len(index.shape) != len(x.shape):
        raise ShapeError(
            f"Index tensor must have the same number of dimensions as input tensor: {index} and {x}",
            hint="Add dimensions to the index, for example with unsqueeze().",
        )
    # The index may be smaller than x in other dimensions: PyTorch then reads only the leading elements.
    if any(e > x.shape[d] for d, e in enumerate(index.shape) if d != dim):
        raise ShapeError(
            f"Size does not match at some dimension: expected index {list(index.shape)} to be no larger than self "
            f"{list(x.shape)} apart from dimension {dim}",
            hint="Reduce the index to the size of the input.",
        )
    return Type(index.shape, x.dtype)


def gather(x: Node, index: Node, dim: int) -> Node:
    """Return x at index[i] along `dim` and at i along the other dimensions, as torch.gather."""
    return call("gather", x, index, dim=dim)


def scatter(base: Node, index: Node, value: Node, dim: int, kind: str = "set") -> Node:
    """Return `base` with `value` written to the elements that `gather` would read.

    `kind` is "set", or the reduction that combines the value with the element: "add", "mul", "maximum" or "minimum".
    """
    return call("scatter", base, index, value, dim=dim, kind=kind)


def _scatter_type(base: Type, index: Type, value: Type, *, dim: int, kind: str) -> Type:
    if _gather_type(base, index, dim=dim) != value:
        raise ShapeError(
            f"scatter(): expected the source to be {index.shape} of {base.dtype}, but it is {value}",
            hint="Pass a source in the shape of the index and with the dtype of the input.",
        )
    return base


def _scatter_eval(base: np.ndarray, index: np.ndarray, value: np.ndarray, *, dim: int, kind: str) -> np.ndarray:
    out, places = base.copy(), _open_grid_index(index, base.shape[dim], dim)
    if kind == "set":
        # For repeated indices the last value wins; PyTorch specifies no order.
        out[places] = value
    else:
        REDUCTIONS[kind].ufunc.at(out, places, value)
    return out


def _scatter_vjp(
    g: Node, y: Node, base: Node, index: Node, value: Node, *, dim: int, kind: str
) -> tuple[Node, None, Node]:
    """Gradient rule of scatter: (gradient of the base, None, gradient of the values).

    With `kind` "set", overwritten values get a gradient too. For a maximum or minimum, all elements equal to the
    result, of base and values, share the gradient evenly.
    """
    if kind == "set":
        # For repeated indices every value takes the gradient, also overwritten ones, as in PyTorch.
        return scatter(g, index, full_like(0, value), dim), None, gather(g, index, dim)
    if kind == "add":
        return g, None, gather(g, index, dim)
    if kind == "mul":
        return _product_vjp(g, y, base, index, value, dim)
    # Maximum and minimum: all elements equal to the result share its gradient evenly.
    mine = where(eq(base, y), full_like(1, base), 0)
    theirs = where(eq(value, gather(y, index, dim)), full_like(1, value), 0)
    count = scatter(mine, index, theirs, dim, "add")
    # If no element equals the result (NaN), divide by 1: the share is multiplied by 0 below.
    share = g / where(eq(count, 0), 1, count)
    return share * mine, None, gather(share, index, dim) * theirs


def _product_vjp(g: Node, y: Node, base: Node, index: Node, value: Node, dim: int) -> tuple[Node, None, Node]:
    """Return the gradients of the factors: `g` times the product of the other factors.

    There is no division by zero: if one factor is zero, its gradient is the product of the others; if two are, all are
    0.
    """
    base_zero = eq(base, 0)
    safe_base = where(base_zero, 1, base)
    to_base = g * (scatter(safe_base, index, value, dim, "mul") / safe_base)
    is_zero = eq(value, 0)
    # If a value is the only zero of its element, its slope is the product of the others. With two zeros all slopes
    # are 0.
    zeros = scatter(full_like(0, base), index, where(is_zero, full_like(1, value), 0), dim, "add")
    lone = call("logical_and", is_zero, eq(gather(zeros, index, dim), 1))
    others = scatter(base, index, where(lone, 1, value), dim, "mul")
    shared = gather(g * y, index, dim) / where(is_zero, 1, value)
    return to_base, None, where(lone, gather(g * others, index, dim), shared)


def _gather_as_top_values(x: Node, index: Node, *, dim: int) -> Node | None:
    """Return a gather from x at the indices of a "top" of the same x and dimension as the values of that "top".

    Return None for other gathers. "top" is CIRH's TopK: its results are values and indices.
    """
    # A sort is recorded as indices and a gather; CIRH's TopK also returns the values.
    top = index.inputs[0] if index.op == "result" and index.attrs["index"] == 1 else None
    if top is None or top.op != "top" or top.inputs[0] is not x or top.attrs["dim"] != dim:
        return None
    return call("result", top, index=0)


def _scatter_distinct(base: Node, index: Node, value: Node, *, dim: int, kind: str) -> Node | None:
    """Return a scatter that adds to zeros at the indices of a "top" as one that sets the values; else return None.

    The two are equal, because these indices are distinct.
    """
    is_order = index.op == "result" and index.attrs["index"] == 1 and index.inputs[0].op == "top"
    is_zero = base.op == "full" and base.attrs["value"] == 0
    return scatter(base, index, value, dim) if kind == "add" and is_order and is_zero else None


op(
    "gather",
    _gather_type,
    lambda x, index, *, dim: x[_open_grid_index(index, x.shape[dim], dim)],
    vjp=lambda g, y, x, index, *, dim: (scatter(full_like(0, x), index, g, dim, "add"), None),
    work=lambda out, x, index, *, dim: Work(0, out.nbytes + index.nbytes, out.nbytes),
    cirh=typed_operation("Gather", gather_attributes).with_decomposition(_gather_as_top_values),
)


def _gather_extremes(x: Node, places: Node, *, dim: int, kind: str) -> Node:
    return call("reshape", gather(x, _keep_reduced_dim(x, places, dim), dim), shape=places.type.shape)


def _keep_reduced_dim(x: Node, places: Node, dim: int) -> Node:
    kept = tuple(1 if d == dim else e for d, e in enumerate(x.type.shape))
    return call("reshape", places, shape=kept)


def _extremes_vjp(g: Node, y: Node, x: Node, places: Node, *, dim: int, kind: str) -> tuple[Node, None]:
    index = _keep_reduced_dim(x, places, dim)
    return scatter(full_like(0, x), index, call("reshape", g, shape=index.type.shape), dim), None


def _extremes_as_reduction(x: Node, places: Node, *, dim: int, kind: str) -> Node:
    is_kept = len(places.type.shape) == len(x.type.shape)
    return call("reduce", x, kind=f"{kind}imum", dims=(dim,), keepdim=is_kept)


def _take_extremes(x: np.ndarray, places: np.ndarray, *, dim: int, kind: str) -> np.ndarray:
    index = places if places.ndim == x.ndim else np.expand_dims(places, dim)
    return np.asarray(np.take_along_axis(x, index, dim).reshape(places.shape))


# The extremes of x along `dim`, read at their indices, with or without keepdim. The element at the index takes the
# gradient.
op(
    "extreme_value",
    lambda x, places, **attrs: Type(places.shape, x.dtype),
    _take_extremes,
    vjp=_extremes_vjp,
    work=lambda out, x, places, **attrs: Work(0, out.nbytes + places.nbytes, out.nbytes),
    composite=_gather_extremes,
    cirh=legal_by_decomposition(_extremes_as_reduction),
)
op(
    "scatter",
    _scatter_type,
    _scatter_eval,
    vjp=_scatter_vjp,
    work=lambda out, base, index, value, **attrs: Work(value.size, base.nbytes + 2 * value.nbytes, out.nbytes),
    cirh=typed_operation("Scatter", scatter_attributes).with_decomposition(_scatter_distinct),
)


def _flat_index_type(i: Type, j: Type, *, dims: Dims, extents: Dims) -> Type:
    return Type(np.broadcast_shapes(i.shape, j.shape), int64)


def _flat_index(i: np.ndarray, j: np.ndarray, *, dims: Dims, extents: Dims) -> np.ndarray:
    """Return i * extents[1] + j, the number of an element of two dimensions; negative indices count from the end.

    `dims` are the numbers of the dimensions in a message. Raise IndexInvalid for an index out of range.
    """
    for index, extent, dim in zip((i, j), extents, dims, strict=True):
        check_bounds(index, extent, dim, -extent)
    rows, columns = (np.where(index < 0, index + e, index) for index, e in zip((i, j), extents, strict=True))
    return np.asarray(rows * extents[1] + columns)


op(
    "flat_index",
    _flat_index_type,
    _flat_index,
    work=elementwise_work(2),
    cirh=illegal_with_hint("Index with one tensor, or use torch.gather."),
)


def _flat_indices(x: Node, indices: tuple[Node, ...], dims: Dims) -> tuple[Node, Node, int] | None:
    """Return `x` with the dimensions `dims` merged into one, the index into that dimension, and its number.

    Return None unless several tensors of one shape index neighbouring dimensions.
    """
    shape, (first, *others) = x.type.shape, dims
    if not others or not _are_adjacent(dims) or len({i.type.shape for i in indices}) > 1:
        return None
    flat, extent = indices[0], shape[first]
    for d, index in zip(others, indices[1:], strict=True):
        flat = call("flat_index", flat, index, dims=(d - 1, d), extents=(extent, shape[d]))
        extent *= shape[d]
    merged = reshape(x, (*shape[:first], extent, *shape[dims[-1] + 1 :]))
    return merged, flat, first


def _index_get_flat(x: Node, *indices: Node, dims: Dims) -> Node | None:
    merged = _flat_indices(x, indices, dims)
    return None if merged is None else index_get(merged[0], (merged[1],), (merged[2],))


def _index_put_flat(base: Node, value: Node, *indices: Node, dims: Dims, accumulate: bool) -> Node | None:
    merged = _flat_indices(base, indices, dims)
    if merged is None:
        return None
    return reshape(index_put_at(merged[0], value, (merged[1],), (merged[2],), accumulate), base.type.shape)


def _are_adjacent(dims: Dims) -> bool:
    return dims == tuple(range(dims[0], dims[0] + len(dims)))


def _index_get_type(x: Type, *indices: Type, dims: Dims) -> Type:
    if any(i.dtype is not int64 for i in indices) or len(indices) != len(dims):
        raise ShapeError(
            f"an index tuple of {list(map(str, indices))} cannot index dimensions {list(dims)} of {x}",
            hint="Pass one integer index for each of the dimensions.",
        )
    try:
        common = np.broadcast_shapes(*(i.shape for i in indices))
    except ValueError:
        shapes = ", ".join(str(list(i.shape)) for i in indices)
        raise ShapeError(
            f"shape mismatch: indexing tensors could not be broadcast together: {shapes}",
            hint="Pass index tensors whose shapes can be broadcast together.",
        ) from None
    rest = tuple(e for d, e in enumerate(x.shape) if d not in dims)
    # NumPy's rule: the dimensions of the indices replace `dims` if these are adjacent, and come first otherwise.
    at = dims[0] if _are_adjacent(dims) else 0
    return Type((*rest[:at], *common, *rest[at:]), x.dtype)


def _index_tuple(x: np.ndarray, indices: tuple[np.ndarray, ...], dims: Dims) -> tuple[Any, ...]:
    parts: list[Any] = [slice(None)] * x.ndim
    for d, i in zip(dims, indices, strict=True):
        parts[d] = i
    return tuple(parts)


def index_get(x: Node, indices: tuple[Node, ...], dims: Dims) -> Node:
    """Return x indexed in the dimensions `dims` by tensors that broadcast together, as x[..., i, j, ...].

    The dimensions of the indices replace `dims` if these are adjacent, and come first otherwise.
    """
    return call("index_get", x, *indices, dims=dims)


def index_put_at(base: Node, value: Node, indices: tuple[Node, ...], dims: Dims, accumulate: bool = False) -> Node:
    """Return `base` with `value` written to the elements that `index_get` would read; added to them if `accumulate`."""
    return call("index_put", base, value, *indices, dims=dims, accumulate=accumulate)


def _index_put_type(base: Type, value: Type, *indices: Type, dims: Dims, accumulate: bool) -> Type:
    if _index_get_type(base, *indices, dims=dims) != value:
        raise ShapeError(
            f"a value of {value} cannot be written by index to a {base}",
            hint="Pass a value whose shape can be broadcast to that of the indexed part.",
        )
    return base


def _index_put_eval(
    base: np.ndarray, value: np.ndarray, *indices: np.ndarray, dims: Dims, accumulate: bool
) -> np.ndarray:
    out = base.copy()
    if not accumulate:
        out[_index_tuple(base, indices, dims)] = value
    else:
        np.add.at(out, _index_tuple(base, indices, dims), value)
    return out


def _index_put_vjp(
    g: Node, y: Node, base: Node, value: Node, *indices: Node, dims: Dims, accumulate: bool
) -> tuple[Node | None, ...]:
    # Overwritten elements get no gradient.
    to_base = g if accumulate else index_put_at(g, full_like(0, value), indices, dims)
    return to_base, index_get(g, indices, dims), *(None for _ in indices)


def _index_get_vjp(g: Node, y: Node, x: Node, *indices: Node, dims: Dims) -> tuple[Node | None, ...]:
    return index_put_at(full_like(0, x), g, indices, dims, True), *(None for _ in indices)


def _stack_coordinates(indices: tuple[Node, ...], dims: Dims) -> Node | None:
    """Return coordinates [..., k]: the `k` indices stacked in a new last dimension.

    Return None unless `dims` are the leading dimensions in order and all indices have one shape.
    """
    shape = indices[0].type.shape
    if dims != tuple(range(len(dims))) or any(i.type.shape != shape for i in indices):
        return None
    columns = [call("broadcast_in_dim", i, shape=(*shape, 1), dims=tuple(range(len(shape)))) for i in indices]
    return columns[0] if len(columns) == 1 else call("concat", *columns, dim=len(shape))


def _index_get_as_points(x: Node, *indices: Node, dims: Dims) -> Node | None:
    points = _stack_coordinates(indices, dims)
    if points is not None:
        return call("gather_points", x, points)
    # Along the last dimension the front end broadcasts one vector of indices to all rows. Others have no lowering.
    last = len(x.type.shape) - 1
    if dims != (last,) or len(indices[0].type.shape) != 1:
        return None
    places = call("broadcast_in_dim", indices[0], shape=(*x.type.shape[:last], *indices[0].type.shape), dims=dims)
    return call("gather", x, places, dim=last)


def _index_put_as_points(base: Node, value: Node, *indices: Node, dims: Dims, accumulate: bool) -> Node | None:
    """Return the front end's form of a write at indices that accumulates.

    Return None for a write that sets values, and unless leading dimensions are indexed by tensors of one shape.
    """
    points = _stack_coordinates(indices, dims) if accumulate else None
    return call("scatter_points", base, points, value) if points is not None else None


def _add_rows_type(x: Type, rows: Type, places: Type, *, count: int) -> Type:
    if len(x.shape) != 2 or len(rows.shape) != 1 or rows.shape != places.shape or rows.dtype is not int64:
        raise ShapeError(f"the rows {rows} of {x} cannot be added at {places}")
    return Type((count, x.shape[1]), x.dtype)


def _add_rows(x: np.ndarray, rows: np.ndarray, places: np.ndarray, *, count: int) -> np.ndarray:
    check_bounds(rows, len(x), 0)
    check_bounds(places, count, 0)
    out = np.zeros((count, x.shape[1]), x.dtype)
    np.add.at(out, places, x[rows])
    return out


def _add_rows_at_points(x: Node, rows: Node, places: Node, *, count: int) -> Node:
    zeros = full(0, Type((count, x.type.shape[1]), x.type.dtype))
    return index_put_at(zeros, index_get(x, (rows,), (0,)), (places,), (0,), True)


def _reverse_as_gather(x: Node, *, dims: Dims) -> Node:
    """Return x reversed along each of `dims` by a gather with descending indices."""
    for d in dims:
        # CIRH has no reversal. The front end writes flip as a gather of rows in descending order.
        x = call("gather_rows", x, descending_indices(x.type.shape[d]), dim=d)
    return x


def descending_indices(extent: int) -> Node:
    """Return the indices of a dimension from the last to the first."""
    return call("arange", start=extent - 1, step=-1, type=Type((extent,), int64))


op(
    "index_get",
    _index_get_type,
    lambda x, *indices, dims: x[_index_tuple(x, indices, dims)],
    vjp=_index_get_vjp,
    work=lambda out, x, *indices, **attrs: Work(0, out.nbytes + sum(i.nbytes for i in indices), out.nbytes),
    composite=_index_get_flat,
    cirh=legal_by_decomposition(
        _index_get_as_points,
        "Index the first dimensions with tensors of one shape, or use torch.index_select or torch.gather.",
    ),
    gradient_name="Index",
)
op(
    "index_put",
    _index_put_type,
    _index_put_eval,
    vjp=_index_put_vjp,
    work=lambda out, base, value, *indices, **attrs: Work(value.size, base.nbytes + 2 * value.nbytes, out.nbytes),
    composite=_index_put_flat,
    cirh=legal_by_decomposition(
        _index_put_as_points, "Write torch.where(mask, new, old) with a mask, or x.scatter(dim, index, values)."
    ),
)
# The sum of x[rows[k]] over all k with places[k] = i is row i of the result.
op(
    "add_rows",
    _add_rows_type,
    _add_rows,
    vjp=lambda g, y, x, rows, places, *, count: (
        call("add_rows", g, places, rows, count=x.type.shape[0]),
        None,
        None,
    ),
    work=lambda out, x, rows, places, **attrs: Work(
        rows.size * x.shape[1], 2 * rows.nbytes + rows.size * x.shape[1] * 4, out.nbytes
    ),
    cirh=legal_by_decomposition(_add_rows_at_points),
    saves=True,
)
op(
    "reverse",
    lambda x, *, dims: x,
    lambda x, *, dims: np.flip(x, dims),
    vjp=lambda g, y, x, *, dims: (call("reverse", g, dims=dims),),
    work=elementwise_work(0),
    cirh=legal_by_decomposition(_reverse_as_gather),
    gradient_name="Flip",
)
