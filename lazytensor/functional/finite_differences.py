"""Differences of neighbouring elements, derivatives by finite differences, and integrals by the trapezoidal rule."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.core.tensor_members import method
from lazytensor.errors import ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction as red
from lazytensor.functional import views
from lazytensor.functional.creation import tensor
from lazytensor.functional.cumulative import cumsum
from lazytensor.functional.joining_and_splitting import cat
from lazytensor.functional.reduction import Dim
from lazytensor.functional.type_promotion import Operand
from lazytensor.functional.views import normalize_dim, slice_dim, view


@method
def diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Return the `n`-th differences x[i + 1] - x[i] along `dim`: [..., e, ...] -> [..., e - n, ...].

    `prepend` and `append` are concatenated with `x` along `dim` first. For a bool tensor the result is true where
    neighbours differ. If `n` is 0, a copy of `x` is returned, without `prepend` and `append`. If `n` is larger than the
    extent, the result is empty. Raises ShapeError if `x` has no dimensions or `n` is negative.

    >>> import lazytensor as lt
    >>> lt.diff(lt.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    if not x.ndim:
        raise ShapeError(
            "diff expects input to be at least one-dimensional",
            where=source.where(),
            hint="Pass a tensor with at least one dimension.",
        )
    if n < 0:
        raise ShapeError(
            f"order must be non-negative but got {n}", where=source.where(), hint="Pass an order n of at least 0."
        )
    if n == 0:
        return pw.clone(x)
    d = normalize_dim(dim, x.ndim)
    # Concatenated first, so that the differences at the joints are included.
    parts = [p for p in (prepend, x, append) if p is not None]
    out = cat(parts, d) if len(parts) > 1 else x
    # More rounds than elements leave an empty tensor.
    for _ in range(min(n, out.spec.shape[d])):
        lower, upper = _neighbours(out, d)
        out = pw.logical_xor(upper, lower) if x.dtype.kind == "b" else upper - lower
    return out


def _neighbours(x: Tensor, d: int) -> tuple[Tensor, Tensor]:
    extent = x.spec.shape[d]
    # For an extent of 0 or 1 both are empty.
    return slice_dim(x, d, 0, max(extent - 1, 0)), slice_dim(x, d, min(1, extent), extent)


def _double_areas(y: Tensor, x: Tensor | None, dx: Operand | None, dim: int) -> Tensor:
    """Return twice the areas between neighbouring points of `y` along `dim`, at points `x` or with spacing `dx`.

    Raises ShapeError if both `x` and `dx` are given.
    """
    d = normalize_dim(dim, y.ndim)
    lower, upper = _neighbours(y, d)
    # The caller divides by 2 once, after the sum.
    total = lower + upper
    if x is None:
        return total * (1 if dx is None else dx)
    if dx is not None:
        raise ShapeError(
            f"only one of `x` and `dx` may be given, but got {x.spec} and dx={dx}",
            where=source.where(),
            hint="Omit x or dx.",
        )
    if x.ndim == 1:
        # A vector of points belongs to the integrated dimension; other shapes broadcast from the last dimension.
        at_dim = [1] * y.ndim
        at_dim[d] = -1
        x = view(x, at_dim)
    elif x.ndim < y.ndim:
        x = view(x, ((1,) * (y.ndim - x.ndim) + x.spec.shape))
    lower, upper = _neighbours(x, d)
    return (upper - lower) * total


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Operand | None = None, dim: int = -1) -> Tensor:
    """Return the integral of `y` along `dim` by the trapezoidal rule: [..., n, ...] -> [...].

    `x` holds the positions of the samples: a vector [n], or a tensor that broadcasts with `y`. Otherwise they are `dx`
    apart, by default 1. Raises ShapeError if both `x` and `dx` are given, or if `y` is bool.

    >>> import lazytensor as lt
    >>> lt.trapezoid(lt.tensor([1.0, 3.0, 5.0]))
    tensor(6.)
    """
    if y.dtype.kind == "b":
        text = "trapezoid: received a bool input for `y`, but bool is not supported"
        raise ShapeError(text, where=source.where(), hint="Use .float().")
    areas = _double_areas(y, x, dx, dim)
    # A negative dimension, since broadcasting with `x` may have added leading dimensions.
    return red.sum(areas, normalize_dim(dim, y.ndim) - y.ndim) / 2.0


trapz = trapezoid


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Operand | None = None, dim: int = -1) -> Tensor:
    """Return the running integral of `y` along `dim` by the trapezoidal rule: [..., n, ...] -> [..., n - 1, ...].

    Element i is the integral from sample 0 to sample i + 1. `x` and `dx` give the positions as in `trapezoid`. Raises
    ShapeError if both are given.

    >>> import lazytensor as lt
    >>> lt.cumulative_trapezoid(lt.tensor([1.0, 3.0, 5.0]))
    tensor([2., 6.])
    """
    return cumsum(_double_areas(y, x, dx, dim), normalize_dim(dim, y.ndim) - y.ndim) / 2.0


def _gradient_along(x: Tensor, at: int, step: Any, edge_order: int) -> Tensor:
    """Return the derivative of `x` along dimension `at` by second-order central differences, one-sided at both ends.

    `step` is the spacing, or a vector of coordinates. `edge_order` is the order of the one-sided differences. Raises
    ShapeError if the extent is less than `edge_order` + 1.
    """
    n = x.spec.shape[at]
    if n < edge_order + 1:
        raise ShapeError(
            "torch.gradient expected each dimension size to be at least edge_order+1"
            f", but got {n} with edge_order={edge_order}",
            where=source.where(),
            hint="Choose longer dimensions, or reduce edge_order.",
        )
    if isinstance(step, Tensor):
        places = step.tolist()
        gaps = [b - a for a, b in pairwise(places)]
    else:
        # Equal steps are a list of equal gaps.
        gaps = [float(step)] * (n - 1)
    if edge_order == 1:
        # Order 1 uses the slope of the first and last gap; order 2 that of the parabola through three points.
        start = _weighted_sum(x, at, 1, [(0, [-1 / gaps[0]]), (1, [1 / gaps[0]])])
        end = _weighted_sum(x, at, 1, [(n - 2, [-1 / gaps[-1]]), (n - 1, [1 / gaps[-1]])])
    else:
        start = _weighted_sum(x, at, 1, [(i, [w]) for i, w in enumerate(_edge_weights(gaps[0], gaps[1]))])
        end = _weighted_sum(x, at, 1, [(n - 1 - i, [-w]) for i, w in enumerate(_edge_weights(gaps[-1], gaps[-2]))])
    inner = [_weighted_sum(x, at, n - 2, list(enumerate(_central_weights(gaps))))] if n > 2 else []
    return cat([start, *inner, end], at)


def _central_weights(gaps: list[float]) -> list[list[float]]:
    """Return the weights of the previous, the current and the next element, for all elements but the first and last.

    `gaps` are the distances of neighbours.
    """
    sides = list(pairwise(gaps))
    return [
        [-q / (p * (p + q)) for p, q in sides],
        [(q - p) / (p * q) for p, q in sides],
        [p / (q * (p + q)) for p, q in sides],
    ]


def _weighted_sum(x: Tensor, at: int, count: int, terms: Sequence[tuple[int, list[float]]]) -> Tensor:
    """Return the sum of slices of `x` along dimension `at`, each times its weights.

    `terms` has the start of each slice and its weights; every slice has `count` elements.
    """
    parts = [slice_dim(x, at, start, start + count) for start, _ in terms]
    products = [p * _weights_along(w, p, at) for p, (_, w) in zip(parts, terms, strict=True)]
    total, *others = products
    for product in others:
        total = total + product
    return total


def _edge_weights(near: float, far: float) -> tuple[float, float, float]:
    """Return the weights of the first three elements in the derivative at the first one.

    `near` and `far` are the distances from the first to the second and from the second to the third.
    """
    return (
        -(2 * near + far) / (near * (near + far)),
        (near + far) / (near * far),
        -near / (far * (near + far)),
    )


def _weights_along(weights: list[float], like: Tensor, at: int) -> Operand:
    """Return `weights` as a tensor that broadcasts to `like` along dimension `at`; one number if all are equal."""
    # Equal weights need no tensor.
    if len(set(weights)) == 1:
        return weights[0]
    values = tensor(weights, dtype=like.dtype if like.dtype.kind == "f" else None)
    return views.view(values, tuple(-1 if d == at else 1 for d in range(like.ndim)))


def gradient(x: Tensor, *, spacing: Any = None, dim: Dim = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Return the derivatives of `x` along the dimensions `dim` by finite differences, each in the shape of `x`.

    - `spacing`: the distance of neighbours (1 if None), a sequence with one distance or coordinate vector per
      dimension, or one coordinate vector for every dimension.
    - `dim`: a dimension, a sequence of dimensions, or None for all.
    - `edge_order`: 1 or 2, the order of the one-sided differences at both ends.

    Raises ShapeError if an extent is less than `edge_order` + 1, for another `edge_order`, and if the number of
    spacings differs from that of the dimensions.

    >>> import lazytensor as lt
    >>> lt.gradient(lt.tensor([1.0, 4.0, 9.0]))
    (tensor([3., 4., 5.]),)
    """
    if edge_order not in (1, 2):
        raise ShapeError(
            f"torch.gradient only supports edge_order=1 and edge_order=2. Got {edge_order}.",
            where=source.where(),
            hint="Pass edge_order=1 or edge_order=2.",
        )
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
            hint="Pass one spacing for each dimension, or one number.",
        )
    return tuple(_gradient_along(x, d, s, edge_order) for d, s in zip(at, steps, strict=True))
