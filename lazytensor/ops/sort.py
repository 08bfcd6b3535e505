"""Sorting, running sums and extremes, median, mode, and search in sorted rows.

Operations that return indices have no gradient: values are gathered at the indices.
"""

from typing import Any

import numpy as np

from lazytensor.cirh.layers import SCAN, in_top_k_attributes
from lazytensor.cirh.spelling import typed_operation
from lazytensor.core.dtype import bool_, int16, int64
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import elementwise_work, illegal_with_hint, legal_by_decomposition
from lazytensor.ir.types import Type, Work
from lazytensor.ops.elementwise import eq, where
from lazytensor.ops.op import call, full_like, op

_SCAN_UFUNCS: dict[str, Any] = {"add": np.add, "mul": np.multiply, "logaddexp": np.logaddexp}


def _indices_type(x: Type, **attrs: Any) -> Type:
    return Type(x.shape, int64)


def _sort_work(out: Type, x: Type, **attrs: Any) -> Work:
    """Return the work of a merge sort: for each element about log2 of the longest extent comparisons, at least one."""
    rounds = max(1, max(x.shape, default=1).bit_length())
    return Work(x.size * rounds, x.nbytes, out.nbytes)


def _argsort(x: np.ndarray, *, dim: int, descending: bool) -> np.ndarray:
    """Return the int64 indices that sort x along `dim`. Equal elements keep their order, also if `descending`.

    NaN counts as the largest.
    """
    if x.dtype == np.float32 and x.ndim:
        return _argsort_by_keys(x, dim, descending)
    if not descending:
        return np.argsort(x, axis=dim, kind="stable").astype(np.int64)
    # Sort the reversed row and reverse the result, so that equal elements keep their order in a descending sort too.
    back = np.argsort(np.flip(x, dim), axis=dim, kind="stable")
    return np.asarray(np.flip(x.shape[dim] - 1 - back, dim).astype(np.int64))


def _argsort_by_keys(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    """Return `_argsort` of float32 numbers, by sorting integers with the number in the upper 32 bits, the index below.

    NumPy sorts integers several times faster than it sorts indices. The index makes equal numbers keep their order.
    """
    # Adding 0 makes both zeros equal. NaN of any sign is the largest.
    rows = np.moveaxis(x, dim, -1) + np.float32(0)
    bits = np.where(rows == rows, rows, np.float32(np.nan)).view(np.int32)
    keys = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits).astype(np.int64)
    if descending:
        keys = ~keys
    keys <<= 32
    keys |= np.arange(rows.shape[-1])
    keys.sort(-1)
    keys &= 0xFFFFFFFF
    return np.moveaxis(keys, -1, dim)


def _argscan(x: np.ndarray, *, kind: str, dim: int) -> np.ndarray:
    """Return the int64 indices of the running maxima ("max") or minima along `dim`.

    The index is that of the last of equal elements. After a NaN it is that of the last NaN.
    """
    # NumPy's running extremes stay NaN after a NaN, as PyTorch's do.
    running = (np.maximum if kind == "max" else np.minimum).accumulate(x, dim)
    is_extreme = (x == running) | (x != x)
    shape = [1] * x.ndim
    shape[dim] = -1
    # The running maximum of the indices where the extreme occurs is the last such index.
    places = np.arange(x.shape[dim], dtype=np.int64).reshape(shape)
    return np.maximum.accumulate(np.where(is_extreme, places, 0), dim)


def _scan(x: np.ndarray, *, kind: str, dim: int, reverse: bool) -> np.ndarray:
    if reverse:
        return np.flip(_scan(np.flip(x, dim), kind=kind, dim=dim, reverse=False), dim)
    # Floating-point numbers accumulate in float64, as in PyTorch. Integers keep their type, which NumPy would widen.
    dtype = np.dtype(np.float64) if x.dtype.kind == "f" else x.dtype
    return np.asarray(_SCAN_UFUNCS[kind].accumulate(x, dim, dtype=dtype), x.dtype)


def scan(x: Node, kind: str, dim: int, reverse: bool = False) -> Node:
    """Return the running "add", "mul" or "logaddexp" along a dimension, from its end if `reverse`."""
    return call("scan", x, kind=kind, dim=dim, reverse=reverse)


def _scan_vjp(g: Node, y: Node, x: Node, *, kind: str, dim: int, reverse: bool) -> tuple[Node]:
    if kind == "add":
        # Element k is part of every sum from k on, so its gradient is the running sum from the other end.
        return (scan(g, "add", dim, not reverse),)
    return (_running_product_vjp if kind == "mul" else _running_lse_vjp)(g, y, x, dim, reverse)


def _running_product_vjp(g: Node, y: Node, x: Node, dim: int, reverse: bool) -> tuple[Node]:
    """Gradient rule of a running product, exact also if elements are zero.

    Before the first zero of a row the slope is y / x; the first zero has the product of the others; after it, slopes
    are 0.
    """
    is_zero = eq(x, 0)
    zeros = scan(where(is_zero, full_like(1, x), 0), "add", dim, reverse)
    before = eq(zeros, 0)
    first = call("logical_and", is_zero, eq(zeros, 1))
    # y / x is the product of the others if none of them is zero; after a zero every product is 0.
    slope = scan(g * y, "add", dim, not reverse) / where(is_zero, 1, x)
    without = scan(where(first, 1, x), "mul", dim, reverse)
    # After a second zero `without` is 0, so the sum ends there.
    at_first = scan(where(before, 0, g * without), "add", dim, not reverse)
    return (where(before, slope, where(first, at_first, 0)),)


def _running_lse_vjp(g: Node, y: Node, x: Node, dim: int, reverse: bool) -> tuple[Node]:
    """Gradient rule of a running logaddexp: dx[k] = sum over i >= k of g[i] exp(x[k] - y[i]).

    The sum is computed in logarithms, for positive and negative gradients separately, so that nothing overflows.
    """
    # Logarithms of 0, and differences of infinities, would make the second derivative NaN.
    size = call("log", where(eq(g, 0), 1, call("abs", g)))
    is_finite = y > -np.inf

    def total(part: Node) -> Node:
        terms = where(is_finite, part - where(is_finite, y, 0), -np.inf)
        return call("exp", scan(terms, "logaddexp", dim, not reverse) + x)

    return (total(where(g > 0, size, -np.inf)) - total(where(g < 0, size, -np.inf)),)


def _single_index_type(x: Type, *, dim: int, kind: str) -> Type:
    if x.shape[dim] == 0:
        raise ShapeError(
            f"{kind}(): Expected reduction dim {dim} to have non-zero size, and the shape is {x.shape}",
            hint="Pass a tensor whose dimension has elements.",
        )
    return Type(tuple(1 if d == dim else e for d, e in enumerate(x.shape)), int64)


def _arg_pick(x: np.ndarray, *, dim: int, kind: str) -> np.ndarray:
    """Return the int64 index of the "median", "nanmedian" or "mode" along a dimension, which becomes 1."""
    if kind != "mode":
        return _median_index(x, dim, kind)
    return _mode_index(np.moveaxis(x, dim, -1), dim)


def _median_index(x: np.ndarray, dim: int, kind: str) -> np.ndarray:
    """Return the index of the lower of the two middle elements, with `dim` kept as 1.

    "median" returns the first NaN if there is one. "nanmedian" ignores NaN, and returns index 0 if all elements are
    NaN.
    """
    # Only a NaN differs from itself.
    nan = x != x
    numbers = x.shape[dim] - np.count_nonzero(nan, axis=dim, keepdims=True)
    # The lower of the two middles, PyTorch's convention; NumPy's median takes their mean.
    rank = np.maximum(numbers - 1, 0) // 2
    places = np.take_along_axis(_argsort(x, dim=dim, descending=False), rank, dim)
    if kind == "median":
        places = np.where(numbers < x.shape[dim], np.argmax(nan, axis=dim, keepdims=True), places)
    return places.astype(np.int64)


def _mode_index(rows: np.ndarray, dim: int) -> np.ndarray:
    """Return the last index of the most frequent value of each row, or of the smallest one of several.

    The result has the dimension of the rows as dimension `dim`, with extent 1.
    """
    order = _argsort(rows, dim=-1, descending=False)
    ranked = np.take_along_axis(rows, order, -1)
    # A stable sort puts the last index of a value at the end of its run. The first longest run is the smallest value.
    starts = np.ones(rows.shape, bool)
    starts[..., 1:] = ranked[..., 1:] != ranked[..., :-1]
    places = np.arange(rows.shape[-1])
    lengths = places - np.maximum.accumulate(np.where(starts, places, 0), -1)
    ends = np.expand_dims(np.argmax(lengths, -1), -1)
    return np.moveaxis(np.take_along_axis(order, ends, -1), -1, dim).astype(np.int64)


def _search_type(rows: Type, x: Type, *, right: bool) -> Type:
    if rows.dtype is not x.dtype or (len(rows.shape) != 1 and rows.shape[:-1] != x.shape[:-1]):
        raise ShapeError(
            f"boundaries {rows} do not match values {x}",
            hint="Pass boundaries with one dimension, or with the same leading dimensions as the values.",
        )
    return Type(x.shape, int64)


def _search(rows: np.ndarray, x: np.ndarray, *, right: bool) -> np.ndarray:
    """Return the int64 insertion index of each element in its sorted row, as torch.searchsorted.

    `rows` is one row for all elements, or has the leading dimensions of `x`. With `right`, the index is after equal
    elements, and otherwise before them.
    """
    side: Any = "right" if right else "left"
    if rows.ndim == 1:
        return np.asarray(np.searchsorted(rows, x, side), np.int64)
    out = np.empty(x.shape, np.int64)
    # NumPy searches one row of boundaries at a time.
    for at in np.ndindex(x.shape[:-1]):
        out[at] = np.searchsorted(rows[at], x[at], side)
    return out


def _argsort_as_top(x: Node, *, dim: int, descending: bool) -> Node:
    """Return the indices of sorted elements by "top" with k = n."""
    top = call("top", x, dim=dim, k=x.type.shape[dim], largest=descending)
    return call("result", top, index=1)


op("argsort", _indices_type, _argsort, work=_sort_work, cirh=legal_by_decomposition(_argsort_as_top))
op(
    "arg_scan",
    _indices_type,
    _argscan,
    work=elementwise_work(1),
    cirh=illegal_with_hint("Compare x with a running maximum that is state of the step, or use x.amax(dim)."),
)


def _decompose_reverse_scan(x: Node, *, kind: str, dim: int, reverse: bool) -> Node | None:
    """Return a running sum or product from the end in the front end's form: reversed, summed, and reversed again.

    Return None if it is not from the end, and for "logaddexp".
    """
    if not reverse or kind == "logaddexp":
        return None
    return call("reverse", scan(call("reverse", x, dims=(dim,)), kind, dim), dims=(dim,))


op(
    "scan",
    lambda x, **attrs: x,
    _scan,
    vjp=_scan_vjp,
    work=elementwise_work(1),
    cirh=SCAN.with_decomposition(_decompose_reverse_scan),
    gradient_name=lambda n: {"add": "Cumsum", "mul": "Cumprod"}.get(n.attrs["kind"], "Logcumsumexp"),
)
op(
    "arg_pick",
    _single_index_type,
    _arg_pick,
    work=_sort_work,
    cirh=illegal_with_hint("Sort the row and select its middle: x.sort(dim)[0].select(dim, n // 2)."),
)
op(
    "searchsorted",
    _search_type,
    _search,
    work=elementwise_work(10),
    cirh=illegal_with_hint("Count the boundaries: (boundaries < x.unsqueeze(-1)).sum(-1)."),
)
op(
    "isin",
    lambda x, wanted: Type(x.shape, bool_),
    lambda x, wanted: np.isin(x, wanted),
    work=elementwise_work(10),
    cirh=illegal_with_hint("Compare with each element: (x.unsqueeze(-1) == wanted).any(-1)."),
)


def _in_top_k(x: np.ndarray, *, k: int, dim: int) -> np.ndarray:
    # Elements equal to the k-th largest count too, so more than k elements may be marked.
    limit = np.take(np.sort(x, dim), [x.shape[dim] - k], dim)
    return (x >= limit).astype(np.int16)


# Tests whether an element is among the k largest along a dimension.
op(
    "reaches_nth",
    lambda x, *, k, dim: Type(x.shape, int16),
    _in_top_k,
    work=elementwise_work(10),
    cirh=typed_operation("NthOrderStatistic", in_top_k_attributes),
)
