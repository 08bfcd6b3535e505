"""Diagonals and triangles of matrices."""

import operator
from functools import partial
from typing import Any

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.dtype import DType
from lazytensor.core.tensor import Tensor, operand_node, wrap
from lazytensor.core.tensor_members import method
from lazytensor.errors import ShapeError
from lazytensor.functional import reduction, views
from lazytensor.functional.argument_errors import guard_arguments
from lazytensor.functional.creation import tensor
from lazytensor.functional.csx_refusals import with_refusals
from lazytensor.functional.pointwise import clone, tensor_of
from lazytensor.functional.strided_views import strided_view, write_part
from lazytensor.functional.type_promotion import prepare_operand, require_elements
from lazytensor.functional.views import normalize_dim
from lazytensor.ir.types import Type
from lazytensor.ops import call, full
from lazytensor.ops.strided import contiguous_strides


@method
def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return a view of a diagonal over the dimensions `dim1` and `dim2`.

    The other dimensions stay in order, and the diagonal becomes the last dimension. `offset` > 0 selects a diagonal
    above the main one, `offset` < 0 one below. Raises ShapeError if `dim1` and `dim2` are the same.

    >>> import lazytensor as lt
    >>> lt.diagonal(lt.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    a, b = normalize_dim(dim1, x.ndim), normalize_dim(dim2, x.ndim)
    if a == b:
        raise ShapeError(
            f"diagonal dimensions cannot be identical {dim1}, {dim2}",
            where=source.where(),
            hint="Pass two different dimensions.",
        )
    # `strided_view` addresses the elements of x as if x were contiguous, so these are contiguous strides.
    shape, steps = x.spec.shape, contiguous_strides(x.spec.shape)
    rest = [d for d in range(x.ndim) if d not in (a, b)]
    # Above the main diagonal the columns limit the length, below it the rows.
    length = max(0, min(shape[a] + min(offset, 0), shape[b] - max(offset, 0)))
    first = max(offset, 0) * steps[b] + max(-offset, 0) * steps[a] if length else 0
    return strided_view(x, [*(shape[d] for d in rest), length], [*(steps[d] for d in rest), steps[a] + steps[b]], first)


@partial(guard_arguments, place="")
@partial(with_refusals, "trace")
@method
def trace(input: Tensor) -> Tensor:
    """Return the sum of the main diagonal of a matrix [m, n], as a 0-d tensor.

    Raises ShapeError if `input` is not a matrix and TypeUnsupported if it is bool.
    """
    if input.ndim != 2:
        raise ShapeError(
            f"trace: expected a matrix, but got tensor with dim {input.ndim}",
            where=source.where(),
            hint="Pass a tensor with two dimensions.",
        )
    require_elements(input, "fi", "trace")
    return reduction.sum(diagonal(input))


@method
def diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return zeros with the last dimension of `x` on a diagonal of two new dimensions: [..., n] -> [..., m, m].

    `dim1` and `dim2` are the positions of the new dimensions in the result. `offset` selects the diagonal, and m = n +
    |offset|. Raises ShapeError if `dim1` and `dim2` are the same.

    >>> import lazytensor as lt
    >>> lt.diag_embed(lt.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    a, b = normalize_dim(dim1, x.ndim + 1), normalize_dim(dim2, x.ndim + 1)
    if a == b:
        raise ShapeError(
            f"diagonal dimensions cannot be identical {dim1}, {dim2}",
            where=source.where(),
            hint="Pass two different dimensions.",
        )
    extent = x.spec.shape[-1] + abs(offset)
    shape = list(x.spec.shape[:-1])
    for d in sorted((a, b)):
        shape.insert(d, extent)
    # The diagonal is a view, so writing to it fills the result.
    out = wrap(full(0, Type(tuple(shape), x.dtype)))
    out.device = x.device
    diagonal(out, offset, a, b).write(prepare_operand(x, x.dtype, x.spec.shape))
    return out


@method
def diag(x: Tensor, diagonal: int = 0) -> Tensor:
    """Return a matrix with the vector `x` on a diagonal, or a copy of a diagonal of the matrix `x`.

    `diagonal` > 0 selects a diagonal above the main one, `diagonal` < 0 one below. Raises ShapeError unless `x` has one
    or two dimensions.

    >>> import lazytensor as lt
    >>> lt.diag(lt.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    if x.ndim not in (1, 2):
        raise ShapeError(
            f"diag(): Supports 1D or 2D tensors. Got {x.ndim}D",
            where=source.where(),
            hint="Use torch.diagonal for more dimensions.",
        )
    return diag_embed(x, diagonal) if x.ndim == 1 else diagonal_copy(x, diagonal)


@method
def diagflat(x: Tensor, offset: int = 0) -> Tensor:
    """Return a matrix of zeros with all elements of `x`, in order, on the diagonal `offset`.

    >>> import lazytensor as lt
    >>> lt.diagflat(lt.tensor([1, 2]), 1)
    tensor([[0, 1, 0],
            [0, 0, 2],
            [0, 0, 0]])
    """
    return diag_embed(views.reshape(x, -1), offset)


def diagonal_copy(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return a copy of `diagonal(x, offset, dim1, dim2)`. Raises ShapeError if `dim1` and `dim2` are the same.

    >>> import lazytensor as lt
    >>> lt.diagonal_copy(lt.arange(4).reshape(2, 2))
    tensor([0, 3])
    """
    return clone(diagonal(x, offset, dim1, dim2))


@method
def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Return a copy of `x` in which the diagonal is replaced by `src`.

    `offset`, `dim1` and `dim2` select the diagonal as in `diagonal`. Raises ShapeError if `src` has another shape than
    it.

    >>> import lazytensor as lt
    >>> lt.diagonal_scatter(lt.zeros(2, 2), lt.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    out = clone(x)
    write_part(diagonal(out, offset, dim1, dim2), src, "diagonal_scatter")
    return out


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: DType = dt.int64, device: Any = None) -> Tensor:
    """Return the row and column indices of the elements on and below a diagonal of a `row` x `col` matrix: [2, n].

    `offset` > 0 selects a diagonal above the main one, `offset` < 0 one below.

    >>> import lazytensor as lt
    >>> lt.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return tensor(np.stack(np.tril_indices(row, offset, col)), dtype=dtype, device=device)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: DType = dt.int64, device: Any = None) -> Tensor:
    """Return the row and column indices of the elements on and above a diagonal of a `row` x `col` matrix: [2, n].

    `offset` > 0 selects a diagonal above the main one, `offset` < 0 one below.

    >>> import lazytensor as lt
    >>> lt.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return tensor(np.stack(np.triu_indices(row, offset, col)), dtype=dtype, device=device)


def _band_part(x: Tensor, lower: int | None, upper: int | None) -> Tensor:
    if x.ndim < 2:
        raise ShapeError(
            f"expected a matrix, but got a tensor of shape {list(x.spec.shape)}",
            where=source.where(),
            hint="Pass a tensor with two dimensions, or unsqueeze it.",
        )
    # Limited to the corners, since array code takes 64-bit offsets only.
    most = max(x.spec.shape[-2:])
    lower, upper = (None if d is None else max(-most, min(d, most)) for d in (lower, upper))
    return tensor_of(call("band_part", operand_node(x), lower=lower, upper=upper), x)


@method(in_place=True)
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """Return each matrix [m, n] of `x` with zeros above a diagonal, in the shape of `x`.

    `diagonal` > 0 selects a diagonal above the main one, `diagonal` < 0 one below. Raises ShapeError if `x` has fewer
    than two dimensions.

    >>> import lazytensor as lt
    >>> lt.tril(lt.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return _band_part(x, None, operator.index(diagonal))


@method(in_place=True)
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """Return each matrix [m, n] of `x` with zeros below a diagonal, in the shape of `x`.

    `diagonal` > 0 selects a diagonal above the main one, `diagonal` < 0 one below. Raises ShapeError if `x` has fewer
    than two dimensions.

    >>> import lazytensor as lt
    >>> lt.triu(lt.ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return _band_part(x, -operator.index(diagonal), None)
