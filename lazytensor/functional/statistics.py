"""Variance, standard deviation, covariance and norms."""

import math
from collections.abc import Callable
from typing import Any

from lazytensor.core import source
from lazytensor.core.autocast import half_type
from lazytensor.core.dtype import DType, float32
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.errors import ShapeError
from lazytensor.functional import matmul, views
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction as red
from lazytensor.functional.half_precision import host_half_dtype, round_once
from lazytensor.functional.reduction import Dim, normalize_dims
from lazytensor.functional.type_promotion import default_dtype
from lazytensor.functional.views import normalize_dim, unsqueeze
from lazytensor.ops import call

RENORM_EPSILON = 1e-7
"""Added to a norm before the division by it in `renorm`, as in PyTorch."""


def _mean_and_variance(
    x: Tensor, dim: Any, unbiased: bool | None, keepdim: bool, correction: float | None
) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """Return the mean with kept dimensions, the variance, and the reduced dimensions.

    The sum of squares is divided by the number of elements minus `correction`, by default 1, or 0 if `unbiased` is
    false; if that is not positive, by 0. A bool `dim` stands for `unbiased`, as in PyTorch's older signature. Raises
    ShapeError if `x` is not floating-point.
    """
    # PyTorch's older signature has `unbiased` in the position of `dim`.
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if x.dtype.kind != "f":
        raise ShapeError(
            f"std and var only support floating point, got {x.dtype.name}",
            where=source.where(),
            hint="Convert the tensor first, for example with .float().",
        )
    dims = normalize_dims(dim, x.ndim)
    n = math.prod(x.spec.shape[d] for d in dims)
    less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    # A 0-d tensor is its mean; a sum over no dimensions would sum over all.
    middle = red.mean(x, dims, True) if dims else x
    centred = x - middle
    total = red.sum(centred * centred, dims, keepdim) if dims else centred * centred
    # As in PyTorch, fewer elements than the correction divide by 0.
    return middle, total / float(max(n - less, 0)), dims


@method
def var(
    x: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Return the variance over `dim`.

    It is the sum of squared differences from the mean, divided by max(0, n - correction) for n elements. `correction`
    defaults to 1. `unbiased` is its older form: true for 1, false for 0. Reduced dimensions are removed unless
    `keepdim` is true. Raises ShapeError for integers.

    >>> import lazytensor as lt
    >>> lt.var(lt.tensor([1.0, 2.0, 3.0]), correction=0)
    tensor(0.6667)
    """
    return _variance(x, dim, unbiased, keepdim, correction)


@round_once
def _variance(x: Tensor, *options: Any) -> Tensor:
    return _mean_and_variance(x, *options)[1]


@round_once
def _standard_deviation(x: Tensor, *options: Any) -> Tensor:
    return safe_sqrt(_mean_and_variance(x, *options)[1])


@method
def std(
    x: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Return the standard deviation over `dim`, the square root of `var` with the same parameters.

    Raises ShapeError for integers.

    >>> import lazytensor as lt
    >>> lt.std(lt.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    return _standard_deviation(x, dim, unbiased, keepdim, correction)


def _finish_with_mean(
    x: Tensor, keepdim: bool, finish: Callable[[Tensor], Tensor], *options: Any
) -> tuple[Tensor, Tensor]:
    """Return finish(variance) and the mean of `x`. Half tensors on the host are computed in float32.

    `options` are those of `_mean_and_variance` after `x`. `keepdim` applies to the mean.
    """
    half = host_half_dtype(x)
    middle, variance, dims = _mean_and_variance(pw.cast_to(x, float32) if half else x, *options)
    kept = middle.spec.shape if keepdim else tuple(e for d, e in enumerate(middle.spec.shape) if d not in dims)
    results = finish(variance), views.view(middle, kept)
    return (pw.cast_to(results[0], half), pw.cast_to(results[1], half)) if half else results


def var_mean(
    x: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the variance and the mean over `dim` as a tuple. The parameters are those of `var`.

    Raises ShapeError for integers.

    >>> import lazytensor as lt
    >>> lt.var_mean(lt.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    return _finish_with_mean(x, keepdim, lambda v: v, dim, unbiased, keepdim, correction)


def std_mean(
    x: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the standard deviation and the mean over `dim` as a tuple. The parameters are those of `var`.

    Raises ShapeError for integers.

    >>> import lazytensor as lt
    >>> lt.std_mean(lt.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    return _finish_with_mean(x, keepdim, safe_sqrt, dim, unbiased, keepdim, correction)


def safe_sqrt(x: Tensor) -> Tensor:
    """Return the square root of each element, with gradient 0 at 0.

    In a step for the wafer the gradient at 0 is infinite.
    """
    # The guard costs two selections, which are needed only for a gradient; the vendor's front end does not have it.
    if not x.requires_grad or half_type() is not None:
        return pw.sqrt(x)
    somewhere = x != 0
    return pw.where(somewhere, pw.sqrt(pw.where(somewhere, x, 1.0)), 0.0)


@method
def cov(x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """Return the covariance matrix of the rows of `x`: [n, observations] -> [n, n].

    A vector or a single row gives a 0-d tensor. Integers are converted to the default floating-point dtype. `fweights`
    are the counts and `aweights` the weights of the observations, both [observations]. `correction` is subtracted from
    the number of observations. Raises ShapeError for more than two dimensions and for bools.

    >>> import lazytensor as lt
    >>> lt.cov(lt.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if x.ndim > 2:
        raise ShapeError(
            f"cov(): expected input to have two or fewer dimensions, got {x.ndim}",
            where=source.where(),
            hint="Pass a matrix with a variable in each row.",
        )
    if x.dtype.kind == "b":
        raise ShapeError(
            "cov(): bool dtype is not supported for input",
            where=source.where(),
            hint="Convert the tensor first, for example with .float().",
        )
    rows = views.view(x, (1, x.spec.size)) if x.ndim < 2 else x
    rows = rows if rows.dtype.kind == "f" else pw.cast_to(rows, default_dtype())
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    if weights is None:
        count: Any = float(rows.spec.shape[1])
        middle = red.mean(rows, 1, True) if rows.spec.shape[1] else red.sum(rows, 1, True)
        norm_by: Any = max(count - correction, 0.0)
        centred = rows - middle
        weighted = centred
    else:
        count = red.sum(weights)
        middle = red.sum(rows * weights, 1, True) / count
        if aweights is None or correction == 0:
            norm_by = count - correction
        else:
            norm_by = count - red.sum(weights * aweights) * correction / count
        # A correction larger than the sum of weights gives infinity, not a negative variance.
        norm_by = pw.maximum(norm_by, 0)
        centred = rows - middle
        # Only one factor has the weights: w x x^T and not w^2 x x^T.
        weighted = centred * weights
    out = matmul.mm(weighted, views.t(centred)) / norm_by
    return views.view(out, ()) if out.spec.size == 1 else out


@method
def corrcoef(x: Tensor) -> Tensor:
    """Return the matrix of correlation coefficients of the rows of `x`: [n, observations] -> [n, n].

    A vector gives a 0-d tensor. Raises as `cov` does.

    >>> import lazytensor as lt
    >>> lt.corrcoef(lt.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    covariance = cov(x)
    if not covariance.ndim:
        return covariance / covariance
    n = covariance.spec.shape[0]
    # The diagonal consists of every (n + 1)-th element.
    on_diagonal = pw.sqrt(views.reshape(covariance, -1).make_view("as_strided", size=(n,), stride=(n + 1,), offset=0))
    scaled = covariance / unsqueeze(on_diagonal, 1) / unsqueeze(on_diagonal, 0)
    # Rounding may exceed 1.
    return pw.clamp(scaled, -1.0, 1.0)


def vector_norm(
    x: Tensor, ord: float = 2, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Return (sum of |x|**ord)**(1 / ord) over `dim`, or over all elements if it is None.

    `ord` inf and -inf give the largest and the smallest |x|, and 0 the number of nonzero elements. The gradient is 0
    where the norm is 0 and, for orders below 1, where an element is 0. Reduced dimensions are removed unless `keepdim`
    is true. If `dtype` is given, `x` is converted first. Raises ShapeError for integers without `dtype`.
    """
    if x.dtype.kind != "f" and dtype is None:
        raise ShapeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {x.dtype.name}",
            where=source.where(),
            hint="Convert the tensor first, for example with .float().",
        )
    x = x if dtype is None else pw.cast_to(x, dtype)
    dims = normalize_dims(dim, x.ndim)
    if ord == 2:
        return pw.tensor_of(call("l2_norm", operand_node(x), dims=dims, keepdim=keepdim), x)
    size = pw.abs(x)
    if math.isinf(ord):
        if not dims:
            return size
        # The norm of no elements is 0, while a maximum raises an error.
        if not x.spec.size and ord > 0 and math.prod(x.spec.shape[d] for d in dims) == 0 and dim is None:
            return _sum_over(size, dims, keepdim)
        return (red.amax if ord > 0 else red.amin)(size, dims, keepdim)
    if ord == 1:
        return _sum_over(size, dims, keepdim)
    somewhere = size != 0
    # The power of 0 has an infinite gradient for orders below 1, so 1 replaces it, and its power is masked afterwards.
    powers = pw.pow(pw.where(somewhere, size, 1.0), float(ord))
    total = _sum_over(pw.where(somewhere, powers, 0.0 if ord >= 0 else math.inf), dims, keepdim)
    if ord == 0:
        return total
    # Where the root has no finite gradient, its value is computed from the detached sum.
    usable = pw.logical_and(total != 0, total != math.inf)
    edge = pw.pow(total.detach(), 1 / ord)
    return pw.where(usable, pw.pow(pw.where(usable, total, 1.0), 1 / ord), edge)


def _sum_over(x: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    return red.sum(x, dims, keepdim) if dims else x


@method
def norm(
    x: Tensor, p: float | str | None = "fro", dim: Dim = None, keepdim: bool = False, dtype: DType | None = None
) -> Tensor:
    """Return the `p`-norm of all elements, or over `dim`, as `vector_norm` with order `p`.

    "fro" and None are p = 2; "nuc" is the sum of singular values of a matrix. Reduced dimensions are removed unless
    `keepdim` is true. Raises ShapeError for "nuc" unless `x` is one matrix that is reduced completely, and for another
    string.

    >>> import lazytensor as lt
    >>> lt.norm(lt.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if p == "nuc":
        if x.ndim != 2 or keepdim or len(normalize_dims(dim, 2)) != 2:
            raise ShapeError(
                "norm(p='nuc') supports only one matrix", where=source.where(), hint="Use torch.linalg.norm."
            )
        return red.sum(pw.tensor_of(call("singular_values", operand_node(x)), x))
    if isinstance(p, str) and p != "fro":
        raise ShapeError(
            f"linalg.matrix_norm: Order {p} not supported.",
            where=source.where(),
            hint='Use one of 1, 2, inf, their negatives, "fro" and "nuc".',
        )
    return vector_norm(x, 2 if p in ("fro", None) else float(p), dim, keepdim, dtype=dtype)


@method(in_place=True)
def renorm(x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Return `x` with each slice along `dim` whose `p`-norm exceeds `maxnorm` scaled down to that norm.

    Other slices are unchanged. As in PyTorch, 1e-7 is added to the norm before the division.

    >>> import lazytensor as lt
    >>> lt.renorm(lt.tensor([[3.0, 4.0]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000]])
    """
    at = normalize_dim(dim, x.ndim)
    size = vector_norm(x, p, [d for d in range(x.ndim) if d != at], True)
    factor = pw.where(size > maxnorm, maxnorm / (size + RENORM_EPSILON), 1.0)
    return x * factor
