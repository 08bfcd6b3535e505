"""Tensors that see memory shared with NumPy: the part of an array that a tensor shows, read and written in place.

The rule, which is PyTorch's. `from_numpy`, `as_tensor` of an array, `numpy()`, `__array__`, DLPack, views, `.data` and
`.detach()` share memory. A read gives what the memory holds at the moment of the call, and a write is in the memory
when the call returns. Exceptions: a step computes with copies, as on a device; `numpy()` of a tensor that a backend
stores between steps, and of one whose view NumPy cannot describe, gives an array that refuses writes.
"""

from typing import Any, TypeAlias

import numpy as np

from lazytensor.core import storage
from lazytensor.core.overlapping_views import has_repeats
from lazytensor.core.shared_memory import SharedMemory, copy_values, has_equal_bits, numpy_type
from lazytensor.core.storage_versions import Snapshot, record_of_node
from lazytensor.ir.graph import Node, leaf
from lazytensor.ir.types import Type
from lazytensor.ops import OPS

Tensor: TypeAlias = Any
"""A `lazytensor.core.tensor.Tensor`, whose module is built on this one."""


def apply_views_without_copy(array: np.ndarray, t: Tensor) -> np.ndarray | None:
    """Return the elements of a storage's array that a tensor shows, as a view; None if NumPy would copy them."""
    part = array
    for name, attrs in t.view_ops:
        part = OPS[name].eval(part, **dict(attrs))
    return part if part is array or not part.size or np.may_share_memory(part, array) else None


def shared_elements(t: Tensor) -> np.ndarray | None:
    """Return the elements in memory that a tensor over a pinned cell shows; None if gradients take part."""
    memory = t.cell.home
    assert isinstance(memory, SharedMemory)
    has_history = memory.history is not None or (t.history is not None and not t.history.is_empty)
    if has_history or t.leaf_id or any(name == "variable" for name, _ in t.view_ops):
        return None
    return apply_views_without_copy(memory.array, t)


def snapshot(t: Tensor) -> Node | None:
    """Return a node with the present elements of a tensor over a pinned cell.

    Return None if the whole storage has to be read. The node is the last one while the elements stay the same.
    """
    # The cell itself remembers its last snapshot.
    part = shared_elements(t) if t.view_ops else None
    if part is None:
        return None
    known: Node | None = t._node
    dtype = t.cell.type.dtype
    if known is None or known.value is None or not has_equal_bits(part, known.value, dtype):
        t._seen, t._node = None, (known := leaf(copy_values(part, dtype), Type(part.shape, dtype)))
        record_of_node(known).snapshot = Snapshot(part, known.type, t.cell.home)
    return known


def gather_shared_elements(t: Tensor, op: str, *places: Node, **attrs: Any) -> Node | None:
    """Return a node with what an operation such as `index_get` picks from a tensor over a pinned cell, read now.

    Without it the whole storage would be compared with its last snapshot at each batch: 250 ms in place of 0.1 ms for
    64 rows of 160 MB. Return None for any other tensor, and if gradients take part.
    """
    part = shared_elements(t) if storage.is_pinned(t.cell) else None
    if part is None:
        return None
    array = OPS[op].eval(part, *map(storage.value_of, places), **attrs)
    return leaf(copy_values(array, t.cell.type.dtype), Type(array.shape, t.cell.type.dtype))


def try_write_shared_elements(t: Tensor, n: Node, is_counted: bool) -> bool:
    """Write the value of a node to the elements that a view of a pinned cell shows.

    Return False, and write nothing, if the whole storage has to be written.
    """
    part = None if n.tracks or not t.view_ops or has_repeats(t) else shared_elements(t)
    if part is None or not part.flags.writeable:
        return False
    part[...] = storage.value_of(n)
    t.cell.home.counter.count += is_counted
    t.cell.version += is_counted
    return True


def export_array(t: Tensor) -> np.ndarray:
    """Return the elements of a tensor as an array of NumPy, which shares its memory if it can; see the module."""
    memory = storage.pin(t.cell) if t.device.type == "cpu" else None
    if memory is not None:
        part = apply_views_without_copy(memory.export(), t)
        if part is not None:
            return part
    array = np.array(t.array(".numpy()"), numpy_type(t.dtype))
    # A write to it would be lost: refused by NumPy, "assignment destination is read-only".
    array.flags.writeable = not array.size or t.device.type != "cpu" or storage.is_abstract
    return array
