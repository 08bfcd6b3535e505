"""Reductions over all or some dimensions.

Reduced dimensions are removed, or kept with extent 1 if `keepdim` is true. `dim` is a dimension, a sequence of them, or
None for all. All functions raise IndexError for a dimension that the tensor does not have.
"""

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.autocast import half_type
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.errors import IndexInvalid, ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional.half_precision import host_half_dtype
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.type_promotion import Operand, default_dtype, require_elements
from lazytensor.functional.views import normalize_dim, view
from lazytensor.ir.graph import Node
from lazytensor.ops import call
from lazytensor.ops.elementwise import cast
from lazytensor.ops.shape import reshape

Dim = int | Sequence[int] | None


class ValuesIndices(NamedTuple):
    """The result of `max`, `min` and other functions along a dimension: values and their indices."""

    values: Tensor
    indices: Tensor


def normalize_dims(dim: Dim, rank: int) -> tuple[int, ...]:
    """Return the dimensions to reduce as sorted non-negative numbers. None and () mean all.

    A 0-d tensor (`rank` 0) gives (). Raises IndexInvalid for a dimension out of range. Repeated dimensions are not
    refused.
    """
    dim = operator.index(dim) if isinstance(dim, Tensor) else dim
    # PyTorch's oldest reductions treat an empty list as all dimensions; NumPy treats it as none.
    if dim is None or (not isinstance(dim, int | np.integer) and len(dim) == 0):
        return tuple(range(rank))
    given = (int(dim),) if isinstance(dim, int | np.integer) else tuple(dim)
    dims = tuple(sorted(normalize_dim(d, rank) for d in given))
    return dims if rank else ()


def _reduce(x: Tensor, kind: str, dim: Dim, keepdim: bool, dtype: DType | None = None) -> Tensor:
    n, dims = cast(operand_node(x), dtype or x.dtype), normalize_dims(dim, x.ndim)
    if kind in ("add", "maximum", "minimum") and _lists_all_dims(dim, x.ndim) and not keepdim:
        return tensor_of(call("reduce_each", n, kind=kind, dims=dims), x)
    return tensor_of(call("reduce", n, kind=kind, dims=dims, keepdim=keepdim), x)


def _lists_all_dims(dim: Dim, rank: int) -> bool:
    """Return whether `dim` names all dimensions explicitly. None and () do not."""
    return len(normalize_dims(dim, rank)) == rank > 0 and dim is not None and (isinstance(dim, int) or len(dim) > 0)


@method
def sum(x: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Return the sum over `dim`. Integers and bools are summed in int64 unless `dtype` is given.

    `x` is converted to `dtype` first. Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.sum(lt.tensor([[1, 2], [3, 4]]), 0)
    tensor([4, 6])
    """
    if x.dtype is dt.bool_ and dtype is None and dim is not None and normalize_dims(dim, x.ndim):
        return tensor_of(call("count_true", operand_node(x), dims=normalize_dims(dim, x.ndim), keepdim=keepdim), x)
    dtype = dtype or (x.dtype if x.dtype.kind == "f" else dt.int64)
    if keepdim:
        return tensor_of(call("sum_kept", cast(operand_node(x), dtype), dims=normalize_dims(dim, x.ndim)), x)
    return _reduce(x, "add", dim, False, dtype)


@method
def prod(x: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Return the product over `dim`. Integers and bools are multiplied in int64 unless `dtype` is given.

    `x` is converted to `dtype` first. Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.prod(lt.tensor([2, 3, 4]))
    tensor(24)
    """
    return _reduce(x, "mul", dim, keepdim, dtype or (None if x.dtype.kind == "f" else dt.int64))


@method
def mean(x: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Return the arithmetic mean over `dim`. If `dtype` is given, `x` is converted to it first.

    Raises ShapeError (a RuntimeError) if the dtype is not floating-point.

    >>> import lazytensor as lt
    >>> lt.mean(lt.tensor([1.0, 2.0, 6.0]))
    tensor(3.)
    """
    half = host_half_dtype(x) if dtype is None else None
    n = cast(operand_node(x), dt.float32 if half else dtype or x.dtype)
    if n.type.dtype.kind != "f":
        raise ShapeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {x.dtype.name}",
            where=source.where(),
            hint="Convert the tensor first, for example with .float(), or pass dtype=torch.float32.",
        )
    dims = normalize_dims(dim, x.ndim)
    if _lists_all_dims(dim, x.ndim) and not keepdim:
        average = call("reduce_each", n, kind="mean", dims=dims)
    else:
        average = call("mean", n, dims=dims, keepdim=keepdim)
    return tensor_of(cast(average, half) if half else average, x)


@method
def amax(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Return the maximum over `dim`. Equal maxima share the gradient evenly.

    Raises IndexInvalid if a reduced dimension has no elements, and ShapeError if all are reduced and `x` is empty.

    >>> import lazytensor as lt
    >>> lt.amax(lt.tensor([[1, 5], [7, 2]]), 1)
    tensor([5, 7])
    """
    _require_extents(x, dim, "amax")
    return _reduce(x, "maximum", dim, keepdim)


@method
def amin(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Return the minimum over `dim`. Equal minima share the gradient evenly.

    Raises IndexInvalid if a reduced dimension has no elements, and ShapeError if all are reduced and `x` is empty.

    >>> import lazytensor as lt
    >>> lt.amin(lt.tensor([[1, 5], [7, 2]]), 1)
    tensor([1, 2])
    """
    _require_extents(x, dim, "amin")
    return _reduce(x, "minimum", dim, keepdim)


def _arg_reduce(x: Tensor, kind: str, dim: int | None, keepdim: bool) -> Tensor:
    """Return the int64 index of the maximum or minimum (`kind` "max" or "min") along `dim`, or of the flattened tensor.

    It is flattened if `dim` is None; with `keepdim` the result then has extents of 1. Raises IndexInvalid if there are
    no elements.
    """
    if dim is None or not x.ndim:
        # A 0-d tensor has the dimensions 0 and -1 in PyTorch; others are refused.
        normalize_dim(dim or 0, x.ndim)
        if not x.spec.size:
            raise IndexInvalid(
                f"arg{kind}(): Expected reduction dim to be specified for input.numel() == 0.",
                where=source.where(),
                hint="Pass a tensor with elements.",
            )
        # Without a dimension the index is that of the flattened tensor.
        flat = call("reshape", operand_node(x), shape=(x.spec.size,))
        out = tensor_of(call("arg_reduce", flat, kind=kind, dim=0, keepdim=False), x)
        return view(out, (1,) * x.ndim) if keepdim else out
    require_extent(x, normalize_dim(dim, x.ndim), f"arg{kind}")
    return tensor_of(call("arg_reduce", operand_node(x), kind=kind, dim=normalize_dim(dim, x.ndim), keepdim=keepdim), x)


def _require_extents(x: Tensor, dim: Dim, what: str) -> None:
    is_all = dim is None or (isinstance(dim, list | tuple) and not dim)
    for d in () if is_all or x.spec.size else normalize_dims(dim, x.ndim):
        require_extent(x, d, what)


def require_extent(x: Tensor, dim: int, what: str) -> None:
    """Raise IndexInvalid if dimension `dim` of `x` has no elements. `what` is the function's name in the error."""
    if x.ndim and x.spec.shape[dim] == 0:
        raise IndexInvalid(
            f"{what}(): Expected reduction dim {dim} to have non-zero size.",
            where=source.where(),
            hint="Pass a tensor whose reduced dimensions have elements.",
        )


@method
def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return the int64 index of the maximum along `dim`, or in the flattened tensor if `dim` is None.

    The first of several equal maxima counts. Raises IndexError if there are no elements, and TypeUnsupported for bools.

    >>> import lazytensor as lt
    >>> lt.argmax(lt.tensor([1, 5, 2]))
    tensor(1)
    """
    require_elements(x, "fi", "argmax")
    return _arg_reduce(x, "max", dim, keepdim)


@method
def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Return the int64 index of the minimum along `dim`, or in the flattened tensor if `dim` is None.

    The first of several equal minima counts. Raises IndexError if there are no elements, and TypeUnsupported for bools.

    >>> import lazytensor as lt
    >>> lt.argmin(lt.tensor([1, 5, 2]))
    tensor(0)
    """
    require_elements(x, "fi", "argmin")
    return _arg_reduce(x, "min", dim, keepdim)


def _reduce_with_index(x: Tensor, kind: str, dim: int, keepdim: bool) -> ValuesIndices:
    """Return the maxima or minima along `dim`, and their indices as int64.

    `kind` is "max" or "min". The gradient reaches only the element at the index, even if several are equal.
    """
    if not x.ndim:
        return ValuesIndices(view(x, ()), _arg_reduce(x, kind, dim, keepdim))
    n, at = operand_node(x), normalize_dim(int(dim), x.ndim)
    require_extent(x, at, kind)
    places = call("arg_reduce", n, kind=kind, dim=at, keepdim=keepdim)
    # Gathered by index: `max` along a dimension gives its gradient to one element, amax to all equal ones.
    values = call("extreme_value", n, places, dim=at, kind=kind)
    return ValuesIndices(tensor_of(values, x), tensor_of(places, x))


@method
def max(x: Tensor, dim: Operand | None = None, keepdim: bool = False) -> Any:
    """Return the maximum of all elements, or the maxima and their int64 indices along `dim` as a named tuple.

    If the second argument is a tensor, return the elementwise maximum of both. The dimension is removed unless
    `keepdim` is true. Raises IndexError if the dimension has no elements, and ShapeError if `x` is empty and `dim` is
    None.

    >>> import lazytensor as lt
    >>> lt.max(lt.tensor([[1, 5], [7, 2]]), 1).values
    tensor([5, 7])
    """
    # As in PyTorch, the second argument selects one of three functions.
    if isinstance(dim, Tensor):
        return pw.maximum(x, dim)
    if dim is None:
        return tensor_of(call("extreme_of_all", operand_node(x), kind="maximum"), x)
    return _reduce_with_index(x, "max", int(dim), keepdim)


@method
def min(x: Tensor, dim: Operand | None = None, keepdim: bool = False) -> Any:
    """Return the minimum of all elements, or the minima and their int64 indices along `dim` as a named tuple.

    If the second argument is a tensor, return the elementwise minimum of both. The dimension is removed unless
    `keepdim` is true. Raises IndexError if the dimension has no elements, and ShapeError if `x` is empty and `dim` is
    None.

    >>> import lazytensor as lt
    >>> lt.min(lt.tensor([[1, 5], [7, 2]]), 1).indices
    tensor([0, 1])
    """
    if isinstance(dim, Tensor):
        return pw.minimum(x, dim)
    if dim is None:
        return tensor_of(call("extreme_of_all", operand_node(x), kind="minimum"), x)
    return _reduce_with_index(x, "min", int(dim), keepdim)


@method
def any(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Return whether any element over `dim` is nonzero, as a bool tensor, or as uint8 for a uint8 tensor.

    >>> import lazytensor as lt
    >>> lt.any(lt.tensor([True, False]))
    tensor(True)
    """
    return _reduce_to_bool(x, "or", dim, keepdim)


@method
def all(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Return whether all elements over `dim` are nonzero, as a bool tensor, or as uint8 for a uint8 tensor.

    >>> import lazytensor as lt
    >>> lt.all(lt.tensor([True, False]))
    tensor(False)
    """
    return _reduce_to_bool(x, "and", dim, keepdim)


def _reduce_to_bool(x: Tensor, kind: str, dim: Dim, keepdim: bool) -> Tensor:
    out = _reduce(x, kind, dim, keepdim, dt.bool_)
    # PyTorch used uint8 before bool, and any() and all() of uint8 still return it.
    return pw.cast_to(out, x.dtype) if x.dtype is dt.uint8 else out


def _call_along_dim(x: Tensor, name: str, n: Node, dim: int, **attrs: Any) -> Tensor:
    """Return the operation `name` of `n` along `dim`. A 0-d node is treated as a vector of one element."""
    if n.type.shape:
        return tensor_of(call(name, n, dim=dim, **attrs), x)
    return tensor_of(reshape(call(name, reshape(n, (1,)), dim=0, **attrs), ()), x)


def _softmax_operand(x: Tensor, dtype: DType | None) -> Node:
    """Return the node of `x` for softmax, in `dtype` if it is given. Raises TypeUnsupported for nonempty integers.

    Empty integer tensors are converted to the default floating-point dtype.
    """
    if dtype is not None or x.dtype.kind == "f":
        return operand_node(x) if dtype is None else cast(operand_node(x), dtype)
    if x.spec.size:
        require_elements(x, "", "softmax")
    return cast(operand_node(x), default_dtype())


@method
def softmax(x: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """Return exp(x) divided by its sum along `dim`, in the shape of `x`.

    If `dtype` is given, `x` is converted first. Raises IndexError for a dimension out of range, and TypeUnsupported for
    integers without `dtype`.

    >>> import lazytensor as lt
    >>> lt.softmax(lt.zeros(4), 0)
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    n = _softmax_operand(x, dtype)
    return _call_along_dim(x, "softmax", n, normalize_dim(dim, x.ndim))


@method
def log_softmax(x: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """Return log(softmax(x)) along `dim`, computed without overflow, in the shape of `x`.

    If `dtype` is given, `x` is converted first. Raises IndexError for a dimension out of range, and TypeUnsupported for
    integers without `dtype`.

    >>> import lazytensor as lt
    >>> lt.log_softmax(lt.zeros(4), 0)
    tensor([-1.3863, -1.3863, -1.3863, -1.3863])
    """
    n = _softmax_operand(x, dtype)
    along = normalize_dim(dim, x.ndim)
    is_rounded = n.type.dtype.is_half and along == x.ndim - 1
    return _call_along_dim(x, "log_softmax", n, along, **({"kept": n.type.dtype} if is_rounded else {}))


@method
def logsumexp(x: Tensor, dim: Dim, keepdim: bool = False) -> Tensor:
    """Return log(sum(exp(x))) over `dim`, computed without overflow. Integers become the default floating-point dtype.

    Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.logsumexp(lt.zeros(4), 0)
    tensor(1.3863)
    """
    x = x if x.dtype.kind == "f" else pw.cast_to(x, default_dtype())
    if 0 in (x.spec.shape[d] for d in normalize_dims(dim, x.ndim)):
        # An empty dimension has no maximum, and the sum is 0.
        return pw.log(sum(x, dim, keepdim))
    # The maximum is subtracted and added again. An infinity is not subtracted, since inf - inf is NaN.
    top = amax(x if half_type() is not None else x.detach(), dim, True)
    top = pw.where(pw.abs(top) == math.inf, 0.0, top)
    # A maximum over extents of 1 removes the dimension, as the vendor's front end does.
    last = top if keepdim else amax(top, dim)
    wide = pw.exp(_cast_under_autocast(x - top))
    return pw.log(sum(wide, dim, keepdim)) + _cast_under_autocast(last)


def _cast_under_autocast(x: Tensor) -> Tensor:
    """Return half tensors as float32 while automatic casts are on, else `x`, since exp and sum run in float32 there."""
    return pw.cast_to(x, dt.float32) if x.dtype.is_half and half_type() is not None else x


@method
def count_nonzero(x: Tensor, dim: Dim = None) -> Tensor:
    """Return the number of nonzero elements over `dim` as int64. Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.count_nonzero(lt.tensor([0, 4, 5]))
    tensor(2)
    """
    return sum(x != 0, dim)


@method
def nansum(x: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Return the sum over `dim`, with NaN counted as 0. Integers and bools are summed in int64 unless `dtype` is given.

    >>> import lazytensor as lt
    >>> lt.nansum(lt.tensor([1.0, float("nan"), 3.0]))
    tensor(4.)
    """
    if x.dtype.kind != "f":
        return sum(x, dim, keepdim, dtype=dtype)
    return sum(pw.where(pw.isnan(x), 0.0, x), dim, keepdim, dtype=dtype)


@method
def nanmean(x: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """Return the mean over `dim` of the elements that are not NaN; NaN if there are none.

    Raises ShapeError if `x` has integers, even if `dtype` is floating point.

    >>> import lazytensor as lt
    >>> lt.nanmean(lt.tensor([1.0, float("nan"), 3.0]))
    tensor(2.)
    """
    if x.dtype.kind != "f":
        raise ShapeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {x.dtype.name}",
            where=source.where(),
            hint="Convert the tensor first, for example with .float().",
        )
    total = nansum(x, dim, keepdim, dtype=dtype)
    count = sum(pw.cast_to(pw.logical_not(pw.isnan(x)), total.dtype), dim, keepdim)
    return total / count


class Extremes(NamedTuple):
    """The result of `aminmax`."""

    min: Tensor
    max: Tensor


@method
def aminmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Extremes:
    """Return the minimum and the maximum over `dim`, or over all elements. Equal ones share the gradient.

    >>> import lazytensor as lt
    >>> lt.aminmax(lt.tensor([3, 1, 2])).max
    tensor(3)
    """
    return Extremes(amin(x, dim, keepdim), amax(x, dim, keepdim))
