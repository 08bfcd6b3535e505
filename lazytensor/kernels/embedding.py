"""Routines that read elements or rows of tables by index, and that write or add them by index."""

import math

import numpy as np

from lazytensor.core.dtype import float32, int64
from lazytensor.errors import IndexInvalid
from lazytensor.ir.reduction import REDUCTIONS
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.loop_parts import bounds
from lazytensor.kernels.routine import Routine

_KINDS = ("set", *REDUCTIONS)
"""The kinds of `scatter`, by the number that its kernel has for them."""


def _tables(type: Type, dim: int) -> tuple[int, int, int]:
    """Return the number of tables, rows and columns of a tensor whose dimension `dim` is indexed."""
    return math.prod(type.shape[:dim]), type.shape[dim], math.prod(type.shape[dim + 1 :])


def _is_plain(table: Type, rows: Type, places: tuple[Type, ...], dims: tuple[int, ...]) -> bool:
    """Return whether one int64 tensor indexes one dimension of a float32 table, and nothing is empty."""
    if table.dtype.host != float32.host or rows.dtype.host != float32.host or len(places) != 1:
        return False
    (dim,) = dims
    shape = (*table.shape[:dim], *places[0].shape, *table.shape[dim + 1 :])
    return places[0].dtype is int64 and rows.shape == shape and rows.size > 0 and table.size > 0


def _refusal(extent: int, dim: int) -> str:
    return f"an index is out of bounds for dimension {dim} with size {extent}"


def index_get(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `index_get` (table, indices -> rows), or None unless one tensor indexes one dimension.

    Running the routine raises IndexInvalid for an index out of range.
    """
    table, *places = ins
    if not _is_plain(table, outs[0], tuple(places), attrs["dims"]):
        return None
    (dim,) = attrs["dims"]
    tables, height, columns = _tables(table, dim)
    count = places[0].size
    parts = bounds(tables * count, outs[0].size)
    return Routine(
        module="embedding",
        geometry=np.array([tables, count, height, columns, parts[0][1]], np.int64),
        parts=(len(parts),),
        refusal=_refusal(height, dim),
        error=IndexInvalid,
        is_special=True,
    )


def index_put(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `index_put` (table, rows, indices -> table), or None unless one tensor indexes one
    dimension.
    """
    table, rows, *places = ins
    if not _is_plain(table, rows, tuple(places), attrs["dims"]):
        return None
    (dim,) = attrs["dims"]
    tables, height, columns = _tables(table, dim)
    # Cut by tables or by columns, because different indices may write to the same row.
    work = rows.size + table.size
    parts = bounds(tables, work)
    strips = bounds(columns, work // len(parts))
    geometry = [tables, places[0].size, height, columns, parts[0][1], strips[0][1], int(attrs["accumulate"])]
    return Routine(
        module="embedding_gradient",
        geometry=np.array(geometry, np.int64),
        parts=(len(parts) * len(strips),),
        refusal=_refusal(height, dim),
        error=IndexInvalid,
        is_special=True,
    )


def _along(module: str, x: Type, index: Type, dim: int, *more: int) -> Routine | None:
    """Return the routine `module` of `gather` or `scatter`, or None for other types and for a smaller index."""
    is_whole = len(x.shape) > 0 and all(
        a == b for d, (a, b) in enumerate(zip(x.shape, index.shape, strict=True)) if d != dim
    )
    if x.dtype.host != float32.host or not x.shape or not is_whole or not x.size or not index.size:
        return None
    tables, height, columns = _tables(x, dim)
    parts = bounds(tables, x.size + index.size)
    geometry = [tables, index.shape[dim], height, columns, parts[0][1], *more]
    return Routine(
        module=module,
        geometry=np.array(geometry, np.int64),
        parts=(len(parts),),
        refusal=_refusal(height, dim),
        error=IndexInvalid,
        is_special=True,
    )


def gather(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `gather` (x, indices -> elements), or None."""
    return _along("gather", ins[0], ins[1], attrs["dim"])


def scatter(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `scatter` (base, indices, values -> base with the values), or None."""
    return _along("scatter", ins[0], ins[1], attrs["dim"], _KINDS.index(attrs["kind"]))


def add_rows(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `add_rows` (x, rows, places -> sums), or None unless x is float32 and nothing is empty."""
    x, rows, _ = ins
    if x.dtype.host != float32.host or not x.size or not outs[0].size:
        return None
    height, columns = x.shape
    # Cut by columns, because different rows may be added at the same place.
    parts = bounds(columns, rows.size * columns + outs[0].size)
    return Routine(
        module="add_rows",
        geometry=np.array([rows.size, height, outs[0].shape[0], columns, parts[0][1]], np.int64),
        parts=(len(parts),),
        refusal=f"an index is out of bounds for dimension 0 with size {height}",
        error=IndexInvalid,
        is_special=True,
    )


def flat_index(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `flat_index` (rows, columns -> numbers of elements), or None for no index."""
    count = outs[0].size
    if not count:
        return None
    parts = bounds(count, count)
    return Routine(
        module="flat_index",
        geometry=np.array([count, *attrs["extents"], parts[0][1]], np.int64),
        parts=(len(parts),),
        refusal="an index is out of bounds",
        error=IndexInvalid,
        is_special=True,
    )


def _lists(x: Type, y: Type, dim: int, lists: list[list[int]]) -> Routine | None:
    """Return the routine that sums rows of `x` along `dim`, one list of them for each row of the result `y`."""
    if x.dtype.host != float32.host or not x.size or not y.size:
        return None
    tables, height, columns = _tables(x, dim)
    parts = bounds(tables, x.size + y.size)
    starts = np.cumsum([0, *map(len, lists)])
    geometry = [tables, len(lists), height, columns, parts[0][1], *starts, *(r for rows in lists for r in rows)]
    return Routine(module="pick_along", geometry=np.array(geometry, np.int64), parts=(len(parts),))


def pick_along(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `pick_along` (x -> rows of x at fixed indices), or None."""
    return _lists(ins[0], outs[0], attrs["dim"], [[r] for r in attrs["index"]])


def place_along(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `place_along` (rows -> their sums at fixed indices), or None."""
    lists: list[list[int]] = [[] for _ in range(attrs["extent"])]
    for k, r in enumerate(attrs["index"]):
        lists[r].append(k)
    return _lists(ins[0], outs[0], attrs["dim"], lists)
