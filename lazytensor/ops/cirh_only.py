"""Operations that only CIRH has. Lowering makes them; scripts do not record them.

Pooling windows are over [N, C, D, H, W], index tensors hold one point per row, and several results come at once.
"""

import math
from functools import partial
from typing import Any

import numpy as np

from lazytensor.cirh.layers import pad_attributes, pool, scatter_attributes, split_attributes, top_k_attributes
from lazytensor.cirh.spelling import extremum_as_clamp, same_type_operation, typed_operation
from lazytensor.core.dtype import int64
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import LoopBody, elementwise_work, no_work
from lazytensor.ir.types import Type
from lazytensor.ops.average import average
from lazytensor.ops.formula import evaluate_formula
from lazytensor.ops.index import index_get, index_put_at
from lazytensor.ops.op import call, op
from lazytensor.ops.shape import Dims, reshape, slice_

Pairs = tuple[tuple[int, int], ...]

# These are selections, not extremes: if a or b is NaN the comparison is False and b is selected, as in
# `where(a > b, a, b)`.
for _name, _relation, _sign in (
    ("gt", np.greater, ">"),
    ("ge", np.greater_equal, ">="),
    ("lt", np.less, "<"),
    ("le", np.less_equal, "<="),
):
    op(
        f"where_{_name}",
        lambda a, b: a,
        lambda a, b, relation=_relation: np.where(relation(a, b), a, b),
        cirh=extremum_as_clamp(_sign[0] == ">"),
        body=LoopBody(f"({{0}} if {{0}} {_sign} {{1}} else {{1}})", kinds="fi"),
    )

# Integer division, rounded down.
op("integer_div", lambda a, b: a, lambda a, b: a // b, cirh=same_type_operation("Div"))


def _flatten_spatial(n: Node) -> Node:
    return reshape(n, (*n.type.shape[:2], math.prod(n.type.shape[2:])))


# The values are defined by the operations that the host runs, so that ties and NaN are handled equally.
def _pool_max(x: Node, **window: Any) -> Node:
    places = call("window_argmax", x, **window)
    return reshape(call("at_places", _flatten_spatial(x), _flatten_spatial(places)), places.type.shape)


def _pool_max_grad(x: Node, g: Node, **window: Any) -> Node:
    places = _flatten_spatial(call("window_argmax", x, **window))
    sent = call("put_places", _flatten_spatial(g), places, extent=math.prod(x.type.shape[2:]), accumulate=True)
    return reshape(sent, x.type.shape)


def _register_windowed(name: str, formula: Any, dtype: Any = None, **facets: Any) -> None:
    """Register a window operation whose value and type are those of `formula`.

    `dtype` replaces the dtype of the result. With two operands, an input and a gradient, the type is that of the input.
    """

    def infer(x: Type, *g: Type, **window: Any) -> Type:
        # A gradient has the type of the pooled input. Only the forward pass needs the type of the formula.
        if g:
            return x
        leaf = call("full", value=0, type=x)
        result = formula(leaf, **window).type
        return result if dtype is None else Type(result.shape, dtype)

    op(name, infer, evaluate_formula(formula), work=_window_work, **facets)


def _window_work(out: Type, x: Type, *g: Type, kernel: Dims, **window: Any) -> Any:
    # The number of windows is that of the results in the forward pass, and that of the gradients in the backward pass.
    return elementwise_work(math.prod(kernel))(g[0] if g else out, x, *g)


_register_windowed("pool_max", _pool_max, cirh=pool("MAX"))
_register_windowed("pool_max_place", partial(call, "window_argmax"), int64, cirh=pool("ARGMAX"))
_register_windowed("pool_max_grad", _pool_max_grad, cirh=pool("MAX", True))
_register_windowed("pool_average", average, cirh=pool("AVERAGE"))
_register_windowed("pool_average_grad", partial(call, "avg_pool_grad"), cirh=pool("AVERAGE", True))


def _pad_type(x: Type, *, pairs: Pairs, value: float, interior: Dims) -> Type:
    sizes = zip(x.shape, pairs, interior, strict=True)
    return Type(tuple(e + a + b + max(e - 1, 0) * between for e, (a, b), between in sizes), x.dtype)


def _pad_eval(x: np.ndarray, *, pairs: Pairs, value: float, interior: Dims) -> np.ndarray:
    """Return x with `value` around it and between its elements. A 0-d array is returned unchanged.

    `interior` is the number of elements between two neighbours of each dimension, and `pairs` the (low, high) width at
    its ends. Negative widths cut elements off, after the elements between were inserted.
    """
    apart = np.full([e + max(e - 1, 0) * i for e, i in zip(x.shape, interior, strict=True)], value, x.dtype)
    apart[tuple(slice(None, None, i + 1) for i in interior)] = x
    kept = tuple(slice(max(-a, 0), e - max(-b, 0)) for e, (a, b) in zip(apart.shape, pairs, strict=True))
    # NumPy refuses the empty list of pairs of a 0-d array.
    around = [(max(a, 0), max(b, 0)) for a, b in pairs]
    return np.pad(apart[kept], around, constant_values=value) if x.ndim else x


op("pad", _pad_type, _pad_eval, work=elementwise_work(0), cirh=typed_operation("pad", pad_attributes))

op(
    "select_scatter",
    lambda base, index, value, **attrs: base,
    lambda base, index, value, *, dim, kind: _put_along(base, index, value, dim),
    work=elementwise_work(0),
    cirh=typed_operation("Scatter", scatter_attributes),
)


def _put_along(base: np.ndarray, index: np.ndarray, value: np.ndarray, dim: int) -> np.ndarray:
    out = base.copy()
    np.put_along_axis(out, index, value, dim)
    return out


def split_limits(shape: Dims, dim: int, sizes: Dims, index: int) -> tuple[Dims, Dims]:
    """Return starts and limits of part `index` of a dimension that is split into `sizes`."""
    start = sum(sizes[:index])
    starts = tuple(start if d == dim else 0 for d in range(len(shape)))
    return starts, tuple(start + sizes[index] if d == dim else e for d, e in enumerate(shape))


def _split_type(x: Type, *, dim: int, sizes: Dims) -> tuple[Type, ...]:
    return tuple(Type((*x.shape[:dim], s, *x.shape[dim + 1 :]), x.dtype) for s in sizes)


op(
    "split",
    _split_type,
    lambda x, *, dim, sizes: tuple(np.split(x, np.cumsum(sizes)[:-1], dim)),
    work=lambda out, x, **attrs: no_work(x),
    cirh=typed_operation("Split", split_attributes),
)


def _top_k_eval(x: np.ndarray, *, dim: int, k: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    # Sort the reversed array and reverse the result, so that equal elements keep their order in a descending sort too.
    from_largest = np.flip(x, dim) if largest else x
    places = np.argsort(from_largest, axis=dim, kind="stable")
    if largest:
        places = np.flip(x.shape[dim] - 1 - places, dim)
    first = np.take(places, np.arange(k), dim).astype(np.int64)
    return np.take_along_axis(x, first, dim), first


def _top_k_type(x: Type, *, dim: int, k: int, largest: bool) -> tuple[Type, Type]:
    shape = (*x.shape[:dim], k, *x.shape[dim + 1 :])
    return Type(shape, x.dtype), Type(shape, int64)


op(
    "top",
    _top_k_type,
    _top_k_eval,
    work=lambda out, x, **attrs: elementwise_work(max(1, x.size.bit_length()))(x, x),
    cirh=typed_operation("TopK", top_k_attributes, results=("topKValues", "topKIndices")),
)


def unstack_coordinates(points: Node) -> tuple[Node, ...]:
    """Return the coordinates of points [..., k], one int64 node per coordinate."""
    lead = points.type.shape[:-1]
    # CIRH takes coordinates as the last dimension of one operand; indexing takes one tensor per dimension.
    cut = (slice_(points, (0,) * len(lead) + (k,), (*lead, k + 1)) for k in range(points.type.shape[-1]))
    return tuple(reshape(c if c.type.dtype is int64 else call("cast", c, dtype=int64), lead) for c in cut)


def _gather_points(x: Node, points: Node, *, sparse_grad: bool = True) -> Node:
    coordinates = unstack_coordinates(points)
    return index_get(x, coordinates, tuple(range(len(coordinates))))


def _scatter_points(base: Node, points: Node, value: Node) -> Node:
    coordinates = unstack_coordinates(points)
    # ScatterNd adds the values of repeated points, so it can compute the gradient of an embedding.
    return index_put_at(base, value, coordinates, tuple(range(len(coordinates))), True)


op(
    "gather_points",
    lambda x, points, *, sparse_grad=True: Type((*points.shape[:-1], *x.shape[points.shape[-1] :]), x.dtype),
    evaluate_formula(_gather_points),
    work=elementwise_work(0),
    cirh=typed_operation(
        "GatherNd", lambda n: "sparse_grad, " * n.attrs.get("sparse_grad", True) + "start_dim = 0 : i64"
    ),
)
op(
    "scatter_points",
    lambda base, points, value: base,
    evaluate_formula(_scatter_points),
    work=elementwise_work(1),
    cirh=typed_operation("ScatterNd"),
)
