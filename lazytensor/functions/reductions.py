"""Reductions over all or some dimensions."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from lazytensor import dtype as dt
from lazytensor.dtype import DType
from lazytensor.functions import pointwise as pw
from lazytensor.functions.creation import arange
from lazytensor.functions.pointwise import made
from lazytensor.functions.promotion import Operand, default_dtype
from lazytensor.functions.shapes import dim_of, unsqueeze, view
from lazytensor.ops import call
from lazytensor.ops.pointwise import cast
from lazytensor.tensor import Tensor, arg

PUBLIC = "all amax amin any argmax argmin log_softmax logsumexp max mean min norm prod softmax std sum var"
METHODS = "sum prod mean amax amin argmax argmin max min any all var std norm softmax log_softmax logsumexp"
IN_PLACE = ""

Dim = int | Sequence[int] | None


class ValuesIndices(NamedTuple):
    """The answer of `max` and `min` along a dimension."""

    values: Tensor
    indices: Tensor


def dims_of(dim: Dim, rank: int) -> tuple[int, ...]:
    """The dimensions to reduce, in order; None and () mean all."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(rank))
    given = (dim,) if isinstance(dim, int) else tuple(dim)
    return tuple(sorted(dim_of(d, rank) for d in given)) if rank else ()


def _reduce(x: Tensor, kind: str, dim: Dim, keepdim: bool, dtype: DType | None = None) -> Tensor:
    n = cast(arg(x), dtype or x.dtype)
    return made(call("reduce", n, kind=kind, dims=dims_of(dim, x.ndim), keepdim=keepdim), x)


def sum(x: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The sum; integers and bool add up in int64."""
    return _reduce(x, "add", dim, keepdim, dtype or (None if x.dtype.kind == "f" else dt.int64))


def prod(x: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The product; integers and bool multiply in int64."""
    return _reduce(x, "mul", dim, keepdim, dtype or (None if x.dtype.kind == "f" else dt.int64))


def mean(x: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The arithmetic mean of floating-point numbers."""
    n = cast(arg(x), dtype or x.dtype)
    if n.type.dtype.kind != "f":
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {x.dtype.name}"
        )
    return made(call("mean", n, dims=dims_of(dim, x.ndim), keepdim=keepdim), x)


def amax(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The largest element; equal ones share the gradient."""
    return _reduce(x, "maximum", dim, keepdim)


def amin(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The smallest element; equal ones share the gradient."""
    return _reduce(x, "minimum", dim, keepdim)


def _arg(x: Tensor, kind: str, dim: int | None, keepdim: bool) -> Tensor:
    if dim is None:
        flat = call("reshape", arg(x), shape=(x.spec.size,))
        out = made(call("arg_reduce", flat, kind=kind, dim=0, keepdim=False), x)
        return view(out, (1,) * x.ndim) if keepdim else out
    return made(call("arg_reduce", arg(x), kind=kind, dim=dim_of(dim, x.ndim), keepdim=keepdim), x)


def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The place of the largest element, the first of equal ones."""
    return _arg(x, "max", dim, keepdim)


def argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The place of the smallest element, the first of equal ones."""
    return _arg(x, "min", dim, keepdim)


def _picked(x: Tensor, indices: Tensor, dim: int, keepdim: bool) -> Tensor:
    """The elements at `indices` along a dimension, so that the gradient goes to them alone."""
    places = arange(x.spec.shape[dim])
    places = view(places, tuple(-1 if d == dim else 1 for d in range(x.ndim)))
    hit = pw.eq(places, indices if keepdim else unsqueeze(indices, dim))
    return _reduce(pw.where(hit, x, pw.mul(x.detach(), 0) if x.dtype.kind == "i" else 0.0), "add", dim, keepdim)


def max(x: Tensor, dim: Operand | None = None, keepdim: bool = False) -> Any:
    """The largest element; with a dimension also its place; with a second tensor the elementwise maximum."""
    if isinstance(dim, Tensor):
        return pw.maximum(x, dim)
    if dim is None:
        return amax(x)
    at = dim_of(int(dim), x.ndim)
    indices = argmax(x, at, keepdim)
    return ValuesIndices(_picked(x, indices, at, keepdim), indices)


def min(x: Tensor, dim: Operand | None = None, keepdim: bool = False) -> Any:
    """The smallest element; with a dimension also its place; with a second tensor the elementwise minimum."""
    if isinstance(dim, Tensor):
        return pw.minimum(x, dim)
    if dim is None:
        return amin(x)
    at = dim_of(int(dim), x.ndim)
    indices = argmin(x, at, keepdim)
    return ValuesIndices(_picked(x, indices, at, keepdim), indices)


def any(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether some element is not zero; uint8 answers in its own type."""
    return _truth(x, "or", dim, keepdim)


def all(x: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether every element is not zero; uint8 answers in its own type."""
    return _truth(x, "and", dim, keepdim)


def _truth(x: Tensor, kind: str, dim: Dim, keepdim: bool) -> Tensor:
    out = _reduce(x, kind, dim, keepdim, dt.bool_)
    return pw.cast_to(out, x.dtype) if x.dtype is dt.uint8 else out


def var(
    x: Tensor, dim: Dim = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> Tensor:
    """The variance; divided by the number of elements less `correction` (1, or 0 if not unbiased)."""
    dims = dims_of(dim, x.ndim)
    n = math.prod(x.spec.shape[d] for d in dims)
    less = correction if correction is not None else float(unbiased)
    centred = pw.sub(x, mean(x, dims, True)) if dims else pw.sub(x, x)
    total = _reduce(pw.mul(centred, centred), "add", dims or None, keepdim)
    return pw.div(total, n - less if n > less else 0.0)


def std(
    x: Tensor, dim: Dim = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> Tensor:
    """The standard deviation, the root of `var`."""
    return pw.sqrt(var(x, dim, unbiased, keepdim, correction=correction))


def norm(x: Tensor, p: float | str = 2, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The p-norm: p = 2 Euclidean, 1 sum of absolute values, infinity the largest one."""
    size = pw.abs(x)
    if p in ("fro", 2, 2.0):
        return pw.sqrt(sum(pw.mul(x, x), dim, keepdim))
    if p == math.inf:
        return amax(size, dim, keepdim)
    if p == 1:
        return sum(size, dim, keepdim)
    return pw.pow(sum(pw.pow(size, float(p)), dim, keepdim), 1 / float(p))


def softmax(x: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """exp(x) divided by its sum along a dimension."""
    n = cast(arg(x), dtype or (x.dtype if x.dtype.kind == "f" else default_dtype()))
    return made(call("softmax", n, dim=dim_of(dim, x.ndim)), x)


def log_softmax(x: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """The logarithm of softmax, computed without overflow."""
    n = cast(arg(x), dtype or (x.dtype if x.dtype.kind == "f" else default_dtype()))
    return made(call("log_softmax", n, dim=dim_of(dim, x.ndim)), x)


def logsumexp(x: Tensor, dim: Dim, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) without overflow."""
    top = amax(x.detach(), dim, True)
    top = pw.where(pw.isfinite(top), top, 0.0)
    total = pw.add(pw.log(sum(pw.exp(pw.sub(x, top)), dim, True)), top)
    return total if keepdim else view(total, sum(x.detach(), dim).spec.shape)
