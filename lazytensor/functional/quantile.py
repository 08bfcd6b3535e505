"""Quantiles of a tensor, with interpolation between its sorted elements."""

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
    """Return the quantiles `q` as a tensor of the dtype of `x`.

    Raises ShapeError if `x` is not float32 or float64, if a number is not between 0 and 1, or if a tensor has several
    dimensions or another dtype than `x`. The values of a tensor are not checked.
    """
    if x.dtype not in (dt.float32, dt.float64):
        raise ShapeError(
            f"quantile() input tensor must be either float or double dtype, but got {x.dtype.name}",
            where=source.where(),
            hint="Convert the tensor first, for example with .float().",
        )
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise ShapeError(
                f"quantile() q must be in the range [0, 1] but got {q}",
                where=source.where(),
                hint="Pass probabilities between 0 and 1.",
            )
        return tensor(float(q), dtype=x.dtype)
    if q.ndim > 1 or q.dtype is not x.dtype:
        raise ShapeError(
            "quantile() q tensor must be a scalar or a vector, of the same dtype as the input tensor"
            f", but got {q.spec}",
            where=source.where(),
            hint="Convert q to the dtype of the input, and flatten it.",
        )
    return q


def _interpolate(ordered: Tensor, place: Tensor, interpolation: str) -> Tensor:
    """Return the values at the fractional positions `place` along the last dimension of the sorted tensor `ordered`.

    `interpolation` is "nearest" (ties to the even position), "lower", "higher", "midpoint" (the mean of both
    neighbours) or "linear".
    """
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
        # An integer position takes that element as it is.
        weight = pw.cast_to(above != below, ordered.dtype) * 0.5
    return low + (high - low) * weight


def _quantile(x: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, skips_nan: bool) -> Tensor:
    """Return quantiles as `quantile` does; if `skips_nan` is true, those of the elements that are not NaN.

    The shape is that of `q`, then that of `x` without `dim` (kept with extent 1 if `keepdim`). Unless `skips_nan` is
    true, a row with a NaN gives NaN. Raises ShapeError for an unknown `interpolation`, an empty `x`, and as
    `_check_quantiles` does.
    """
    if interpolation not in INTERPOLATIONS:
        raise ShapeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
            f"{interpolation}",
            where=source.where(),
            hint="Pass one of these names.",
        )
    asked = _check_quantiles(x, q)
    if not x.spec.size:
        raise ShapeError(
            "quantile() input tensor must be non-empty",
            where=source.where(),
            hint="Pass a tensor with at least one element.",
        )
    at = 0 if dim is None else normalize_dim(dim, x.ndim)
    whole = dim is None or not x.ndim
    # Sorted once for all quantiles. NaN comes last, so numbers have the first positions.
    ordered = movedim(sorting.sort(views.reshape(x, -1) if whole else x, at).values, at, -1)
    missing = pw.isnan(ordered.detach())
    wanted = views.reshape(asked, -1)
    last: Any = float(ordered.spec.shape[-1] - 1)
    if skips_nan:
        # The last position of a number, for each row.
        last = pw.clamp(pw.cast_to(red.sum(pw.logical_not(missing), -1, True), x.dtype) - 1.0, 0.0, math.inf)
    place = views.expand(wanted * last, (*ordered.spec.shape[:-1], wanted.spec.size))
    values = _interpolate(ordered, place, interpolation)
    if not skips_nan:
        values = pw.where(red.any(missing, -1, True), math.nan, values)
    kept = tuple(1 if whole or d == at else e for d, e in enumerate(x.spec.shape))
    shape = kept if keepdim else values.spec.shape[:-1]
    # A vector of quantiles gives the first dimension; a single one gives none.
    return views.reshape(movedim(values, -1, 0), (*asked.spec.shape, *shape))


@method
def quantile(
    x: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Return the `q`-quantiles of all elements, or along `dim`, which is removed unless `keepdim` is true.

    - `q`: a number, or a tensor of the dtype of `x`, between 0 and 1. A vector [k] adds a leading dimension: [k, ...].
    - `interpolation`: "linear", "lower", "higher", "midpoint" or "nearest", the value between two elements.

    NaN in a row gives NaN. Raises ShapeError if a number `q` is out of range, if `x` is not float32 or float64, if it
    is empty, and for another `interpolation`.

    >>> import lazytensor as lt
    >>> lt.quantile(lt.tensor([1.0, 2.0, 3.0]), 0.25)
    tensor(1.5000)
    """
    return _quantile(x, q, dim, keepdim, interpolation, False)


@method
def nanquantile(
    x: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """Return quantiles as `quantile` does, ignoring NaN. A row of NaN gives NaN.

    Raises ShapeError in the same cases as `quantile`.

    >>> import lazytensor as lt
    >>> lt.nanquantile(lt.tensor([1.0, float("nan"), 3.0]), 0.5)
    tensor(2.)
    """
    return _quantile(x, q, dim, keepdim, interpolation, True)
