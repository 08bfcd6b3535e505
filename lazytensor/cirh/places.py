"""Indexing and order on the way to CIRH: rows, points, padding, and the largest elements."""

from collections.abc import Callable, Mapping

from lazytensor.dtype import int64
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type
from lazytensor.ops import call
from lazytensor.ops.reduce import reduce
from lazytensor.ops.shape import Dims

Lowering = Callable[..., Node | None]


def _reverse(x: Node, *, dims: Dims) -> Node:
    """One dimension after the other, read from its end."""
    for d in dims:
        extent = x.type.shape[d]
        numbers = call("arange", start=extent - 1, step=-1, type=Type((extent,), int64))
        x = call("gather_rows", x, numbers, dim=d)
    return x


def _point(index: Node) -> Node:
    shape = index.type.shape
    return call("broadcast_in_dim", index, shape=(*shape, 1), dims=tuple(range(len(shape))))


def _first_places(dims: Dims, indices: tuple[Node, ...]) -> bool:
    """Whether the first dimensions are indexed by tensors of one shape."""
    return dims == tuple(range(len(dims))) and len({i.type.shape for i in indices}) == 1


def _index_get(x: Node, *indices: Node, dims: Dims) -> Node | None:
    if not _first_places(dims, indices):
        return None
    return call("gather_points", x, _points(indices))


def _points(indices: tuple[Node, ...]) -> Node:
    """Coordinates side by side in a new last dimension."""
    columns = [_point(i) for i in indices]
    return columns[0] if len(columns) == 1 else call("concat", *columns, dim=len(columns[0].type.shape) - 1)


def _index_put(base: Node, value: Node, *indices: Node, dims: Dims, accumulate: bool) -> Node | None:
    """What is added at points; the front end has no spelling for values that are set there."""
    if not accumulate or not _first_places(dims, indices):
        return None
    return call("scatter_points", base, _points(indices), value)


def _slice_update(base: Node, value: Node, *, starts: Dims, limits: Dims, strides: Dims) -> Node | None:
    """A part of a constant is padding around the part."""
    if base.op != "full" or any(s != 1 for s in strides) or base.type.dtype.kind == "b":
        return None
    pairs = tuple((s, e - limit) for s, e, limit in zip(starts, base.type.shape, limits, strict=True))
    return call("pad", value, pairs=pairs, value=base.attrs["value"])


def _argsort(x: Node, *, dim: int, descending: bool) -> Node:
    top = call("top", x, dim=dim, k=x.type.shape[dim], largest=descending)
    return call("result", top, index=1)


def _ordered(index: Node, x: Node, dim: int) -> Node | None:
    """The `top` whose places `index` are, if they are those of x along `dim`."""
    top = index.inputs[0] if index.op == "result" and index.attrs["index"] == 1 else None
    fits = top is not None and top.op == "top" and top.inputs[0] is x and top.attrs["dim"] == dim
    return top if fits else None


def _gather(x: Node, index: Node, *, dim: int) -> Node | None:
    """Elements in their order are the values that come with the places; the one at the extreme is the extreme."""
    if index.op == "arg_reduce" and index.inputs == (x,) and index.attrs["dim"] == dim and index.attrs["keepdim"]:
        return reduce(x, f"{index.attrs['kind']}imum", (dim,), True)
    top = _ordered(index, x, dim)
    return call("result", top, index=0) if top is not None else None


def _slice(x: Node, *, starts: Dims, limits: Dims, strides: Dims) -> Node | None:
    """The first few in order are an order of fewer."""
    top = x.inputs[0] if x.op == "result" else None
    if top is None or top.op != "top" or any(starts) or any(s != 1 for s in strides):
        return None
    dim = top.attrs["dim"]
    if any(e != limit for d, (e, limit) in enumerate(zip(x.type.shape, limits, strict=True)) if d != dim):
        return None
    fewer = call("top", *top.inputs, **{**top.attrs, "k": limits[dim]})
    return call("result", fewer, index=x.attrs["index"])


PLACES: Mapping[str, Lowering] = {
    "reverse": _reverse,
    "index_get": _index_get,
    "index_put": _index_put,
    "slice_update": _slice_update,
    "argsort": _argsort,
    "gather": _gather,
    "slice": _slice,
}
