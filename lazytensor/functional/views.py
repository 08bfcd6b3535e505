"""Views of one tensor: other shapes, other orders of dimensions, slices.

Views share storage; `reshape` does unless the elements are out of order.
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
"""What PyTorch calls types in messages."""


def normalize_dim(dim: int, rank: int) -> int:
    """A dimension counted from the front. Raises IndexError as PyTorch does."""
    # A tensor of one whole number stands for it.
    dim = operator.index(dim) if isinstance(dim, Tensor) else dim
    # PyTorch's message shows this range, also for a number.
    low, high = (-rank, rank - 1) if rank else (-1, 0)
    if not low <= dim <= high:
        text = f"Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})"
        raise IndexInvalid(text, where=source.where())
    # A number has the dimensions 0 and -1, as if it had one of extent 1.
    return dim % rank if rank else 0


def _resolve_shape(x: Tensor, size: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape given as `f(2, 3)` or `f((2, 3))`, with -1 resolved. Raises ShapeError if it does not fit x."""
    # `x.view(2, 3)` and `x.view((2, 3))` are one call to PyTorch.
    first = size[0] if len(size) == 1 else 0
    shape = [int(e) for e in (first if not isinstance(first, int) and isinstance(first, Sequence) else size)]
    if shape.count(-1) > 1:
        raise ShapeError("only one dimension can be inferred", where=source.where())
    elements = x.spec.size
    if -1 in shape:
        known = -math.prod(shape)  # the -1 is a factor too
        # Beside an extent of 0, -1 could stand for anything.
        if known == 0 or elements % known:
            raise ShapeError(f"shape '{shape}' is invalid for input of size {elements}", where=source.where())
        shape[shape.index(-1)] = elements // known
    if math.prod(shape) != elements:
        raise ShapeError(f"shape '{shape}' is invalid for input of size {elements}", where=source.where())
    return tuple(shape)


@method(names="view")
def checked_view(x: Tensor, *args: Any, size: Sequence[int] | None = None, dtype: DType | None = None) -> Tensor:
    """`view`. Raises ShapeError where strides cannot describe the elements of x in the new shape."""
    if x.view_ops and dtype is None and not (args and isinstance(args[0], DType)) and x.device is CPU:
        shape = _resolve_shape(x, args if size is None else (size,))
        if not _has_view(x.cell.type.shape, x.view_ops, shape):
            raise ShapeError(
                "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
                "two contiguous subspaces). Use .reshape(...) instead.",
                where=source.where(),
            )
    return view(x, *args, size=size, dtype=dtype)


def view(x: Tensor, *args: Any, size: Sequence[int] | None = None, dtype: DType | None = None) -> Tensor:
    """x in another shape over the same storage; one extent may be -1. With a dtype a read-only copy of its bits.

    Raises ShapeError for another number of elements, or bytes that do not fill elements of the type.
    """
    if args and isinstance(args[0], DType):
        dtype = args[0]
    if dtype is not None:
        return _reinterpret_bits(x, dtype)
    return x.make_view("reshape", shape=_resolve_shape(x, args if size is None else (size,)))


def _reinterpret_bits(x: Tensor, dtype: DType) -> Tensor:
    """The bits of x as numbers of another type, as a copy; the last dimension takes up the ratio of their sizes."""
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
        )
    if have < want and shape[-1] * have % want:
        raise ShapeError(
            f"self.size(-1) must be divisible by {want // have} to view {names} (different element sizes), but got "
            f"{shape[-1]}",
            where=source.where(),
        )
    raw = encode_elements(np.ascontiguousarray(x.array(".view(dtype)")), x.dtype)
    extents = shape if have == want else (*shape[:-1], shape[-1] * have // want)
    bits = np.frombuffer(raw.tobytes(), FILE_DTYPES[dtype]).reshape(extents)
    copy = tensor_of(from_array(decode_elements(bits, dtype), dtype).node, x)
    copy.__dict__[READ_ONLY_ATTRIBUTE] = (
        f"the view of {names} is a copy here, and a write to it would not reach the tensor",
        "Write to the tensor itself, or to a clone() of the view.",
    )
    return copy


@method
def reshape(x: Tensor, *size: Any, shape: Sequence[int] | None = None) -> Tensor:
    """x in another shape: a view, or a copy if the elements do not lie so that there is one.

    Raises ShapeError for another number of elements.

    >>> import lazytensor as lt
    >>> lt.reshape(lt.arange(4), (2, -1))
    tensor([[0, 1],
            [2, 3]])
    """
    shape = _resolve_shape(x, size if shape is None else (shape,))
    # Only a view can lie out of order.
    if x.view_ops and not _has_view(x.cell.type.shape, x.view_ops, shape):
        x = clone(x)
    return x.make_view("reshape", shape=shape)


def stand_in_array(extents: tuple[int, ...], view_ops: ViewOps) -> np.ndarray:
    """An array of as many bytes as a storage has elements, for views of it through `view_ops` to be asked for
    strides.
    """
    # A window copies what does not lie in order, and so needs bytes that are there; else there are none but one.
    if any(name == "as_strided" for name, _ in view_ops):
        return np.empty(extents, np.uint8)
    return np.lib.stride_tricks.as_strided(np.empty(1, np.uint8), extents, contiguous_strides(extents))


def _has_strides_for(layout: np.ndarray, shape: Sequence[int]) -> bool:
    """Whether strides describe the elements of `layout` in another shape; NumPy would try, and copy them if none do."""
    if not layout.size:
        return True
    have = [(e, s) for e, s in zip(layout.shape, layout.strides, strict=True) if e != 1]
    want = [e for e in shape if e != 1]
    i = j = 0
    # Where the running products of both shapes meet a run of dimensions ends, which has to lie in memory as one.
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


# Layers ask the same again in each step.
@functools.lru_cache(maxsize=1024)
def _has_view(extents: tuple[int, ...], view_ops: ViewOps, shape: tuple[int, ...]) -> bool:
    return _has_strides_for(_memory_layout(extents, view_ops), shape)


def _memory_layout(extents: tuple[int, ...], view_ops: ViewOps) -> np.ndarray:
    """Bytes that lie in memory as elements seen through `view_ops` lie in storage: NumPy knows which views there
    are.
    """
    layout = stand_in_array(extents, view_ops)
    for name, attrs in view_ops:
        layout = OPS[name].eval(layout, **dict(attrs))
    return layout


@method
def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions start_dim..end_dim merged into one: a view where there is one, x itself for one dimension.

    Raises ShapeError if they are exchanged.

    >>> import lazytensor as lt
    >>> lt.flatten(lt.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    shape = x.spec.shape
    # A number flattens to a vector of one.
    if not shape:
        return view(x, 1)
    first, last = normalize_dim(start_dim, len(shape)), normalize_dim(end_dim, len(shape))
    if first > last:
        raise ShapeError("flatten() has invalid args: start_dim cannot come after end_dim", where=source.where())
    if first == last:
        return x
    return reshape(x, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@method
def permute(x: Tensor, *order: Any, dims: Sequence[int] | None = None) -> Tensor:
    """The dimensions in another order: a view.

    Raises ShapeError if they are not as many as x has, IndexError for one out of range.

    >>> import lazytensor as lt
    >>> lt.permute(lt.ones(2, 3, 4), (2, 0, 1)).shape
    lazytensor.Size([4, 2, 3])
    """
    given = order if dims is None else (dims,)
    # As arguments or as one sequence.
    wanted = given[0] if len(given) == 1 and isinstance(given[0], Sequence) else given
    rank = x.ndim
    if len(wanted) != rank:
        raise ShapeError(f"permute() of {rank} dimensions got an order of {len(wanted)}", where=source.where())
    return x.make_view("transpose", permutation=tuple([normalize_dim(d, rank) for d in wanted]))


@method
def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged: a view. Raises IndexError for one out of range.

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
    """A matrix transposed, a view; what has fewer dimensions stays. Raises ShapeError for more.

    >>> import lazytensor as lt
    >>> lt.t(lt.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
    """
    if x.ndim > 2:
        raise ShapeError(f"t() expects a tensor with <= 2 dimensions, but self is {x.ndim}D", where=source.where())
    return transpose(x, 0, 1) if x.ndim == 2 else x


@method
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """A new dimension of extent 1 at `dim`: a view. Raises IndexError for a place out of range.

    >>> import lazytensor as lt
    >>> lt.unsqueeze(lt.tensor([1, 2]), 1)
    tensor([[1],
            [2]])
    """
    at = normalize_dim(dim, x.ndim + 1)
    return view(x, (*x.spec.shape[:at], 1, *x.spec.shape[at:]))


@method
def squeeze(x: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Without its dimensions of extent 1, or without those given if they have extent 1: a view.

    >>> import lazytensor as lt
    >>> lt.squeeze(lt.ones(1, 3, 1)).shape
    lazytensor.Size([3])
    """
    shape = x.spec.shape
    # A dimension that is named but longer than 1 is left alone, which lets layers squeeze without asking.
    wanted = range(x.ndim) if dim is None else [dim] if isinstance(dim, int | Tensor) else dim
    gone = {d for d in (normalize_dim(w, x.ndim) for w in wanted) if shape and shape[d] == 1}
    return view(x, tuple(e for d, e in enumerate(shape) if d not in gone))


@method
def expand(x: Tensor, *args: Any, size: Sequence[int] | None = None) -> Tensor:
    """x seen in a larger shape, as a view; -1 keeps an extent. Raises ShapeError unless x broadcasts to it."""
    given = args if size is None else (size,)
    target = list(given[0] if len(given) == 1 and isinstance(given[0], Sequence) else given)
    lead = len(target) - x.ndim
    # -1 keeps an extent, and a new dimension has none to keep.
    if lead < 0 or any(e == -1 for e in target[:lead]):
        raise ShapeError(f"expand({target}): the tensor has the shape {list(x.spec.shape)}", where=source.where())
    shape = tuple(x.spec.shape[i - lead] if e == -1 else int(e) for i, e in enumerate(target))
    if any(x.spec.shape[i - lead] not in (1, e) for i, e in enumerate(shape) if i >= lead):
        raise ShapeError(
            f"The expanded size {list(shape)} does not fit the shape {list(x.spec.shape)}", where=source.where()
        )
    if x.spec.shape == shape:
        return x
    # New dimensions come in front, where broadcasting aligns them.
    return x.make_view("broadcast_in_dim", shape=shape, dims=tuple(range(lead, len(shape))))


@method
def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """x expanded to the shape of another tensor, as a view. Raises ShapeError unless it broadcasts."""
    return expand(x, other.spec.shape)


@method
def view_as(x: Tensor, other: Tensor) -> Tensor:
    """x in the shape of another tensor, as a view. Raises ShapeError for another number of elements."""
    return checked_view(x, other.spec.shape)


@method
def broadcast_to(x: Tensor, *args: Any, size: Sequence[int] | None = None) -> Tensor:
    """x expanded to a shape, as a view. Raises ShapeError unless it broadcasts.

    >>> import lazytensor as lt
    >>> lt.broadcast_to(lt.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return expand(x, *args, size=size)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All expanded to their common shape, as views. Raises ShapeError if there is none.

    >>> import lazytensor as lt
    >>> lt.broadcast_tensors(lt.ones(2, 1), lt.zeros(3))[1].shape
    lazytensor.Size([2, 3])
    """
    shape = broadcast_shape(*(x.spec.shape for x in tensors))
    return tuple(expand(x, shape) for x in tensors)


@method
def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A view of `length` places of a dimension from `start` on.

    Raises IndexInvalid for a start outside of the extent, ShapeError for a length that exceeds it.

    >>> import lazytensor as lt
    >>> lt.narrow(lt.arange(5), 0, 1, 3)
    tensor([1, 2, 3])
    """
    if not x.ndim:
        raise ShapeError("narrow() cannot be applied to a 0-dim tensor.", where=source.where())
    at, extent = normalize_dim(dim, x.ndim), x.spec.shape[dim]
    if isinstance(start, Tensor) and (start.ndim or start.dtype.kind != "i"):
        raise ShapeError(f"start must be an 0-dim integral Tensor, got {start.spec}", where=source.where())
    start, length = operator.index(start), operator.index(length)
    if not -extent <= start <= extent:
        text = f"start out of range (expected to be in range of [{-extent}, {extent}], but got {start})"
        raise IndexInvalid(text, where=source.where())
    start = start + extent if start < 0 else start
    if not 0 <= start <= start + length <= extent:
        raise ShapeError(
            f"start ({start}) + length ({length}) exceeds dimension size ({extent}).", where=source.where()
        )
    return slice_dim(x, at, start, start + length)


def slice_dim(x: Tensor, dim: int, start: int, limit: int, stride: int = 1) -> Tensor:
    """A view of places start, start + stride, ... below limit of one dimension."""
    shape = x.spec.shape
    starts = tuple(start if d == dim else 0 for d in range(len(shape)))
    limits = tuple(limit if d == dim else e for d, e in enumerate(shape))
    strides = tuple(stride if d == dim else 1 for d in range(len(shape)))
    return x.make_view("slice", starts=starts, limits=limits, strides=strides)


@method
def select(x: Tensor, dim: int, index: int) -> Tensor:
    """A view of one place of a dimension, which disappears. Raises IndexError outside the extent.

    >>> import lazytensor as lt
    >>> lt.select(lt.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([3, 4])
    """
    if not x.ndim:
        raise IndexInvalid("select() cannot be applied to a 0-dim tensor.", where=source.where())
    at = normalize_dim(dim, x.ndim)
    extent = x.spec.shape[at]
    # Compared as a number: a tensor of bytes knows no negative one.
    index = operator.index(index)
    if not -extent <= index < extent:
        text = f"index {index} is out of bounds for dimension {at} with size {extent}"
        raise IndexInvalid(text, where=source.where())
    index %= extent
    return x.make_view("select", dim=at, index=index)


def mark_multi_output_views(function: str, views: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Return views that one call of `function` gave, marked so that a write in place to a tracked one is refused."""
    marked = tuple(views)
    for i, t in enumerate(marked):
        # A view of `x.detach()` may be changed.
        if t.requires_grad:
            t.__dict__[MULTI_OUTPUT_VIEW_ATTRIBUTE] = (function, i)
    return marked


@method
def repeat(x: Tensor, *sizes: Any) -> Tensor:
    """x repeated along each dimension; new dimensions are put in front.

    Raises ShapeError for fewer numbers than dimensions.
    """
    times = parse_size(sizes)
    lead = len(times) - x.ndim
    if lead < 0:
        raise ShapeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
            where=source.where(),
        )
    repeated = tuple(e * n for e, n in zip((*(1,) * lead, *x.spec.shape), times, strict=True))
    require_memory(Type(repeated, x.dtype), x.device)
    return tensor_of(call("repeat", operand_node(x), times=tuple(times)), x)


@method
def contiguous(x: Tensor, *, memory_format: Any = None) -> Tensor:
    """x itself, or a copy if its elements do not lie in order."""
    return x if is_contiguous(x) else clone(x)


@method
def is_contiguous(x: Tensor, *, memory_format: Any = None) -> bool:
    """Whether the elements lie in order, one next to the other."""
    # What was never viewed owns its storage in order.
    return not x.view_ops or bool(_memory_layout(x.cell.type.shape, x.view_ops).flags.c_contiguous)


@method(names="movedim moveaxis")
def movedim(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Some dimensions moved to other places, the rest in order: a view.

    Raises ShapeError if a dimension is named twice, or the two lists differ in length.

    >>> import lazytensor as lt
    >>> lt.movedim(lt.ones(2, 3, 4), 0, 2).shape
    lazytensor.Size([3, 4, 2])
    """
    sources, targets = (tuple(d) if isinstance(d, Sequence) else (operator.index(d),) for d in (source, destination))
    if len(sources) != len(targets):
        raise ShapeError(
            "movedim: Invalid source or destination dims: source "
            f"({list(sources)} dims) should contain the same number of dims as destination ({list(targets)} dims)"
        )
    sources, targets = (tuple(normalize_dim(d, x.ndim) for d in dims) for dims in (sources, targets))
    for dims in (sources, targets):
        if len(set(dims)) != len(dims):
            raise ShapeError(f"movedim: repeated dim in {list(dims)}")
    if not x.ndim:
        return view(x, ())
    # The dimensions that nobody moves keep their order among each other.
    order = [d for d in range(x.ndim) if d not in sources]
    # From the front on, so that each place is final when its dimension is put in.
    for to, d in sorted(zip(targets, sources, strict=True)):
        order.insert(to, d)
    return permute(x, order)


@method
def swapaxes(x: Tensor, axis0: int, axis1: int) -> Tensor:
    """Two dimensions exchanged: a view. Raises IndexError for a dimension that x does not have.

    >>> import lazytensor as lt
    >>> lt.swapaxes(lt.ones(2, 3), 0, 1).shape
    lazytensor.Size([3, 2])
    """
    return transpose(x, axis0, axis1)


@method
def swapdims(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged: a view. Raises IndexError for a dimension that x does not have.

    >>> import lazytensor as lt
    >>> lt.swapdims(lt.ones(2, 3), 0, 1).shape
    lazytensor.Size([3, 2])
    """
    return transpose(x, dim0, dim1)


moveaxis = movedim


@method
def ravel(x: Tensor) -> Tensor:
    """All elements in one dimension, [n]: a view where the elements lie in order.

    >>> import lazytensor as lt
    >>> lt.ravel(lt.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    return reshape(x, -1)


@method
def reshape_as(x: Tensor, other: Tensor) -> Tensor:
    """x in the shape of another tensor. Raises ShapeError for another number of elements."""
    return reshape(x, other.spec.shape)


@method
def unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dimension split into several, a view; one of the new extents may be -1.

    Raises ShapeError unless they multiply up to the extent.

    >>> import lazytensor as lt
    >>> lt.unflatten(lt.arange(4), 0, (2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    if not x.ndim:
        raise IndexInvalid("Dimension specified as 0 but tensor has no dimensions", where=source.where())
    if not sizes:
        raise ShapeError("unflatten: sizes must be non-empty", where=source.where())
    at, extent = normalize_dim(dim, x.ndim), x.spec.shape[dim]
    known = functools.reduce(lambda a, b: a * b, (e for e in sizes if e != -1), 1)
    # -1 is what the others leave; of nothing it is 0.
    parts = tuple((extent // known if known else 0) if e == -1 else int(e) for e in sizes)
    if functools.reduce(lambda a, b: a * b, parts, 1) != extent:
        raise ShapeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {at} ({extent}) in the "
            "input tensor",
            where=source.where(),
        )
    return view(x, (*x.spec.shape[:at], *parts, *x.spec.shape[at + 1 :]))
