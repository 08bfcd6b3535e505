"""Indexing: reading and writing parts of a tensor.

Integers, slices, None and Ellipsis give views. Index tensors and masks gather copies.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core import immediate_writes, shared_memory_views, source, storage
from lazytensor.core.allocation import require_memory
from lazytensor.core.overlapping_views import order_dependent_write_error, refuse_overlap, refuse_shared
from lazytensor.core.tensor import Tensor, from_array, operand_node
from lazytensor.core.tensor_members import method
from lazytensor.errors import ArgumentInvalid, IndexInvalid, OptionInvalid, ShapeError
from lazytensor.functional import overlapping_writes, views
from lazytensor.functional.in_place import overwrite
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.type_promotion import Operand, mixed_dtypes_error, prepare_operand
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type
from lazytensor.ops import OPS, call
from lazytensor.ops.elementwise import cast
from lazytensor.ops.index import check_bounds, index_get, index_put_at
from lazytensor.ops.op import refuse_overflow
from lazytensor.ops.shape import broadcast_to

_HEAP_TYPE_FLAG = 1 << 9
"""The bit of a class's flags that is set unless the class is static data of a C extension (Py_TPFLAGS_HEAPTYPE)."""
IndexTensors = list[tuple[int, Tensor]]
"""Pairs of a dimension of a view and the int64 tensor or bool mask that indexes from that dimension on."""


@method(names="__getitem__")
def getitem(x: Tensor, index: Any) -> Tensor:
    """Return x[index]: a view, or a copy if `index` contains a tensor or a mask.

    `index` may contain integers, slices, None, Ellipsis, bools, sequences, int tensors and bool masks, as in PyTorch.
    Masks are read, which raises TraceError inside a compiled step. Outside a step a 0-d integer tensor acts as an
    integer. Raises IndexError for too many parts, indices out of range, and masks whose shape does not match. Raises
    OptionInvalid (a ValueError) for a slice whose step is not positive.
    """
    if x.spec.shape:
        # A fast path for the most frequent indices.
        if index.__class__ is int:
            return views.select(x, 0, index)
        if index.__class__ is slice:
            return _distinct_view(x, _slice_dim(x, 0, index))
    view, picks = _split_index(x, index)
    if not picks:
        return _distinct_view(x, view)
    dims, indices = _resolve_index_tensors(view, picks)
    part = shared_memory_views.gather_shared_elements(view, "index_get", *indices, dims=dims)
    return tensor_of(index_get(operand_node(view), indices, dims) if part is None else part, view)


def _distinct_view(x: Tensor, view: Tensor) -> Tensor:
    """Return `view` as a tensor object other than `x`, also if it shows all of `x`; within a step it may be `x`."""
    return views.view(x, x.spec.shape) if view is x and storage.thread_state.current is None else view


@method(names="__setitem__")
def setitem(x: Tensor, index: Any, value: object) -> None:
    """Write `value`, converted to the dtype of `x` and broadcast, to x[index].

    `value` is a tensor, a number, or a NumPy float64 or integer. Raises ArgumentInvalid (a TypeError) for any other
    value, such as a NumPy array. Raises IndexError as `getitem` does, and ShapeError if `value` does not broadcast or
    shares elements with the target. If index tensors select the elements, ShapeError is also raised if `value` is a
    tensor of another dtype, unless all of them are masks and `value` has one element. Raises NumberTooLarge for a
    finite float that is beyond the range of a float32 `x`.
    """
    if immediate_writes.try_write(x, index, value):
        return
    _write(x, index, _assigned_value(x, value))


def _write(x: Tensor, index: Any, value: Operand) -> None:
    """Write `value` to x[index]; see `setitem`."""
    # True selects all of x, as a new dimension does, which needs no index tensor.
    view, picks = _split_index(x, None if index is True else index)
    # PyTorch converts a number to float32 with a check, and to a half type without one.
    if value.__class__ is float and view.dtype is dt.float32:
        refuse_overflow(value, dt.float32)
    if not picks:
        # A tensor with dimensions must not overlap the view.
        if isinstance(value, Tensor) and value.ndim:
            _refuse_overlapping_value(view, value)
        overwrite(view, prepare_operand(_drop_leading_ones(value, view.spec.shape), view.dtype, view.spec.shape))
        return
    _require_same_dtype(picks, view, value)
    _refuse_shared(picks, view, value)
    if overlapping_writes.has_repeated_elements(view):
        _write_overlapping_view(view, picks, value, False)
    elif _is_plain_mask(picks, view, value):
        view.write(_fill_masked(view, picks[0][1], value))
    else:
        dims, indices = _resolve_index_tensors(view, picks)
        view.write(_put_value(view, dims, indices, value, False))


def _assigned_value(x: Tensor, value: Any) -> Operand:
    """Return `value`, a NumPy float64 or integer as a Python number, for an assignment to elements of `x`.

    Raises ArgumentInvalid for a value that is neither a number nor a tensor.
    """
    if isinstance(value, Tensor | int | complex):
        return value  # type: ignore[return-value]  # `prepare_operand` refuses a complex number
    if isinstance(value, float | np.integer):
        return value.item() if isinstance(value, np.number) else value
    kind = value.__class__
    # PyTorch's message has the module of a class that is written in C.
    is_in_module = kind.__module__ not in ("builtins", "__main__") and not kind.__flags__ & _HEAP_TYPE_FLAG
    name = f"{kind.__module__}.{kind.__name__}" if is_in_module else kind.__name__
    raise ArgumentInvalid(
        f"can't assign a {name} to a {x.type()}",
        where=source.where(),
        hint="Assign a number or a tensor, for example torch.as_tensor(value).",
    )


@method(in_place=True)
def index_put(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """Return a copy of `x` with `values` written to x[indices], or added if `accumulate` is true.

    None in `indices` stands for a whole dimension. Raises IndexError for indices out of range, and ShapeError if
    `values` does not broadcast or has another dtype.

    >>> import lazytensor as lt
    >>> lt.index_put(lt.zeros(3), (lt.tensor([1]),), lt.tensor(5.0))
    tensor([0., 5., 0.])
    """
    _, picks = _split_index(x, tuple(slice(None) if i is None else i for i in indices))
    _require_same_dtype(picks, x, values)
    dims, places = _resolve_index_tensors(x, picks)
    return tensor_of(_put_value(x, dims, places, values, accumulate), x, values)


def _refuse_overlapping_value(view: Tensor, value: Tensor) -> None:
    """Raise ShapeError if `value` shares storage elements with `view`, after broadcasting it as PyTorch does.

    A value in another storage is always accepted.
    """
    if value.cell is not view.cell:
        return
    shape = view.spec.shape
    if value.spec.shape != shape:
        while value.ndim and value.spec.shape[0] == 1:
            value = views.select(value, 0, 0)
        lead = len(shape) - value.ndim
        if value.spec.size == view.spec.size and value.ndim:
            for _ in range(lead):
                value = views.unsqueeze(value, 0)
        elif lead >= 0:
            value = views.expand(value, shape)
    refuse_overlap(view, value, is_copy=True)


def put_into_overlapping_view(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    """Write `values` to x[indices], or add them if `accumulate`, where `x` contains storage elements several times."""
    _, picks = _split_index(x, tuple(slice(None) if i is None else i for i in indices))
    return _write_overlapping_view(x, picks, values, accumulate)


def _write_overlapping_view(view: Tensor, picks: IndexTensors, value: Operand, accumulate: bool) -> Tensor:
    dims, indices = _resolve_index_tensors(view, picks)
    places = OPS["index_get"].eval(overlapping_writes.storage_indices(view), *map(storage.value_of, indices), dims=dims)
    n = prepare_operand(_drop_leading_ones(value, places.shape), view.dtype, places.shape)
    return overlapping_writes.write_at_indices(view, places, n, accumulate)


def _refuse_shared(picks: IndexTensors, view: Tensor, value: Operand) -> None:
    """Raise ShapeError if an index tensor or the value shares elements with `view`, as PyTorch does.

    If all index tensors are masks and `value` is a number or one element, only masks that overlap `view` partly are
    refused. Otherwise integer index tensors and the value are refused if they share any element; outside a step this
    includes a value that contains elements that are written.
    """
    masks = [p for _, p in picks if p.dtype is dt.bool_]
    if len(masks) == len(picks) and not (isinstance(value, Tensor) and value.spec.size != 1):
        refuse_overlap(view, *masks)
        return
    refuse_shared(view, *(p for _, p in picks if p.dtype is not dt.bool_))
    if isinstance(value, Tensor):
        refuse_shared(view, value)
        if value.cell is view.cell and storage.thread_state.current is None:
            _refuse_read_elements(picks, view, value)


def _refuse_read_elements(picks: IndexTensors, view: Tensor, value: Tensor) -> None:
    """Raise ShapeError if `value` contains some of the storage elements of `view` that are written.

    `picks` are the index tensors with their dimensions. They are read.
    """
    dims, indices = _resolve_index_tensors(view, picks)
    written = OPS["index_get"].eval(
        overlapping_writes.storage_indices(view), *map(storage.value_of, indices), dims=dims
    )
    if np.isin(overlapping_writes.storage_indices(value), written).any():
        raise order_dependent_write_error()


def _require_same_dtype(picks: IndexTensors, view: Tensor, value: Operand) -> None:
    """Raise ShapeError if `value` is a tensor of another dtype than `view`. One element with masks only is accepted."""
    if not isinstance(value, Tensor) or value.dtype is view.dtype:
        return
    # With a mask, one element is filled in as a number is.
    if value.spec.size == 1 and all(p.dtype is dt.bool_ for _, p in picks):
        return
    types = f"{view.dtype.name} for the destination and {value.dtype.name} for the source"
    text = f"Index put requires the source and destination dtypes match, got {types}"
    raise mixed_dtypes_error(view.dtype, value.dtype, text)


def _put_value(x: Tensor, dims: tuple[int, ...], indices: tuple[Node, ...], value: Operand, accumulate: bool) -> Node:
    """Return the node of `x` with `value` written to, or added at, the elements that `indices` select.

    `indices` are those of the dimensions `dims`. Raises ShapeError if `value` does not broadcast to the selection.
    """
    base = operand_node(x)
    shape = index_get(base, indices, dims).type.shape
    value = _drop_leading_ones(value, shape)
    try:
        n = prepare_operand(value, x.dtype, shape)
    except ShapeError:
        raise ShapeError(
            f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to indexing result of "  # type: ignore[union-attr]
            f"shape {list(shape)}",
            where=source.where(),
            hint="Pass a value whose shape can be broadcast to that of the indexed part.",
        ) from None
    return index_put_at(base, n, indices, dims, accumulate)


def _drop_leading_ones(value: Any, shape: tuple[int, ...]) -> Any:
    """Return `value` without leading extents of 1 that exceed the rank of `shape`."""
    if isinstance(value, Tensor) and value.ndim > len(shape):
        extra = value.ndim - len(shape)
        if all(e == 1 for e in value.spec.shape[:extra]):
            return views.view(value, value.spec.shape[extra:])
    return value


def _is_plain_mask(picks: IndexTensors, view: Tensor, value: Operand) -> bool:
    """Return whether a write needs no indices.

    This needs one mask from dimension 0 on, and a value that is equal for all selected positions.
    """
    if len(picks) != 1 or picks[0][1].dtype is not dt.bool_:
        return False
    at, mask = picks[0]
    rest = view.ndim - at - mask.ndim
    return at == 0 and mask.ndim > 0 and (not isinstance(value, Tensor) or value.ndim <= rest)


def _fill_masked(view: Tensor, mask: Tensor, value: Operand) -> Node:
    _check_mask(view, 0, mask)
    shape = view.spec.shape
    n = call("reshape", operand_node(mask), shape=(*mask.spec.shape, *(1,) * (view.ndim - mask.ndim)))
    return call("where", broadcast_to(n, shape), prepare_operand(value, view.dtype, shape), operand_node(view))


def _split_index(x: Tensor, index: Any) -> tuple[Tensor, IndexTensors]:
    """Return the view of `x` by the integers, slices and None of `index`, and its index tensors with their dimensions.

    The dimensions that an index tensor indexes stay in the view. Raises IndexInvalid for too many parts.
    """
    parts = [_normalize_part(p) for p in _index_parts(index)]
    # Unnamed dimensions get `:`, at the Ellipsis or at the end.
    named = sum(_count_indexed_dims(p) for p in parts)
    if named > x.ndim:
        raise IndexInvalid(
            f"too many indices for tensor of dimension {x.ndim}",
            where=source.where(),
            hint="Remove indices, or add dimensions with unsqueeze().",
        )
    at_rest = next((i for i, p in enumerate(parts) if p is Ellipsis), len(parts))
    parts[at_rest : at_rest + 1] = [slice(None)] * (x.ndim - named)
    view, d, picks = x, 0, []
    for p in parts:
        if p is Ellipsis:
            continue  # a second Ellipsis stands for no dimensions
        if p is None:
            view, d = views.unsqueeze(view, d), d + 1
        elif isinstance(p, slice):
            view, d = _slice_dim(view, d, p), d + 1
        elif isinstance(p, bool):
            view = views.unsqueeze(view, d)
            # True is a new dimension of extent 1, False of extent 0.
            picks.append((d, from_array(np.zeros(int(p), np.int64))))
            d += 1
        elif isinstance(p, Tensor):
            picks.append((d, p))
            # The dimensions stay in the view, since the index tensors gather from them.
            d += max(p.ndim, 1) if p.dtype is dt.bool_ else 1
        else:
            view = views.select(view, d, p)
    return view, picks


def _index_parts(index: Any) -> list[Any]:
    """Return the parts of an index. A list is one part, unless it contains slices, sequences or tensors.

    Such a list is read as a tuple if it has fewer than 32 elements, as NumPy did.
    """
    if isinstance(index, tuple):
        return list(index)
    odd = (slice, type(None), type(Ellipsis), list, tuple, Tensor, np.ndarray)
    # NumPy's former rule, which PyTorch keeps, with its limit of 32.
    if isinstance(index, list) and len(index) < 32 and any(isinstance(p, odd) for p in index):
        return index
    return [index]


def _normalize_part(p: Any) -> Any:
    """Return one part of an index as None, Ellipsis, a slice, a bool, an int, or a tensor of int64 or bool.

    Sequences and arrays become tensors, empty ones int64 unless they are bool arrays. Raises IndexInvalid for objects
    that cannot be an index.
    """
    if p is None or p is Ellipsis or isinstance(p, slice | bool) or p.__class__ is int:
        return p
    if isinstance(p, list | tuple | range | np.ndarray) and not (isinstance(p, np.ndarray) and not p.ndim):
        array = np.asarray([q.tolist() if isinstance(q, Tensor) else q for q in p])
        p = from_array(array.astype(np.int64) if not array.size and array.dtype.kind != "b" else array)
    if isinstance(p, Tensor):
        return _index_tensor(p)
    # A NumPy bool is a mask, not index 0 or 1.
    if isinstance(p, np.bool_):
        return bool(p)
    if not hasattr(p, "__index__"):
        raise IndexInvalid(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
            f"(got {type(p).__name__})",
            where=source.where(),
            hint="Convert the index to an integer, a slice or a tensor of integers.",
        )
    return p.__index__()


def _index_tensor(p: Tensor) -> Any:
    """Return an index tensor as int64 or bool; a 0-d one as a bool or, outside a step, an int.

    A uint8 tensor is a mask and becomes bool. Raises IndexInvalid for a floating-point tensor.
    """
    if p.dtype.kind == "f":
        raise IndexInvalid(
            f"tensors used as indices must be long, int, byte or bool tensors, but got {p.dtype.name}",
            where=source.where(),
            hint="Convert the index first, for example with .long().",
        )
    # uint8 tensors are masks, as in PyTorch before it had bool.
    if p.dtype is dt.uint8:
        p = tensor_of(cast(operand_node(p), dt.bool_), p)
    if not p.ndim and p.dtype is dt.bool_:
        return bool(p)
    # Outside a step a 0-d index selects as an int does, and gives a view.
    if not p.ndim and storage.thread_state.current is None:
        return int(p)
    # Narrower integers are valid indices; the operations use int64 only.
    return p if p.dtype in (dt.bool_, dt.int64) else tensor_of(cast(operand_node(p), dt.int64), p)


def _count_indexed_dims(p: Any) -> int:
    """Return the number of tensor dimensions that `p` covers, a part of an index from `_normalize_part`.

    None, Ellipsis, True and False cover 0. A bool tensor covers as many as it has dimensions. An integer, a slice or an
    integer tensor covers 1.
    """
    if p is None or p is Ellipsis or isinstance(p, bool):
        return 0
    return p.ndim if isinstance(p, Tensor) and p.dtype is dt.bool_ else 1


def _resolve_index_tensors(view: Tensor, picks: IndexTensors) -> tuple[tuple[int, ...], tuple[Node, ...]]:
    """Return the dimensions and int64 nodes of index tensors; a mask becomes one index node for each of its dimensions.

    Masks are read. Raises IndexInvalid for indices out of range, mismatched masks, and shapes that do not broadcast.
    """
    dims: list[int] = []
    nodes: list[Node] = []
    for d, p in picks:
        if p.dtype is dt.bool_:
            _check_mask(view, d, p)
            # The number of true elements is the extent of the result, so the mask has to be read.
            for k, hits in enumerate(np.nonzero(p.array("indexing with a bool mask"))):
                dims.append(d + k)
                nodes.append(from_array(hits.astype(np.int64)).node)
        else:
            check_index_range(p, view.spec.shape[d], d)
            dims.append(d)
            nodes.append(operand_node(p))
    try:
        np.broadcast_shapes(*(n.type.shape for n in nodes))
    except ValueError:
        given = ", ".join(str(list(n.type.shape)) for n in nodes)
        raise IndexInvalid(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {given}",
            where=source.where(),
            hint="Pass index tensors whose shapes can be broadcast together.",
        ) from None
    return tuple(dims), tuple(nodes)


def _check_mask(view: Tensor, d: int, mask: Tensor) -> None:
    """Raise IndexInvalid if the shape of `mask` differs from that of `view` from dimension `d` on."""
    shape = view.spec.shape
    for k, e in enumerate(mask.spec.shape):
        if shape[d + k] != e:
            raise IndexInvalid(
                f"The shape of the mask {list(mask.shape)} at index {k} does not match the shape of the indexed "
                f"tensor {list(shape)} at index {d + k}",
                where=source.where(),
                hint="Pass a mask with the shape of the dimensions that it indexes.",
            )


def check_index_range(index: Tensor, extent: int, dim: int, low: int | None = None) -> None:
    """Raise IndexError if `index` has a value outside `low` to `extent` - 1; `low` is -extent if None.

    Inside a step and on the device "meta" nothing is checked. Raises MemoryMissing if an expanded index of one byte per
    element would not fit in memory.
    """
    require_memory(Type(index.spec.shape, dt.uint8), index.device)
    if storage.thread_state.current is None and index.device.type != "meta" and index.spec.size:
        check_bounds(storage.value_of(index.node, "an index"), extent, dim, -extent if low is None else low)


def _slice_dim(x: Tensor, d: int, part: slice) -> Tensor:
    """Return a view of `x` sliced along dimension `d`; `x` itself for a full slice.

    Raises OptionInvalid (a ValueError) if the step is not positive.
    """
    extent = x.spec.shape[d]
    # NumPy allows a negative step; PyTorch's strides cannot be negative.
    if part.step is not None and part.step <= 0:
        raise OptionInvalid(
            f"step must be greater than zero, but got {part.step}",
            where=source.where(),
            hint="Pass a positive step, and use flip() to reverse.",
        )
    start, limit, stride = part.indices(extent)
    if (start, stride) == (0, 1) and limit == extent:
        return x
    return views.slice_dim(x, d, start, max(limit, start), stride)
