"""Masks of the elements with the largest scores.

Masks are computed without reading values: all elements are sorted, and the number of kept ones is a tensor. Among equal
scores, those with the lowest index are kept.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from cstorch_compat.run import process
from lazytensor.core import dtype as dt
from lazytensor.core.tensor import Tensor
from lazytensor.functional import creation, reduction, views
from lazytensor.functional import pointwise as pw
from lazytensor.functional.gather_scatter import scatter
from lazytensor.functional.sorting import topk

Unshaper = Callable[[Tensor], Tensor]
Shaper = Callable[[Tensor], tuple[Tensor, Unshaper]]
INT32_MAX = 2**31 - 1
"""The largest int32, used as an upper bound for counts."""
Level = Any
"""The type of a sparsity or fraction: a float32 scalar tensor or a number."""


class ScoreShaper(ABC):
    """The base class of shapers, which reshape scores to rows. The mask of each row is computed separately."""

    @abstractmethod
    def __call__(self, tensor: Tensor) -> tuple[Tensor, Unshaper]:
        """Return `tensor` as a vector or as rows, and a function that restores the original shape of a mask."""


class ScoreFlattener(ScoreShaper):
    """A shaper that puts all scores into one row."""

    def __call__(self, tensor: Tensor) -> tuple[Tensor, Unshaper]:
        shape = tuple(tensor.shape)
        return _reshape(tensor, (-1,)), lambda flat: _reshape(flat, shape)


class _GroupShaper(ScoreShaper):
    def __init__(self, num_groups: int):
        if num_groups < 1:
            raise ValueError(f"num_groups must be at least 1. Got: {num_groups}\n  Increase num_groups.")
        self.num_groups = num_groups

    def _check(self, extent: int, what: str) -> None:
        if extent % self.num_groups:
            raise ValueError(
                f"{extent} {what} cannot be divided into {self.num_groups} groups of equal size"
                "\n  Choose a divisor as num_groups."
            )


class OutputGroupScoreShaper(_GroupShaper):
    """A shaper with one row for each group of outputs, which are the first dimension.

    Raises ValueError if the number of outputs is not a multiple of `num_groups`.
    """

    def __call__(self, tensor: Tensor) -> tuple[Tensor, Unshaper]:
        shape = tuple(tensor.shape)
        self._check(shape[0] if shape else 1, "outputs")
        return _reshape(tensor, (self.num_groups, -1)), lambda rows: _reshape(rows, shape)


class InputGroupScoreShaper(_GroupShaper):
    """A shaper with one row for each group of inputs, which are the second dimension of a matrix.

    Raises ValueError if the tensor is not 2-D or the number of inputs is not a multiple of `num_groups`.
    """

    def __call__(self, tensor: Tensor) -> tuple[Tensor, Unshaper]:
        if tensor.ndim != 2:
            raise ValueError(
                f"Only the inputs of a matrix can be grouped, but the shape is {list(tensor.shape)}"
                "\n  Apply groups to matrices only."
            )
        outputs, inputs = tensor.shape
        self._check(inputs, "inputs")
        # Inputs are columns, so the matrix is transposed before it is divided into rows.
        rows = _reshape(views.transpose(tensor, 0, 1), (self.num_groups, -1))
        return rows, lambda rows: views.transpose(_reshape(rows, (inputs, outputs)), 0, 1)


def _reshape(t: Tensor, shape: tuple[int, ...]) -> Tensor:
    # Avoid a node without effect, because graphs are compared with those of the front end.
    return t if tuple(t.shape) == shape or (shape == (-1,) and t.ndim == 1) else views.reshape(t, shape)


def _make_mask_of_largest(rows: Tensor, count: Tensor) -> Tensor:
    """Return a bool mask of the `count` largest elements of each row. `count` is an int32 scalar tensor.

    `rows` has one or two dimensions. The program is that of the system. On CSX, one element of each row is therefore
    kept even if `count` is 0.
    """
    n = rows.shape[-1]
    # topk needs a Python number, and the count is a tensor. So sort all elements.
    places = topk(rows, n, -1).indices
    counts = creation.arange(n, dtype=dt.int32, device=rows.device) < count
    # The scatter has a fixed number of indices, so the surplus ones repeat the first index.
    chosen = pw.where(counts, places, views.narrow(places, -1, 0, 1))
    shape, device = tuple(rows.shape), rows.device
    none = creation.zeros(*shape, dtype=dt.bool_, device=device)
    mask = scatter(none, -1, chosen, creation.ones(*shape, dtype=dt.bool_, device=device))
    return mask if process.use_cs() else pw.logical_and(mask, count > 0)


def _kept_count(without: Level, of: Any) -> Tensor:
    """Return trunc((1 - without) * of), computed in float32, as an int32 scalar tensor."""
    is_number = not isinstance(without, Tensor)
    # The traced program subtracts in float32: of ten elements, 1 - 0.9 keeps one there and none in float64.
    rest = creation.tensor(np.float32(1) - np.float32(without)) if is_number else 1.0 - without
    return pw.cast_to(rest * of, dt.int32)


def make_mask_topk_sparsity(score: Tensor, sparsity: Level, score_shaper: Shaper | None = None) -> Tensor:
    """Return a mask that keeps the trunc((1 - sparsity) * n) largest scores of each row of n.

    Without `score_shaper` all scores are one row.
    """
    rows, back = (score_shaper or ScoreFlattener())(score)
    return back(_make_mask_of_largest(rows, _kept_count(sparsity, float(rows.shape[-1]))))


def make_mask_drop_minimum(
    score: Tensor, mask: Tensor, drop_fraction: Level, score_shaper: Shaper | None = None
) -> tuple[Tensor, Tensor]:
    """Return a mask without the fraction `drop_fraction` of kept elements, and the count of the remaining ones.

    The elements with the lowest scores are dropped. The count is that of each row, trunc((1 - drop_fraction) * kept),
    as an int32 scalar tensor. Only the number of kept elements is taken from `mask`: it assumes that they are the
    largest of their row, and evenly distributed over the rows. Without `score_shaper` all scores are one row.
    """
    rows, back = (score_shaper or ScoreFlattener())(score)
    # Only the number of kept elements is taken from the mask. They must be the largest of their rows, which holds
    # because masked weights are zero.
    kept = pw.cast_to(reduction.sum(mask), dt.float32)
    # One count serves all rows. Balanced masks have equal rows.
    if rows.ndim > 1:
        kept = kept / float(rows.shape[0])
    count = _kept_count(drop_fraction, kept)
    return back(_make_mask_of_largest(rows, count)), count


def make_mask_grow_maximum(
    score: Tensor, mask: Tensor, sparsity: Level, mask_nonzero: Tensor | None = None, score_shaper: Shaper | None = None
) -> Tensor:
    """Return `mask` plus the largest scores outside of it, up to the given sparsity.

    If the mask already keeps more elements, it is returned unchanged. `mask_nonzero` is the number of elements that it
    keeps in each row, if known; otherwise it is computed.
    """
    shaper = score_shaper or ScoreFlattener()
    # Minus infinity ranks kept elements below all candidates.
    rows, back = shaper(pw.where(mask, float("-inf"), score))
    if mask_nonzero is None:
        kept = reduction.sum(mask)
        mask_nonzero = pw.cast_to(kept if rows.ndim == 1 else pw.floor_divide(kept, rows.shape[0]), dt.int32)
    wanted = _kept_count(sparsity, float(rows.shape[-1]))
    # The number is at least 0: if the level is reached, nothing is grown or dropped.
    grown = _make_mask_of_largest(rows, pw.clamp(wanted - mask_nonzero, 0, INT32_MAX))
    return pw.logical_or(mask, back(grown))
