"""Functions that reorder elements along dimensions: flip, roll and rotate by 90 degrees."""

import functools
import operator
from collections.abc import Sequence
from typing import Any

from lazytensor.core import source
from lazytensor.core.autocast import half_type
from lazytensor.core.tensor import Tensor, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.errors import IndexInvalid, ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.views import normalize_dim, reshape, transpose, view
from lazytensor.ir.graph import Node
from lazytensor.ops import call
from lazytensor.ops import index as at
from lazytensor.ops.cirh_rows import rolled_indices


@method
def flip(x: Tensor, *axes: Any, dims: int | Sequence[int] | None = None) -> Tensor:
    """Return a copy of `x` with the order of elements reversed along the given dimensions, in the shape of `x`.

    The dimensions are given as `flip(x, 0, 1)`, `flip(x, (0, 1))` or `dims=`. Raises ShapeError if one is named twice.

    >>> import lazytensor as lt
    >>> lt.flip(lt.tensor([1, 2, 3]), (0,))
    tensor([3, 2, 1])
    """
    given: Sequence[Any] = axes or (dims,)
    # Both `flip(x, 0, 1)` and `flip(x, (0, 1))` are accepted, as in PyTorch's methods.
    given = given[0] if isinstance(given[0], Sequence) else given
    reversed_dims = tuple(normalize_dim(d, x.ndim) for d in given)
    if len(set(reversed_dims)) != len(reversed_dims):
        raise ShapeError(
            f"dim {reversed_dims[0]} appears multiple times in the list of dims",
            where=source.where(),
            hint="List each dimension once.",
        )
    if not reversed_dims or not x.ndim:
        return pw.clone(x)
    if half_type() is not None:
        # The vendor's front end gathers rows, and the gradient adds them.
        return functools.reduce(
            lambda out, d: _gather_rows(out, at.descending_indices(x.spec.shape[d]), d), sorted(reversed_dims), x
        )
    return tensor_of(call("reverse", operand_node(x), dims=tuple(sorted(reversed_dims))), x)


def _gather_rows(x: Tensor, places: Node, d: int) -> Tensor:
    return tensor_of(call("gather_rows", operand_node(x), places, dim=d), x)


@method
def fliplr(x: Tensor) -> Tensor:
    """Return a copy of `x` [m, n, ...] with dimension 1 reversed. Raises ShapeError for fewer than two dimensions.

    >>> import lazytensor as lt
    >>> lt.fliplr(lt.tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])
    """
    if x.ndim < 2:
        raise ShapeError(
            f"Input must be >= 2-d. Got {x.ndim} dimensions.",
            where=source.where(),
            hint="Add a dimension with unsqueeze(0), or use flip().",
        )
    return flip(x, 1)


@method
def flipud(x: Tensor) -> Tensor:
    """Return a copy of `x` [n, ...] with dimension 0 reversed. Raises ShapeError if `x` has no dimensions.

    >>> import lazytensor as lt
    >>> lt.flipud(lt.tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])
    """
    if x.ndim < 1:
        raise ShapeError("Input must be >= 1-d.", where=source.where(), hint="Add a dimension with unsqueeze(0).")
    return flip(x, 0)


@method
def roll(x: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """Return a copy of `x` with the elements shifted cyclically along `dims`, in the shape of `x`.

    `shifts` has one integer for each dimension; a positive one moves elements to higher indices. Elements that pass the
    end continue at the start. If `dims` is None, the flattened elements are shifted. If a dimension is named twice, its
    shifts add up. Raises ShapeError if the numbers of shifts and dimensions differ, and IndexInvalid for a dimension of
    a 0-d tensor.

    >>> import lazytensor as lt
    >>> lt.roll(lt.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    if isinstance(shifts, Tensor):
        shifts = operator.index(shifts)
    steps = [shifts] if isinstance(shifts, int) else list(shifts)
    if dims is None or (not isinstance(dims, int) and not dims):
        if len(steps) != 1:
            raise ShapeError(
                f"shifts and dimensions must align: {len(steps)} shifts, but no dims",
                where=source.where(),
                hint="Pass dims, or a single shift for the flattened tensor.",
            )
        # Without dimensions PyTorch rolls the flattened elements.
        return view(_roll_dim(reshape(x, -1), steps[0], 0), x.spec.shape)
    given = [dims] if isinstance(dims, int) else list(dims)
    if len(given) != len(steps):
        raise ShapeError(
            f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(given)}",
            where=source.where(),
            hint="Pass one shift for each dimension.",
        )
    if not x.spec.size:
        return pw.clone(x)
    if not x.ndim:
        raise IndexInvalid(
            f"Dimension specified as {given[0]} but tensor has no dimensions",
            where=source.where(),
            hint="Omit dims for a 0-d tensor.",
        )
    out = x
    # If a dimension is named twice, its shifts add up.
    for shift, d in zip(steps, given, strict=True):
        out = _roll_dim(out, shift, normalize_dim(d, x.ndim))
    return pw.clone(out) if out is x else out


def _roll_dim(x: Tensor, shift: int, d: int) -> Tensor:
    """Return `x` shifted cyclically by `shift` along dimension `d`; `x` itself if nothing moves."""
    if not x.ndim or not x.spec.size or not shift % x.spec.shape[d]:
        return x
    if half_type() is not None:
        return _gather_rows(x, rolled_indices(x.spec.shape[d], shift % x.spec.shape[d]), d)
    # The shift is reduced to less than the extent, so that equal rolls are one node.
    return tensor_of(call("turn", operand_node(x), shift=shift % x.spec.shape[d], dim=d), x)


@method
def rot90(x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Return `x` rotated by `k` quarter turns in the plane of `dims`, from the first towards the second dimension.

    Negative `k` turns the other way. Raises ShapeError unless `dims` has two entries and `x` at least two
    dimensions. It is not checked that the entries differ.

    >>> import lazytensor as lt
    >>> lt.rot90(lt.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2 or x.ndim < 2:
        raise ShapeError(
            f"rot90 expects two dimensions, but got {list(dims)}",
            where=source.where(),
            hint="Pass two different dimensions of the tensor.",
        )
    a, b = (normalize_dim(d, x.ndim) for d in dims)
    turns = k % 4
    if turns == 0:
        return pw.clone(x)
    # A rotation is a composition of flips and a transpose.
    if turns == 2:
        return flip(x, a, b)
    return transpose(flip(x, b), a, b) if turns == 1 else flip(transpose(x, a, b), b)
