"""Quantiles: places between the elements in order."""

import math
from typing import Any

from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.core.tensor_members import method
from lazytensor.errors import ShapeError
from lazytensor.functional import gather_scatter, sorting, views
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction as red
from lazytensor.functional.creation import tensor
from lazytensor.functional.views import movedim, normalize_dim

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _check_quantiles(x: Tensor, q: Any) -> Tensor:
    """The quantiles asked for as a tensor of the dtype of x."""
    if x.dtype not in (dt.float32, dt.float64):
        raise ShapeError("quantile() input tensor must be either float or double dtype", where=source.where())
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise ShapeError(f"quantile() q must be in the range [0, 1] but got {q}", where=source.where())
        return tensor(float(q), dtype=x.dtype)
    if q.ndim > 1 or q.dtype is not x.dtype:
        raise ShapeError(
            "quantile() q tensor must be a scalar or a vector, of the same dtype as the input tensor",
            where=source.where(),
        )
    return q


def _interpolate(ordered: Tensor, place: Tensor, interpolation: str) -> Tensor:
    """The value at a place (not a whole number) along the last dimension."""
    if interpolation == "nearest":
        return gather_scatter.gather(ordered, -1, pw.cast_to(pw.round(place), dt.int64))
    below, above = pw.floor(place), pw.ceil(place)
    low = gather_scatter.gather(ordered, -1, pw.cast_to(below, dt.int64))
    if interpolation == "lower":
        return low
    high = gather_scatter.gather(ordered, -1, pw.cast_to(above, dt.int64))
    if interpolation == "higher":
        return high
    weight = place - below
    if interpolation == "midpoint":
        # A whole place lies on an element, and takes it as it is.
        weight = pw.cast_to(above != below, ordered.dtype) * 0.5
    return low + (high - low) * weight


def _quantile(x: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, skips_nan: bool) -> Tensor:
    if interpolation not in INTERPOLATIONS:
        raise ShapeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
            f"{interpolation}",
            where=source.where(),
        )
    asked = _check_quantiles(x, q)
    if not x.spec.size:
        raise ShapeError("quantile() input tensor must be non-empty", where=source.where())
    at = 0 if dim is None else normalize_dim(dim, x.ndim)
    whole = dim is None or not x.ndim
    # Sorted once for all quantiles; NaN comes last, so numbers keep the first places.
    ordered = movedim(sorting.sort(views.reshape(x, -1) if whole else x, at).values, at, -1)
    missing = pw.isnan(ordered.detach())
    wanted = views.reshape(asked, -1)
    last: Any = float(ordered.spec.shape[-1] - 1)
    if skips_nan:
        # The last place that holds a number, for each row by itself.
        last = pw.clamp(pw.cast_to(red.sum(pw.logical_not(missing), -1, True), x.dtype) - 1.0, 0.0, math.inf)
    place = views.expand(wanted * last, (*ordered.spec.shape[:-1], wanted.spec.size))
    values = _interpolate(ordered, place, interpolation)
    if not skips_nan:
        values = pw.where(red.any(missing, -1, True), math.nan, values)
    kept = tuple(1 if whole or d == at else e for d, e in enumerate(x.spec.shape))
    shape = kept if keepdim else values.spec.shape[:-1]
    # Several quantiles are the first dimension of the result, one is none.
    return views.reshape(movedim(values, -1, 0), (*asked.spec.shape, *shape))


@method
def quantile(
    x: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-quantiles of all elements or along a dimension, without it; several q [k] come first: [k, ...].

    NaN spreads. Raises ShapeError for q outside 0..1, other types than float32 and float64, and nothing to order.

    >>> import lazytensor as lt
    >>> lt.quantile(lt.tensor([1.0, 2.0, 3.0]), 0.25)
    tensor(1.5000)
    """
    return _quantile(x, q, dim, keepdim, interpolation, False)


@method
def nanquantile(
    x: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Return quantiles as `quantile` does, of the elements that are not NaN. Raises ShapeError in the same cases.

    >>> import lazytensor as lt
    >>> lt.nanquantile(lt.tensor([1.0, float("nan"), 3.0]), 0.5)
    tensor(2.)
    """
    return _quantile(x, q, dim, keepdim, interpolation, True)
