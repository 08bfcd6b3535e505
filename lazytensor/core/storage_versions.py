"""Version counters: how backward detects that a saved tensor was modified in place.

PyTorch saves a tensor for backward with the version of its storage and refuses it in backward if the version differs.
Here values are immutable nodes, and a storage refers to one node after another. When a storage is written, the node of
the old value records which storage was overwritten, and at which version. A write through `.data` or through a NumPy
array is not counted: backward proceeds, with the current value of the storage.
"""

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lazytensor.core.shared_memory import copy_values, has_equal_bits
from lazytensor.ir.graph import Node, leaf
from lazytensor.ir.types import Type

Storage: TypeAlias = Any
"""A `storage.Storage`; `Any` here, because the module `storage` imports this one."""

has_uncounted_writes = False
"""Whether this process ever wrote through `.data` or shared a storage with NumPy.

If so, backward reads storages again.
"""
MAX_DEAD_STORAGES = 32
"""Number of overwrite records on one node from which on those of freed storages are removed."""


class Overwrite(NamedTuple):
    """A record on a node that a storage had the node as its value and was overwritten.

    Fields:
    - `cell`: a weak reference to the storage.
    - `version`: the version of the storage before the write.
    - `by`: a weak reference to the node that was written.
    - `holder`: the storage itself if the write was not counted; backward then uses its current value. Otherwise None.
    """

    cell: Callable[[], Storage | None]
    version: int
    by: Callable[[], Node | None]
    holder: Storage | None

    @property
    def is_counted(self) -> bool:
        """Whether backward must refuse the old value, because the storage had a counted write.

        A later counted write to the same storage counts too.
        """
        return self.holder is None or self.holder.version != self.version


class Snapshot:
    """The part of a NumPy array that a value was copied from, with the version of the storage at that time.

    Creating one sets `has_uncounted_writes` if the script has an array over the memory.
    """

    __slots__ = ("array", "cell", "type", "version")

    def __init__(self, array: np.ndarray, type: Type, cell: Storage):
        global has_uncounted_writes
        has_uncounted_writes |= not cell.home.is_released
        self.array: np.ndarray = array
        self.type: Type = type
        self.cell: Callable[[], Storage | None] = weakref.ref(cell)
        self.version: int = cell.version

    @property
    def is_overwritten(self) -> bool:
        """Whether the storage had a counted write since."""
        cell = self.cell()
        return cell is not None and cell.version != self.version

    def current_value(self, n: Node) -> Node:
        """Return a node with the current elements of the array: `n` itself if they are unchanged, else a new leaf."""
        assert n.value is not None
        if has_equal_bits(self.array, n.value, self.type.dtype):
            return n
        return leaf(copy_values(self.array, self.type.dtype), self.type)


def note_uncounted_writes() -> None:
    """Set `has_uncounted_writes`: from now on, backward reads storages again."""
    global has_uncounted_writes
    has_uncounted_writes = True


def return_none(*_: object) -> None:
    """Return None, like a weak reference whose object was freed."""


class StorageRecord:
    """Information on the storages that had a node as their value.

    Fields:
    - `clones`: the number of storages that have a clone of the node instead of the node.
    - `losses`: the overwrites of storages that had this value, by `id` of the storage.
    - `snapshot`: the shared memory that the value was copied from, if any.
    - `inference`: a weak reference to the storage if it was created in inference mode.
    """

    __slots__ = ("clones", "inference", "losses", "snapshot")

    def __init__(self) -> None:
        self.clones: int = 0
        self.losses: dict[int, Overwrite] = {}
        self.snapshot: Snapshot | None = None
        self.inference: Callable[[], Storage | None] = return_none

    def forget(self, cell: Storage) -> None:
        """Remove what the record says on earlier writes to `cell`, whose value the node is now again."""
        self.losses.pop(id(cell), None)
        if self.snapshot is not None and self.snapshot.cell() is cell:
            self.snapshot = None


def record_of_node(n: Node) -> StorageRecord:
    """Return the storage record of a node; create it if there is none."""
    if n.storage is None:
        n.storage = StorageRecord()
    notes: StorageRecord = n.storage
    return notes


def mark_operand_aliased(cell: Storage, old: Node) -> None:
    """Record that the in-place operation which replaced `old` in `cell` also read it through another operand.

    An in-place operation keeps a copy of what it overwrites, but not of its other operands. Backward must therefore
    refuse `old` even for that operation. Do nothing if `old` has no record for `cell`.
    """
    lost = old.storage.losses.get(id(cell)) if old.storage is not None else None
    if lost is not None:
        old.storage.losses[id(cell)] = lost._replace(by=return_none)


def record_writer(cell: Storage, old: Node, n: Node) -> None:
    """Set the in-place operation that replaced `old` in `cell` to `n`, when another node was written in its place.

    Do nothing if `old` has no record for `cell`.
    """
    lost = old.storage.losses.get(id(cell)) if old.storage is not None else None
    if lost is not None:
        old.storage.losses[id(cell)] = lost._replace(by=weakref.ref(n))


def record_overwrite(cell: Storage, old: Node, n: Node | None, is_counted: bool) -> None:
    """Record on the node `old`, the previous value of `cell`, that `cell` was overwritten with `n`, if it is a node.

    Call it before the storage is changed. After a counted write, backward refuses a saved `old`; otherwise it reads the
    storage again. Records of freed storages are removed when the node has many records.
    """
    global has_uncounted_writes
    has_uncounted_writes |= not is_counted
    losses = record_of_node(old).losses
    # A constant may be the first value of many storages: clean up each time the number of records has doubled.
    if len(losses) >= MAX_DEAD_STORAGES and not len(losses) & (len(losses) - 1):
        # Iterate over a copy: other threads may change the dict meanwhile. `copy` is atomic, unlike a list of its
        # items, whose allocation may trigger a garbage collection.
        for key, lost in losses.copy().items():
            if lost.cell() is None:
                newest = losses.pop(key, None)
                # A new storage may have the same id as the freed one.
                if newest is not None and newest is not lost:
                    losses.setdefault(key, newest)
    by = return_none if n is None else weakref.ref(n)
    losses[id(cell)] = Overwrite(weakref.ref(cell), cell.version, by, None if is_counted else cell)
