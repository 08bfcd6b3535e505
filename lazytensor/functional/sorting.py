"""Sorted order, ranks, medians and modes, distinct values, bins."""

import math
import operator
from typing import Any, NamedTuple

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.autocast import half_type
from lazytensor.core.tensor import Tensor, from_array, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.errors import ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction as red
from lazytensor.functional.gather_scatter import at_least_vector
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.reduction import ValuesIndices
from lazytensor.functional.type_promotion import Number, Operand, require_elements, result_type
from lazytensor.functional.views import normalize_dim, reshape, squeeze, view
from lazytensor.ir.graph import Node
from lazytensor.ops import call
from lazytensor.ops import index as at
from lazytensor.ops.elementwise import cast
from lazytensor.ops.shape import slice_


class Histogram(NamedTuple):
    """The answer of `histogram`."""

    hist: Tensor
    bin_edges: Tensor


def _argsort(x: Tensor, dim: int, descending: bool) -> tuple[Tensor, int, Node]:
    base, d = at_least_vector(x), normalize_dim(dim, x.ndim)
    if not isinstance(descending, bool | np.bool_):
        descending = bool(operator.index(descending))
    return base, d, call("argsort", operand_node(base), dim=d, descending=descending)


def _restore_rank(like: Tensor, *results: Tensor) -> ValuesIndices:
    """Results of a number are numbers again."""
    return ValuesIndices(*(results if like.ndim else (view(r, ()) for r in results)))


@method
def sort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None) -> ValuesIndices:
    """The elements in order along a dimension, and where they were, int64: two of [...].

    Equal ones keep their order, NaN is largest. Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> values, places = lt.sort(lt.tensor([3, 1, 2]))
    >>> places
    tensor([1, 2, 0])
    """
    base, d, order = _argsort(x, dim, descending)
    return _restore_rank(x, tensor_of(at.gather(operand_node(base), order, d), x), tensor_of(order, x))


@method
def argsort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Tensor:
    """Where the elements in order along a dimension are: int64[...]. Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.argsort(lt.tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    order = tensor_of(_argsort(x, dim, descending)[2], x)
    return order if x.ndim else view(order, ())


@method
def msort(x: Tensor) -> Tensor:
    """The elements in order along the first dimension: [...] to [...].

    >>> import lazytensor as lt
    >>> lt.msort(lt.tensor([3, 1, 2]))
    tensor([1, 2, 3])
    """
    return sort(x, 0).values


def _slice_order(order: Node, d: int, first: int, count: int) -> Node:
    shape = order.type.shape
    starts = tuple(first if k == d else 0 for k in range(len(shape)))
    return slice_(order, starts, tuple(first + count if k == d else e for k, e in enumerate(shape)))


@method
def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """The k largest or smallest elements along a dimension, in order, and where they are: two of [..., k, ...].

    Raises ShapeError for k out of range.

    >>> import lazytensor as lt
    >>> lt.topk(lt.tensor([3.0, 9.0, 5.0]), 2)
    ValuesIndices(values=tensor([9., 5.]), indices=tensor([1, 2]))
    """
    # A whole sort: k is small and rows are short where networks use it, and ties fall as in a stable sort.
    require_elements(x, "fi", "topk")
    base, d = at_least_vector(x), normalize_dim(dim, x.ndim)
    if not 0 <= k <= base.spec.shape[d]:
        raise ShapeError("selected index k out of range", where=source.where())
    if half_type() is None:
        places = _slice_order(_argsort(x, dim, largest)[2], d, 0, int(k))
    else:
        places = call("result", call("top", operand_node(base), dim=d, k=int(k), largest=bool(largest)), index=1)
    return _restore_rank(x, tensor_of(at.gather(operand_node(base), places, d), x), tensor_of(places, x))


def _gather_single(x: Tensor, base: Tensor, d: int, places: Node, keepdim: bool) -> ValuesIndices:
    """Element and place where a dimension was reduced to one place."""
    pair = (tensor_of(at.gather(operand_node(base), places, d), x), tensor_of(places, x))
    if not x.ndim:
        return ValuesIndices(*(view(p, ()) for p in pair))
    return ValuesIndices(*(pair if keepdim else (squeeze(p, d) for p in pair)))


@method
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest element along a dimension, counted from 1, and its place, without it.

    Raises ShapeError for k out of range.

    >>> import lazytensor as lt
    >>> lt.kthvalue(lt.tensor([3, 1, 2]), 2).values
    tensor(2)
    """
    require_elements(x, "fi", "kthvalue")
    base, d, order = _argsort(x, dim, False)
    red.require_extent(x, d, "kthvalue")
    if not 1 <= k <= base.spec.shape[d]:
        raise ShapeError(f"kthvalue(): selected number k out of range for dimension {d}", where=source.where())
    return _gather_single(x, base, d, _slice_order(order, d, k - 1, 1), keepdim)


def _pick_along_dim(x: Tensor, kind: str, dim: int, keepdim: bool) -> ValuesIndices:
    base, d = at_least_vector(x), normalize_dim(dim, x.ndim)
    red.require_extent(x, d, kind)
    return _gather_single(x, base, d, call("arg_pick", operand_node(base), dim=d, kind=kind), keepdim)


def _median(x: Tensor, kind: str, dim: int | None, keepdim: bool) -> Any:
    if x.spec.size or (dim is not None and x.ndim and x.spec.shape[normalize_dim(dim, x.ndim)]):
        require_elements(x, "fi", kind)
    if dim is not None:
        return _pick_along_dim(x, kind, dim, keepdim)
    if not x.spec.size:
        # An integer type has what the processor makes of NaN, as in PyTorch.
        value = pw.cast_to(from_array(np.asarray(math.nan)), x.dtype)
        return value + red.sum(x) if x.requires_grad else value
    flat = reshape(x, -1)
    value = _pick_along_dim(flat, kind, 0, False).values
    if not operand_node(x).tracks:
        return value
    # Equal elements share the gradient evenly, as in PyTorch: what is added to the value is zero.
    value = value.detach()
    is_median = flat == value
    # The sum of (element - value) over the equal ones is 0, and each of them has the slope 1 / count in it.
    apart = red.sum(pw.where(pw.logical_and(is_median, pw.isfinite(flat)), flat - value, 0.0))
    return value + apart / pw.maximum(red.sum(pw.cast_to(is_median, x.dtype)), 1.0)


@method
def median(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower middle of the elements; NaN if there is one. With a dimension also the place, int64, both without it.

    Raises IndexError where a dimension has no elements.

    >>> import lazytensor as lt
    >>> lt.median(lt.tensor([3, 1, 2]))
    tensor(2)
    """
    return _median(x, "median", dim, keepdim)


@method
def nanmedian(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower middle of the elements that are numbers. With a dimension also the place, int64.

    Raises as `median` does.

    >>> import lazytensor as lt
    >>> lt.nanmedian(lt.tensor([1.0, float("nan"), 3.0]))
    tensor(1.)
    """
    return _median(x, "nanmedian", dim, keepdim)


@method
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The most frequent element along a dimension, the smallest of several, and its last place.

    Raises IndexError where a dimension has no elements.

    >>> import lazytensor as lt
    >>> lt.mode(lt.tensor([3, 1, 3])).values
    tensor(3)
    """
    return _pick_along_dim(x, "mode", dim, keepdim)


def _array_to_device_of(array: np.ndarray, x: Tensor, dtype: dt.DType | None = None) -> Tensor:
    out = from_array(array, dtype)
    out.device = x.device
    return out


@method
def unique(
    x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The distinct elements [n], or slices of a dimension, in order; on request where each went, and how often it came.

    Raises TraceError in a step: how many there are depends on values.

    >>> import lazytensor as lt
    >>> lt.unique(lt.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    array = x.array("unique()")
    # NaN differs from itself, so each one is listed, as in PyTorch.
    axis = None if dim is None else normalize_dim(dim, x.ndim)
    values, inverse, counts = np.unique(
        np.atleast_1d(array), return_inverse=True, return_counts=True, axis=axis, equal_nan=False
    )
    # NumPy 2.0 gives the inverse of an axis another shape than 2.1.
    inverse = inverse.reshape(array.shape if dim is None else -1)
    return _unique_results(x, values, inverse, counts, return_inverse, return_counts)


def _unique_results(
    x: Tensor, values: np.ndarray, inverse: np.ndarray, counts: np.ndarray, with_inverse: bool, with_counts: bool
) -> Any:
    results = [_array_to_device_of(values, x, x.dtype)]
    results += [_array_to_device_of(inverse, x, dt.int64)] if with_inverse else []
    results += [_array_to_device_of(counts, x, dt.int64)] if with_counts else []
    return tuple(results) if len(results) > 1 else results[0]


@method
def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Elements [n], or slices of a dimension, without those equal to the one before.

    Raises TraceError in a step: how many there are depends on values.

    >>> import lazytensor as lt
    >>> lt.unique_consecutive(lt.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    array = x.array("unique_consecutive()")
    rows = array.reshape(-1) if dim is None else np.moveaxis(array, normalize_dim(dim, x.ndim), 0)
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    # The first of each run; a running count of them numbers the runs.
    fresh = np.ones(len(rows), bool)
    fresh[1:] = (flat[1:] != flat[:-1]).any(1)
    inverse = np.cumsum(fresh) - 1
    counts = np.bincount(inverse)
    values = rows[fresh] if dim is None else np.moveaxis(rows[fresh], 0, normalize_dim(dim, x.ndim))
    inverse = inverse.reshape(array.shape if dim is None else -1)
    return _unique_results(x, values, inverse, counts, return_inverse, return_counts)


def _common_operands(a: Operand, b: Operand) -> tuple[Tensor, Tensor]:
    """Two operands as tensors of one dtype."""
    dtype = result_type(a, b)
    # Numbers become tensors of the common type before they are compared.
    a, b = (v if isinstance(v, Tensor) else from_array(np.asarray(v, dtype.host), dtype) for v in (a, b))
    return pw.cast_to(a, dtype), pw.cast_to(b, dtype)


def isin(elements: Operand, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is among the test elements: bool in the shape of the elements.

    >>> import lazytensor as lt
    >>> lt.isin(lt.tensor([1, 2, 3]), lt.tensor([2, 3]))
    tensor([False,  True,  True])
    """
    a, b = _common_operands(elements, test_elements)
    is_member = tensor_of(call("isin", operand_node(a), operand_node(b)), a)
    return pw.logical_not(is_member) if invert else is_member


def searchsorted(
    sorted_sequence: Tensor,
    values: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where each value [..., m] would be inserted to keep the sorted last dimension [..., n] in order: int64[..., m].

    Raises ShapeError if side contradicts right, and if leading extents differ; a vector [n] serves all values.

    >>> import lazytensor as lt
    >>> lt.searchsorted(lt.tensor([2, 4, 6]), lt.tensor([1, 5]))
    tensor([0, 2])
    """
    if side not in (None, "left", "right") or (side == "left" and right):
        raise ShapeError("side and right can't be set to opposites", where=source.where())
    rows, x = _common_operands(sorted_sequence, values)
    if sorter is not None:
        # The sorter says in which order the rows would be sorted.
        rows = tensor_of(at.gather(operand_node(rows), operand_node(sorter), rows.ndim - 1), rows)
    n = call("searchsorted", operand_node(rows), operand_node(x), right=right or side == "right")
    return tensor_of(cast(n, dt.int32) if out_int32 else n, x)


def bucketize(input: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the bucket between sorted boundaries [n] that each value falls into: int64 in their shape.

    Raises as `searchsorted` does.

    >>> import lazytensor as lt
    >>> lt.bucketize(lt.tensor([1, 5]), lt.tensor([2, 4, 6]))
    tensor([0, 2])
    """
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@method
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each number from 0 on occurs in a vector [n], or the sum of its weights: [largest + 1].

    Raises ShapeError for other ranks, floats and negative numbers.

    >>> import lazytensor as lt
    >>> lt.bincount(lt.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    require_elements(x, "i", "bincount")
    array = x.array("bincount()")
    if x.ndim != 1 or x.dtype.kind == "f" or (array.size and array.min() < 0):
        raise ShapeError("bincount only supports 1-d non-negative integral inputs.", where=source.where())
    if weights is None:
        return _array_to_device_of(np.bincount(array.astype(np.int64), None, minlength), x, dt.int64)
    counts = np.bincount(array.astype(np.int64), weights.array("bincount()"), minlength)
    # PyTorch sums float32 weights in float32, all others in double.
    kind = dt.float32 if weights.dtype is dt.float32 else dt.float64
    return _array_to_device_of(counts.astype(kind.host), x, kind)


def _count_in_bins(array: np.ndarray, edges: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Weights of what falls between neighbouring edges; the last edge belongs to the last bin."""
    flat = array.reshape(-1)
    # What lies outside the edges is in no bin, and is not counted.
    inside = (flat >= edges[0]) & (flat <= edges[-1])
    bins = np.minimum(np.searchsorted(edges, flat[inside], "right") - 1, len(edges) - 2)
    return np.bincount(bins, None if weights is None else weights.reshape(-1)[inside], len(edges) - 1)


def _bin_limits(array: np.ndarray, low: Number, high: Number, apart: float) -> tuple[float, float]:
    """Limits, or those of the data if they are equal, moved `apart` if these are equal too."""
    if low == high and array.size:
        low, high = float(array.min()), float(array.max())
    # One value alone has no range: PyTorch widens by 1 in histc, by a half in histogram.
    return (low - apart, high + apart) if low == high else (low, high)


@method
def histc(x: Tensor, bins: int = 100, min: Number = 0, max: Number = 0) -> Tensor:
    """How many elements fall into each of equal bins from min to max: [bins]. Equal limits mean those of the data.

    Raises ShapeError for no bins, and limits that are exchanged.

    >>> import lazytensor as lt
    >>> lt.histc(lt.tensor([1.0, 2.0, 1.0]), bins=2, min=0, max=2)
    tensor([0., 3.])
    """
    if bins <= 0:
        raise ShapeError(f"torch.histc(): bins must be > 0, but got {bins}", where=source.where())
    if min > max:
        raise ShapeError("torch.histc(): max must be larger than min", where=source.where())
    require_elements(x, "f", "histc")
    array = x.array("histc()")
    low, high = _bin_limits(array, min, max, 1)
    flat = array.reshape(-1)
    flat = flat[(flat >= low) & (flat <= high)]
    # In the type of x, multiplied before divided, as PyTorch rounds; the upper limit falls into the last bin.
    places = ((flat - x.dtype.host.type(low)) * bins / (high - low)).astype(np.int64)
    return _array_to_device_of(np.bincount(np.minimum(places, bins - 1), None, bins).astype(x.dtype.host), x, x.dtype)


@method
def histogram(
    x: Tensor,
    bins: int | Tensor,
    *,
    range: tuple[float, float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """How much falls into each bin [bins], and the edges of the bins [bins + 1], which `bins` counts or names.

    >>> import lazytensor as lt
    >>> lt.histogram(lt.tensor([1.0, 2.0, 1.0]), bins=2, range=(0.0, 2.0)).hist
    tensor([0., 3.])
    """
    array = x.array("histogram()")
    if isinstance(bins, Tensor):
        edges = bins.array("histogram()")
    else:
        low, high = range if range is not None else (0, 0)
        edges = np.linspace(*_bin_limits(array, low, high, 0.5), bins + 1).astype(x.dtype.host)
        # Nothing has no limits; PyTorch says 0 to 1.
        if range is None and not array.size:
            edges = np.linspace(0, 1, bins + 1).astype(x.dtype.host)
    counts = _count_in_bins(array, edges, None if weight is None else weight.array("histogram()")).astype(x.dtype.host)
    if density:
        counts = counts / (counts.sum() * np.diff(edges))
    return Histogram(_array_to_device_of(counts, x, x.dtype), _array_to_device_of(edges, x, x.dtype))
