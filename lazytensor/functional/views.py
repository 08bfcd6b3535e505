"""Views of a tensor: other shapes, permuted dimensions, and slices.

Views share the storage of the tensor. `reshape` copies if no view can have the requested shape.
"""

import functools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.allocation import require_memory
from lazytensor.core.dtype import DType
from lazytensor.core.element_bytes import FILE_DTYPES, decode_elements, encode_elements
from lazytensor.core.source import where as user_line
from lazytensor.core.tensor import (
    CPU,
    MULTI_OUTPUT_VIEW_ATTRIBUTE,
    READ_ONLY_ATTRIBUTE,
    Tensor,
    ViewOps,
    from_array,
    operand_node,
)
from lazytensor.core.tensor_members import method
from lazytensor.errors import IndexInvalid, ShapeError
from lazytensor.functional.creation import parse_size
from lazytensor.functional.pointwise import clone, tensor_of
from lazytensor.functional.type_promotion import broadcast_shape
from lazytensor.ir.types import Type
from lazytensor.ops import OPS, call
from lazytensor.ops.strided import contiguous_strides

DTYPE_NAMES = {
    dt.float64: "Double",
    dt.float32: "Float",
    dt.float16: "Half",
    dt.bfloat16: "BFloat16",
    dt.int64: "Long",
    dt.int32: "Int",
    dt.int16: "Short",
    dt.int8: "Char",
    dt.uint8: "Byte",
    dt.bool_: "Bool",
}
"""PyTorch's names of the dtypes in error messages."""


def normalize_dim(dim: int, rank: int) -> int:
    """Return `dim` as a non-negative number for a tensor of `rank` dimensions.

    Raises IndexInvalid if it is out of range. A 0-d tensor accepts 0 and -1, which give 0.
    """
    # A one-element integer tensor is accepted.
    dim = operator.index(dim) if isinstance(dim, Tensor) else dim
    # PyTorch's message shows this range, also for a 0-d tensor.
    low, high = (-rank, rank - 1) if rank else (-1, 0)
    if not low <= dim <= high:
        text = f"Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})"
        raise IndexInvalid(text, where=source.where(), hint="Pass a dimension of the tensor.")
    # A 0-d tensor has the dimensions 0 and -1, as if it had one of extent 1.
    return dim % rank if rank else 0


def _resolve_shape(x: Tensor, size: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the shape given as `f(2, 3)` or `f((2, 3))`, with -1 replaced by the inferred extent.

    Raises ShapeError if `x` does not have as many elements.
    """
    # PyTorch accepts both `x.view(2, 3)` and `x.view((2, 3))`.
    first = size[0] if len(size) == 1 else 0
    shape = [int(e) for e in (first if not isinstance(first, int) and isinstance(first, Sequence) else size)]
    if shape.count(-1) > 1:
        raise ShapeError(
            f"only one dimension can be inferred, but got {list(shape)}",
            where=source.where(),
            hint="Pass -1 for one extent only.",
        )
    elements = x.spec.size
    if -1 in shape:
        known = -math.prod(shape)  # the -1 is one of the factors
        # With an extent of 0, -1 is ambiguous.
        if known == 0 or elements % known:
            raise ShapeError(
                f"shape '{shape}' is invalid for input of size {elements}",
                where=source.where(),
                hint="Pass extents whose product is the number of elements.",
            )
        shape[shape.index(-1)] = elements // known
    if math.prod(shape) != elements:
        raise ShapeError(
            f"shape '{shape}' is invalid for input of size {elements}",
            where=source.where(),
            hint="Pass extents whose product is the number of elements.",
        )
    return tuple(shape)


@method(names="view")
def checked_view(x: Tensor, *args: Any, size: Sequence[int] | None = None, dtype: DType | None = None) -> Tensor:
    """Return `x` in another shape over the same storage, as `Tensor.view`. One extent may be -1.

    If `dtype` is given, return a read-only copy of the bits as that dtype. Raises ShapeError if no strides describe the
    elements in the new shape, or if the number of elements differs.
    """
    if x.view_ops and dtype is None and not (args and isinstance(args[0], DType)) and x.device is CPU:
        shape = _resolve_shape(x, args if size is None else (size,))
        if not _has_view(x.cell.type.shape, x.view_ops, shape):
            raise ShapeError(
                "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
                "two contiguous subspaces). Use .reshape(...) instead.",
                where=source.where(),
                hint="Call .reshape(), or .contiguous().view().",
            )
    return view(x, *args, size=size, dtype=dtype)


def view(x: Tensor, *args: Any, size: Sequence[int] | None = None, dtype: DType | None = None) -> Tensor:
    """Return `x` in another shape over the same storage. One extent may be -1.

    If `dtype` is given, return a read-only copy of the bits as that dtype. Raises ShapeError if the number of elements
    differs, or if the bytes of the last dimension do not fill elements of `dtype`. Unlike `checked_view`, it does not
    check that strides for the shape exist.
    """
    if args and isinstance(args[0], DType):
        dtype = args[0]
    if dtype is not None:
        return _reinterpret_bits(x, dtype)
    return x.make_view("reshape", shape=_resolve_shape(x, args if size is None else (size,)))


def _reinterpret_bits(x: Tensor, dtype: DType) -> Tensor:
    """Return a read-only copy of the bits of `x` as elements of `dtype`.

    The last dimension changes by the ratio of the element sizes. The same dtype gives a view. Raises ShapeError if
    sizes differ and `x` is 0-d, or if its last dimension does not fill elements of `dtype`.
    """
    if dtype is x.dtype:
        return x.make_view("reshape", shape=x.spec.shape)
    shape, have, want = x.spec.shape, x.dtype.itemsize, dtype.itemsize
    names = (
        f"{DTYPE_NAMES[x.dtype]} as {DTYPE_NAMES[dtype]}"
        if x.dtype in DTYPE_NAMES and dtype in DTYPE_NAMES
        else f"{x.dtype} as {dtype}"
    )
    if have != want and not shape:
        raise ShapeError(
            f"self.dim() cannot be 0 to view {names} (different element sizes)",
            where=source.where(),
            hint="Add a dimension with unsqueeze(0).",
        )
    if have < want and shape[-1] * have % want:
        raise ShapeError(
            f"self.size(-1) must be divisible by {want // have} to view {names} (different element sizes), but got "
            f"{shape[-1]}",
            where=source.where(),
            hint="Choose a dtype of the same size, or pad the last dimension.",
        )
    raw = encode_elements(np.ascontiguousarray(x.array(".view(dtype)")), x.dtype)
    extents = shape if have == want else (*shape[:-1], shape[-1] * have // want)
    bits = np.frombuffer(raw.tobytes(), FILE_DTYPES[dtype]).reshape(extents)
    copy = tensor_of(from_array(decode_elements(bits, dtype), dtype).node, x)
    copy.__dict__[READ_ONLY_ATTRIBUTE] = (
        f"the view of {names} is a copy, so a write to it would not change the tensor",
        "Write to the tensor itself, or to a clone() of the view.",
    )
    return copy


@method
def reshape(x: Tensor, *size: Any, shape: Sequence[int] | None = None) -> Tensor:
    """Return `x` in another shape: a view if strides for it exist, else a copy. One extent may be -1.

    Raises ShapeError if the number of elements differs.

    >>> import lazytensor as lt
    >>> lt.reshape(lt.arange(4), (2, -1))
    tensor([[0, 1],
            [2, 3]])
    """
    shape = _resolve_shape(x, size if shape is None else (shape,))
    # Only a view may have non-contiguous elements.
    if x.view_ops and not _has_view(x.cell.type.shape, x.view_ops, shape):
        x = clone(x)
    return x.make_view("reshape", shape=shape)


def stand_in_array(extents: tuple[int, ...], view_ops: ViewOps) -> np.ndarray:
    """Return a uint8 array in the shape `extents` of a storage, used to compute the strides of views.

    The memory is allocated only if `view_ops` contains a strided view.
    """
    # A strided view copies non-contiguous elements, which needs allocated bytes; other views read none.
    if any(name == "as_strided" for name, _ in view_ops):
        return np.empty(extents, np.uint8)
    return np.lib.stride_tricks.as_strided(np.empty(1, np.uint8), extents, contiguous_strides(extents))


def _has_strides_for(layout: np.ndarray, shape: Sequence[int]) -> bool:
    """Return whether strides exist that describe the elements of `layout` in another shape of as many elements."""
    if not layout.size:
        return True
    have = [(e, s) for e, s in zip(layout.shape, layout.strides, strict=True) if e != 1]
    want = [e for e in shape if e != 1]
    i = j = 0
    # A group of dimensions ends where the cumulative products of both shapes agree. It has to be contiguous in memory.
    while i < len(have):
        first, size, wanted = i, have[i][0], want[j]
        while size != wanted:
            if size < wanted:
                i += 1
                size *= have[i][0]
            else:
                j += 1
                wanted *= want[j]
        if any(have[k][1] != have[k + 1][0] * have[k + 1][1] for k in range(first, i)):
            return False
        i, j = i + 1, j + 1
    return True


# Layers repeat the same queries in each step.
@functools.lru_cache(maxsize=1024)
def _has_view(extents: tuple[int, ...], view_ops: ViewOps, shape: tuple[int, ...]) -> bool:
    return _has_strides_for(_memory_layout(extents, view_ops), shape)


def _memory_layout(extents: tuple[int, ...], view_ops: ViewOps) -> np.ndarray:
    """Return a uint8 array with the strides that `view_ops` give a storage of the shape `extents`."""
    layout = stand_in_array(extents, view_ops)
    for name, attrs in view_ops:
        layout = OPS[name].eval(layout, **dict(attrs))
    return layout


@method
def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Return `x` with the dimensions `start_dim` to `end_dim` merged into one.

    The result is a view if strides for it exist, else a copy. A 0-d tensor becomes a vector [1]. For a single dimension
    `x` itself is returned. Raises ShapeError if `start_dim` comes after `end_dim`.

    >>> import lazytensor as lt
    >>> lt.flatten(lt.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    shape = x.spec.shape
    # A 0-d tensor becomes a vector of one element.
    if not shape:
        return view(x, 1)
    first, last = normalize_dim(start_dim, len(shape)), normalize_dim(end_dim, len(shape))
    if first > last:
        raise ShapeError(
            f"flatten() has invalid args: start_dim cannot come after end_dim: {start_dim} and {end_dim}",
            where=source.where(),
            hint="Exchange start_dim and end_dim.",
        )
    if first == last:
        return x
    return reshape(x, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@method
def permute(x: Tensor, *order: Any, dims: Sequence[int] | None = None) -> Tensor:
    """Return a view with the dimensions in the given order, as `permute(2, 0, 1)` or `permute((2, 0, 1))`.

    Raises ShapeError if the number of dimensions differs, and IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.permute(lt.ones(2, 3, 4), (2, 0, 1)).shape
    lazytensor.Size([4, 2, 3])
    """
    given = order if dims is None else (dims,)
    # Given as separate arguments or as one sequence.
    wanted = given[0] if len(given) == 1 and isinstance(given[0], Sequence) else given
    rank = x.ndim
    if len(wanted) != rank:
        raise ShapeError(
            f"permute() of a tensor with {rank} dimensions got {len(wanted)} dimensions",
            where=source.where(),
            hint="List every dimension once.",
        )
    return x.make_view("transpose", permutation=tuple([normalize_dim(d, rank) for d in wanted]))


@method
def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """Return a view with the dimensions `dim0` and `dim1` exchanged. Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.transpose(lt.ones(2, 3, 4), 0, 2).shape
    lazytensor.Size([4, 3, 2])
    """
    rank = x.ndim
    order = list(range(rank))
    a, b = normalize_dim(dim0, rank), normalize_dim(dim1, rank)
    if order:
        order[a], order[b] = order[b], order[a]
    return x.make_view("transpose", permutation=tuple(order))


@method
def t(x: Tensor) -> Tensor:
    """Return a view of a matrix transposed; a tensor with fewer dimensions is returned itself.

    Raises ShapeError for more than two dimensions.

    >>> import lazytensor as lt
    >>> lt.t(lt.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
    """
    if x.ndim > 2:
        raise ShapeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {x.ndim}D",
            where=source.where(),
            hint="Use transpose() or permute().",
        )
    return transpose(x, 0, 1) if x.ndim == 2 else x


@method
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """Return a view with a new dimension of extent 1 at position `dim`. Raises IndexError for a position out of range.

    >>> import lazytensor as lt
    >>> lt.unsqueeze(lt.tensor([1, 2]), 1)
    tensor([[1],
            [2]])
    """
    at = normalize_dim(dim, x.ndim + 1)
    return view(x, (*x.spec.shape[:at], 1, *x.spec.shape[at:]))


@method
def squeeze(x: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Return a view without the dimensions of extent 1, or without those in `dim` that have extent 1.

    Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.squeeze(lt.ones(1, 3, 1)).shape
    lazytensor.Size([3])
    """
    shape = x.spec.shape
    # A named dimension longer than 1 is kept, as in PyTorch.
    wanted = range(x.ndim) if dim is None else [dim] if isinstance(dim, int | Tensor) else dim
    gone = {d for d in (normalize_dim(w, x.ndim) for w in wanted) if shape and shape[d] == 1}
    return view(x, tuple(e for d, e in enumerate(shape) if d not in gone))


@method
def expand(x: Tensor, *args: Any, size: Sequence[int] | None = None) -> Tensor:
    """Return a view of `x` broadcast to a larger shape, given as `expand(2, 3)` or `expand((2, 3))`.

    -1 keeps an extent. If the shape does not change, `x` itself is returned. Raises ShapeError if `x` does not
    broadcast to the shape.
    """
    given = args if size is None else (size,)
    target = list(given[0] if len(given) == 1 and isinstance(given[0], Sequence) else given)
    lead = len(target) - x.ndim
    # -1 keeps an extent, which a new dimension does not have.
    if lead < 0 or any(e == -1 for e in target[:lead]):
        raise ShapeError(
            f"expand({target}) does not match the shape {list(x.spec.shape)} of the tensor",
            where=source.where(),
            hint="Pass as many extents as the tensor has dimensions, or more.",
        )
    shape = tuple(x.spec.shape[i - lead] if e == -1 else int(e) for i, e in enumerate(target))
    if any(x.spec.shape[i - lead] not in (1, e) for i, e in enumerate(shape) if i >= lead):
        raise ShapeError(
            f"The expanded size {list(shape)} does not match the shape {list(x.spec.shape)}",
            where=source.where(),
            hint="Expand only dimensions of extent 1.",
        )
    if x.spec.shape == shape:
        return x
    # New dimensions are leading ones, as broadcasting aligns them.
    return x.make_view("broadcast_in_dim", shape=shape, dims=tuple(range(lead, len(shape))))


@method
def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """Return a view of `x` broadcast to the shape of `other`. Raises ShapeError if it does not broadcast."""
    return expand(x, other.spec.shape)


@method
def view_as(x: Tensor, other: Tensor) -> Tensor:
    """Return a view of `x` in the shape of `other`. Raises as `checked_view` does."""
    return checked_view(x, other.spec.shape)


@method
def broadcast_to(x: Tensor, *args: Any, size: Sequence[int] | None = None) -> Tensor:
    """Return a view of `x` broadcast to the given shape, as `expand`. Raises ShapeError if it does not broadcast.

    >>> import lazytensor as lt
    >>> lt.broadcast_to(lt.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return expand(x, *args, size=size)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return views of all tensors, broadcast to their common shape. Raises ShapeError if there is none.

    >>> import lazytensor as lt
    >>> lt.broadcast_tensors(lt.ones(2, 1), lt.zeros(3))[1].shape
    lazytensor.Size([2, 3])
    """
    shape = broadcast_shape(*(x.spec.shape for x in tensors))
    return tuple(expand(x, shape) for x in tensors)


@method
def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Return a view of `length` elements along `dim`, from `start` on. A negative `start` counts from the end.

    Raises IndexInvalid if `start` is out of range, and ShapeError if `length` is too large or `x` is 0-d.

    >>> import lazytensor as lt
    >>> lt.narrow(lt.arange(5), 0, 1, 3)
    tensor([1, 2, 3])
    """
    if not x.ndim:
        raise ShapeError(
            "narrow() cannot be applied to a 0-dim tensor.",
            where=source.where(),
            hint="Add a dimension with unsqueeze(0).",
        )
    at, extent = normalize_dim(dim, x.ndim), x.spec.shape[dim]
    if isinstance(start, Tensor) and (start.ndim or start.dtype.kind != "i"):
        raise ShapeError(
            f"start must be an 0-dim integral Tensor, got {start.spec}",
            where=source.where(),
            hint="Pass an integer as start.",
        )
    start, length = operator.index(start), operator.index(length)
    if not -extent <= start <= extent:
        text = f"start out of range (expected to be in range of [{-extent}, {extent}], but got {start})"
        raise IndexInvalid(text, where=source.where(), hint="Pass a start within the dimension.")
    start = start + extent if start < 0 else start
    if not 0 <= start <= start + length <= extent:
        raise ShapeError(
            f"start ({start}) + length ({length}) exceeds dimension size ({extent}).",
            where=source.where(),
            hint="Reduce start or length.",
        )
    return slice_dim(x, at, start, start + length)


def slice_dim(x: Tensor, dim: int, start: int, limit: int, stride: int = 1) -> Tensor:
    """Return a view of the elements start, start + stride, ... before `limit` along `dim`.

    Arguments are not checked.
    """
    shape = x.spec.shape
    starts = tuple(start if d == dim else 0 for d in range(len(shape)))
    limits = tuple(limit if d == dim else e for d, e in enumerate(shape))
    strides = tuple(stride if d == dim else 1 for d in range(len(shape)))
    return x.make_view("slice", starts=starts, limits=limits, strides=strides)


@method
def select(x: Tensor, dim: int, index: int) -> Tensor:
    """Return a view of `x` at `index` along `dim`, without that dimension. A negative index counts from the end.

    Raises IndexError if the index or the dimension is out of range, or `x` is 0-d.

    >>> import lazytensor as lt
    >>> lt.select(lt.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([3, 4])
    """
    if not x.ndim:
        raise IndexInvalid(
            "select() cannot be applied to a 0-dim tensor.",
            where=source.where(),
            hint="Add a dimension with unsqueeze(0).",
        )
    at = normalize_dim(dim, x.ndim)
    extent = x.spec.shape[at]
    # Converted to an int, since a uint8 tensor could not be compared with a negative number.
    index = operator.index(index)
    if not -extent <= index < extent:
        text = f"index {index} is out of bounds for dimension {at} with size {extent}"
        raise IndexInvalid(text, where=source.where(), hint="Pass an index within the dimension.")
    index %= extent
    return x.make_view("select", dim=at, index=index)


def mark_multi_output_views(function: str, views: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Return `views`, several views from one call of `function`, marked so that in-place writes to them are refused.

    Only views that require a gradient are marked.
    """
    marked = tuple(views)
    for i, t in enumerate(marked):
        # A view of `x.detach()` may be changed.
        if t.requires_grad:
            t.__dict__[MULTI_OUTPUT_VIEW_ATTRIBUTE] = (function, i)
    return marked


@method
def repeat(x: Tensor, *args: Any, repeats: Sequence[int] | None = None) -> Tensor:
    """Return `x` repeated `repeats` times along each dimension, as `repeat(2, 3)`, `repeat((2, 3))` or by name.

    More numbers than dimensions add leading dimensions. Raises ShapeError for fewer numbers than dimensions, and
    MemoryMissing if the result is too large.
    """
    times = parse_size(args if repeats is None else (repeats,))
    lead = len(times) - x.ndim
    if lead < 0:
        raise ShapeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
            f": the tensor has {x.ndim} dimensions",
            where=source.where(),
            hint="Pass a repeat count for each dimension of the tensor.",
        )
    repeated = tuple(e * n for e, n in zip((*(1,) * lead, *x.spec.shape), times, strict=True))
    require_memory(Type(repeated, x.dtype), x.device)
    return tensor_of(call("repeat", operand_node(x), times=tuple(times)), x)


@method
def contiguous(x: Tensor, *, memory_format: Any = None) -> Tensor:
    """Return `x` itself if its elements are contiguous in row-major order, else a copy. `memory_format` is ignored."""
    return x if is_contiguous(x) else clone(x)


@method
def is_contiguous(x: Tensor, *, memory_format: Any = None) -> bool:
    """Return whether the elements of `x` are contiguous in memory in row-major order. `memory_format` is ignored."""
    # A tensor that is not a view is contiguous.
    return not x.view_ops or bool(_memory_layout(x.cell.type.shape, x.view_ops).flags.c_contiguous)


@method(names="movedim moveaxis")
def movedim(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Return a view with the dimensions `source` moved to the positions `destination`; the others keep their order.

    Raises ShapeError if a dimension is named twice or the lists differ in length.

    >>> import lazytensor as lt
    >>> lt.movedim(lt.ones(2, 3, 4), 0, 2).shape
    lazytensor.Size([3, 4, 2])
    """
    sources, targets = (tuple(d) if isinstance(d, Sequence) else (operator.index(d),) for d in (source, destination))
    if len(sources) != len(targets):
        raise ShapeError(
            "movedim: Invalid source or destination dims: source "
            f"({list(sources)} dims) should contain the same number of dims as destination ({list(targets)} dims)",
            where=user_line(),
            hint="Pass as many source dimensions as destinations.",
        )
    sources, targets = (tuple(normalize_dim(d, x.ndim) for d in dims) for dims in (sources, targets))
    for dims in (sources, targets):
        if len(set(dims)) != len(dims):
            raise ShapeError(
                f"movedim: repeated dim in {list(dims)}", where=user_line(), hint="List each dimension once."
            )
    if not x.ndim:
        return view(x, ())
    # The other dimensions keep their order.
    order = [d for d in range(x.ndim) if d not in sources]
    # In ascending order, so that each position is final when its dimension is inserted.
    for to, d in sorted(zip(targets, sources, strict=True)):
        order.insert(to, d)
    return permute(x, order)


@method
def swapaxes(x: Tensor, axis0: int, axis1: int) -> Tensor:
    """Return a view with the dimensions `axis0` and `axis1` exchanged. Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.swapaxes(lt.ones(2, 3), 0, 1).shape
    lazytensor.Size([3, 2])
    """
    return transpose(x, axis0, axis1)


@method
def swapdims(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """Return a view with the dimensions `dim0` and `dim1` exchanged. Raises IndexError for a dimension out of range.

    >>> import lazytensor as lt
    >>> lt.swapdims(lt.ones(2, 3), 0, 1).shape
    lazytensor.Size([3, 2])
    """
    return transpose(x, dim0, dim1)


moveaxis = movedim


@method
def ravel(x: Tensor) -> Tensor:
    """Return all elements as a vector: a view if `x` is contiguous, else a copy.

    >>> import lazytensor as lt
    >>> lt.ravel(lt.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    return reshape(x, -1)


@method
def reshape_as(x: Tensor, other: Tensor) -> Tensor:
    """Return `x` in the shape of `other`, as `reshape`. Raises ShapeError if the number of elements differs."""
    return reshape(x, other.spec.shape)


@method
def unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Return a view with dimension `dim` split into the extents `sizes`, one of which may be -1.

    Raises ShapeError if they do not multiply to the extent, and IndexInvalid if `x` is 0-d.

    >>> import lazytensor as lt
    >>> lt.unflatten(lt.arange(4), 0, (2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    if not x.ndim:
        raise IndexInvalid(
            "Dimension specified as 0 but tensor has no dimensions",
            where=source.where(),
            hint="Add a dimension with unsqueeze(0).",
        )
    if not sizes:
        raise ShapeError("unflatten: sizes must be non-empty", where=source.where(), hint="Pass at least one size.")
    at, extent = normalize_dim(dim, x.ndim), x.spec.shape[dim]
    known = functools.reduce(lambda a, b: a * b, (e for e in sizes if e != -1), 1)
    # -1 is the remaining factor; it is 0 if another extent is 0.
    parts = tuple((extent // known if known else 0) if e == -1 else int(e) for e in sizes)
    if functools.reduce(lambda a, b: a * b, parts, 1) != extent:
        raise ShapeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {at} ({extent}) in the "
            "input tensor",
            where=source.where(),
            hint="Pass sizes whose product is the extent, or -1 for one of them.",
        )
    return view(x, (*x.spec.shape[:at], *parts, *x.spec.shape[at + 1 :]))
