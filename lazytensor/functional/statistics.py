"""Variance, covariance, norms, distances and differences."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
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
from lazytensor.functional.creation import tensor
from lazytensor.functional.half_precision import host_half_dtype, round_once
from lazytensor.functional.reduction import Dim, normalize_dims
from lazytensor.functional.type_promotion import Operand, default_dtype, require_elements
from lazytensor.functional.views import normalize_dim, slice_dim, unsqueeze
from lazytensor.ops import call
from lazytensor.ops.op import refuse_elements

RENORM_EPSILON = 1e-7
"""Added to a norm before dividing by it, as the documentation of renorm's users shows."""


def _mean_and_variance(
    x: Tensor, dim: Any, unbiased: bool | None, keepdim: bool, correction: float | None
) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """The mean with kept dimensions, the variance, and the dimensions."""
    # PyTorch's older signature gives `unbiased` in the place of the dimension.
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if x.dtype.kind != "f":
        raise ShapeError(f"std and var only support floating point, got {x.dtype.name}", where=source.where())
    dims = normalize_dims(dim, x.ndim)
    n = math.prod(x.spec.shape[d] for d in dims)
    less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    # A number is its own mean; a sum over no dimensions would be over all.
    middle = red.mean(x, dims, True) if dims else x
    centred = x - middle
    total = red.sum(centred * centred, dims, keepdim) if dims else centred * centred
    # Fewer elements than the correction divide by 0, as in PyTorch.
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
    """The variance over `dim`, without it: squares about the mean, divided by the number of elements less `correction`.

    `unbiased` is a correction of 1, the default. Raises ShapeError for integers.

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
    """The standard deviation over `dim`, the root of `var`. Raises ShapeError for integers.

    >>> import lazytensor as lt
    >>> lt.std(lt.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    return _standard_deviation(x, dim, unbiased, keepdim, correction)


def _finish_with_mean(
    x: Tensor, keepdim: bool, finish: Callable[[Tensor], Tensor], *options: Any
) -> tuple[Tensor, Tensor]:
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
    """The variance and the mean over `dim`. Raises ShapeError for integers.

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
    """The standard deviation and the mean over `dim`. Raises ShapeError for integers.

    >>> import lazytensor as lt
    >>> lt.std_mean(lt.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    return _finish_with_mean(x, keepdim, safe_sqrt, dim, unbiased, keepdim, correction)


def safe_sqrt(x: Tensor) -> Tensor:
    """The square root of each element, with the gradient 0 at 0."""
    # The guard costs two selections, which only a gradient needs; the front end has none.
    if not x.requires_grad or half_type() is not None:
        return pw.sqrt(x)
    somewhere = x != 0
    return pw.where(somewhere, pw.sqrt(pw.where(somewhere, x, 1.0)), 0.0)


@method
def nansum(x: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """The sum over `dim` of what is not NaN; integers add up in int64.

    >>> import lazytensor as lt
    >>> lt.nansum(lt.tensor([1.0, float("nan"), 3.0]))
    tensor(4.)
    """
    if x.dtype.kind != "f":
        return red.sum(x, dim, keepdim, dtype=dtype)
    return red.sum(pw.where(pw.isnan(x), 0.0, x), dim, keepdim, dtype=dtype)


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
    count = red.sum(pw.cast_to(pw.logical_not(pw.isnan(x)), total.dtype), dim, keepdim)
    return total / count


@method
def cov(x: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """The covariances of the rows: [n, observations] -> [n, n], or a number for a vector.

    Observations are counted by fweights or weighted by aweights, both [observations]. Raises ShapeError for more
    dimensions, and for booleans.

    >>> import lazytensor as lt
    >>> lt.cov(lt.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if x.ndim > 2:
        raise ShapeError(f"cov(): expected input to have two or fewer dimensions, got {x.ndim}", where=source.where())
    if x.dtype.kind == "b":
        raise ShapeError("cov(): bool dtype is not supported for input", where=source.where())
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
        # A correction beyond the weights gives infinity, never a negative variance.
        norm_by = pw.maximum(norm_by, 0)
        centred = rows - middle
        # Only one side carries the weights: w x x^T and not w^2 x x^T.
        weighted = centred * weights
    out = matmul.mm(weighted, views.t(centred)) / norm_by
    return views.view(out, ()) if out.spec.size == 1 else out


@method
def corrcoef(x: Tensor) -> Tensor:
    """The correlations of the rows: [n, observations] -> [n, n], or a number for a vector. Raises as `cov` does.

    >>> import lazytensor as lt
    >>> lt.corrcoef(lt.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    covariance = cov(x)
    if not covariance.ndim:
        return covariance / covariance
    n = covariance.spec.shape[0]
    # The diagonal is every (n + 1)-th element.
    on_diagonal = pw.sqrt(views.reshape(covariance, -1).make_view("as_strided", size=(n,), stride=(n + 1,), offset=0))
    scaled = covariance / unsqueeze(on_diagonal, 1) / unsqueeze(on_diagonal, 0)
    # Rounding may lead beyond 1.
    return pw.clamp(scaled, -1.0, 1.0)


def vector_norm(
    x: Tensor, ord: float = 2, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """(sum of |x| ** ord) ** (1 / ord); infinite orders give the largest and smallest size, 0 counts what is not 0.

    The gradient is 0 where the norm, or for small orders an element, is 0.
    """
    if x.dtype.kind != "f" and dtype is None:
        raise ShapeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {x.dtype.name}",
            where=source.where(),
        )
    x = x if dtype is None else pw.cast_to(x, dtype)
    dims = normalize_dims(dim, x.ndim)
    if ord == 2:
        return pw.tensor_of(call("l2_norm", operand_node(x), dims=dims, keepdim=keepdim), x)
    size = pw.abs(x)
    if math.isinf(ord):
        if not dims:
            return size
        # The largest of nothing is 0 for a norm, where a maximum is refused.
        if not x.spec.size and ord > 0 and math.prod(x.spec.shape[d] for d in dims) == 0 and dim is None:
            return _sum_over(size, dims, keepdim)
        return (red.amax if ord > 0 else red.amin)(size, dims, keepdim)
    if ord == 1:
        return _sum_over(size, dims, keepdim)
    somewhere = size != 0
    # The power of 0 has no slope for orders below 1; 1 stands in, and its power is taken out again.
    powers = pw.pow(pw.where(somewhere, size, 1.0), float(ord))
    total = _sum_over(pw.where(somewhere, powers, 0.0 if ord >= 0 else math.inf), dims, keepdim)
    if ord == 0:
        return total
    # Where the root has no slope, its value comes from the detached sum.
    usable = pw.logical_and(total != 0, total != math.inf)
    edge = pw.pow(total.detach(), 1 / ord)
    return pw.where(usable, pw.pow(pw.where(usable, total, 1.0), 1 / ord), edge)


def _sum_over(x: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    return red.sum(x, dims, keepdim) if dims else x


@method
def norm(
    x: Tensor, p: float | str | None = "fro", dim: Dim = None, keepdim: bool = False, dtype: DType | None = None
) -> Tensor:
    """The p-norm of all elements or over `dim`, without it; "fro" is p = 2, "nuc" the sum of singular values.

    Raises ShapeError for "nuc" of anything else than one matrix.

    >>> import lazytensor as lt
    >>> lt.norm(lt.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if p == "nuc":
        if x.ndim != 2 or keepdim or len(normalize_dims(dim, 2)) != 2:
            raise ShapeError("norm(p='nuc') takes one matrix here", where=source.where(), hint="Use linalg.norm.")
        return red.sum(pw.tensor_of(call("singular_values", operand_node(x)), x))
    if isinstance(p, str) and p != "fro":
        raise ShapeError(f"linalg.matrix_norm: Order {p} not supported.", where=source.where())
    return vector_norm(x, 2 if p in ("fro", None) else float(p), dim, keepdim, dtype=dtype)


@method(in_place=True)
def renorm(x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """x with each slice along `dim` whose p-norm is above `maxnorm` scaled down to it: [...] to [...].

    >>> import lazytensor as lt
    >>> lt.renorm(lt.tensor([[3.0, 4.0]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000]])
    """
    at = normalize_dim(dim, x.ndim)
    size = vector_norm(x, p, [d for d in range(x.ndim) if d != at], True)
    factor = pw.where(size > maxnorm, maxnorm / (size + RENORM_EPSILON), 1.0)
    return x * factor


@method
def dist(x: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of the difference, broadcast: a number.

    >>> import lazytensor as lt
    >>> lt.dist(lt.tensor([3.0, 0.0]), lt.tensor([0.0, 4.0]))
    tensor(5.)
    """
    return vector_norm(x - other, float(p))


def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary"
) -> Tensor:
    """The p-norm distances of every row of x1 to every row of x2: [..., P, M] and [..., R, M] -> [..., P, R].

    Raises ShapeError for rows of unlike length.

    >>> import lazytensor as lt
    >>> lt.cdist(lt.tensor([[0.0, 0.0]]), lt.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    if x1.ndim < 2 or x2.ndim < 2 or x1.spec.shape[-1] != x2.spec.shape[-1]:
        raise ShapeError(
            f"X1 and X2 must have the same number of columns. X1: {list(x1.shape)} X2: {list(x2.shape)}",
            where=source.where(),
        )
    for x in (x1, x2):
        require_elements(x, "f", "cdist")
        if x.dtype.is_half and half_type() is None:
            refuse_elements("cdist", x.spec)
    difference = unsqueeze(x1, -2) - unsqueeze(x2, -3)
    if not x1.spec.shape[-1]:
        return red.sum(difference, -1)
    return vector_norm(difference, float(p), -1)


def _gradient_along(x: Tensor, at: int, step: Any, edge_order: int) -> Tensor:
    """The derivative along one dimension by second-order differences, one-sided at both ends."""
    n = x.spec.shape[at]
    if n < edge_order + 1:
        raise ShapeError(
            "torch.gradient expected each dimension size to be at least edge_order+1", where=source.where()
        )
    if isinstance(step, Tensor):
        places = step.tolist()
        gaps = [b - a for a, b in pairwise(places)]
    else:
        # Equal steps are the case with gaps that are all alike.
        gaps = [float(step)] * (n - 1)
    if edge_order == 1:
        # At the ends the slope of the first and last gap; with order 2, of the parabola through three places.
        start = _weighted_sum(x, at, 1, [(0, [-1 / gaps[0]]), (1, [1 / gaps[0]])])
        end = _weighted_sum(x, at, 1, [(n - 2, [-1 / gaps[-1]]), (n - 1, [1 / gaps[-1]])])
    else:
        start = _weighted_sum(x, at, 1, [(i, [w]) for i, w in enumerate(_edge_weights(gaps[0], gaps[1]))])
        end = _weighted_sum(x, at, 1, [(n - 1 - i, [-w]) for i, w in enumerate(_edge_weights(gaps[-1], gaps[-2]))])
    inner = [_weighted_sum(x, at, n - 2, list(enumerate(_central_weights(gaps))))] if n > 2 else []
    return views.cat([start, *inner, end], at)


def _central_weights(gaps: list[float]) -> list[list[float]]:
    """Weights of the place before, the place itself and the place after, for every place but the ends."""
    sides = list(pairwise(gaps))
    return [
        [-q / (p * (p + q)) for p, q in sides],
        [(q - p) / (p * q) for p, q in sides],
        [p / (q * (p + q)) for p, q in sides],
    ]


def _weighted_sum(x: Tensor, at: int, count: int, terms: Sequence[tuple[int, list[float]]]) -> Tensor:
    """The sum of parts of x, `count` places from each start on, times weights along the dimension."""
    parts = [slice_dim(x, at, start, start + count) for start, _ in terms]
    products = [p * _weights_along(w, p, at) for p, (_, w) in zip(parts, terms, strict=True)]
    total, *others = products
    for product in others:
        total = total + product
    return total


def _edge_weights(near: float, far: float) -> tuple[float, float, float]:
    """Weights of the end, its neighbour and the next one for the derivative at the end."""
    return (
        -(2 * near + far) / (near * (near + far)),
        (near + far) / (near * far),
        -near / (far * (near + far)),
    )


def _weights_along(weights: list[float], like: Tensor, at: int) -> Operand:
    """Weights along one dimension, as a number or as a tensor that broadcasts."""
    # Where all gaps are alike, a number does and no tensor is needed.
    if len(set(weights)) == 1:
        return weights[0]
    values = tensor(weights, dtype=like.dtype if like.dtype.kind == "f" else None)
    return views.view(values, tuple(-1 if d == at else 1 for d in range(like.ndim)))


def gradient(x: Tensor, *, spacing: Any = None, dim: Dim = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """The derivative along each dimension, each [...] as x.

    `spacing` is one step, one for each dimension, or the coordinates themselves. Raises ShapeError for too few
    places, other edge orders, and steps for other dimensions.

    >>> import lazytensor as lt
    >>> lt.gradient(lt.tensor([1.0, 4.0, 9.0]))
    (tensor([3., 4., 5.]),)
    """
    if edge_order not in (1, 2):
        raise ShapeError("torch.gradient only supports edge_order=1 and edge_order=2.", where=source.where())
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    at = [normalize_dim(d, x.ndim) for d in dims]
    if isinstance(spacing, Tensor) and not spacing.ndim:
        spacing = spacing.item()
    steps = [1.0 if spacing is None else spacing] * len(at) if not isinstance(spacing, Sequence) else list(spacing)
    if len(steps) != len(at):
        raise ShapeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or it's spacing and dim arguments to have "
            f"the same length, but got a spacing argument of length {len(steps)} and a dim argument of length "
            f"{len(at)}.",
            where=source.where(),
        )
    return tuple(_gradient_along(x, d, s, edge_order) for d, s in zip(at, steps, strict=True))
