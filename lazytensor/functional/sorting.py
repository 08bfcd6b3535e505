"""Sorting, order statistics, distinct values, and histograms."""

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
    """The result of `histogram`: the counts and the edges of the bins."""

    hist: Tensor
    bin_edges: Tensor


def _argsort(x: Tensor, dim: int, descending: bool) -> tuple[Tensor, int, Node]:
    base, d = at_least_vector(x), normalize_dim(dim, x.ndim)
    if not isinstance(descending, bool | np.bool_):
        descending = bool(operator.index(descending))
    return base, d, call("argsort", operand_node(base), dim=d, descending=descending)


def _restore_rank(like: Tensor, *results: Tensor) -> ValuesIndices:
    """Return `results` as a named tuple; 0-d if `like` is 0-d."""
    return ValuesIndices(*(results if like.ndim else (view(r, ()) for r in results)))


@method
def sort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None) -> ValuesIndices:
    """Return the elements sorted along `dim`, and their original int64 indices, both in the shape of `x`.

    The order is ascending unless `descending` is true. The sort is always stable, and NaN counts as the largest. Raises
    IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> values, places = lt.sort(lt.tensor([3, 1, 2]))
    >>> places
    tensor([1, 2, 0])
    """
    base, d, order = _argsort(x, dim, descending)
    return _restore_rank(x, tensor_of(at.gather(operand_node(base), order, d), x), tensor_of(order, x))


@method
def argsort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Tensor:
    """Return the int64 indices that sort `x` along `dim`, in the shape of `x`.

    The order is that of `sort`. Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.argsort(lt.tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    order = tensor_of(_argsort(x, dim, descending)[2], x)
    return order if x.ndim else view(order, ())


@method
def msort(x: Tensor) -> Tensor:
    """Return the elements sorted in ascending order along dimension 0, in the shape of `x`.

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
    """Return the `k` largest elements along `dim` in descending order, and their int64 indices.

    The result is a named tuple of two tensors [..., k, ...]. If `largest` is false, return the smallest in ascending
    order. `sorted` is ignored. Raises ShapeError if `k` is out of range, and TypeUnsupported for bools.

    >>> import lazytensor as lt
    >>> lt.topk(lt.tensor([3.0, 9.0, 5.0]), 2)
    ValuesIndices(values=tensor([9., 5.]), indices=tensor([1, 2]))
    """
    # A complete sort: k is small and rows are short where networks use it, and ties are resolved as in a stable sort.
    require_elements(x, "fi", "topk")
    base, d = at_least_vector(x), normalize_dim(dim, x.ndim)
    if not 0 <= k <= base.spec.shape[d]:
        raise ShapeError(
            f"selected index k out of range: {k} for a dimension of extent {base.spec.shape[d]}",
            where=source.where(),
            hint="Pass a k from 0 to the extent of the dimension.",
        )
    if half_type() is None:
        places = _slice_order(_argsort(x, dim, largest)[2], d, 0, int(k))
    else:
        places = call("result", call("top", operand_node(base), dim=d, k=int(k), largest=bool(largest)), index=1)
    return _restore_rank(x, tensor_of(at.gather(operand_node(base), places, d), x), tensor_of(places, x))


def _gather_single(x: Tensor, base: Tensor, d: int, places: Node, keepdim: bool) -> ValuesIndices:
    """Return the elements at `places` and these indices.

    `places` has extent 1 along `d`, which is removed unless `keepdim` is true.
    """
    pair = (tensor_of(at.gather(operand_node(base), places, d), x), tensor_of(places, x))
    if not x.ndim:
        return ValuesIndices(*(view(p, ()) for p in pair))
    return ValuesIndices(*(pair if keepdim else (squeeze(p, d) for p in pair)))


@method
def kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """Return the `k`-th smallest element along `dim`, counted from 1, and its int64 index.

    `dim` is removed unless `keepdim` is true. Raises ShapeError if `k` is out of range, IndexInvalid for an empty
    dimension, and TypeUnsupported for bools.

    >>> import lazytensor as lt
    >>> lt.kthvalue(lt.tensor([3, 1, 2]), 2).values
    tensor(2)
    """
    require_elements(x, "fi", "kthvalue")
    base, d, order = _argsort(x, dim, False)
    red.require_extent(x, d, "kthvalue")
    if not 1 <= k <= base.spec.shape[d]:
        raise ShapeError(
            f"kthvalue(): selected number k out of range for dimension {d}",
            where=source.where(),
            hint="Pass a k from 1 to the extent of the dimension.",
        )
    return _gather_single(x, base, d, _slice_order(order, d, k - 1, 1), keepdim)


def _pick_along_dim(x: Tensor, kind: str, dim: int, keepdim: bool) -> ValuesIndices:
    base, d = at_least_vector(x), normalize_dim(dim, x.ndim)
    red.require_extent(x, d, kind)
    return _gather_single(x, base, d, call("arg_pick", operand_node(base), dim=d, kind=kind), keepdim)


def _median(x: Tensor, kind: str, dim: int | None, keepdim: bool) -> Any:
    """Return the median of all elements, or medians and indices along `dim`. `kind` is "median" or "nanmedian".

    Without `dim`, equal elements share the gradient evenly, and an empty tensor gives NaN, or its conversion to an
    integer dtype. Raises TypeUnsupported for bools, unless there are no elements.
    """
    if x.spec.size or (dim is not None and x.ndim and x.spec.shape[normalize_dim(dim, x.ndim)]):
        require_elements(x, "fi", kind)
    if dim is not None:
        return _pick_along_dim(x, kind, dim, keepdim)
    if not x.spec.size:
        # For an integer dtype the result is the processor's conversion of NaN, as in PyTorch.
        value = pw.cast_to(from_array(np.asarray(math.nan)), x.dtype)
        return value + red.sum(x) if x.requires_grad else value
    flat = reshape(x, -1)
    value = _pick_along_dim(flat, kind, 0, False).values
    if not operand_node(x).tracks:
        return value
    # As in PyTorch, equal elements share the gradient evenly: the added term is zero and has that gradient.
    value = value.detach()
    # NaN elements are the equal ones if the median is NaN. The added term is then NaN, as the result is.
    is_median = pw.logical_or(flat == value, pw.logical_and(pw.isnan(flat), pw.isnan(value)))
    # The sum of (element - value) over equal elements is 0, and its gradient by each is 1 / count.
    apart = red.sum(pw.where(pw.logical_and(is_median, pw.logical_not(pw.isinf(flat))), flat - value, 0.0))
    return value + apart / pw.maximum(red.sum(pw.cast_to(is_median, x.dtype)), 1.0)


@method
def median(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the median of all elements, or the medians along `dim` and their int64 indices as a named tuple.

    For an even number of elements it is the lower of the two middle ones. If there is a NaN, the result is NaN. `dim`
    is removed unless `keepdim` is true. Raises IndexError if the dimension has no elements.

    >>> import lazytensor as lt
    >>> lt.median(lt.tensor([3, 1, 2]))
    tensor(2)
    """
    return _median(x, "median", dim, keepdim)


@method
def nanmedian(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the median of the elements that are not NaN, or medians along `dim` and their int64 indices.

    For an even number of elements it is the lower of the two middle ones. Raises IndexError if the dimension has no
    elements.

    >>> import lazytensor as lt
    >>> lt.nanmedian(lt.tensor([1.0, float("nan"), 3.0]))
    tensor(1.)
    """
    return _median(x, "nanmedian", dim, keepdim)


@method
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """Return the most frequent element along `dim`, and the last int64 index at which it occurs, as a named tuple.

    The smallest of several counts. `dim` is removed unless `keepdim` is true. Raises IndexError if the dimension has no
    elements.

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
    """Return the distinct elements in ascending order, as a vector, or the distinct slices along `dim`.

    If `return_inverse` or `return_counts` is true, the result is a tuple: the distinct elements, the index of each
    element of `x` among them, and their numbers of occurrences, as requested. The result is always sorted; each NaN is
    listed separately. Raises TraceError inside a compiled step, since the shape depends on values.

    >>> import lazytensor as lt
    >>> lt.unique(lt.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    array = x.array("unique()")
    # As in PyTorch, each NaN is listed, since NaN differs from itself.
    axis = None if dim is None else normalize_dim(dim, x.ndim)
    values, inverse, counts = np.unique(
        np.atleast_1d(array), return_inverse=True, return_counts=True, axis=axis, equal_nan=False
    )
    # NumPy 2.0 and 2.1 return the inverse of an axis in different shapes.
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
    """Return the elements without those equal to their predecessor, as a vector, or the slices along `dim`.

    If `return_inverse` or `return_counts` is true, the result is a tuple: these elements, the index of each element of
    `x` among them, and the length of each run, as requested. Raises TraceError inside a compiled step, since the shape
    depends on values.

    >>> import lazytensor as lt
    >>> lt.unique_consecutive(lt.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    array = x.array("unique_consecutive()")
    rows = array.reshape(-1) if dim is None else np.moveaxis(array, normalize_dim(dim, x.ndim), 0)
    flat = rows.reshape(len(rows), math.prod(rows.shape[1:]))
    # The first element of each run; their cumulative count numbers the runs.
    fresh = np.ones(len(rows), bool)
    fresh[1:] = (flat[1:] != flat[:-1]).any(1)
    inverse = np.cumsum(fresh) - 1
    counts = np.bincount(inverse)
    values = rows[fresh] if dim is None else np.moveaxis(rows[fresh], 0, normalize_dim(dim, x.ndim))
    inverse = inverse.reshape(array.shape if dim is None else -1)
    return _unique_results(x, values, inverse, counts, return_inverse, return_counts)


def _common_operands(a: Operand, b: Operand) -> tuple[Tensor, Tensor]:
    """Return two operands as tensors of their promoted dtype."""
    dtype = result_type(a, b)
    # Numbers become tensors of the promoted dtype.
    a, b = (v if isinstance(v, Tensor) else from_array(np.asarray(v, dtype.host), dtype) for v in (a, b))
    return pw.cast_to(a, dtype), pw.cast_to(b, dtype)


def isin(elements: Operand, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Return a bool tensor that is true where an element of `elements` equals one of `test_elements`.

    If `invert` is true, the result is negated. `assume_unique` is ignored.

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
    """Return the index at which each value would be inserted to keep `sorted_sequence` sorted.

    The result is int64 in the shape of `values`.

    - `sorted_sequence`: [..., n] sorted along the last dimension, with the leading extents of `values`; or one vector
      [n].
    - `right`, or `side` "right": insert after equal elements, not before.
    - `out_int32`: return int32.
    - `sorter`: indices that would sort an unsorted `sorted_sequence`.

    Raises ShapeError if `side` contradicts `right` or the leading extents differ.

    >>> import lazytensor as lt
    >>> lt.searchsorted(lt.tensor([2, 4, 6]), lt.tensor([1, 5]))
    tensor([0, 2])
    """
    if side not in (None, "left", "right") or (side == "left" and right):
        raise ShapeError(
            f"side and right can't be set to opposites: side={side!r}, right={right}",
            where=source.where(),
            hint="Omit right, or pass the side that it stands for.",
        )
    rows, x = _common_operands(sorted_sequence, values)
    if sorter is not None:
        # The sorter is the order of the rows.
        rows = tensor_of(at.gather(operand_node(rows), operand_node(sorter), rows.ndim - 1), rows)
    n = call("searchsorted", operand_node(rows), operand_node(x), right=right or side == "right")
    return tensor_of(cast(n, dt.int32) if out_int32 else n, x)


def bucketize(input: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Return the int64 index of the bucket that each element of `input` belongs to, given sorted `boundaries` [n].

    Bucket i is boundaries[i - 1] < x <= boundaries[i], or boundaries[i - 1] <= x < boundaries[i] if `right` is true.
    Raises as `searchsorted` does.

    >>> import lazytensor as lt
    >>> lt.bucketize(lt.tensor([1, 5]), lt.tensor([2, 4, 6]))
    tensor([0, 2])
    """
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@method
def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Return the number of occurrences of each integer 0, 1, ... in the vector `x`, or the sums of their `weights`.

    The result has max(largest + 1, `minlength`) elements. Counts are int64; sums are float32 for float32 weights, else
    float64. Raises ShapeError unless `x` is a vector of non-negative integers. The values are read, which raises
    TraceError inside a compiled step.

    >>> import lazytensor as lt
    >>> lt.bincount(lt.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    require_elements(x, "i", "bincount")
    array = x.array("bincount()")
    if x.ndim != 1 or x.dtype.kind == "f" or (array.size and array.min() < 0):
        raise ShapeError(
            f"bincount only supports 1-d non-negative integral inputs. Got {x.spec}.",
            where=source.where(),
            hint="Flatten the input, and convert it to integers of at least 0.",
        )
    if weights is None:
        return _array_to_device_of(np.bincount(array.astype(np.int64), None, minlength), x, dt.int64)
    counts = np.bincount(array.astype(np.int64), weights.array("bincount()"), minlength)
    # PyTorch returns float32 for float32 weights, else double.
    kind = dt.float32 if weights.dtype is dt.float32 else dt.float64
    return _array_to_device_of(counts.astype(kind.host), x, kind)


def _count_in_bins(array: np.ndarray, edges: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return the number of elements, or the sum of weights, between neighbouring `edges`.

    An edge belongs to the bin above it, and the last edge to the last bin. Elements outside the edges are not counted.
    """
    flat = array.reshape(-1)
    # Elements outside the edges are not counted.
    inside = (flat >= edges[0]) & (flat <= edges[-1])
    bins = np.minimum(np.searchsorted(edges, flat[inside], "right") - 1, len(edges) - 2)
    return np.bincount(bins, None if weights is None else weights.reshape(-1)[inside], len(edges) - 1)


def _bin_limits(array: np.ndarray, low: Number, high: Number, apart: float) -> tuple[float, float]:
    """Return the limits `low` and `high`, or those of the data if they are equal.

    If these are equal too, they are moved by `apart` in both directions.
    """
    if low == high and array.size:
        low, high = float(array.min()), float(array.max())
    # For one value PyTorch widens the range by 1 in histc and by 0.5 in histogram.
    return (low - apart, high + apart) if low == high else (low, high)


@method
def histc(x: Tensor, bins: int = 100, min: Number = 0, max: Number = 0) -> Tensor:
    """Return the number of elements in each of `bins` equal bins from `min` to `max`, in the dtype of `x`: [bins].

    If `min` equals `max`, the limits of the data are used. Elements outside are not counted. Raises ShapeError if
    `bins` is not positive or `min` > `max`, and TypeUnsupported for integers. The values are read, which raises
    TraceError inside a compiled step.

    >>> import lazytensor as lt
    >>> lt.histc(lt.tensor([1.0, 2.0, 1.0]), bins=2, min=0, max=2)
    tensor([0., 3.])
    """
    if bins <= 0:
        raise ShapeError(
            f"torch.histc(): bins must be > 0, but got {bins}",
            where=source.where(),
            hint="Pass a positive number of bins.",
        )
    if min > max:
        raise ShapeError(
            f"torch.histc(): max must be larger than min: {max} and {min}",
            where=source.where(),
            hint="Pass a max above min.",
        )
    require_elements(x, "f", "histc")
    array = x.array("histc()")
    low, high = _bin_limits(array, min, max, 1)
    flat = array.reshape(-1)
    flat = flat[(flat >= low) & (flat <= high)]
    # Computed in the dtype of x, multiplied before divided, as PyTorch rounds. The upper limit is in the last bin.
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
    """Return the number of elements in each bin [bins] and the edges of the bins [bins + 1], as a named tuple.

    - `bins`: the number of equal bins, or a tensor of edges.
    - `range`: the limits of equal bins; those of the data by default.
    - `weight`: the weight of each element.
    - `density`: divide by the total and the width of each bin.

    Elements outside the edges are not counted. Both results have the dtype of `x`. The values are read, which raises
    TraceError inside a compiled step.

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
        # Without elements the limits are 0 and 1, as in PyTorch.
        if range is None and not array.size:
            edges = np.linspace(0, 1, bins + 1).astype(x.dtype.host)
    counts = _count_in_bins(array, edges, None if weight is None else weight.array("histogram()")).astype(x.dtype.host)
    if density:
        counts = counts / (counts.sum() * np.diff(edges))
    return Histogram(_array_to_device_of(counts, x, x.dtype), _array_to_device_of(edges, x, x.dtype))
