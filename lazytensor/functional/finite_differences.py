"""Differences of samples, derivatives by finite differences, and integrals by the trapezoidal rule."""

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
    """Differences of neighbours along a dimension, n times: [..., e, ...] -> [..., e - n, ...].

    Of bool, whether they differ. Raises ShapeError for a number, and a negative n.

    >>> import lazytensor as lt
    >>> lt.diff(lt.tensor([1, 4, 9]))
    tensor([3, 5])
    """
    if not x.ndim:
        raise ShapeError("diff expects input to be at least one-dimensional", where=source.where())
    if n < 0:
        raise ShapeError(f"order must be non-negative but got {n}", where=source.where())
    if n == 0:
        return pw.clone(x)
    d = normalize_dim(dim, x.ndim)
    # Joined first, then the differences: the seam counts as a pair of neighbours.
    parts = [p for p in (prepend, x, append) if p is not None]
    out = cat(parts, d) if len(parts) > 1 else x
    # More rounds than places leave nothing, and there is nothing less than that.
    for _ in range(min(n, out.spec.shape[d])):
        lower, upper = _neighbours(out, d)
        out = pw.logical_xor(upper, lower) if x.dtype.kind == "b" else upper - lower
    return out


def _neighbours(x: Tensor, d: int) -> tuple[Tensor, Tensor]:
    extent = x.spec.shape[d]
    # Of no or one place both are empty.
    return slice_dim(x, d, 0, max(extent - 1, 0)), slice_dim(x, d, min(1, extent), extent)


def _double_areas(y: Tensor, x: Tensor | None, dx: Operand | None, dim: int) -> Tensor:
    """Twice the area between neighbours: the sum of both heights times their distance.

    Raises ShapeError for x with dx.
    """
    d = normalize_dim(dim, y.ndim)
    lower, upper = _neighbours(y, d)
    # Not halved here: one division at the end instead of one for each area.
    total = lower + upper
    if x is None:
        return total * (1 if dx is None else dx)
    if dx is not None:
        raise ShapeError("the points are given as x or as dx, not both", where=source.where())
    if x.ndim == 1:
        # A vector of points lies along the dimension that is integrated, others broadcast from behind.
        at_dim = [1] * y.ndim
        at_dim[d] = -1
        x = view(x, at_dim)
    elif x.ndim < y.ndim:
        x = view(x, ((1,) * (y.ndim - x.ndim) + x.spec.shape))
    lower, upper = _neighbours(x, d)
    return (upper - lower) * total


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Operand | None = None, dim: int = -1) -> Tensor:
    """The area under points y [..., n, ...] along `dim`, at places x or dx apart, by the trapezoidal rule: [...].

    Raises ShapeError for both x and dx, and for booleans.

    >>> import lazytensor as lt
    >>> lt.trapezoid(lt.tensor([1.0, 3.0, 5.0]))
    tensor(6.)
    """
    if y.dtype.kind == "b":
        text = "trapezoid: received a bool input for `y`, but bool is not supported"
        raise ShapeError(text, where=source.where(), hint="Use .float().")
    areas = _double_areas(y, x, dx, dim)
    # Counted from the end: areas may have gained dimensions in front from the points.
    return red.sum(areas, normalize_dim(dim, y.ndim) - y.ndim) / 2.0


trapz = trapezoid


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Operand | None = None, dim: int = -1) -> Tensor:
    """The area under points y [..., n, ...] so far: [..., n - 1, ...]. Raises ShapeError for both x and dx.

    >>> import lazytensor as lt
    >>> lt.cumulative_trapezoid(lt.tensor([1.0, 3.0, 5.0]))
    tensor([2., 6.])
    """
    return cumsum(_double_areas(y, x, dx, dim), normalize_dim(dim, y.ndim) - y.ndim) / 2.0


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
    return cat([start, *inner, end], at)


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
