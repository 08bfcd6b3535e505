"""What became of the storages that had a value: the version counters by which backward notices changes in place.

A node is a value, and a tensor's storage has one value after another. PyTorch saves a tensor for backward with the
version of its storage, reads the storage again in backward, and refuses it if the version differs. Here the node of
the old value notes, at each write, which storage lost it and at which version. A write through `.data` or through an
array of NumPy does not count, so that backward goes on, with the present value of the storage.
"""

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lazytensor.core.shared_memory import SharedMemory, WriteCounter, copy_values, has_equal_bits
from lazytensor.ir.graph import Node, leaf
from lazytensor.ir.types import Type

Storage: TypeAlias = Any
"""A `storage.Storage`, whose module is built on this one."""

has_uncounted_writes = False
"""Whether this process wrote to a storage through `.data`, or shared one with NumPy: backward then reads again."""
MAX_DEAD_STORAGES = 32
"""Cells that are remembered to have lost a value, before those that are gone are dropped."""


class Overwrite(NamedTuple):
    """How a value was lost: the cell that had it, the version of the cell then, and the value that was written.

    `holder` is the cell if the write did not count: backward reads its present value.
    """

    cell: Callable[[], Storage | None]
    version: int
    by: Callable[[], Node | None]
    holder: Storage | None

    @property
    def is_counted(self) -> bool:
        """Whether the cell has a later version than the lost value."""
        return self.holder is None or self.holder.version != self.version


class Snapshot:
    """The part of an array that a value was copied from, with the version of the storage then."""

    __slots__ = ("array", "memory", "type", "version")

    def __init__(self, array: np.ndarray, type: Type, memory: SharedMemory):
        global has_uncounted_writes
        has_uncounted_writes = True
        self.array: np.ndarray = array
        self.type: Type = type
        self.memory: WriteCounter = memory.counter
        self.version: int = memory.counter.count

    def current_value(self, n: Node) -> Node:
        """Return the present value; `n` if the elements are the same."""
        assert n.value is not None
        if has_equal_bits(self.array, n.value, self.type.dtype):
            return n
        return leaf(copy_values(self.array, self.type.dtype), self.type)


def return_none(*_: object) -> None:
    """Return None, as a weak reference to what is gone does."""


class StorageRecord:
    """The storages that had the value of a node, as far as something became of them."""

    __slots__ = ("clones", "inference", "losses", "snapshot")

    def __init__(self) -> None:
        self.clones: int = 0  # cells that have a node of their own, the clone of this one
        self.losses: dict[int, Overwrite] = {}
        self.snapshot: Snapshot | None = None
        self.inference: Callable[[], Storage | None] = return_none  # the cell, if inference mode made it


def record_of_node(n: Node) -> StorageRecord:
    """Return the notes of a node, made if there are none."""
    if n.storage is None:
        n.storage = StorageRecord()
    notes: StorageRecord = n.storage
    return notes


def mark_operand_aliased(cell: Storage, old: Node) -> None:
    """Note that the operation in place which replaced `old` read it through another operand, too.

    PyTorch copies what it writes over; it does not copy an operand.
    """
    lost = old.storage.losses.get(id(cell)) if old.storage is not None else None
    if lost is not None:
        old.storage.losses[id(cell)] = lost._replace(by=return_none)


def record_writer(cell: Storage, old: Node, n: Node) -> None:
    """Note that `n` is the result of the operation in place that replaced `old`, whose values alone were written."""
    lost = old.storage.losses.get(id(cell)) if old.storage is not None else None
    if lost is not None:
        old.storage.losses[id(cell)] = lost._replace(by=weakref.ref(n))


def record_overwrite(cell: Storage, old: Node, n: Node, is_counted: bool) -> None:
    """Record at node `old` that `cell`, which had it as its value, was written and has the value `n` now.

    Backward refuses a saved `old` after a counted write; after one that is not (`.data`), it reads the cell again.
    """
    global has_uncounted_writes
    has_uncounted_writes |= not is_counted
    losses = record_of_node(old).losses
    # A constant may be the first value of any number of cells: looked through each time they are twice as many.
    if len(losses) >= MAX_DEAD_STORAGES and not len(losses) & (len(losses) - 1):
        # Of a copy: other threads give cells the same value, and take theirs away. A list of pairs is not made at once:
        # they may have Python search for garbage.
        for key, lost in losses.copy().items():
            if lost.cell() is None:
                newest = losses.pop(key, None)
                # A new cell may have the number of the one that is gone by now.
                if newest is not None and newest is not lost:
                    losses.setdefault(key, newest)
    losses[id(cell)] = Overwrite(weakref.ref(cell), cell.version, weakref.ref(n), None if is_counted else cell)
