"""Store the values of many small tensors in one array; each tensor copies its part when it is read.

With many small parameters, an optimizer would spend most of its time on creating gradient and state tensors, which are
mostly not read before the next step. Measured: without these arrays for state, a step of Adam with 10,000 parameters
takes 1.5 times as long; with separate gradients, a step whose 3,000 parameters were joined takes 3.5 times as long.
"""

from collections.abc import Sequence

import numpy as np

from lazytensor.core import storage
from lazytensor.core.storage import Storage, new_storage, value_of
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type


class Part:
    """A range of a `Whole` that holds the value of one storage; implements `storage.ValueStore`."""

    __slots__ = ("start", "stop", "type", "whole")

    whole: "Whole"
    start: int
    stop: int
    type: Type

    def __init__(self, whole: "Whole", start: int, type: Type):
        self.whole, self.start, self.stop, self.type = whole, start, start + type.size, type

    def copy(self, state: str) -> np.ndarray:
        """Return a copy of the value in its shape. The array may have another value after the next step.

        `state` is ignored.
        """
        return self.whole.array[self.start : self.stop].reshape(self.type.shape).copy()

    def claim(self, state: str) -> None:
        """Do nothing: a storage with a new value gets a node, which `stretch_of` detects."""


class Whole:
    """A flat array with the values of several storages.

    It is given as an array, or as a node that is computed at the first access.
    """

    def __init__(self, value: np.ndarray | Node):
        self._array = None if isinstance(value, Node) else value
        # A storage, so that the node is computed with the other pending values and frees its operands afterwards.
        self._cell = new_storage(value) if isinstance(value, Node) else None

    @property
    def array(self) -> np.ndarray:
        """The flat array with the elements of all parts, which must not be written to.

        It is computed now if it is not available yet, as if no step were being captured.
        """
        if self._array is None:
            # The first access may happen inside a captured step, but the value is from before it.
            storage.run_outside_capture(self._compute)
        assert self._array is not None
        return self._array

    def _compute(self) -> None:
        assert self._cell is not None and self._cell.node is not None
        self._array, self._cell = value_of(self._cell.node).reshape(-1), None

    def take(self, members: Sequence[Storage]) -> None:
        """Make each storage of `members` refer to a part of the array, in order and without gaps.

        The array must already contain their new values: nothing is copied, the previous values are dropped, and the
        versions are incremented.
        """
        at = 0
        for cell in members:
            cell.home = part = Part(self, at, cell.type)
            cell.node, cell.synced = None, None
            cell.version += 1
            at = part.stop

    def replace(self, array: np.ndarray, members: Sequence[Storage]) -> None:
        """Replace the array by `array`, which has the new values. `members` are the storages that are parts of it.

        Their cached nodes are dropped and their versions incremented.
        """
        self._array = array
        for cell in members:
            # Nodes that were read before keep their values; the storage reads the new array at the next access.
            cell.node = None
            cell.version += 1


def stretch_of(members: Sequence[Storage]) -> tuple[Whole, int, int] | None:
    """Return (whole, start, stop) if the values of all storages are adjacent parts of one `Whole`, in order.

    The elements are `whole.array[start:stop]`. Return None if a storage is not such a part, or was written since. There
    must be at least one storage.
    """
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
    """Return the values of storages as a flat view of their common array.

    Return None if they are not adjacent parts of one `Whole`, in this order.
    """
    stretch = stretch_of(members)
    if stretch is None:
        return None
    whole, start, stop = stretch
    return whole.array[start:stop]


def whole_of(members: Sequence[Storage]) -> Whole | None:
    """Return the `Whole` whose parts are exactly these storages, in this order;

    None if there is none or one was written.
    """
    stretch = stretch_of(members)
    if stretch is None:
        return None
    whole, start, stop = stretch
    return whole if not start and stop == whole.array.size else None
