"""Rows of the operations that index, sort and scan."""

import math
import operator
from collections import Counter

import numpy as np

from tests.lazytensor.ops.op_rows import Case, Draw, Row, Shape


def _dim(d: Draw) -> int:
    return int(d.rng.integers(len(d.shape)))


def _gather_case(d: Draw) -> Case:
    dim = _dim(d)
    shape = tuple(4 if k == dim else e for k, e in enumerate(d.shape))
    return [d.values(), d.rng.integers(0, d.shape[dim], shape)], {"dim": dim}


def _at(where: Shape, index: np.ndarray, dim: int) -> Shape:
    return tuple(int(index[where]) if k == dim else w for k, w in enumerate(where))


def _gathered(x: np.ndarray, index: np.ndarray, *, dim: int) -> np.ndarray:
    out = np.empty(index.shape, x.dtype)
    for where in np.ndindex(index.shape):
        out[where] = x[_at(where, index, dim)]
    return out


_FOLD = {"set": lambda a, b: b, "add": operator.add, "mul": operator.mul, "maximum": max, "minimum": min}


def _scatter_case(d: Draw) -> Case:
    dim, kind = _dim(d), d.one(*_FOLD)
    # Without duplicates where values are set: which of several stays is nobody's promise.
    index = np.argsort(d.rng.random(d.shape), dim) if kind == "set" else d.rng.integers(0, d.shape[dim], d.shape)
    return [d.distinct(), index, d.cast(d.distinct() + 0.01)], {"dim": dim, "kind": kind}


def _scattered(base: np.ndarray, index: np.ndarray, value: np.ndarray, *, dim: int, kind: str) -> np.ndarray:
    out = base.copy()
    for where in np.ndindex(index.shape):
        at = _at(where, index, dim)
        out[at] = _FOLD[kind](out[at], value[where])
    return out


def _pick_case(d: Draw) -> Case:
    """One index, two neighbouring ones, or two that are apart; the second broadcasts against the first."""
    dims = d.one((0,), (0, 1), (0, 2), (1, 2), (2,))
    first = d.rng.integers(-d.shape[dims[0]], d.shape[dims[0]], (2, 3))
    second = [d.rng.integers(0, d.shape[dims[1]], 3)] if len(dims) == 2 else []
    return [d.values(), first, *second], {"dims": dims}


def _picked(x: np.ndarray, *indices: np.ndarray, dims: Shape) -> np.ndarray:
    wide = np.broadcast_arrays(*indices)
    cells = [x[tuple(int(wide[dims.index(k)][at]) if k in dims else slice(None) for k in range(x.ndim))]
             for at in np.ndindex(wide[0].shape)]  # fmt: skip
    out = np.array(cells).reshape(*wide[0].shape, *cells[0].shape)
    together = dims[-1] - dims[0] == len(dims) - 1
    return np.moveaxis(out, (0, 1), (dims[0], dims[0] + 1)) if together else out


def _place_case(d: Draw) -> Case:
    """Indices of one dimension without duplicates, or with them where they add up."""
    accumulate, dim = d.flag(), int(d.rng.integers(3))
    index = d.rng.integers(0, d.shape[dim], 4) if accumulate else d.rng.permutation(d.shape[dim])
    shape = tuple(len(index) if k == dim else e for k, e in enumerate(d.shape))
    return [d.values(), d.values(shape), index], {"dims": (dim,), "accumulate": accumulate}


def _flat_case(d: Draw) -> Case:
    extents = (3, 5)
    return [d.rng.integers(-e, e, d.shape) for e in extents], {"dims": (0, 1), "extents": extents}


def _flat(i: np.ndarray, j: np.ndarray, *, dims: Shape, extents: Shape) -> np.ndarray:
    return i % extents[0] * extents[1] + j % extents[1]


def _table_case(d: Draw) -> Case:
    """Rows of a table, the case that is summed by sorted runs."""
    rows, width = 3, 2
    index = d.rng.integers(-rows, rows, 5)
    return [d.values((rows, width)), d.values((5, width)), index], {"dims": (0,), "accumulate": True}


def _placed(base: np.ndarray, value: np.ndarray, index: np.ndarray, *, dims: Shape, accumulate: bool) -> np.ndarray:
    out = np.moveaxis(base.copy(), dims[0], 0)
    for k, i in enumerate(index):
        out[i] = np.moveaxis(value, dims[0], 0)[k] + (out[i] if accumulate else 0)
    return np.moveaxis(out, 0, dims[0])


def _along(f, x: np.ndarray, dim: int) -> np.ndarray:
    """A function of a list, along a dimension."""
    return np.apply_along_axis(lambda row: np.array(f(row.tolist())), dim, x)


def _order_case(d: Draw) -> Case:
    return [d.cast(d.rng.integers(-2, 3, d.shape))], {"dim": _dim(d), "descending": d.flag()}


def _order(x: np.ndarray, *, dim: int, descending: bool) -> np.ndarray:
    return _along(lambda r: sorted(range(len(r)), key=r.__getitem__, reverse=descending), x, dim)


def _running(row: list, f, reverse: bool) -> list:
    row = row[::-1] if reverse else row
    out = [f(row[: k + 1]) for k in range(len(row))]
    return out[::-1] if reverse else out


_SO_FAR = {"add": sum, "mul": math.prod, "logaddexp": lambda row: math.log(sum(map(math.exp, row)))}


def _scan(x: np.ndarray, *, kind: str, dim: int, reverse: bool) -> np.ndarray:
    return _along(lambda r: _running(r, _SO_FAR[kind], reverse), x, dim)


def _scan_case(d: Draw) -> Case:
    kinds = ("add", "mul", "logaddexp") if d.dtype.kind == "f" else ("add", "mul")
    return [d.values()], {"kind": d.one(*kinds), "dim": _dim(d), "reverse": d.flag()}


def _last_extreme(row: list, kind: str) -> int:
    best = max(row) if kind == "max" else min(row)
    return len(row) - 1 - row[::-1].index(best)


def _argscan(x: np.ndarray, *, kind: str, dim: int) -> np.ndarray:
    return _along(lambda r: _running(r, lambda so_far: _last_extreme(so_far, kind), False), x, dim)


def _chosen(row: list, kind: str) -> list[int]:
    if kind == "mode":
        counts = Counter(row)
        most = min(v for v, n in counts.items() if n == max(counts.values()))
        return [len(row) - 1 - row[::-1].index(most)]
    return [sorted(range(len(row)), key=row.__getitem__)[(len(row) - 1) // 2]]


def _search_case(d: Draw) -> Case:
    shared = d.flag()
    rows = np.sort(d.cast(d.rng.integers(-2, 3, d.shape[-1:] if shared else d.shape)))
    return [rows, d.cast(d.rng.integers(-3, 4, d.shape))], {"right": d.flag()}


def _search(rows: np.ndarray, x: np.ndarray, *, right: bool) -> np.ndarray:
    wide = np.broadcast_to(rows, (*x.shape[:-1], rows.shape[-1]))
    before = operator.le if right else operator.lt
    out = np.empty(x.shape, int)
    for at in np.ndindex(x.shape):
        out[at] = sum(before(r, x[at]) for r in wide[at[:-1]])
    return out


def _mirrored(x: np.ndarray, *, dims: Shape) -> np.ndarray:
    out = np.empty_like(x)
    for at in np.ndindex(x.shape):
        out[at] = x[tuple(e - 1 - a if k in dims else a for k, (a, e) in enumerate(zip(at, x.shape, strict=True)))]
    return out


ROWS = {
    "gather": Row(_gather_case, _gathered, "fib", 1, 1),
    "scatter": Row(_scatter_case, _scattered, "fi", 1, 1),
    "index_get": Row(_pick_case, _picked, "fib", 1, 3),
    "index_put": Row(lambda d: _table_case(d) if d.flag() else _place_case(d), _placed, "fi", 1, 3),
    "add_rows": Row(
        lambda d: ([d.values((4, 3)), d.rng.integers(0, 4, 6), d.rng.integers(0, 5, 6)], {"count": 5}),
        lambda x, rows, places, *, count: np.eye(count, dtype=x.dtype)[:, places] @ x[rows],
        "fi",
    ),
    "flat_index": Row(_flat_case, _flat, "i"),
    "reverse": Row(lambda d: ([d.values()], {"dims": d.dims()}), _mirrored, "fib"),
    "argsort": Row(_order_case, _order, "fib", 1, 1),
    "arg_scan": Row(
        lambda d: ([d.cast(d.rng.integers(-2, 3, d.shape))], {"kind": d.one("max", "min"), "dim": _dim(d)}),
        _argscan,
        "fib",
        1,
        1,
    ),
    "scan": Row(_scan_case, _scan, "fi", 1, 1),
    "arg_pick": Row(
        lambda d: (
            [d.cast(d.rng.integers(-2, 3, d.shape))],
            {"kind": d.one("median", "nanmedian", "mode"), "dim": _dim(d)},
        ),
        lambda x, dim, kind: _along(lambda r: _chosen(r, kind), x, dim),
        "fib",
        1,
        1,
    ),
    "searchsorted": Row(_search_case, _search, "fi", 1, 1),
    "isin": Row(
        lambda d: ([d.cast(d.rng.integers(-2, 3, d.shape)), d.cast(d.rng.integers(-2, 3, 3))], {}),
        lambda x, wanted: np.array([v in wanted.tolist() for v in x.ravel().tolist()], bool).reshape(x.shape),
        "fib",
    ),
}
NOT_DIFFERENTIABLE = {"flat_index", "argsort", "arg_scan", "arg_pick", "searchsorted", "isin"}
