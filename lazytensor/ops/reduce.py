"""Reductions over dimensions, and their gradients."""

import math
from typing import Any

import numpy as np

from lazytensor.cirh.layers import norm_attributes
from lazytensor.cirh.spelling import reduction_attributes, typed_operation
from lazytensor.core.dtype import int64
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import legal_by_decomposition
from lazytensor.ir.reduction import REDUCTIONS
from lazytensor.ir.types import Type, Work
from lazytensor.ops.elementwise import cast, eq, ne, rounded_once, where
from lazytensor.ops.formula import composite
from lazytensor.ops.op import call, full_like, op
from lazytensor.ops.shape import Dims, broadcast_to, reshape


def _reduce_type(x: Type, *, kind: str, dims: Dims, keepdim: bool) -> Type:
    if kind in ("maximum", "minimum", "max", "min") and any(x.shape[d] == 0 for d in dims):
        raise ShapeError(
            f"the {kind} of zero elements does not exist: the shape is {list(x.shape)}, the dimensions are "
            f"{list(dims)}",
            hint="Expected reduction dim to have non-zero size.",
        )
    return Type(
        tuple(1 if d in dims else e for d, e in enumerate(x.shape) if keepdim or d not in dims),
        x.dtype,
    )


def _reduce_eval(x: np.ndarray, *, kind: str, dims: Dims, keepdim: bool) -> np.ndarray:
    # dtype prevents NumPy from widening small integers and booleans. PyTorch's widening happens before this operation.
    return np.asarray(REDUCTIONS[kind].ufunc.reduce(x, axis=dims, keepdims=keepdim, dtype=x.dtype))


def _reduce_work(out: Type, x: Type, **attrs: Any) -> Work:
    return Work(x.size, x.nbytes, out.nbytes)


def keepdim_shape(shape: Dims, dims: Dims) -> Dims:
    """Return `shape` with 1 for the reduced dimensions."""
    return tuple(1 if d in dims else e for d, e in enumerate(shape))


def broadcast_reduced(g: Node, shape: Dims, dims: Dims) -> Node:
    """Return a reduced value `g` broadcast to `shape` over the dimensions `dims` that were reduced.

    `g` may have been reduced with or without keepdim. It is returned itself if it has the shape.
    """
    kept = tuple(range(len(shape)))
    # The rank shows whether the dimensions were kept.
    if len(g.type.shape) != len(shape):
        kept = tuple(d for d in kept if d not in dims)
    return call("broadcast_in_dim", g, shape=shape, dims=kept) if g.type.shape != shape else g


def broadcast_gradient(g: Node, shape: Dims, dims: Dims) -> Node:
    """Return the gradient `g` of a reduced value, broadcast over the dimensions that were reduced."""
    return call("expand_reduced", g, shape=shape, dims=dims) if g.type.shape != shape else g


def _restore_reduced_dims(g: Node, shape: Dims, dims: Dims) -> Node:
    """Return `g` with the reduced dimensions inserted as 1, one by one.

    A 0-d value, and one that has the rank of `shape`, is returned unchanged.
    """
    if len(g.type.shape) in (0, len(shape)):
        return g
    for d in dims:
        g = reshape(g, (*g.type.shape[:d], 1, *g.type.shape[d:]))
    return g


def _expand_gradient(g: Node, *, shape: Dims, dims: Dims) -> Node:
    """Return the front end's form of `broadcast_gradient`: insert the reduced dimensions, then broadcast."""
    wide = _restore_reduced_dims(g, shape, dims)
    kept = tuple(range(len(wide.type.shape)))
    return call("broadcast_in_dim", wide, shape=shape, dims=kept) if wide.type.shape != shape else wide


def _expand_gradient_vjp(gg: Node, y: Node, g: Node, *, shape: Dims, dims: Dims) -> tuple[Node]:
    return (reshape(reduce(gg, "add", dims), g.type.shape),)


def _reduce_vjp(g: Node, y: Node, x: Node, *, kind: str, dims: Dims, keepdim: bool) -> tuple[Node]:
    if kind == "add":
        return (broadcast_gradient(g, x.type.shape, dims),)
    if kind == "mul":
        return (_product_vjp(g, x, dims),)
    return (call("extreme_grad", g, y, x, dims=dims),)


def _extreme_grad(g: Node, y: Node, x: Node, *, dims: Dims, counts_nan: bool = False) -> Node:
    """Return the gradient of a maximum or minimum `y` of `x` over `dims`. Elements equal to the extreme share it
    evenly.

    If `y` is NaN, no element is equal to it, and the gradient is 0 / 0, which is NaN. With `counts_nan`, the NaN
    elements share it.
    """
    shape = x.type.shape
    wide = broadcast_reduced(y, shape, dims)
    is_equal = eq(x, wide)
    if counts_nan:
        is_equal = call("logical_or", is_equal, call("logical_and", ne(wide, wide), ne(x, x)))
    is_extreme = where(is_equal, full_like(1, x), 0)
    count = reduce(is_extreme, "add", dims)
    return is_extreme * broadcast_reduced(g, shape, dims) / broadcast_reduced(count, shape, dims)


def _decompose_extreme_grad(g: Node, y: Node, x: Node, *, dims: Dims, counts_nan: bool = False) -> Node:
    """Return the front end's formula: the gradient is divided by the number of extremes before it is broadcast.

    If `y` is 0-d, NaN elements count as equal to a NaN result.
    """
    shape, dtype = x.type.shape, x.type.dtype
    if not y.type.shape:
        both_nan = call("logical_and", _broadcast_same_rank(ne(y, y), shape), ne(x, x))
        mask = call("logical_or", eq(x, _broadcast_same_rank(y, shape)), both_nan)
        count = reduce(call("cast", mask, dtype=int64), "add", dims)
        return call("cast", mask, dtype=dtype) * _broadcast_same_rank(g / call("cast", count, dtype=dtype), shape)
    kept = keepdim_shape(shape, dims)
    mask = eq(_broadcast_same_rank(reshape(y, kept), shape), x)
    count = call("count_true", mask, dims=dims, keepdim=True)
    share = reshape(g, kept) / call("cast", count, dtype=dtype)
    return _broadcast_same_rank(share, shape) * call("cast", mask, dtype=dtype)


def _broadcast_same_rank(x: Node, shape: Dims) -> Node:
    return (
        x if x.type.shape == shape else call("broadcast_in_dim", x, shape=shape, dims=tuple(range(len(x.type.shape))))
    )


def _each_vjp(g: Node, y: Node, x: Node, *, kind: str, dims: Dims) -> tuple[Node]:
    """Gradient rule of a reduction over all dimensions by name, in the front end's steps.

    A maximum or minimum shares the gradient among equal extremes. A mean divides it by the number of elements; other
    kinds broadcast it.
    """
    shape, kept = x.type.shape, (1,) * len(dims)
    if kind in ("maximum", "minimum"):
        return (call("extreme_grad", reshape(g, kept), reshape(y, kept), x, dims=dims),)
    # The dimensions are inserted one by one, as in `expand_reduced`.
    for rank in range(1, len(dims) + 1):
        g = reshape(g, (1,) * rank)
    wide = _broadcast_same_rank(g, shape)
    return (wide / x.type.size if kind == "mean" else wide,)


def _sum_keepdim(x: Node, *, dims: Dims) -> Node:
    """Return a sum with keepdim in the front end's form: the reduced dimensions are dropped and inserted again."""
    rest = tuple(d for d in range(len(x.type.shape)) if d not in dims)
    return call("broadcast_in_dim", reduce(x, "add", dims), shape=keepdim_shape(x.type.shape, dims), dims=rest)


def _count_true(x: Node, *, dims: Dims, keepdim: bool) -> Node:
    return reduce(call("cast", x, dtype=int64), "add", dims, keepdim)


def _decompose_count_true(x: Node, *, dims: Dims, keepdim: bool) -> Node:
    """Return the count in the front end's form: booleans are summed, and the sum is converted."""
    return call("cast", _sum_keepdim(x, dims=dims) if keepdim else reduce(x, "add", dims), dtype=int64)


def _product_vjp(g: Node, x: Node, dims: Dims) -> Node:
    """Return the gradient of a product over `dims`: `g` times the product of all other elements.

    It is exact also if elements are zero, and there is no division by zero.
    """
    shape = x.type.shape
    is_zero = eq(x, 0)
    # y / x would be 0 / 0 at a zero. So compute the product without zeros, and count the zeros.
    zeros = broadcast_reduced(reduce(where(is_zero, full_like(1, x), 0), "add", dims), shape, dims)
    others = broadcast_reduced(reduce(where(is_zero, 1, x), "mul", dims), shape, dims)
    alone = call("logical_and", is_zero, eq(zeros, 1))
    # With one zero, only that element has a slope, the product of the others. With two or more, all slopes are 0.
    slope = where(alone, others, where(eq(zeros, 0), others / where(is_zero, 1, x), 0))
    return broadcast_gradient(g, shape, dims) * slope


def reduce(x: Node, kind: str, dims: Dims, keepdim: bool = False) -> Node:
    """Return `x` reduced over `dims` by `kind`: "add", "mul", "maximum", "minimum", "and" or "or"."""
    return call("reduce", x, kind=kind, dims=dims, keepdim=keepdim)


def _arg_reduce_type(x: Type, *, kind: str, dim: int, keepdim: bool) -> Type:
    return Type(_reduce_type(x, kind=kind, dims=(dim,), keepdim=keepdim).shape, int64)


def _arg_eval(x: np.ndarray, *, kind: str, dim: int, keepdim: bool) -> np.ndarray:
    return np.asarray((np.argmax if kind == "max" else np.argmin)(x, axis=dim, keepdims=keepdim).astype(np.int64))


def _decompose_mean(x: Node, *, dims: Dims, keepdim: bool) -> Node:
    count: int = math.prod(x.type.shape[d] for d in dims)
    return reduce(x, "add", dims, keepdim) / count


def _mean_eval(x: np.ndarray, *, dims: Dims, keepdim: bool) -> np.ndarray:
    # np.mean would warn for no elements; the division returns NaN silently, as PyTorch does.
    with np.errstate(all="ignore"):
        total = np.sum(x, axis=dims, keepdims=keepdim, dtype=x.dtype)
        return np.asarray(total / x.dtype.type(math.prod(x.shape[d] for d in dims)), x.dtype)


def _mean_vjp(g: Node, y: Node, x: Node, *, dims: Dims, keepdim: bool) -> tuple[Node]:
    wide = broadcast_gradient(g, x.type.shape, dims)
    return (wide / math.prod(x.type.shape[d] for d in dims),)


def _numbered_name(kind: str) -> str:
    """Return PyTorch's name of the gradient of a reduction over listed dimensions."""
    return f"{REDUCTIONS[kind].gradient}Backward{0 if REDUCTIONS[kind].is_extreme else 1}"


op(
    "reduce",
    _reduce_type,
    _reduce_eval,
    vjp=_reduce_vjp,
    work=_reduce_work,
    cirh=typed_operation("Reduce", reduction_attributes),
    saves=lambda *, kind, **attrs: kind != "add",
    also_keeps="result",
    gradient_name=lambda n: REDUCTIONS[n.attrs["kind"]].gradient,
)
composite(
    "expand_reduced",
    lambda g, *, shape, dims: broadcast_reduced(g, shape, dims),
    lambda g, *, shape, dims: Type(shape, g.dtype),
    0,
    vjp=_expand_gradient_vjp,
    cirh=legal_by_decomposition(_expand_gradient),
    saves=False,
)
composite(
    "extreme_grad", _extreme_grad, lambda g, y, x, **attrs: x, 4, cirh=legal_by_decomposition(_decompose_extreme_grad)
)
composite(
    "sum_kept",
    _sum_keepdim,
    lambda x, *, dims: Type(keepdim_shape(x.shape, dims), x.dtype),
    vjp=lambda g, y, x, *, dims: (broadcast_gradient(g, x.type.shape, dims),),
    saves=False,
    gradient_name="SumBackward1",
)
composite(
    # A reduction for which the script lists all dimensions. Its gradient has other steps than one without `dim`.
    "reduce_each",
    lambda x, *, kind, dims: call("mean", x, dims=dims, keepdim=False) if kind == "mean" else reduce(x, kind, dims),
    lambda x, *, kind, dims: _reduce_type(x, kind=kind, dims=dims, keepdim=False),
    vjp=_each_vjp,
    saves=lambda *, kind, **attrs: kind in ("maximum", "minimum"),
    gradient_name=lambda n: "MeanBackward1" if n.attrs["kind"] == "mean" else _numbered_name(n.attrs["kind"]),
)
composite(
    # max() and min() of all elements. NaN elements share the gradient, which is NaN for amax() and amin().
    "extreme_of_all",
    lambda x, *, kind: reduce(x, kind, tuple(range(len(x.type.shape)))),
    lambda x, *, kind: _reduce_type(x, kind=kind, dims=tuple(range(len(x.shape))), keepdim=False),
    vjp=lambda g, y, x, *, kind: (
        call("extreme_grad", g, y, x, dims=tuple(range(len(x.type.shape))), counts_nan=True),
    ),
    also_keeps="result",
    gradient_name=lambda n: "MaxBackward1" if n.attrs["kind"] == "maximum" else "MinBackward1",
)
composite(
    "count_true",
    _count_true,
    lambda x, *, dims, keepdim: Type(_reduce_type(x, kind="add", dims=dims, keepdim=keepdim).shape, int64),
    vjp=None,
    cirh=legal_by_decomposition(_decompose_count_true),
)
op("arg_reduce", _arg_reduce_type, _arg_eval, work=_reduce_work, cirh=typed_operation("Reduce", reduction_attributes))
op(
    "mean",
    lambda x, *, dims, keepdim: _reduce_type(x, kind="add", dims=dims, keepdim=keepdim),
    _mean_eval,
    vjp=_mean_vjp,
    work=_reduce_work,
    composite=_decompose_mean,
)


def _vector_length(x: Node, *, dims: Dims, keepdim: bool) -> Node:
    return call("sqrt", reduce(x * x, "add", dims, keepdim))


def _vector_length_type(x: Type, *, dims: Dims, keepdim: bool) -> Type:
    kept = keepdim_shape(x.shape, dims)
    return Type(kept if keepdim else tuple(e for d, e in enumerate(x.shape) if d not in dims), x.dtype)


def _vector_length_vjp(g: Node, y: Node, x: Node, *, dims: Dims, keepdim: bool) -> tuple[Node]:
    return (call("l2_norm_grad", g, y, x, dims=dims),)


def _vector_length_grad(g: Node, y: Node, x: Node, *, dims: Dims) -> Node:
    """Return g * x / y, and 0 where the norm y is 0."""
    wide = [broadcast_reduced(n, x.type.shape, dims) for n in (g, y)]
    # x / |x| has no limit at 0; PyTorch uses the subgradient 0.
    zero = eq(wide[1], 0)
    return where(zero, 0, wide[0] * (x / where(zero, 1, wide[1])))


def _decompose_vector_length_grad(g: Node, y: Node, x: Node, *, dims: Dims) -> Node:
    """Return the front end's formula: the quotient by zero is computed and then replaced."""
    shape = x.type.shape
    g, y = (_restore_reduced_dims(n, shape, dims) for n in (g, y))
    slope = where(_broadcast_same_rank(eq(y, 0), shape), 0, x / _broadcast_same_rank(y, shape))
    return _broadcast_same_rank(g, shape) * slope


composite(
    "l2_norm",
    rounded_once(_vector_length),
    _vector_length_type,
    2,
    vjp=_vector_length_vjp,
    cirh=typed_operation("L2Norm", norm_attributes),
    gradient_name="LinalgVectorNorm",
)
composite(
    "at_least",
    lambda x, *, least: call("maximum", x, full_like(least, x)),
    lambda x, **attrs: x,
    vjp=lambda g, y, x, *, least: (g,),
    saves=False,
)
composite(
    "l2_norm_grad",
    _vector_length_grad,
    lambda g, y, x, **attrs: x,
    4,
    cirh=legal_by_decomposition(_decompose_vector_length_grad),
)


def _sum_and_reshape(g: Node, *, shape: Dims, dims: Dims) -> Node:
    return reshape(reduce(g, "add", dims), shape)


def _decompose_sum_and_reshape(g: Node, *, shape: Dims, dims: Dims) -> Node:
    """Return the front end's form: the summed dimensions are inserted again and then dropped, unless none are left."""
    if not shape:
        return reduce(g, "add", dims)
    kept = keepdim_shape(g.type.shape, dims)
    rest = tuple(d for d in range(len(kept)) if d not in dims)
    return reshape(call("broadcast_in_dim", reduce(g, "add", dims), shape=kept, dims=rest), shape)


# An operand of `where` with another dtype: the front end broadcasts it before it converts it, and sums its gradient
# before it converts that.
composite(
    "broadcast_cast",
    lambda x, *, shape, dtype: broadcast_to(cast(x, dtype), shape),
    lambda x, *, shape, dtype: Type(shape, dtype),
    cirh=legal_by_decomposition(lambda x, *, shape, dtype: cast(broadcast_to(x, shape), dtype)),
    saves=False,
)
# The gradient of a broadcast.
composite(
    "sum_to",
    _sum_and_reshape,
    lambda g, *, shape, dims: Type(shape, g.dtype),
    cirh=legal_by_decomposition(_decompose_sum_and_reshape),
    saves=False,
    gradient_name="SumBackward1",
)
