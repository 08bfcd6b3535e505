"""Reductions over all or some dimensions.

The reduced dimensions disappear from the shape, or stay as 1 with `keepdim`; without a dimension the result is a
number. All raise IndexError for a dimension that the tensor does not have.
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
    """The answer of `max` and `min` along a dimension."""

    values: Tensor
    indices: Tensor


def normalize_dims(dim: Dim, rank: int) -> tuple[int, ...]:
    """The dimensions to reduce, in order; None and () mean all."""
    dim = operator.index(dim) if isinstance(dim, Tensor) else dim
    # PyTorch's oldest reductions take an empty list for all; NumPy would take it for none.
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
    """Return whether `dim` lists all dimensions; None and () list none."""
    return len(normalize_dims(dim, rank)) == rank > 0 and dim is not None and (isinstance(dim, int) or len(dim) > 0)


@method
def sum(x: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The sum over `dim`; integers and bool add up in int64. Raises IndexError for a dimension out of range.

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
    """The product over `dim`; integers and bool multiply in int64. Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.prod(lt.tensor([2, 3, 4]))
    tensor(24)
    """
    return _reduce(x, "mul", dim, keepdim, dtype or (None if x.dtype.kind == "f" else dt.int64))


@method
def mean(x: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The arithmetic mean over `dim`. Raises RuntimeError for integers, as PyTorch does.

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
        )
    dims = normalize_dims(dim, x.ndim)
    if _lists_all_dims(dim, x.ndim) and not keepdim:
        average = call("reduce_each", n, kind="mean", dims=dims)
    else:
        average = call("mean", n, dims=dims, keepdim=keepdim)
    return tensor_of(cast(average, half) if half else average, x)


@method
def amax(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The largest element over `dim`; equal ones share the gradient.

    Raises IndexInvalid for a dimension without elements, ShapeError for a tensor without elements.

    >>> import lazytensor as lt
    >>> lt.amax(lt.tensor([[1, 5], [7, 2]]), 1)
    tensor([5, 7])
    """
    _require_extents(x, dim, "amax")
    return _reduce(x, "maximum", dim, keepdim)


@method
def amin(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The smallest element over `dim`; equal ones share the gradient.

    Raises IndexInvalid for a dimension without elements, ShapeError for a tensor without elements.

    >>> import lazytensor as lt
    >>> lt.amin(lt.tensor([[1, 5], [7, 2]]), 1)
    tensor([1, 2])
    """
    _require_extents(x, dim, "amin")
    return _reduce(x, "minimum", dim, keepdim)


def _arg_reduce(x: Tensor, kind: str, dim: int | None, keepdim: bool) -> Tensor:
    if dim is None or not x.ndim:
        # A number has the dimensions 0 and -1 in PyTorch; others are refused.
        normalize_dim(dim or 0, x.ndim)
        if not x.spec.size:
            raise IndexInvalid(
                f"arg{kind}(): Expected reduction dim to be specified for input.numel() == 0.", where=source.where()
            )
        # Without a dimension the place counts in the flat order.
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
    """Raise IndexInvalid if a dimension of x has no elements."""
    if x.ndim and x.spec.shape[dim] == 0:
        raise IndexInvalid(f"{what}(): Expected reduction dim {dim} to have non-zero size.", where=source.where())


@method
def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The place of the largest element along `dim` or in the flat order, int64; the first of equal ones.

    Raises IndexError where there is none.

    >>> import lazytensor as lt
    >>> lt.argmax(lt.tensor([1, 5, 2]))
    tensor(1)
    """
    require_elements(x, "fi", "argmax")
    return _arg_reduce(x, "max", dim, keepdim)


@method
def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The place of the smallest element along `dim` or in the flat order, int64; the first of equal ones.

    Raises IndexError where there is none.

    >>> import lazytensor as lt
    >>> lt.argmin(lt.tensor([1, 5, 2]))
    tensor(0)
    """
    require_elements(x, "fi", "argmin")
    return _arg_reduce(x, "min", dim, keepdim)


def _reduce_with_index(x: Tensor, kind: str, dim: int, keepdim: bool) -> ValuesIndices:
    """Return the maxima or minima along a dimension, and their indices as int64.

    `kind` is "max" or "min". The gradient goes to the element at the index alone, also where several are equal.
    """
    if not x.ndim:
        return ValuesIndices(view(x, ()), _arg_reduce(x, kind, dim, keepdim))
    n, at = operand_node(x), normalize_dim(int(dim), x.ndim)
    require_extent(x, at, kind)
    places = call("arg_reduce", n, kind=kind, dim=at, keepdim=keepdim)
    # By place and not reduced: `max` along a dimension gives its gradient to one place, amax to all equal ones.
    values = call("extreme_value", n, places, dim=at, kind=kind)
    return ValuesIndices(tensor_of(values, x), tensor_of(places, x))


@method
def max(x: Tensor, dim: Operand | None = None, keepdim: bool = False) -> Any:
    """The largest element; with a dimension also its place, int64; with a second tensor the elementwise maximum.

    Raises IndexError where a dimension has no elements.

    >>> import lazytensor as lt
    >>> lt.max(lt.tensor([[1, 5], [7, 2]]), 1).values
    tensor([5, 7])
    """
    # PyTorch's overload: the second argument decides which of three functions this is.
    if isinstance(dim, Tensor):
        return pw.maximum(x, dim)
    if dim is None:
        return amax(x)
    return _reduce_with_index(x, "max", int(dim), keepdim)


@method
def min(x: Tensor, dim: Operand | None = None, keepdim: bool = False) -> Any:
    """The smallest element; with a dimension also its place, int64; with a second tensor the elementwise minimum.

    Raises IndexError where a dimension has no elements.

    >>> import lazytensor as lt
    >>> lt.min(lt.tensor([[1, 5], [7, 2]]), 1).indices
    tensor([0, 1])
    """
    if isinstance(dim, Tensor):
        return pw.minimum(x, dim)
    if dim is None:
        return amin(x)
    return _reduce_with_index(x, "min", int(dim), keepdim)


@method
def any(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether some element over `dim` is not zero: bool, but uint8 answers in its own type.

    >>> import lazytensor as lt
    >>> lt.any(lt.tensor([True, False]))
    tensor(True)
    """
    return _reduce_to_bool(x, "or", dim, keepdim)


@method
def all(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether every element over `dim` is not zero: bool, but uint8 answers in its own type.

    >>> import lazytensor as lt
    >>> lt.all(lt.tensor([True, False]))
    tensor(False)
    """
    return _reduce_to_bool(x, "and", dim, keepdim)


def _reduce_to_bool(x: Tensor, kind: str, dim: Dim, keepdim: bool) -> Tensor:
    out = _reduce(x, kind, dim, keepdim, dt.bool_)
    # PyTorch's oldest truth values were bytes, and any() and all() of them still are.
    return pw.cast_to(out, x.dtype) if x.dtype is dt.uint8 else out


def _call_along_dim(x: Tensor, name: str, n: Node, dim: int, **attrs: Any) -> Tensor:
    """An operation along a dimension; a scalar counts as one element of one dimension."""
    if n.type.shape:
        return tensor_of(call(name, n, dim=dim, **attrs), x)
    return tensor_of(reshape(call(name, reshape(n, (1,)), dim=0, **attrs), ()), x)


def _softmax_operand(x: Tensor, dtype: DType | None) -> Node:
    """What softmax is taken of. Raises TypeUnsupported for integers, unless there are none."""
    if dtype is not None or x.dtype.kind == "f":
        return operand_node(x) if dtype is None else cast(operand_node(x), dtype)
    if x.spec.size:
        require_elements(x, "", "softmax")
    return cast(operand_node(x), default_dtype())


@method
def softmax(x: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """exp(x) divided by its sum along a dimension: [...] to [...]. Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.softmax(lt.zeros(4), 0)
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    n = _softmax_operand(x, dtype)
    return _call_along_dim(x, "softmax", n, normalize_dim(dim, x.ndim))


@method
def log_softmax(x: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """The logarithm of softmax, computed without overflow: [...] to [...].

    Raises IndexError for a dimension out of range.

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
    """log(sum(exp(x))) over `dim` without overflow. Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.logsumexp(lt.zeros(4), 0)
    tensor(1.3863)
    """
    x = x if x.dtype.kind == "f" else pw.cast_to(x, default_dtype())
    if 0 in (x.spec.shape[d] for d in normalize_dims(dim, x.ndim)):
        # Of nothing there is no largest, and the sum is 0.
        return pw.log(sum(x, dim, keepdim))
    # The largest is taken out and added again. Infinity stays in, or inf - inf would be NaN.
    top = amax(x if half_type() is not None else x.detach(), dim, True)
    top = pw.where(pw.abs(top) == math.inf, 0.0, top)
    # Over a dimension of extent 1 the largest is the element: the front end drops the dimension by a reduction too.
    last = top if keepdim else amax(top, dim)
    wide = pw.exp(_cast_under_autocast(x - top))
    return pw.log(sum(wide, dim, keepdim)) + _cast_under_autocast(last)


def _cast_under_autocast(x: Tensor) -> Tensor:
    """Return x in float32 under automatic casts, which exp and a sum with float32 ask for."""
    return pw.cast_to(x, dt.float32) if x.dtype.is_half and half_type() is not None else x


@method
def count_nonzero(x: Tensor, dim: Dim = None) -> Tensor:
    """How many elements are not zero, as int64 without the dimensions `dim`. Raises IndexError for one out of range.

    >>> import lazytensor as lt
    >>> lt.count_nonzero(lt.tensor([0, 4, 5]))
    tensor(2)
    """
    return sum(x != 0, dim)


@method
def nansum(x: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The sum over `dim` of what is not NaN; integers add up in int64.

    >>> import lazytensor as lt
    >>> lt.nansum(lt.tensor([1.0, float("nan"), 3.0]))
    tensor(4.)
    """
    if x.dtype.kind != "f":
        return sum(x, dim, keepdim, dtype=dtype)
    return sum(pw.where(pw.isnan(x), 0.0, x), dim, keepdim, dtype=dtype)


@method
def nanmean(x: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The mean over `dim` of what is not NaN. Raises ShapeError for integers.

    >>> import lazytensor as lt
    >>> lt.nanmean(lt.tensor([1.0, float("nan"), 3.0]))
    tensor(2.)
    """
    if x.dtype.kind != "f":
        raise ShapeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {x.dtype.name}",
            where=source.where(),
        )
    total = nansum(x, dim, keepdim, dtype=dtype)
    count = sum(pw.cast_to(pw.logical_not(pw.isnan(x)), total.dtype), dim, keepdim)
    return total / count


class Extremes(NamedTuple):
    """The answer of `aminmax`."""

    min: Tensor
    max: Tensor


@method
def aminmax(x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Extremes:
    """The smallest and the largest element over `dim`, without it; equal ones share the gradient.

    >>> import lazytensor as lt
    >>> lt.aminmax(lt.tensor([3, 1, 2])).max
    tensor(3)
    """
    return Extremes(amin(x, dim, keepdim), amax(x, dim, keepdim))
