"""Masks: which elements of a tensor are kept, by the order of their scores.

A mask is made without reading a value: all elements are ordered, and how many count is a tensor. Elements of equal
score are kept from the first on.
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
# A bound that no count of elements reaches.
INT32_MAX = 2**31 - 1
"""The largest int32."""
Level = Any
"""A sparsity or a fraction: float32[], or a number."""


class ScoreShaper(ABC):
    """Base of shapers: scores as rows that are masked each for itself, and the way back."""

    @abstractmethod
    def __call__(self, tensor: Tensor) -> tuple[Tensor, Unshaper]:
        """The rows (the last dimension is ordered), and a function that brings a mask into the first shape."""


class ScoreFlattener(ScoreShaper):
    """All scores as one row."""

    def __call__(self, tensor: Tensor) -> tuple[Tensor, Unshaper]:
        shape = tuple(tensor.shape)
        return _reshape(tensor, (-1,)), lambda flat: _reshape(flat, shape)


class _GroupShaper(ScoreShaper):
    def __init__(self, num_groups: int):
        if num_groups < 1:
            raise ValueError(f"num_groups must be at least 1. Got: {num_groups}")
        self.num_groups = num_groups

    def _check(self, extent: int, what: str) -> None:
        if extent % self.num_groups:
            raise ValueError(f"{extent} {what} cannot be divided into {self.num_groups} groups of equal size")


class OutputGroupScoreShaper(_GroupShaper):
    """One row for each group of outputs, the first dimension. Raises ValueError if it cannot be divided."""

    def __call__(self, tensor: Tensor) -> tuple[Tensor, Unshaper]:
        shape = tuple(tensor.shape)
        self._check(shape[0] if shape else 1, "outputs")
        return _reshape(tensor, (self.num_groups, -1)), lambda rows: _reshape(rows, shape)


class InputGroupScoreShaper(_GroupShaper):
    """One row for each group of inputs, the second of two dimensions. Raises ValueError for other shapes."""

    def __call__(self, tensor: Tensor) -> tuple[Tensor, Unshaper]:
        if tensor.ndim != 2:
            raise ValueError(f"Inputs can be grouped in a matrix only, and the shape is {list(tensor.shape)}")
        outputs, inputs = tensor.shape
        self._check(inputs, "inputs")
        # Inputs are columns: transposed, a group of them lies in one row.
        rows = _reshape(views.transpose(tensor, 0, 1), (self.num_groups, -1))
        return rows, lambda rows: views.transpose(_reshape(rows, (inputs, outputs)), 0, 1)


def _reshape(t: Tensor, shape: tuple[int, ...]) -> Tensor:
    # No node where nothing changes: graphs are compared with those of the front end.
    return t if tuple(t.shape) == shape or (shape == (-1,) and t.ndim == 1) else views.reshape(t, shape)


def _make_mask_of_largest(rows: Tensor, count: Tensor) -> Tensor:
    """A mask of the `count` largest elements, int32[], of each row.

    The program is that of the system: places beyond the count repeat the first place. Hence on a CSX one element is
    kept even where the count is 0.
    """
    n = rows.shape[-1]
    # All of the order and not the `count` largest: topk needs a number, and the count is a tensor that follows a
    # schedule.
    places = topk(rows, n, -1).indices
    counts = creation.arange(n, dtype=dt.int32, device=rows.device) < count
    # A scatter of n places needs n of them: writing the first one again does no harm.
    chosen = pw.where(counts, places, views.narrow(places, -1, 0, 1))
    shape, device = tuple(rows.shape), rows.device
    none = creation.zeros(*shape, dtype=dt.bool_, device=device)
    mask = scatter(none, -1, chosen, creation.ones(*shape, dtype=dt.bool_, device=device))
    return mask if process.use_cs() else pw.logical_and(mask, count > 0)


def _kept_count(without: Level, of: Any) -> Tensor:
    """trunc((1 - without) * of) in float32."""
    is_number = not isinstance(without, Tensor)
    # In float32, as the traced program subtracts: of ten elements 1 - 0.9 keeps one there and none in float64.
    rest = creation.tensor(np.float32(1) - np.float32(without)) if is_number else 1.0 - without
    return pw.cast_to(rest * of, dt.int32)


def make_mask_topk_sparsity(score: Tensor, sparsity: Level, score_shaper: Shaper | None = None) -> Tensor:
    """A mask that keeps the largest scores: trunc((1 - sparsity) * n) of the n in each row."""
    rows, back = (score_shaper or ScoreFlattener())(score)
    return back(_make_mask_of_largest(rows, _kept_count(sparsity, float(rows.shape[-1]))))


def make_mask_drop_minimum(
    score: Tensor, mask: Tensor, drop_fraction: Level, score_shaper: Shaper | None = None
) -> tuple[Tensor, Tensor]:
    """A mask without the `drop_fraction` of kept elements that score least, and how many it keeps in each row.

    The count is int32[]: the kept elements are taken to be spread evenly over the rows.
    """
    rows, back = (score_shaper or ScoreFlattener())(score)
    # Only the number of kept elements is used of the mask. That they are among the largest of their rows is up to
    # the caller, whose masked weights are zero.
    kept = pw.cast_to(reduction.sum(mask), dt.float32)
    # By the sum over all rows: a program with one count. Balanced masks have equal rows anyway.
    if rows.ndim > 1:
        kept = kept / float(rows.shape[0])
    count = _kept_count(drop_fraction, kept)
    return back(_make_mask_of_largest(rows, count)), count


def make_mask_grow_maximum(
    score: Tensor, mask: Tensor, sparsity: Level, mask_nonzero: Tensor | None = None, score_shaper: Shaper | None = None
) -> Tensor:
    """The mask, and the largest scores outside it up to the sparsity; a mask that keeps more already stays as it is.

    `mask_nonzero` is how many elements of each row the mask keeps, if that is known.
    """
    shaper = score_shaper or ScoreFlattener()
    # Minus infinity puts what is kept behind everything that can be grown.
    rows, back = shaper(pw.where(mask, float("-inf"), score))
    if mask_nonzero is None:
        kept = reduction.sum(mask)
        mask_nonzero = pw.cast_to(kept if rows.ndim == 1 else pw.floor_divide(kept, rows.shape[0]), dt.int32)
    wanted = _kept_count(sparsity, float(rows.shape[-1]))
    # Not negative: a level that has been reached grows nothing, and drops nothing either.
    grown = _make_mask_of_largest(rows, pw.clamp(wanted - mask_nonzero, 0, INT32_MAX))
    return pw.logical_or(mask, back(grown))
