"""Writes to tensors whose elements overlap, and checks of in-place operands that share memory with the result.

The memory layout of a view is computed with an array that has one byte per element of the storage: the view operations
are applied to that array, and its strides and addresses are compared.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from lazytensor.core import source, storage
from lazytensor.core.dtype import int64
from lazytensor.errors import ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type
from lazytensor.ops import OPS, call, const
from lazytensor.ops.index import index_put_at
from lazytensor.ops.strided import contiguous_strides, is_injective

Tensor: TypeAlias = Any
"""A `lazytensor.core.tensor.Tensor`; `Any` here, because that module imports this one."""


MAX_OVERLAP_STEPS = 10_000
"""Maximum work of NumPy's search for an element that two views share. Beyond it the views count as separate."""


def apply_views(array: np.ndarray, t: Tensor) -> np.ndarray:
    """Apply the view operations of the tensor `t` to an array in the shape of its storage, and return the result.

    The result is a view of `array` if NumPy can describe it by strides, else a copy.
    """
    for name, attrs in t.view_ops:
        array = OPS[name].eval(array, **dict(attrs))
    return array


def is_contiguous(t: Tensor) -> bool:
    """Return whether the elements of a tensor are contiguous in memory, in C order."""
    return not t.view_ops or bool(apply_views(_layout_bytes(t), t).flags.c_contiguous)


def arrange_in_memory_order(t: Tensor, values: np.ndarray) -> np.ndarray:
    """Return `values`, a flat array, in the shape of `t` so that the n-th value is the n-th element of `t` in memory.

    PyTorch fills a tensor with random numbers in memory order, whatever the order of its dimensions.
    """
    if is_contiguous(t):
        return values.reshape(t.spec.shape)
    strides = apply_views(_layout_bytes(t), t).strides
    order = sorted(range(len(strides)), key=lambda d: -strides[d])
    return values.reshape([t.spec.shape[d] for d in order]).transpose(np.argsort(order))


def has_repeats(t: Tensor) -> bool:
    """Return whether the view operations of a tensor may show one storage element several times.

    This is so if one of them expands (`broadcast_in_dim`) or is a strided window whose positions overlap
    (`as_strided`).
    """
    for name, attrs in t.view_ops:
        if name == "broadcast_in_dim":
            return True
        if name == "as_strided" and not is_injective(dict(attrs)["size"], dict(attrs)["stride"]):
            return True
    return False


def write_overlapping_view(t: Tensor, base: Node, value: Node) -> Node | None:
    """Return `base`, the value of the storage of `t`, with `value` written to the elements that `t` shows.

    Return None if the caller can use the usual way: if no view operation repeats elements, or if one value is written
    to all elements of a window (`as_strided`) that is not expanded. Otherwise raises ShapeError if `t` shows an element
    several times, as PyTorch does.
    """
    if not has_repeats(t):
        return None
    size = base.type.size
    places = apply_views(np.arange(size).reshape(base.type.shape), t).reshape(-1)
    if np.unique(places).size != places.size:
        if value.op == "full" and t.view_ops[-1][0] == "as_strided" and not _is_expanded(t):
            return None
        raise ShapeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location.",
            where=source.where(),
            hint="Please clone() the tensor before performing the operation.",
        )
    flat, values = call("reshape", base, shape=(size,)), call("reshape", value, shape=(places.size,))
    at = const(places.astype(np.int64), Type(places.shape, int64))
    return call("reshape", index_put_at(flat, values, (at,), (0,)), shape=base.type.shape)


def _is_expanded(t: Tensor) -> bool:
    """Return whether a dimension of size > 1 has stride 0. PyTorch refuses only these tensors as targets of a fill."""
    layout = apply_views(np.empty(t.cell.type.shape, np.uint8), t)
    return any(s == 0 and e > 1 for s, e in zip(layout.strides, layout.shape, strict=True))


OVERLAP_REFUSING_FUNCTIONS = frozenset(
    ("index_put", "index_copy", "index_add", "scatter", "scatter_add", "scatter_reduce", "put")
)
"""Functions whose in-place forms refuse any operand that shares an element with the result."""
INDEX_CHECKED_FUNCTIONS = frozenset(("masked_fill", "masked_scatter", "index_fill"))
"""Functions whose in-place forms check only the mask or index for shared memory, not the values."""


def refuse_operands(name: str, x: Tensor, operands: Sequence[Any]) -> None:
    """Raise ShapeError if an operand shares memory with `x` as PyTorch's in-place form of `name` refuses it.

    OVERLAP_REFUSING_FUNCTIONS and "index_fill" refuse any shared memory, also with tensors in a list; other
    functions refuse only a partial overlap. For INDEX_CHECKED_FUNCTIONS only the first tensor operand is checked.
    Operands that are no tensors are ignored.
    """
    tensors = [o for o in operands if hasattr(o, "view_ops")]
    if name in OVERLAP_REFUSING_FUNCTIONS or name == "index_fill":
        tensors += [i for o in operands if isinstance(o, tuple | list) for i in o if hasattr(i, "view_ops")]
        refuse_shared(x, *(tensors[:1] if name in INDEX_CHECKED_FUNCTIONS else tensors))
    else:
        refuse_overlap(x, *(tensors[:1] if name in INDEX_CHECKED_FUNCTIONS else tensors))


def refuse_overlap(x: Tensor, *operands: Tensor, is_copy: bool = False) -> None:
    """Raise ShapeError if an operand partly overlaps with `x`, the tensor that is written, as PyTorch does.

    An operand is checked only if it is another view of the same storage. One with the same elements and strides as `x`
    is allowed. PyTorch compares only views without gaps. For views with gaps, outside of steps, this also raises if a
    loop in memory order would read an element after writing it, because PyTorch's result is then undefined. With
    `is_copy`, writing an element to itself is allowed.
    """
    for o in operands:
        if o.cell is x.cell and o.view_ops != x.view_ops:
            if _shares_elements(x, o, is_same_allowed=True):
                raise _shared_memory_error()
            if storage.thread_state.current is None and is_read_after_write(x, o, is_copy):
                raise order_dependent_write_error()


def order_dependent_write_error() -> ShapeError:
    """Return the error for an in-place operation that reads elements after it has written them."""
    return ShapeError(
        "an in-place operation reads elements of an operand after it has written them, so the result depends "
        "on the order of PyTorch's loop over the elements",
        where=source.where(),
        hint="Please clone() the operand before performing the operation.",
    )


def refuse_shared(x: Tensor, *operands: Tensor) -> None:
    """Raise ShapeError if an operand is `x` or shares elements with `x`, the tensor that is written.

    Other operands than `x` itself are compared only if they are views without gaps of the same storage; then also those
    with the same elements are refused. An empty `x` whose first dimension is 1 may be its own operand, as in PyTorch.
    """
    for o in operands:
        # PyTorch drops a first dimension of 1, so that the operand is another tensor object.
        if o is x and (x.spec.size or x.spec.shape[:1] != (1,)):
            raise _shared_memory_error()
        if o.cell is x.cell and _shares_elements(x, o, is_same_allowed=False):
            raise _shared_memory_error()


def is_read_after_write(x: Tensor, o: Tensor, is_copy: bool) -> bool:
    """Return whether a loop over the elements of `x` in memory order reads an element of `o` after writing it.

    `o` is broadcast to the shape of `x`. With `is_copy`, writing an element to itself does not count. Return False if
    the shapes do not fit, and if a search of MAX_OVERLAP_STEPS finds no shared element.
    """
    bytes_ = _layout_bytes(x, o)
    target, read = apply_views(bytes_, x), apply_views(bytes_, o)
    try:
        read = np.broadcast_to(read, target.shape)
        # The stubs of NumPy allow two numbers only.
        if not np.shares_memory(target, read, max_work=MAX_OVERLAP_STEPS):  # type: ignore[arg-type]
            return False
    except (ValueError, np.exceptions.TooHardError):
        return False
    places = np.arange(x.cell.type.size).reshape(x.cell.type.shape)
    order = sorted(range(target.ndim), key=lambda d: -target.strides[d])
    written = apply_views(places, x).transpose(order)
    sources = np.broadcast_to(apply_views(places, o), target.shape).transpose(order).reshape(-1)
    turns = np.arange(written.size)
    turn_of = np.full(places.size, written.size)
    turn_of[written.reshape(-1)] = turns
    is_late = turn_of[sources] < turns
    if is_copy:
        is_late[is_late] = sources[turn_of[sources[is_late]]] != sources[is_late]
    return bool(is_late.any())


def _shared_memory_error() -> ShapeError:
    return ShapeError(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
        "memory location.",
        where=source.where(),
        hint="Please clone() the tensor before performing the operation.",
    )


def _shares_elements(x: Tensor, o: Tensor, is_same_allowed: bool) -> bool:
    """Return whether the memory ranges of two views of one storage overlap;

    False if one has gaps or repeats or is empty. With `is_same_allowed`, views with the same range and strides do not
    count as sharing.
    """
    bytes_ = _layout_bytes(x, o)
    target, other = _memory_range(bytes_, x), _memory_range(bytes_, o)
    if target is None or other is None or (is_same_allowed and target == other):
        return False
    return target[0] < other[1] and other[0] < target[1]


def _layout_bytes(*tensors: Tensor) -> np.ndarray:
    """Return a byte array in the shape of the storage that `tensors` share, to which view operations can be applied.

    Use only its addresses: mostly it has the strides of the storage but the memory of a single byte.
    """
    shape = tensors[0].cell.type.shape
    # `as_strided` copies arrays with gaps, so it needs real memory; otherwise one byte with fake strides is enough.
    if any(name == "as_strided" for t in tensors for name, _ in t.view_ops):
        return np.empty(shape, np.uint8)
    return np.lib.stride_tricks.as_strided(np.empty(1, np.uint8), shape, contiguous_strides(shape))


def _memory_range(bytes_: np.ndarray, t: Tensor) -> tuple[int, int, tuple[int, ...]] | None:
    """Return (start address, end address, strides) of a view; None if it is empty or has gaps or repeats.

    `bytes_` stands for the storage and has one byte for each element, so all numbers count elements. The end is
    exclusive. The order of the dimensions does not matter.
    """
    layout = apply_views(bytes_, t)
    step = 1
    for s, e in sorted((s, e) for s, e in zip(layout.strides, layout.shape, strict=True) if e != 1):
        if s != step:
            return None
        step *= e
    start = layout.__array_interface__["data"][0]
    return (start, start + layout.size, layout.strides) if layout.size else None
