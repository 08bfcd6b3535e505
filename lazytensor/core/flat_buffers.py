"""Values of many tensors in one array, of which each tensor gets its part when it is read.

An optimizer of ten thousand small parameters would spend its step on handing out gradients and state, which are mostly
not read before the next step. Measured: without arrays of state, a step of Adam with 10,000 parameters takes 1.5 times
as long; with gradients handed out one by one, a step whose 3,000 parameters were joined takes 3.5 times as long.
"""

from collections.abc import Sequence

import numpy as np

from lazytensor.core import storage
from lazytensor.core.storage import Storage, new_storage, value_of
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type


class Part:
    """Where the value of one cell lives: a `storage.ValueStore` that is a part of a longer array."""

    __slots__ = ("start", "stop", "type", "whole")

    whole: "Whole"
    start: int
    stop: int
    type: Type

    def __init__(self, whole: "Whole", start: int, type: Type):
        self.whole, self.start, self.stop, self.type = whole, start, start + type.size, type

    def copy(self, state: str) -> np.ndarray:
        """The value, for the caller to keep: the whole has another one after the next step."""
        return self.whole.array[self.start : self.stop].reshape(self.type.shape).copy()

    def claim(self, state: str) -> None:
        """A value of its own is a node of the cell, which `stretch_of` sees."""


class Whole:
    """One array for the values of several cells: one that is there, or that a node stands for until somebody asks."""

    def __init__(self, value: np.ndarray | Node):
        self._array = None if isinstance(value, Node) else value
        # A cell, so that it is computed with all else that is pending, and lets go of what it was computed from.
        self._cell = new_storage(value) if isinstance(value, Node) else None

    @property
    def array(self) -> np.ndarray:
        """The elements of all parts, one behind the other."""
        if self._array is None:
            # A step may be the first to ask, which brings what was there before it.
            storage.run_outside_capture(self._compute)
        assert self._array is not None
        return self._array

    def _compute(self) -> None:
        assert self._cell is not None and self._cell.node is not None
        self._array, self._cell = value_of(self._cell.node).reshape(-1), None

    def take(self, members: Sequence[Storage]) -> None:
        """Let cells look at the parts of an array, in their order."""
        at = 0
        for cell in members:
            cell.home = part = Part(self, at, cell.type)
            cell.node, cell.synced = None, None
            cell.version += 1
            at = part.stop

    def replace(self, array: np.ndarray, members: Sequence[Storage]) -> None:
        """Give all parts their new values; `members` are those that look at them."""
        self._array = array
        for cell in members:
            # What somebody has read stays what it was; the cell is asked again.
            cell.node = None
            cell.version += 1


def stretch_of(members: Sequence[Storage]) -> tuple[Whole, int, int] | None:
    """Where the values of cells lie one behind the other; None if one of them has another value, or another place."""
    first = members[0].home
    if not isinstance(first, Part):
        return None
    whole, at = first.whole, first.start
    for cell in members:
        part, n = cell.home, cell.node
        if part.__class__ is not Part or part.whole is not whole or part.start != at:
            return None
        if n is not None and n is not cell.synced:
            return None
        at = part.stop
    return whole, first.start, at


def values_of(members: Sequence[Storage]) -> np.ndarray | None:
    """The values of cells that lie one behind the other."""
    stretch = stretch_of(members)
    if stretch is None:
        return None
    whole, start, stop = stretch
    return whole.array[start:stop]


def whole_of(members: Sequence[Storage]) -> Whole | None:
    """The array that all of these cells and no others look at, in this order."""
    stretch = stretch_of(members)
    if stretch is None:
        return None
    whole, start, stop = stretch
    return whole if not start and stop == whole.array.size else None
