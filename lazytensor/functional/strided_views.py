"""Strided views such as sliding windows, matrix transposes, and functions that write into a view of a copy."""

from collections.abc import Sequence
from typing import Any

from lazytensor.core import source, storage
from lazytensor.core.tensor import Tensor, tensor_from_storage
from lazytensor.core.tensor_members import method, tensor_property
from lazytensor.errors import ShapeError
from lazytensor.functional import views
from lazytensor.functional.pointwise import clone
from lazytensor.functional.type_promotion import prepare_operand
from lazytensor.functional.views import normalize_dim, slice_dim, stand_in_array
from lazytensor.ops import OPS
from lazytensor.ops.strided import contiguous_strides


def _strides_and_offset(x: Tensor) -> tuple[tuple[int, ...], int]:
    """Return the strides and the offset of `x` in its storage, in elements."""
    # Reshapes do not move elements, so the usual case needs no NumPy.
    if all(name in ("reshape", "variable") for name, _ in x.view_ops):
        return contiguous_strides(x.spec.shape), 0
    # An array of one byte per element, whose strides in bytes are the strides in elements.
    layout = bytes_ = stand_in_array(x.cell.type.shape, x.view_ops)
    for name, attrs in x.view_ops:
        layout = OPS[name].eval(layout, **dict(attrs))
    offset = layout.__array_interface__["data"][0] - bytes_.__array_interface__["data"][0] if layout.size else 0
    return layout.strides, offset


@method
def stride(x: Tensor, dim: int | None = None) -> Any:
    """Return the distance in storage, in elements, of neighbours along each dimension as a tuple, or along `dim`."""
    strides = _strides_and_offset(x)[0]
    return strides if dim is None else strides[normalize_dim(dim, x.ndim)]


@method
def storage_offset(x: Tensor) -> int:
    """Return the index of the first element of `x` in its storage."""
    return _strides_and_offset(x)[1]


@method
def as_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """Return a view of the storage of `x` with the shape `size`, the strides `stride` and the offset `storage_offset`.

    Strides and offset are in elements; the offset defaults to that of `x`. Raises ShapeError if the view would exceed
    the storage.

    >>> import lazytensor as lt
    >>> lt.as_strided(lt.arange(6), (2, 2), (3, 1))
    tensor([[0, 1],
            [3, 4]])
    """
    offset = _strides_and_offset(x)[1] if storage_offset is None else storage_offset
    # Only the leaf's "variable" operation is kept, whatever views x consists of.
    view_ops = tuple(step for step in x.view_ops if step[0] == "variable")
    end = [name for name, _ in x.view_ops].index("variable") if view_ops else len(x.view_ops) if x.leaf_id else 0
    leaf = tensor_from_storage(x.cell, x.view_ops[:end], x.history)
    strides, first = _strides_and_offset(leaf)
    last = offset + sum((e - 1) * s for e, s in zip(size, stride, strict=False))
    # The gradient of a leaf that is a view has the leaf's shape, which a strided view of its elements can provide.
    if end and strides == contiguous_strides(leaf.spec.shape) and first <= offset and last < first + leaf.spec.size:
        view_ops, offset = (*x.view_ops[:end], *view_ops), offset - first
    base = tensor_from_storage(x.cell, view_ops, x.history)
    base.device, base.leaf_id = x.device, x.leaf_id
    return base.make_view("as_strided", size=tuple(size), stride=tuple(stride), offset=int(offset))


def strided_view(x: Tensor, size: Sequence[int], stride: Sequence[int], offset: int) -> Tensor:
    """Return a strided view of the elements of `x` in row-major order. `x` may be any view.

    `stride` and `offset` count elements in this order, not in the storage.
    """
    return x.make_view("as_strided", size=tuple(size), stride=tuple(stride), offset=offset)


@method
def unfold(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return a view of all windows of `size` elements along `dimension`, `step` apart.

    [..., n, ...] gives [..., windows, ..., size]. Raises ShapeError if `size` exceeds the extent or `step` is not
    positive.
    """
    at = normalize_dim(dimension, x.ndim)
    shape = x.spec.shape or (1,)
    if not 0 <= size <= shape[at] or step <= 0:
        raise ShapeError(
            f"maximum size for tensor at dimension {at} is {shape[at]} but size is {size}, and the step {step}",
            where=source.where(),
            hint="Pass a size from 0 to the extent, and a positive step.",
        )
    # Outside of steps the view refers to the storage, so that its strides are PyTorch's.
    is_apart = bool(x.ndim and x.view_ops) and storage.thread_state.current is None
    steps, offset = _strides_and_offset(x) if is_apart else (contiguous_strides(shape), 0)
    # Windows overlap if the step is less than the size.
    count = (shape[at] - size) // step + 1
    if not x.ndim:
        return strided_view(x, (size,), (1,), 0)
    extents = [*shape[:at], count, *shape[at + 1 :], size]
    strides = [*steps[:at], steps[at] * step, *steps[at + 1 :], steps[at]]
    return as_strided(x, extents, strides, offset) if is_apart else strided_view(x, extents, strides, 0)


@tensor_property(names="T")
def reverse_dims(x: Tensor) -> Tensor:
    """Return a view with the dimensions in reverse order."""
    return views.permute(x, tuple(reversed(range(x.ndim))))


@tensor_property(names="mT mH")
def transpose_matrices(x: Tensor) -> Tensor:
    """Return a view with the last two dimensions exchanged: [..., m, n] -> [..., n, m].

    Raises ShapeError for fewer than two dimensions.
    """
    if x.ndim < 2:
        raise ShapeError(
            f"tensor.mT is only supported on matrices or batches of matrices. Got {x.ndim}-D tensor.",
            where=source.where(),
            hint="Add dimensions with unsqueeze().",
        )
    return views.transpose(x, -2, -1)


@tensor_property(names="H")
def adjoint(x: Tensor) -> Tensor:
    """Return a view of a matrix transposed: [m, n] -> [n, m]. A 0-d tensor is returned itself.

    Raises ShapeError for other ranks.
    """
    if x.ndim not in (0, 2):
        raise ShapeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {x.ndim}-D tensor.",
            where=source.where(),
            hint="For batches of matrices, consider using tensor.mH",
        )
    return views.t(x)


def unfold_copy(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Return a copy of `unfold(x, dimension, size, step)`.

    >>> import lazytensor as lt
    >>> lt.unfold_copy(lt.arange(4), 0, 2, 1)
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    return clone(unfold(x, dimension, size, step))


def as_strided_copy(x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """Return a copy of `as_strided(x, size, stride, storage_offset)`.

    >>> import lazytensor as lt
    >>> lt.as_strided_copy(lt.arange(6), (2, 2), (3, 1))
    tensor([[0, 1],
            [3, 4]])
    """
    return clone(as_strided(x, size, stride, storage_offset))


def write_part(part: Tensor, src: Tensor, what: str) -> None:
    """Write `src`, converted to the dtype, into `part`, a view of the tensor to change.

    `what` is the function's name in the error. Raises ShapeError if the shapes differ.
    """
    if src.spec.shape != part.spec.shape:
        raise ShapeError(
            f"{what}: expected src to have a size equal to the slice of self. src size = {list(src.shape)}, "
            f"slice size = {list(part.shape)}",
            where=source.where(),
            hint="Pass a src in the shape of the slice.",
        )
    # The write to the view changes the copy.
    part.write(prepare_operand(src, part.dtype, part.spec.shape))


@method
def select_scatter(x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Return a copy of `x` with the slice at `index` along `dim` replaced by `src`, which does not have that dimension.

    Raises ShapeError if `src` has another shape than the slice.

    >>> import lazytensor as lt
    >>> lt.select_scatter(lt.zeros(2, 2), lt.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    out = clone(x)
    write_part(views.select(out, dim, index), src, "select_scatter")
    return out


@method
def slice_scatter(
    x: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """Return a copy of `x` with a slice along `dim` replaced by `src`.

    The slice is start, start + step, ... before `end`; None stands for the ends of the dimension, and negative
    positions count from its end. Raises ShapeError if `src` has another shape than the slice, and
    for a `step` that is not positive.

    >>> import lazytensor as lt
    >>> lt.slice_scatter(lt.zeros(4), lt.ones(2), 0, 1, 3)
    tensor([0., 1., 1., 0.])
    """
    if step <= 0:
        raise ShapeError(f"slice step must be positive, got {step}", where=source.where(), hint="Pass a positive step.")
    out, at = clone(x), normalize_dim(dim, x.ndim)
    first, last, step = slice(start, end, step).indices(x.spec.shape[at])
    write_part(slice_dim(out, at, first, max(first, last), step), src, "slice_scatter")
    return out


@method
def as_strided_scatter(
    x: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Return a copy of `x` with the elements of `as_strided(x, size, stride, storage_offset)` replaced by `src`.

    Raises ShapeError if `src` does not have the shape `size`.

    >>> import lazytensor as lt
    >>> lt.as_strided_scatter(lt.zeros(4), lt.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])
    """
    out = clone(x.detach())
    if x.requires_grad:
        # PyTorch's gradient of x is that of the replaced elements, and 0 elsewhere: a difference of 0 adds it.
        seen = as_strided(x, size, stride, storage_offset)
        src = src + (seen - seen.detach())
    write_part(as_strided(out, size, stride, storage_offset), src, "as_strided_scatter")
    return out
