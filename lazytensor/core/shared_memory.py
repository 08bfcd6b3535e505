"""Memory that a storage shares with NumPy arrays.

Values of tensors never change, arrays of NumPy do. A storage whose memory an array of the script shows is pinned to it:
each read of the storage takes a snapshot, and each write is carried out in the memory at once.
"""

import weakref

import numpy as np

from lazytensor.core.dtype import DType
from lazytensor.ir.graph import NO_ATTRS, Node, leaf, new_uninterned_node
from lazytensor.ir.types import Type


class WriteCounter:
    """How often a storage was written to, by writes that backward notices."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count: int = 0


class SharedMemory:
    """The home of a storage whose elements are in an array that the script can read and write.

    `array` holds the elements in NumPy's type for `type.dtype`; the shape of `array` is that of the storage.
    """

    __slots__ = ("array", "type", "history", "counter", "_snapshot", "_exported", "_is_exported")

    def __init__(self, array: np.ndarray, type: Type):
        self.array: np.ndarray = array
        self.type: Type = type
        self.history: Node | None = None  # the node of the last write, if gradients pass it
        self.counter: WriteCounter = WriteCounter()
        self._snapshot: weakref.ref[Node] | None = None  # weakly: its node refers to the array
        self._exported: weakref.ref[np.ndarray] | None = None
        self._is_exported = False

    @classmethod
    def of_value(cls, n: Node) -> "SharedMemory":
        """New memory with a copy of the value of a node, which has been computed."""
        assert n.value is not None
        array = np.array(n.value, numpy_type(n.type.dtype), order="C")
        memory = cls(array, n.type)
        memory.history, memory._snapshot, memory._is_exported = n if n.tracks else None, weakref.ref(n), True
        return memory

    def export(self) -> np.ndarray:
        """Return an array over the memory for the script. Its views keep it alive."""
        if not self._is_exported:
            return self.array.view()
        flat = self._exported() if self._exported is not None else None
        if flat is None:
            # Over a memoryview: NumPy takes `flat` for the base of all views then, and not the array below it.
            flat = np.frombuffer(self.array.reshape(-1).view(np.uint8).data, self.array.dtype)
            self._exported = weakref.ref(flat)
        return flat.reshape(self.array.shape)

    @property
    def is_released(self) -> bool:
        """Whether no array of the script shows the memory any more."""
        return self._is_exported and (self._exported is None or self._exported() is None)

    def node(self) -> Node:
        """Return a node with a snapshot of all elements; the same node while the elements stay the same.

        Elements that the script changed in the array of a tensor with a gradient history leave the history as it is.
        """
        known = self._snapshot() if self._snapshot is not None else None
        if known is not None and known.value is not None and has_equal_bits(self.array, known.value, self.type.dtype):
            return known
        known = leaf(copy_values(self.array, self.type.dtype), self.type)
        if self.history is not None:
            model = ("written_past", NO_ATTRS, (), self.type, self.history.where, True)
            written = new_uninterned_node(model, (known, self.history))
            written.value = known.value
            self.history = known = written
        self._snapshot = weakref.ref(known)
        return known

    def write(self, n: Node, value: np.ndarray, is_counted: bool = True) -> None:
        """Write the value of a node to all elements."""
        self.counter.count += is_counted
        if not self.array.flags.writeable:
            # The script cannot write to it either: new memory holds what the tensor alone shows from now on.
            self.array = np.array(self.array)
        self.array[...] = value
        self._snapshot, self.history = (weakref.ref(n), n) if n.tracks else (None, None)

    def copy(self, state: str) -> np.ndarray:
        """Return a new array of the present values."""
        return copy_values(self.array, self.type.dtype)

    def claim(self, state: str) -> None:
        """Do nothing: the memory may be changed at any time."""


def numpy_type(dtype: DType) -> np.dtype:
    """Return the type in which NumPy holds elements of `dtype`: float16 for float16, else the host type."""
    return np.dtype(np.float16) if dtype.name == "float16" else np.dtype(dtype.host)


def copy_values(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Return a copy of an array in the host type of `dtype`."""
    return np.array(array, dtype.host, order="C")


def has_equal_bits(array: np.ndarray, value: np.ndarray, dtype: DType) -> bool:
    """Return whether the elements of an array are `value` to the last bit, so that -0.0 is not 0.0."""
    present = np.asarray(array, dtype.host)
    if present.shape != value.shape or present.dtype != value.dtype:
        return False
    bits = np.dtype(f"u{present.itemsize}")
    return np.array_equal(present.view(bits), value.view(bits))
