"""Memory that a storage shares with NumPy arrays.

Node values are immutable, but NumPy arrays are not. A storage that shares memory with an array of the script is pinned
to it: each read takes a snapshot of the memory, and each write goes to the memory immediately.
"""

import weakref

import numpy as np

from lazytensor.core.dtype import DType
from lazytensor.ir.graph import NO_ATTRS, Node, leaf, new_uninterned_node
from lazytensor.ir.types import Type


class SharedMemory:
    """The elements of a storage, in an array that the script can read and write; implements `storage.ValueStore`.

    `array` has the shape of the storage and NumPy's type for `type.dtype` (float16 for float16, see `numpy_type`).
    """

    __slots__ = ("array", "type", "history", "_snapshot", "_exported", "_is_exported")

    def __init__(self, array: np.ndarray, type: Type):
        self.array: np.ndarray = array
        self.type: Type = type
        self.history: Node | None = None  # the node of the last write, if it has a gradient history
        self._snapshot: weakref.ref[Node] | None = None  # weak, because the node refers to the array
        self._exported: weakref.ref[np.ndarray] | None = None
        self._is_exported = False

    @classmethod
    def of_value(cls, n: Node) -> "SharedMemory":
        """Return new memory with a copy of the value of `n`, which must have been computed.

        The memory keeps the gradient history of `n`. It counts as released until `export` is called.
        """
        assert n.value is not None
        array = np.array(n.value, numpy_type(n.type.dtype), order="C")
        memory = cls(array, n.type)
        memory.history, memory._snapshot, memory._is_exported = n if n.tracks else None, weakref.ref(n), True
        return memory

    def export(self) -> np.ndarray:
        """Return an array over the memory for the script; it has the shape of the storage.

        If this package allocated the memory, it counts as shared while the array or a view of it exists. Each call
        returns a new array object over the same memory.
        """
        if not self._is_exported:
            return self.array.view()
        flat = self._exported() if self._exported is not None else None
        if flat is None:
            # Created over a memoryview, so that `flat`, and not the array below, is the base of all views.
            flat = np.frombuffer(self.array.reshape(-1).view(np.uint8).data, self.array.dtype)
            self._exported = weakref.ref(flat)
        return flat.reshape(self.array.shape)

    @property
    def is_released(self) -> bool:
        """Whether memory that this package allocated is no longer referenced by any array of the script."""
        return self._is_exported and (self._exported is None or self._exported() is None)

    def node(self, is_last: bool = False) -> Node:
        """Return a node with a snapshot of all elements; the previous node if the elements are unchanged.

        If the script changed elements through NumPy, the gradient history stays that of the last write. With `is_last`,
        the memory is not used afterwards, and the node gets its array instead of a copy where the type allows it.
        """
        known = self._snapshot() if self._snapshot is not None else None
        if known is not None and known.value is not None and has_equal_bits(self.array, known.value, self.type.dtype):
            return known
        copied = np.asarray(self.array, self.type.dtype.host, order="C") if is_last else None
        known = leaf(copy_values(self.array, self.type.dtype) if copied is None else copied, self.type)
        known.cells = 1  # the storage that has the memory
        if self.history is not None:
            model = ("written_past", NO_ATTRS, (), self.type, self.history.where, True)
            written = new_uninterned_node(model, (known, self.history))
            written.value = known.value
            self.history = known = written
        self._snapshot = weakref.ref(known)
        return known

    def write(self, n: Node, value: np.ndarray) -> None:
        """Write `value`, the value of `n`, to all elements.

        Read-only memory is replaced by a new array, which is not shared with the script.
        """
        if not self.array.flags.writeable:
            # The script cannot write to it either, so the tensor gets separate memory.
            self.array = np.array(self.array)
        self.array[...] = value
        self._snapshot, self.history = (weakref.ref(n), n) if n.tracks else (None, None)

    def note_write(self) -> None:
        """Record that elements of the array have changed, so that comparing them with the last snapshot is useless."""
        self._snapshot = None

    def copy(self, state: str) -> np.ndarray:
        """Return a new array with the current values. `state` is ignored."""
        return copy_values(self.array, self.type.dtype)

    def claim(self, state: str) -> None:
        """Do nothing: the memory may be changed at any time."""


def numpy_type(dtype: DType) -> np.dtype:
    """Return the NumPy type for elements of `dtype`: float16 for float16, otherwise the host type."""
    return np.dtype(np.float16) if dtype.name == "float16" else np.dtype(dtype.host)


def copy_values(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Return a copy of an array, in C order and in the host type of `dtype`."""
    return np.array(array, dtype.host, order="C")


def has_equal_bits(array: np.ndarray, value: np.ndarray, dtype: DType) -> bool:
    """Return whether `array`, converted to the host type of `dtype`, equals `value` bit by bit: -0.0 and 0.0 differ.

    NaN equals a NaN of the same bits. Return False for another shape or another type than the host type.
    """
    present = np.asarray(array, dtype.host)
    if present.shape != value.shape or present.dtype != value.dtype:
        return False
    bits = np.dtype(f"u{present.itemsize}")
    return np.array_equal(present.view(bits), value.view(bits))
