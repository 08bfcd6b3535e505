"""Writes of numbers and computed values to some elements of a tensor, in the memory of its storage.

The usual write to a view creates the node of a new value of the whole storage. A loop that sets one element after the
other would copy the storage for each of them. Here the storage gets memory of its own, as if NumPy shared it
(`storage.pin`), and NumPy writes the elements at once. The next read of the whole storage turns the memory into a node.
"""

from typing import Any, TypeAlias

import numpy as np

from lazytensor.autograd.grad_recording import grad_recording_state
from lazytensor.core import shared_memory_views, storage
from lazytensor.core.device import CPU
from lazytensor.core.dtype import DType
from lazytensor.core.overlapping_views import has_repeats
from lazytensor.core.shared_memory import SharedMemory
from lazytensor.core.storage import Storage
from lazytensor.core.storage_versions import record_overwrite
from lazytensor.ir.graph import Node
from lazytensor.ops import OPS

Tensor: TypeAlias = Any
"""A `lazytensor.core.tensor.Tensor`; `Any` here, because that module is above this one."""
MAX_EXACT_INTEGER = 1 << 53
"""The largest integer below which NumPy rounds every integer once when it converts it to a floating-point type."""
_ALL = slice(None)
_SAME_STORAGE = object()


def try_write(t: Tensor, index: Any, value: Any) -> bool:
    """Write `value` to t[index] at once and return True, or return False and write nothing.

    The result is False, and the usual way has to write or to refuse the write, unless all of this holds:

    - no step and no abstract run is active, and `t` is a CPU tensor without gradient history and without repeated
      elements, whose storage has a computed value or shares memory with NumPy;
    - `index` consists of integers, slices with a positive step, None and Ellipsis, and does not select all elements;
    - `value` is a number that the dtype of `t` can hold, also a NumPy float64 or integer, or a CPU tensor of the dtype
      of `t` whose value is computed or a small graph (`storage.small_value`); no gradient passes it;
    - a tensor `value` has another storage, or shows exactly the elements t[index], as it does in `t[index] += 1`;
    - the index is within bounds, and the value broadcasts.
    """
    parts = index if index.__class__ is tuple else (index,)
    source = _host_value(value, t) if _selects_part(parts) else None
    if source is None:
        return False
    if source is _SAME_STORAGE:
        return _try_keep(t, parts, value)
    before = t.cell.node
    part = _writable_elements(t)
    if part is None:
        return False
    try:
        part[index] = source
    except (IndexError, ValueError):
        _undo_memory(t, before)
        return False
    _note_write(t, before)
    return True


def try_write_node(t: Tensor, n: Node) -> bool:
    """Write the value of `n` to the elements of a view `t` at once and return True, or return False and write nothing.

    `n` has the type of `t`. The conditions for `t` and `n` are those of `try_write`.
    """
    if n.tracks or not n.type.size or (n.value is None and n.type.size > storage.MAX_SMALL_ELEMENTS):
        return False
    # The value may depend on `t`, so it is computed before the storage gets memory.
    value = storage.small_value(n)
    before = t.cell.node
    part = None if value is None else _writable_elements(t)
    if part is None:
        return False
    part[...] = value
    _note_write(t, before)
    return True


def try_update(t: Tensor, ufunc: np.ufunc, value: Any) -> bool:
    """Replace the elements of a small view `t` by `ufunc(element, value)` at once and return True.

    Return False, and write nothing, if the usual way has to write. `value` is a Python number that the dtype of `t` can
    hold, and `ufunc` rounds as the operation of the same name. The conditions for `t` are those of `try_write`, and it
    has at most `storage.MAX_SMALL_ELEMENTS` elements.
    """
    kind = value.__class__
    if not t.view_ops or not (kind is float or kind is int):
        return False
    dtype: DType = t.cell.type.dtype
    if dtype.kind == "b" or not _is_stored_exactly(value, kind, dtype):
        return False
    before = t.cell.node
    part = _writable_elements(t)
    if part is None or not 0 < part.size <= storage.MAX_SMALL_ELEMENTS:
        if part is not None:
            _undo_memory(t, before)
        return False
    with np.errstate(all="ignore"):
        ufunc(part, dtype.host.type(value), out=part)
    _note_write(t, before)
    return True


def _try_keep(t: Tensor, parts: tuple[Any, ...], value: Tensor) -> bool:
    """Return whether `value` shows exactly the elements t[parts] in shared memory; count the write if it does."""
    part = _writable_elements(t) if storage.is_pinned(t.cell) else None
    shown = None if part is None else shared_memory_views.shared_elements(value)
    if part is None or shown is None:
        return False
    try:
        target = part[parts if Ellipsis in parts else (*parts, ...)]
    except IndexError:
        return False
    if (target.ctypes.data, target.shape, target.strides) != (shown.ctypes.data, shown.shape, shown.strides):
        return False
    _note_write(t, None)
    return True


def _note_write(t: Tensor, before: Node | None) -> None:
    """Record a write for backward. `before` is the value of the storage if it had no memory yet."""
    if before is not None:
        record_overwrite(t.cell, before, None, True)
    t.cell.home.note_write()
    t.cell.version += 1
    storage.thread_state.effects += 1


def _selects_part(parts: tuple[Any, ...]) -> bool:
    """Return whether NumPy and PyTorch give `parts` the same meaning, and they may select less than all elements."""
    is_part = False
    for p in parts:
        kind = p.__class__
        if kind is int or isinstance(p, np.integer):
            is_part = True
        elif kind is slice:
            if not (_is_bound(p.start) and _is_bound(p.stop) and _is_bound(p.step)) or (p.step or 1) < 0 or p.step == 0:
                return False
            is_part = is_part or p != _ALL
        elif p is not None and p is not Ellipsis:
            return False
    return is_part


def _is_bound(bound: Any) -> bool:
    return bound is None or bound.__class__ is int


def _host_value(value: Any, t: Tensor) -> Any:
    """Return what NumPy has to write for `value`, or None if the usual way has to convert it; see `try_write`.

    For a tensor in the storage of `t`, return _SAME_STORAGE.
    """
    dtype: DType = t.cell.type.dtype
    kind = value.__class__
    if kind is float or kind is int or kind is bool:
        return value if _is_stored_exactly(value, kind, dtype) else None
    if isinstance(value, np.float64 | np.integer):
        return _host_value(value.item(), t)
    if not hasattr(value, "view_ops") or value.device is not CPU:
        return None
    if value.cell is t.cell:
        return _SAME_STORAGE
    n = value.node
    is_usable = n.type.dtype is dtype and not (n.tracks and grad_recording_state.records_gradients)
    return storage.small_value(n) if is_usable else None


def _is_stored_exactly(value: Any, kind: type, dtype: DType) -> bool:
    """Return whether NumPy converts a Python number to `dtype` with one rounding, as PyTorch does, without overflow.

    `kind` is the class of `value`. Half types are rounded elsewhere, and False is returned.
    """
    if dtype.is_half:
        return False
    if dtype.kind == "f":
        if kind is float:
            return bool(-dtype.largest <= value <= dtype.largest or value - value != 0)
        return bool(-MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER)
    if dtype.kind == "b":
        return kind is bool
    limits = np.iinfo(dtype.host)
    return bool(kind is not float and limits.min <= value <= limits.max)


def _writable_elements(t: Tensor) -> np.ndarray | None:
    """Return the elements of `t` in the memory of its storage, as a NumPy view; None if `try_write` must not write."""
    if storage.thread_state.current is not None or storage.is_abstract or t.device is not CPU:
        return None
    # Gradients, inference mode, `.data` and copies that are read-only have rules of their own.
    if t.leaf_id or t.history is not None or t.cell.is_inference or t.__dict__:
        return None
    if t.view_ops and has_repeats(t):
        return None
    before = t.cell.node
    memory = t.cell.home if before is None else _own_memory(t.cell)
    if memory.__class__ is not SharedMemory:
        return None
    part = shared_memory_views.shared_elements(t)
    if part is None or not part.flags.writeable:
        _undo_memory(t, before)
        return None
    return part


def _undo_memory(t: Tensor, before: Node | None) -> None:
    """Make `before` the value of the storage again, if it is a node: nothing was written to the memory."""
    if before is not None:
        t.cell.node, t.cell.home = before, None


def _own_memory(cell: Storage) -> SharedMemory | None:
    """Return memory that a storage with a computed value gets, or None if the value is not computed or has history."""
    n = cell.node
    assert n is not None
    # `pin` would also compute all other pending values.
    if n.tracks or (n.value is None and n.op != "full"):
        return None
    if n.value is None:
        n.value = OPS[n.op].eval(**n.attrs)
    return storage.pin(cell, is_shared=False)
