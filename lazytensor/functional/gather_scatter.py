"""Functions that gather and scatter elements by index tensors, and that select elements by masks."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core import shared_memory_views, source, storage
from lazytensor.core.allocation import require_memory
from lazytensor.core.autocast import half_type
from lazytensor.core.tensor import Tensor, from_array, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.errors import ArgumentInvalid, IndexInvalid, ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional.indexing import check_index_range
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.type_promotion import (
    Operand,
    broadcast_shape,
    mixed_dtypes_error,
    prepare_stored,
    require_elements,
)
from lazytensor.functional.views import expand, normalize_dim, reshape, unsqueeze, view
from lazytensor.ir.graph import Node
from lazytensor.ir.reduction import REDUCTIONS
from lazytensor.ir.types import Type
from lazytensor.ops import call, full
from lazytensor.ops import index as at
from lazytensor.ops.elementwise import cast
from lazytensor.ops.shape import slice_

# PyTorch has three sets of names for the reductions; the operations have one.
_REDUCTIONS_BY_TORCH_NAME = {name: r.name for r in REDUCTIONS.values() for name in r.torch}


def at_least_vector(x: Tensor) -> Tensor:
    """Return `x`, or a view of a 0-d `x` as a vector [1]. PyTorch allows indexing a 0-d tensor along dimension 0."""
    return x if x.ndim else view(x, 1)


def _cast_index(index: Tensor, what: str) -> Node:
    if index.dtype not in (dt.int64, dt.int32):
        raise ShapeError(
            f"{what}(): Expected dtype int32/int64 for index",
            where=source.where(),
            hint="Convert the index first, for example with .long().",
        )
    return cast(operand_node(index), dt.int64)


def _check_index_range(index: Tensor, extent: int, dim: int, low: int = 0) -> None:
    """Raise ShapeError if `index` has a value outside `low` to `extent` - 1. Inside a step nothing is checked.

    PyTorch raises RuntimeError, not IndexError, in gather and scatter.
    """
    try:
        check_index_range(index, extent, dim, low)
    except IndexError as e:
        raise ShapeError(str(e), where=source.where(), hint="Pass a value whose shape can be broadcast.") from None


@method
def gather(x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """Return the elements of `x` at `index` along `dim`, in the shape of `index`.

    For `dim` 0 of a matrix, out[i][j] = x[index[i][j]][j]. `index` is int32 or int64 and has as many dimensions as `x`;
    an empty one may have any rank. `sparse_grad` is ignored. Raises ShapeError (a RuntimeError) for an index that is
    negative or out of range, of another dtype or rank, or larger than `x` in another dimension. Inside a step the range
    is not checked.

    >>> import lazytensor as lt
    >>> lt.gather(lt.tensor([[1, 2], [3, 4]]), 1, lt.tensor([[1], [0]]))
    tensor([[2],
            [3]])
    """
    base, d = at_least_vector(x), normalize_dim(dim, x.ndim)
    if not index.spec.size:
        # The operation does not accept an empty index of another rank.
        none = from_array(np.empty(index.spec.shape, np.int64)).node
        return tensor_of(at.index_get(operand_node(reshape(x, -1)), (none,), (0,)), x)
    places = _cast_index(index, "gather")
    _check_index_range(index, base.spec.shape[d], d)
    if index.ndim or base.ndim > 1:
        return tensor_of(at.gather(operand_node(base), places, d), x)
    return tensor_of(
        call("reshape", at.gather(operand_node(base), call("reshape", places, shape=(1,)), d), shape=()), x
    )


def _crop_source(x: Tensor, index: Tensor, src: Operand, what: str) -> Node:
    """Return the node of the values to scatter: `src` cropped to the shape of `index`, or a number filled to it.

    Raises ShapeError if `src` has another dtype than `x`, or is smaller than `index`.
    """
    if not isinstance(src, Tensor):
        return prepare_stored(src, x.dtype, index.spec.shape)
    if src.dtype is not x.dtype:
        raise mixed_dtypes_error(x.dtype, src.dtype, f"{what}(): Expected self.dtype to be equal to src.dtype")
    if not index.spec.size:
        return full(0, Type((), x.dtype))  # the value is never read
    # A source may be larger than the index; the remaining elements are ignored.
    if src.ndim != index.ndim or any(a < b for a, b in zip(src.spec.shape, index.spec.shape, strict=True)):
        raise ShapeError(
            f"Expected index {list(index.shape)} to be no larger than src {list(src.shape)}",
            where=source.where(),
            hint="Reduce the index, or enlarge src.",
        )
    n = operand_node(src)
    return n if src.spec.shape == index.spec.shape else slice_(n, (0,) * index.ndim, index.spec.shape)


def _scatter(x: Tensor, dim: int, index: Tensor, value: Node, kind: str, what: str) -> Tensor:
    """Return a copy of `x` with `value` combined at the positions `index` along `dim` by the reduction `kind`.

    `kind` is "set" (overwrite) or the name of a row of REDUCTIONS, such as "add". An empty `index` changes nothing.
    `what` is the function's name in errors.
    """
    base, d = at_least_vector(x), normalize_dim(dim, x.ndim)
    # An empty index may have any rank and dtype.
    if not index.spec.size:
        return pw.clone(x)
    places = _cast_index(index, what)
    if base.ndim == 1 and index.ndim == 0:
        # The operation needs vectors, so a 0-d index is reshaped.
        places, value = (call("reshape", n, shape=(1,)) for n in (places, value))
    _check_index_range(index, base.spec.shape[d], d)
    out = tensor_of(at.scatter(operand_node(base), places, value, d, kind), x)
    return out if x.ndim else view(out, ())


@method(in_place=True)
def scatter(
    x: Tensor, dim: int, index: Tensor, src: Operand | None = None, *, value: Operand | None = None, reduce: str = ""
) -> Tensor:
    """Return a copy of `x` with `src` written to the positions `index` along `dim`.

    For `dim` 0 of a matrix, out[index[i][j]][j] = src[i][j]. `src`, or `value` as a keyword, is a number or a tensor at
    least as large as `index`. `reduce` "add" or "multiply" combines the values with those of `x` instead. Raises
    ShapeError for an index out of range, another dtype of `src`, a `src` smaller than `index`, and another `reduce`.
    Raises ArgumentInvalid (a TypeError) if neither `src` nor `value` is given.

    >>> import lazytensor as lt
    >>> lt.scatter(lt.zeros(3), 0, lt.tensor([2, 0]), lt.tensor([5.0, 6.0]))
    tensor([6., 0., 5.])
    """
    if reduce not in ("", "add", "multiply", None):
        raise ShapeError(
            f"reduce argument must be either add or multiply. Got {reduce!r}.",
            where=source.where(),
            hint='Pass reduce="add" or reduce="multiply", or use scatter_reduce.',
        )
    given = src if src is not None else value
    if given is None:
        raise ArgumentInvalid(
            "scatter() missing the argument src or value",
            where=source.where(),
            hint="Pass src, a tensor, or value, a number.",
        )
    values = _crop_source(x, index, given, "scatter")
    return _scatter(x, dim, index, values, _REDUCTIONS_BY_TORCH_NAME[reduce] if reduce else "set", "scatter")


@method(in_place=True)
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Return a copy of `x` with `src` added at the positions `index` along `dim`.

    For `dim` 0 of a matrix, out[index[i][j]][j] += src[i][j]. Raises ShapeError for an index out of range, another
    dtype of `src`, and a `src` smaller than `index`.

    >>> import lazytensor as lt
    >>> lt.scatter_add(lt.zeros(3), 0, lt.tensor([2, 2]), lt.tensor([5.0, 6.0]))
    tensor([ 0.,  0., 11.])
    """
    return _scatter(x, dim, index, _crop_source(x, index, src, "scatter_add"), "add", "scatter_add")


@method(in_place=True)
def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return a copy of `x` with `src` combined at the positions `index` along `dim`.

    `reduce` is "sum", "prod", "mean", "amax" or "amin". If `include_self` is true, the elements of `x` take part;
    otherwise they are replaced at the positions in `index`. Integer means are rounded down. Raises ShapeError for
    another `reduce`, an index out of range, another dtype of `src`, and a `src` smaller than `index`.

    >>> import lazytensor as lt
    >>> lt.scatter_reduce(lt.zeros(2), 0, lt.tensor([0, 0, 1]), lt.tensor([1.0, 4.0, 2.0]), "amax")
    tensor([4., 2.])
    """
    if reduce != "mean" and reduce not in _REDUCTIONS_BY_TORCH_NAME:
        raise ShapeError(
            f"reduce argument must be sum, prod, mean, amax or amin, got {reduce}",
            where=source.where(),
            hint="Pass one of these names.",
        )
    values = _crop_source(x, index, src, "scatter_reduce")
    kind = "add" if reduce == "mean" else _REDUCTIONS_BY_TORCH_NAME[reduce]
    base = x
    if not include_self:
        # Only the positions in `index` forget the value of x: they are set to the neutral element of the reduction.
        neutral = full(REDUCTIONS[kind].identity(x.dtype), values.type)
        base = _scatter(x, dim, index, neutral, "set", "scatter_reduce")
    out = _scatter(base, dim, index, values, kind, "scatter_reduce")
    if reduce != "mean":
        return out
    counts_type = Type(x.spec.shape, x.dtype)
    counts = tensor_of(full(1, counts_type), x)
    one = full(1, values.type)
    if not include_self:
        counts = _scatter(counts, dim, index, full(0, values.type), "set", "scatter_reduce")
    # At positions that receive nothing the count is raised to 1, so that x is kept.
    counts = pw.maximum(_scatter(counts, dim, index, one, "add", "scatter_reduce"), 1)
    # Integer means are rounded down, as in PyTorch.
    return out / counts if x.dtype.kind == "f" else pw.floor_divide(out, counts)


def _vector_index_operands(x: Tensor, dim: int, index: Tensor, what: str) -> tuple[Tensor, int, Node]:
    """Return `x` with at least one dimension, `dim` as a non-negative number, and `index` as an int64 vector node.

    Raises IndexInvalid if `index` is not a vector or out of range. `what` is the function's name in the error.
    """
    if index.ndim > 1:
        raise IndexInvalid(
            f"{what}(): Index is supposed to be a vector",
            where=source.where(),
            hint="Flatten the index with reshape(-1).",
        )
    base, d = at_least_vector(x), normalize_dim(dim, x.ndim)
    places = _cast_index(index, what)
    # index_select and the index_* functions raise IndexError, while gather and scatter raise RuntimeError.
    check_index_range(index, base.spec.shape[d], d, 0)
    return base, d, places if index.ndim else call("reshape", places, shape=(1,))


@method
def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return the slices of `x` at the positions `index` along `dim`: [..., len(index), ...].

    `index` is a vector of int32 or int64. Raises IndexError for a position out of range or a matrix as index.

    >>> import lazytensor as lt
    >>> lt.index_select(lt.tensor([[1, 2], [3, 4]]), 1, lt.tensor([1, 0]))
    tensor([[2, 1],
            [4, 3]])
    """
    base, d, places = _vector_index_operands(x, dim, index, "index_select")
    part = shared_memory_views.gather_shared_elements(base, "gather_rows", places, dim=d)
    out = tensor_of(call("gather_rows", operand_node(base), places, dim=d) if part is None else part, x)
    return out if x.ndim else view(out, ())


def _write_rows(x: Tensor, dim: int, index: Tensor, src: Tensor, accumulate: bool, what: str) -> Tensor:
    """Return a copy of `x` with slices of `src` written to the positions `index` along `dim`, or added if `accumulate`.

    Raises ShapeError if `src` has another dtype or number of slices, and IndexInvalid if `index` is no vector or out of
    range. `what` is the function's name in errors.
    """
    base, d, places = _vector_index_operands(x, dim, index, what)
    if src.dtype is not x.dtype:
        raise mixed_dtypes_error(x.dtype, src.dtype, f"{what}(): self and source expected to have the same dtype")
    n = places.type.size
    shape = tuple(n if k == d else e for k, e in enumerate(base.spec.shape))
    given = at_least_vector(src)
    if given.spec.shape != shape and not (given.spec.size == 1 and n == 1 == math.prod(shape)):
        raise ShapeError(
            f"{what}(): Number of indices ({n}) should be equal to source.size(dim), and the source is "
            f"{list(src.shape)}",
            where=source.where(),
            hint="Pass one index for each slice of the source.",
        )
    value = operand_node(given if given.spec.shape == shape else view(given, shape))
    out = tensor_of(at.index_put_at(operand_node(base), value, (places,), (d,), accumulate), x, src)
    return out if x.ndim else view(out, ())


@method(in_place=True)
def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Operand = 1) -> Tensor:
    """Return a copy of `x` with `alpha` * `source` added at the positions `index` along `dim`.

    `index` is a vector, and slice k of `source` belongs to index[k]. Raises IndexError for a position out of range, and
    ShapeError if `source` has another dtype or number of slices.

    >>> import lazytensor as lt
    >>> lt.index_add(lt.zeros(3), 0, lt.tensor([0, 2, 2]), lt.tensor([1.0, 2.0, 3.0]))
    tensor([1., 0., 5.])
    """
    value = source if pw.is_number(alpha, 1) else pw.cast_to(source * alpha, source.dtype)
    return _write_rows(x, dim, index, value, True, "index_add")


@method(in_place=True)
def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Return a copy of `x` with `source` written to the positions `index` along `dim`.

    `index` is a vector, and slice k of `source` belongs to index[k]. Raises IndexError for a position out of range, and
    ShapeError if `source` has another dtype or number of slices.

    >>> import lazytensor as lt
    >>> lt.index_copy(lt.zeros(3), 0, lt.tensor([2]), lt.tensor([5.0]))
    tensor([0., 0., 5.])
    """
    return _write_rows(x, dim, index, source, False, "index_copy")


@method(in_place=True)
def index_fill(x: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor:
    """Return a copy of `x` filled with `value` at the positions `index` along `dim`.

    `index` is a vector; `value` is a number or a 0-d tensor. Raises IndexError for a position out of range, and
    ShapeError if `value` has dimensions.

    >>> import lazytensor as lt
    >>> lt.index_fill(lt.zeros(3), 0, lt.tensor([0, 2]), 9)
    tensor([9., 0., 9.])
    """
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got {value.ndim} dimensions",
            where=source.where(),
            hint="Pass a number or a 0-d tensor.",
        )
    base, d, places = _vector_index_operands(x, dim, index, "index_fill")
    extent = base.spec.shape[d]
    # The positions become a mask along `dim`, which broadcasts; the value would have to be expanded.
    is_named = at.index_put_at(
        full(False, Type((extent,), dt.bool_)), full(True, Type(places.type.shape, dt.bool_)), (places,), (0,)
    )
    mask = call("broadcast_in_dim", is_named, shape=base.spec.shape, dims=(d,))
    out = tensor_of(call("where", mask, prepare_stored(value, x.dtype, base.spec.shape), operand_node(base)), x)
    return out if x.ndim else view(out, ())


@method(in_place=True)
def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Return a copy of `x` with `source` combined at the positions `index` along `dim`.

    `index` is a vector, and slice k of `source` belongs to index[k]. `reduce` is "prod", "mean", "amax" or "amin";
    unlike PyTorch, "sum" is accepted too. If `include_self` is false, the elements of `x` at these positions are
    replaced. Raises IndexError for a position out of range, and ShapeError for another `reduce`.

    >>> import lazytensor as lt
    >>> lt.index_reduce(lt.ones(2), 0, lt.tensor([1, 1]), lt.tensor([2.0, 3.0]), "prod")
    tensor([1., 6.])
    """
    base, d, _ = _vector_index_operands(x, dim, index, "index_reduce")
    given, column = at_least_vector(source), at_least_vector(index)
    # The index vector is expanded over the other dimensions, as scatter_reduce needs it.
    for _ in range(base.ndim - d - 1):
        column = unsqueeze(column, -1)
    wide = expand(column, given.spec.shape)
    out = scatter_reduce(base, d, wide, given, reduce, include_self=include_self)
    return out if x.ndim else view(out, ())


@method
def take(x: Tensor, index: Tensor) -> Tensor:
    """Return the elements of `x` at the positions `index` of the flattened tensor, in the shape of `index`.

    Raises IndexError for a position out of range; negative positions count from the end.

    >>> import lazytensor as lt
    >>> lt.take(lt.tensor([[1, 2], [3, 4]]), lt.tensor([0, 3]))
    tensor([1, 4])
    """
    check_index_range(index, x.spec.size, 0)
    return tensor_of(at.index_get(operand_node(reshape(x, -1)), (_cast_index(index, "take"),), (0,)), x)


@method(in_place=True)
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return a copy of `x` with `source` written to the positions `index` of the flattened tensor.

    `source` has as many elements as `index`; the shapes may differ. If `accumulate` is true, the values are added.
    Raises IndexError for a position out of range; negative positions count from the end.

    >>> import lazytensor as lt
    >>> lt.put(lt.zeros(3), lt.tensor([1]), lt.tensor([5.0]))
    tensor([0., 5., 0.])
    """
    check_index_range(index, x.spec.size, 0)
    places = _cast_index(index, "put")
    value = call("reshape", operand_node(source), shape=places.type.shape)
    flat = call("reshape", operand_node(x), shape=(x.spec.size,))
    return tensor_of(
        call("reshape", at.index_put_at(flat, value, (places,), (0,), accumulate), shape=x.spec.shape), x, source
    )


@method
def take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Return the elements of `x` at `indices` along `dim`, as `gather`, with the other dimensions broadcast.

    If `dim` is None, both tensors are flattened. Raises ShapeError if the ranks differ, and as `gather` does.

    >>> import lazytensor as lt
    >>> lt.take_along_dim(lt.tensor([[3, 1, 2]]), lt.tensor([[1, 2]]), 1)
    tensor([[1, 2]])
    """
    if dim is None:
        return gather(reshape(x, -1), 0, reshape(indices, -1))
    d = normalize_dim(dim, x.ndim)
    if indices.ndim != x.ndim:
        raise ShapeError(
            f"torch.take_along_dim(): input and indices should have the same number of dimensions, but got {x.ndim} "
            f"dimensions for input, and {indices.ndim} dimensions for indices",
            where=source.where(),
            hint="Add dimensions to the indices, for example with unsqueeze().",
        )
    shape = list(broadcast_shape(*((*s[:d], 1, *s[d + 1 :]) for s in (x.spec.shape, indices.spec.shape))))
    # Both keep their extent along `dim`; that of the index is the extent of the result.
    wide = [expand(v, [v.spec.shape[d] if k == d else e for k, e in enumerate(shape)]) for v in (x, indices)]
    return gather(wide[0], d, wide[1])


def _check_mask(mask: Tensor, what: str) -> Tensor:
    if mask.dtype is not dt.bool_:
        raise ShapeError(
            f"{what}: expected BoolTensor for mask", where=source.where(), hint="Convert the mask first: mask.bool()."
        )
    return mask


@method
def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """Return the elements of `x` where `mask` is true, as a vector. Both shapes broadcast.

    Raises ShapeError if `mask` is not bool, and TraceError inside a compiled step, where shapes cannot depend on
    values.

    >>> import lazytensor as lt
    >>> lt.masked_select(lt.arange(4), lt.arange(4) > 1)
    tensor([2, 3])
    """
    shape = broadcast_shape(x.spec.shape, _check_mask(mask, "masked_select").spec.shape)
    # The extent of the result is the number of true elements, so the mask is read, which a step cannot do.
    hits = np.flatnonzero(np.broadcast_to(mask.array("masked_select()"), shape)).astype(np.int64)
    flat = reshape(expand(x, shape), -1)
    return tensor_of(at.index_get(operand_node(flat), (from_array(hits).node,), (0,)), x)


def _too_few_elements_error() -> ShapeError:
    return ShapeError("Number of elements of source < number of ones in mask", where=source.where())


@method(in_place=True)
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return `x` with the elements of `source`, in order, written where `mask` is true. `x` and `mask` broadcast.

    Raises ShapeError if `mask` is not bool, if the dtypes differ, or if `source` has too few elements. The number of
    elements is not checked inside a step.

    >>> import lazytensor as lt
    >>> lt.masked_scatter(lt.zeros(3), lt.tensor([True, False, True]), lt.tensor([7.0, 8.0]))
    tensor([7., 0., 8.])
    """
    shape = broadcast_shape(x.spec.shape, _check_mask(mask, "masked_scatter").spec.shape)
    if source.dtype is not x.dtype:
        types = f"{x.dtype.name} and {source.dtype.name}"
        text = f"masked_scatter: expected self and source to have same dtypes but got {types}"
        raise mixed_dtypes_error(x.dtype, source.dtype, text)
    wide = expand(mask, shape)
    # Inside a step the mask has no value to check.
    if storage.thread_state.current is None and source.spec.size < int(wide.array("masked_scatter").sum()):
        raise _too_few_elements_error()
    if not source.spec.size or not math.prod(shape):
        return pw.clone(expand(x, shape))
    hits = cast(call("reshape", operand_node(wide), shape=(math.prod(shape),)), dt.int64)
    # The running count of true elements numbers them: element number k takes source[k - 1], without reading the mask.
    counted = call("scan", hits, kind="add", dim=0, reverse=False)
    ranks = tensor_of(counted, x)
    places = pw.clamp(ranks - 1, 0, source.spec.size - 1)
    chosen = at.index_get(operand_node(reshape(source, -1)), (operand_node(places),), (0,))
    return pw.where(wide, view(tensor_of(chosen, x), shape), expand(x, shape))


@method
def nonzero(x: Tensor, *, as_tuple: bool = False) -> Any:
    """Return the indices of all nonzero elements: int64 [count, dimensions], or one vector per dimension if `as_tuple`.

    Raises TraceError inside a compiled step on the host, where shapes cannot depend on values. In a step for the wafer
    the result is a placeholder with one row per element, and lowering refuses it if the step needs it.

    >>> import lazytensor as lt
    >>> lt.nonzero(lt.tensor([0, 4, 5]))
    tensor([[1],
            [2]])
    """
    if half_type() is not None:
        # A placeholder that depends on x.
        flat = reshape(pw.cast_to(x, dt.int64), (x.spec.size, 1))
        places = expand(flat, (x.spec.size, x.ndim))
        return tuple(places[:, d] for d in range(x.ndim)) if as_tuple else places
    if as_tuple:
        return tuple(_index_tensor_like(i, x) for i in np.nonzero(np.atleast_1d(x.array("nonzero()"))))
    array = x.array("nonzero()")
    return _index_tensor_like(np.argwhere(array) if array.ndim else np.empty((int(bool(array)), 0)), x)


def _index_tensor_like(places: np.ndarray, like: Tensor) -> Tensor:
    out = from_array(places.astype(np.int64), dt.int64)
    out.device = like.device
    return out


@method
def argwhere(x: Tensor) -> Tensor:
    """Return the indices of all nonzero elements as int64 [count, dimensions]. Raises as `nonzero` does.

    >>> import lazytensor as lt
    >>> lt.argwhere(lt.tensor([0, 4, 5]))
    tensor([[1],
            [2]])
    """
    places: Tensor = nonzero(x)
    return places


def where(condition: Tensor, input: Operand | None = None, other: Operand | None = None) -> Any:
    """Return `input` where `condition` is true, else `other`. All shapes broadcast and dtypes are promoted.

    With `condition` only, return its nonzero indices as `nonzero(condition, as_tuple=True)`. Raises ShapeError if the
    shapes do not broadcast.

    >>> import lazytensor as lt
    >>> x = lt.tensor([-1.0, 2.0])
    >>> lt.where(x > 0, x, 0.0)
    tensor([0., 2.])
    """
    if input is None or other is None:
        return nonzero(condition, as_tuple=True)
    return pw.where(condition, input, other)


@method
def repeat_interleave(
    x: Tensor, repeats: int | Tensor | None = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Return `x` with each element along `dim` repeated `repeats` times in a row.

    `repeats` is one number, or a vector with a number for each element or with one number for all. If `dim` is None,
    `x` is flattened. If `repeats` is None, `x` is a vector of counts and the result has index k x[k] times.
    `output_size` is ignored. A vector of repeats is read, which raises TraceError inside a compiled step. Raises
    ShapeError for negative repeats or a wrong number of them, and IndexInvalid for a `dim` of a 0-d tensor.

    >>> import lazytensor as lt
    >>> lt.repeat_interleave(lt.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    """
    if isinstance(repeats, Tensor) and repeats.dtype not in (dt.int32, dt.int64):
        require_elements(repeats, "", "repeat_interleave")
    # `x.repeat_interleave()` of a vector of counts.
    if repeats is None:
        return _index_tensor_like(np.repeat(np.arange(x.spec.shape[0]), x.array("repeat_interleave()")), x)
    if dim is not None and not x.ndim:
        raise IndexInvalid(
            f"Dimension specified as {dim} but tensor has no dimensions",
            where=source.where(),
            hint="Pass dim=0, or unsqueeze the tensor.",
        )
    base = reshape(x, -1) if dim is None else x
    d = 0 if dim is None else normalize_dim(dim, base.ndim)
    extent = base.spec.shape[d]
    if isinstance(repeats, int) and repeats >= 0:
        shape = base.spec.shape
        wide = expand(unsqueeze(base, d + 1), (*shape[: d + 1], repeats, *shape[d + 1 :]))
        return pw.clone(reshape(wide, (*shape[:d], extent * repeats, *shape[d + 1 :])))
    times = repeats.array("repeat_interleave()") if isinstance(repeats, Tensor) else np.asarray(repeats)
    if times.size not in (1, extent):
        raise ShapeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{times.size} and input.size({d}) = {extent}",
            where=source.where(),
            hint="Pass one repeat count, or one for each element along dim.",
        )
    if times.size and times.min() < 0:
        raise ShapeError(
            f"repeats can not be negative, but got {times.min()}",
            where=source.where(),
            hint="Pass counts of at least 0.",
        )
    places = np.repeat(np.arange(extent), times.reshape(-1) if times.size != 1 else times.item())
    return tensor_of(at.index_get(operand_node(base), (from_array(places.astype(np.int64)).node,), (d,)), x)


def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return all combinations of `r` elements of the vector `x`, one per row: [count, r].

    If `with_replacement` is true, an element may occur several times. For `r` = 0 the result is an empty vector. Raises
    ShapeError if `x` is not a vector, and MemoryMissing if the result is too large.

    >>> import lazytensor as lt
    >>> lt.combinations(lt.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if x.ndim != 1:
        raise ShapeError(
            f"Expect a 1D vector, but got shape {list(x.shape)}",
            where=source.where(),
            hint="Flatten the tensor with reshape(-1).",
        )
    if r == 0:
        return pw.cast_to(_index_tensor_like(np.empty(0), x), x.dtype)
    count = x.spec.shape[0]
    choices = math.comb(count + r - 1 if with_replacement else count, r)
    require_memory(Type((choices, r), x.dtype), x.device)
    if r == 2:
        places = np.stack(np.triu_indices(count, 0 if with_replacement else 1), -1)
    else:
        choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
        places = np.array(list(choose(range(count), r)), np.int64).reshape(-1, r)
    return tensor_of(at.index_get(operand_node(x), (from_array(places).node,), (0,)), x)


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Return the index in each dimension of `shape` for flat (row-major) `indices`.

    The result has one tensor per dimension, each in the shape of `indices`. Indices are not checked.

    >>> import lazytensor as lt
    >>> lt.unravel_index(lt.tensor([5]), (2, 3))
    (tensor([1]), tensor([2]))
    """
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    rest, places = indices, []
    # The last dimension varies fastest: its index is the remainder.
    for e in reversed(extents):
        quotient = pw.floor_divide(rest, e)
        places.append(rest - quotient * e)
        rest = quotient
    return tuple(reversed(places))
