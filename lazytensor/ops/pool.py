"""Windows over the last dimensions: sums, the index of the maximum, and reading and writing at indices.

Max pooling is two steps: find the index (no gradient), then read there (`at_places`). Reading at indices and adding at
indices are each other's gradient. So are `window_sum` and `window_spread`, and `pick_along` and `place_along`.
"""

import functools
import operator
from itertools import product
from typing import Any

import numpy as np

from lazytensor.core.dtype import float32, int64
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import elementwise_work, illegal_with_hint, legal_by_decomposition
from lazytensor.ir.types import Type, Work
from lazytensor.ops.cirh_windows import pool_max, pool_max_gradient
from lazytensor.ops.conv import Dims, Pairs, pad_array, tap_index, unpadded_index
from lazytensor.ops.op import call, const, full, op


def _iterate_taps(x: np.ndarray, kernel: Dims, stride: Dims, dilation: Dims, out: Dims) -> Any:
    """Yield x as seen from each tap of the window: one view of extents `out` for each tap."""
    # One pass over whole arrays per tap: kernels are small, and a loop over windows would be slow in Python.
    for tap in product(*map(range, kernel)):
        yield x[tap_index(tap, out, stride, dilation)]


def _window_counts(extents: Dims, kernel: Dims, stride: Dims, padding: Pairs, dilation: Dims) -> Dims:
    reach = (
        e + low + high - d * (k - 1) - 1
        for e, k, d, (low, high) in zip(extents, kernel, dilation, padding, strict=True)
    )
    return tuple(max(r // s + 1, 0) for r, s in zip(reach, stride, strict=True))


def _unit_dilation(kernel: Dims) -> Dims:
    return (1,) * len(kernel)


def _window_sum_shape(shape: Dims, kernel: Dims, stride: Dims, padding: Pairs) -> Dims:
    lead = len(shape) - len(kernel)
    return (*shape[:lead], *_window_counts(shape[lead:], kernel, stride, padding, _unit_dilation(kernel)))


def _window_sum(x: np.ndarray, *, kernel: Dims, stride: Dims, padding: Pairs) -> np.ndarray:
    shape = _window_sum_shape(x.shape, kernel, stride, padding)
    total = np.zeros(shape, x.dtype)
    for part in _iterate_taps(
        pad_array(x, padding), kernel, stride, _unit_dilation(kernel), shape[x.ndim - len(kernel) :]
    ):
        total += part
    return total


def _window_spread(g: np.ndarray, *, extents: Dims, kernel: Dims, stride: Dims, padding: Pairs) -> np.ndarray:
    lead = g.ndim - len(kernel)
    around = tuple(e + low + high for e, (low, high) in zip(extents, padding, strict=True))
    total = np.zeros((*g.shape[:lead], *around), g.dtype)
    for part in _iterate_taps(total, kernel, stride, _unit_dilation(kernel), g.shape[lead:]):
        np.add(part, g, out=part)
    return np.ascontiguousarray(total[unpadded_index(extents, padding)])


def _window_work(out: Type, x: Type, *, kernel: Dims, **attrs: Any) -> Work:
    return Work(int(np.prod(kernel)) * (x.size if "extents" in attrs else out.size), x.nbytes, out.nbytes)


op(
    "window_sum",
    lambda x, *, kernel, stride, padding: Type(_window_sum_shape(x.shape, kernel, stride, padding), x.dtype),
    _window_sum,
    vjp=lambda g, y, x, *, kernel, **attrs: (
        call("window_spread", g, extents=x.type.shape[-len(kernel) :], kernel=kernel, **attrs),
    ),
    work=_window_work,
    cirh=illegal_with_hint("Use F.avg_pool1d, avg_pool2d or avg_pool3d and multiply by the size of the window."),
)
op(
    "window_spread",
    lambda g, *, extents, kernel, stride, padding: Type((*g.shape[: -len(kernel)], *extents), g.dtype),
    _window_spread,
    vjp=lambda gg, y, g, *, extents, **attrs: (call("window_sum", gg, **attrs),),
    work=_window_work,
    cirh=illegal_with_hint("Use F.conv_transpose2d with a weight of ones."),
)


def _argmax_type(x: Type, *, kernel: Dims, stride: Dims, padding: Pairs, dilation: Dims) -> Type:
    lead = len(x.shape) - len(kernel)
    out = _window_counts(x.shape[lead:], kernel, stride, padding, dilation)
    return Type((*x.shape[:lead], *out), int64)


def _window_argmax(x: np.ndarray, *, kernel: Dims, stride: Dims, padding: Pairs, dilation: Dims) -> np.ndarray:
    """Return the int64 index, in the flattened image without padding, of the first maximum under each window.

    Padding never counts. If a window has NaN, the index is that of the last NaN, as in PyTorch.
    """
    lead = x.ndim - len(kernel)
    extents = x.shape[lead:]
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    # The flat index of each element, padded with -1 like the values.
    numbers = pad_array(np.arange(int(np.prod(extents))).reshape(extents), padding, -1)
    out = _window_counts(extents, kernel, stride, padding, dilation)
    best = np.full((*x.shape[:lead], *out), lowest, x.dtype)
    place = np.full(best.shape, -1, np.int64)
    values = _iterate_taps(pad_array(x, padding, lowest), kernel, stride, dilation, out)
    for value, number in zip(values, _iterate_taps(numbers, kernel, stride, dilation, out), strict=True):
        # A NaN replaces any value, as in PyTorch; padding (-1) never counts.
        better = (number >= 0) & ((value > best) | (value != value) | (place < 0))
        np.copyto(best, value, where=better)
        np.copyto(place, np.broadcast_to(number, place.shape), where=better)
    return place


op(
    "window_argmax",
    _argmax_type,
    _window_argmax,
    work=lambda out, x, *, kernel, **attrs: Work(int(np.prod(kernel)) * out.size, x.nbytes, out.nbytes),
    cirh=illegal_with_hint("Use F.max_pool1d, max_pool2d or max_pool3d over [N, C, ...]."),
)

Regions = tuple[tuple[tuple[int, int], ...], ...]
"""For each dimension the bounds (start, limit) of its regions, which may differ in length and overlap."""


def _region_argmax(x: np.ndarray, *, regions: Regions) -> np.ndarray:
    """Return the int64 index, in the flattened image, of the first maximum in each region. The first NaN counts as one.

    `regions` has for each dimension the (start, stop) of its intervals; regions are their combinations.
    """
    lead = x.ndim - len(regions)
    extents = x.shape[lead:]
    numbers = np.arange(int(np.prod(extents))).reshape(extents)
    out = np.empty((*x.shape[:lead], *map(len, regions)), np.int64)
    for at in product(*(range(len(r)) for r in regions)):
        box: Any = tuple(slice(*r[i]) for r, i in zip(regions, at, strict=True))
        part = x[(slice(None),) * lead + box].reshape(*x.shape[:lead], -1)
        # Regions differ in size (adaptive pooling), so there is no common window.
        out[(slice(None),) * lead + at] = numbers[box].ravel()[np.argmax(part, -1)]
    return out


op(
    "region_argmax",
    lambda x, *, regions: Type((*x.shape[: len(x.shape) - len(regions)], *map(len, regions)), int64),
    _region_argmax,
    work=lambda out, x, **attrs: Work(x.size, x.nbytes, out.nbytes),
    cirh=illegal_with_hint("Use F.max_pool2d with a kernel that divides the input evenly."),
)


def _gather_at_type(x: Type, places: Type) -> Type:
    if x.shape[:-1] != places.shape[:-1] or places.dtype is not int64:
        raise ShapeError(
            f"the indices {places} do not match the values {x}",
            hint="Pass int64 indices with the leading dimensions of the values.",
        )
    return Type(places.shape, x.dtype)


def _put_places(g: np.ndarray, places: np.ndarray, *, extent: int, accumulate: bool) -> np.ndarray:
    """Return rows of `extent` elements: zeros with the elements of g written, or added, at `places` in the same row.

    They are added if `accumulate`; otherwise the last one of equal indices wins. Raise ShapeError for an index out of
    range.
    """
    lead = g.shape[:-1]
    rows = int(np.prod(lead))
    # Indices may come from a script (un-pooling), and a negative one would refer to another row in `bincount`.
    if places.size and (places.min() < 0 or places.max() >= extent):
        raise ShapeError(
            f"found an invalid max index: the indices are 0 to {extent - 1}",
            hint="Pass the indices that max pooling returned.",
        )
    # One bincount over all rows, each with a separate range of numbers.
    flat = (np.arange(rows)[:, None] * extent + places.reshape(rows, places.shape[-1])).ravel()
    # A weighted bincount sums in double precision and is many times faster than `add.at`.
    if accumulate and g.dtype.kind == "f":
        total = np.bincount(flat, g.ravel(), rows * extent).astype(g.dtype)
    else:
        total = np.zeros(rows * extent, g.dtype)
        if accumulate:
            np.add.at(total, flat, g.ravel())
        else:
            total[flat] = g.ravel()
    return total.reshape(*lead, extent)


op(
    "at_places",
    _gather_at_type,
    lambda x, places: np.take_along_axis(x, places, -1),
    vjp=lambda g, y, x, places: (call("put_places", g, places, extent=x.type.shape[-1], accumulate=True), None),
    work=elementwise_work(0),
    cirh=legal_by_decomposition(
        pool_max, "Use F.max_pool2d, whose windows have one size, or x.amax(dim) over whole dimensions."
    ),
)
# Without `accumulate` the last of several values for one index wins, as in un-pooling.
op(
    "put_places",
    lambda g, places, *, extent, accumulate: Type((*g.shape[:-1], extent), g.dtype),
    _put_places,
    vjp=lambda gg, y, g, places, **attrs: (call("at_places", gg, places), None),
    work=elementwise_work(1),
    cirh=legal_by_decomposition(
        pool_max_gradient, "Unpool with F.interpolate on the client, or upsample with a transposed convolution."
    ),
)


def _index_along(dim: int, index: Any) -> tuple[Any, ...]:
    return (*(slice(None),) * dim, index)


def _scatter_along(g: np.ndarray, *, index: Dims, dim: int, extent: int) -> np.ndarray:
    total = np.zeros((*g.shape[:dim], extent, *g.shape[dim + 1 :]), g.dtype)
    # An index may occur more than once, so an assignment by index would lose terms.
    for k, i in enumerate(index):
        total[_index_along(dim, i)] += g[_index_along(dim, k)]
    return total


def _decompose_pick_along(x: Node, *, index: Dims, dim: int) -> Node:
    """Return a gather along `dim` by constant indices. Indices of reflection padding are computed, as in the front end.

    Half types are read as float32 and converted back.
    """
    row = Type((len(index),), int64)
    last, low = x.type.shape[dim] - 1, index.index(0) if 0 in index else 0
    if len(index) > last + 1 and index == tuple(last - abs(last - abs(p)) for p in range(-low, len(index) - low)):
        ends = full(last, row)
        places = ends - call("abs", ends - call("abs", call("arange", start=-low, step=1, type=row)))
    else:
        places = const(np.array(index, np.int64), row)
    wide = call(
        "broadcast_in_dim", places, shape=(*x.type.shape[:dim], *row.shape, *x.type.shape[dim + 1 :]), dims=(dim,)
    )
    is_half = x.type.dtype.is_half
    read = call("gather", call("cast", x, dtype=float32) if is_half else x, wide, dim=dim)
    return call("cast", read, dtype=x.type.dtype) if is_half else read


def _decompose_scatter_along(g: Node, *, index: Dims, dim: int, extent: int) -> Node:
    """Return for each index below `extent` the sum of the slices of g that belong to it, concatenated along `dim`.

    `index[k]` is the index of slice k. An index without a slice gets zeros.
    """
    zero, parts = full(0, Type((*g.type.shape[:dim], 1, *g.type.shape[dim + 1 :]), g.type.dtype)), list[Node]()
    for place in range(extent):
        slices = [_slice_along(g, dim, k) for k, at in enumerate(index) if at == place]
        parts.append(functools.reduce(operator.add, slices) if slices else zero)
    return call("concat", *parts, dim=dim)


def _slice_along(x: Node, dim: int, k: int) -> Node:
    starts = tuple(k if d == dim else 0 for d in range(len(x.type.shape)))
    limits = tuple(k + 1 if d == dim else e for d, e in enumerate(x.type.shape))
    return call("slice", x, starts=starts, limits=limits, strides=(1,) * len(starts))


op(
    "pick_along",
    lambda x, *, index, dim: Type((*x.shape[:dim], len(index), *x.shape[dim + 1 :]), x.dtype),
    lambda x, *, index, dim: np.take(x, np.array(index, np.int64), dim),
    vjp=lambda g, y, x, *, index, dim: (call("place_along", g, index=index, dim=dim, extent=x.type.shape[dim]),),
    work=elementwise_work(0),
    cirh=legal_by_decomposition(_decompose_pick_along),
)
op(
    "place_along",
    lambda g, *, index, dim, extent: Type((*g.shape[:dim], extent, *g.shape[dim + 1 :]), g.dtype),
    _scatter_along,
    vjp=lambda gg, y, g, *, index, dim, extent: (call("pick_along", gg, index=index, dim=dim),),
    work=lambda out, g, **attrs: Work(g.size, g.nbytes, out.nbytes),
    cirh=legal_by_decomposition(_decompose_scatter_along),
)


def pick_along(x: Node, index: Dims, dim: int) -> Node:
    """Return x at the indices `index` along one dimension."""
    return call("pick_along", x, index=index, dim=dim)
