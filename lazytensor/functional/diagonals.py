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
    """A view of a diagonal over two dimensions, which becomes the last dimension: [..., m, n] -> [..., k].

    Raises ShapeError if both are one.

    >>> import lazytensor as lt
    >>> lt.diagonal(lt.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    a, b = normalize_dim(dim1, x.ndim), normalize_dim(dim2, x.ndim)
    if a == b:
        raise ShapeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}", where=source.where())
    # Strides of x as if it lay in order: the window is put on the elements as x shows them, and the view_ops finds
    # them.
    shape, steps = x.spec.shape, contiguous_strides(x.spec.shape)
    rest = [d for d in range(x.ndim) if d not in (a, b)]
    # Above the main diagonal columns run out first, below it rows.
    length = max(0, min(shape[a] + min(offset, 0), shape[b] - max(offset, 0)))
    first = max(offset, 0) * steps[b] + max(-offset, 0) * steps[a] if length else 0
    return strided_view(x, [*(shape[d] for d in rest), length], [*(steps[d] for d in rest), steps[a] + steps[b]], first)


@partial(guard_arguments, place="")
@partial(with_refusals, "trace")
@method
def trace(x: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix [m, n]: a number. Raises ShapeError for other ranks."""
    if x.ndim != 2:
        raise ShapeError(f"trace: expected a matrix, but got tensor with dim {x.ndim}", where=source.where())
    require_elements(x, "fi", "trace")
    return reduction.sum(diagonal(x))


@method
def diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with the last dimension of x on a diagonal of two new dimensions: [..., n] -> [..., m, m].

    Raises ShapeError if both are one.

    >>> import lazytensor as lt
    >>> lt.diag_embed(lt.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    a, b = normalize_dim(dim1, x.ndim + 1), normalize_dim(dim2, x.ndim + 1)
    if a == b:
        raise ShapeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}", where=source.where())
    extent = x.spec.shape[-1] + abs(offset)
    shape = list(x.spec.shape[:-1])
    for d in sorted((a, b)):
        shape.insert(d, extent)
    # The diagonal of zeros is a view, and writing to it is all there is to do.
    out = wrap(full(0, Type(tuple(shape), x.dtype)))
    out.device = x.device
    diagonal(out, offset, a, b).write(prepare_operand(x, x.dtype, x.spec.shape))
    return out


@method
def diag(x: Tensor, diagonal: int = 0) -> Tensor:
    """The matrix with the vector x [n] on a diagonal, or a copy of a diagonal of the matrix x.

    Raises ShapeError for other ranks.

    >>> import lazytensor as lt
    >>> lt.diag(lt.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    if x.ndim not in (1, 2):
        raise ShapeError(f"diag(): Supports 1D or 2D tensors. Got {x.ndim}D", where=source.where())
    return diag_embed(x, diagonal) if x.ndim == 1 else diagonal_copy(x, diagonal)


@method
def diagflat(x: Tensor, offset: int = 0) -> Tensor:
    """The matrix [n, n] with all elements of x on a diagonal.

    >>> import lazytensor as lt
    >>> lt.diagflat(lt.tensor([1, 2]), 1)
    tensor([[0, 1, 0],
            [0, 0, 2],
            [0, 0, 0]])
    """
    return diag_embed(views.reshape(x, -1), offset)


def diagonal_copy(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """`diagonal`, copied: [..., m, n] -> [..., k]. Raises ShapeError as it does.

    >>> import lazytensor as lt
    >>> lt.diagonal_copy(lt.arange(4).reshape(2, 2))
    tensor([0, 3])
    """
    return clone(diagonal(x, offset, dim1, dim2))


@method
def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of x with a diagonal replaced by src [..., k]. Raises ShapeError for another shape of src.

    >>> import lazytensor as lt
    >>> lt.diagonal_scatter(lt.zeros(2, 2), lt.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    out = clone(x)
    write_part(diagonal(out, offset, dim1, dim2), src, "diagonal_scatter")
    return out


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: DType = dt.int64, device: Any = None) -> Tensor:
    """Rows and columns of what lies on and below a diagonal: [2, n].

    >>> import lazytensor as lt
    >>> lt.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return tensor(np.stack(np.tril_indices(row, offset, col)), dtype=dtype, device=device)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: DType = dt.int64, device: Any = None) -> Tensor:
    """Rows and columns of what lies on and above a diagonal: [2, n].

    >>> import lazytensor as lt
    >>> lt.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return tensor(np.stack(np.triu_indices(row, offset, col)), dtype=dtype, device=device)


def _band_part(x: Tensor, lower: int | None, upper: int | None) -> Tensor:
    if x.ndim < 2:
        raise ShapeError(f"a matrix is needed, and the shape is {list(x.spec.shape)}", where=source.where())
    # No further out than the corners: arrays are asked for places of 64 bits.
    most = max(x.spec.shape[-2:])
    lower, upper = (None if d is None else max(-most, min(d, most)) for d in (lower, upper))
    return tensor_of(call("band_part", operand_node(x), lower=lower, upper=upper), x)


@method(in_place=True)
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """What lies on and below a diagonal of each matrix, zeros elsewhere: [..., m, n]. Raises ShapeError for less.

    >>> import lazytensor as lt
    >>> lt.tril(lt.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return _band_part(x, None, operator.index(diagonal))


@method(in_place=True)
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """What lies on and above a diagonal of each matrix, zeros elsewhere: [..., m, n]. Raises ShapeError for less.

    >>> import lazytensor as lt
    >>> lt.triu(lt.ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return _band_part(x, -operator.index(diagonal), None)
