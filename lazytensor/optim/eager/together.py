"""State of many parameters in one array: each tensor of it looks at its part when somebody asks.

An optimizer of ten thousand small parameters would spend its step on handing each its part of every piece of state,
which mostly nobody reads before the next step.
"""

from collections.abc import Sequence

import numpy as np

from lazytensor.cells import Cell
from lazytensor.ir.types import Type


class Part:
    """Where the value of one cell lives: a `cells.Home` that is a part of a longer array."""

    __slots__ = ("start", "type", "whole")

    def __init__(self, whole: "Whole", start: int, type: Type):
        self.whole, self.start, self.type = whole, start, type

    def copy(self, state: str) -> np.ndarray:
        """The value, for the caller to keep: the whole has another one after the next step."""
        flat = self.whole.array[self.start : self.start + self.type.size]
        return flat.reshape(self.type.shape).copy()

    def claim(self, state: str) -> None:
        """A value of its own is a node of the cell, which `whole_of` sees."""


class Whole:
    """One array for the values of several cells, and whose each of its parts is."""

    def __init__(self, array: np.ndarray, cells: Sequence[Cell]):
        self.array, self.cells = array, cells
        self.parts = []
        at = 0
        for cell in cells:
            self.parts.append(Part(self, at, cell.type))
            at += cell.type.size
            cell.home = self.parts[-1]
            cell.node, cell.synced = None, None
            cell.version += 1

    def replace(self, array: np.ndarray) -> None:
        """Give all parts their new values."""
        self.array = array
        for cell in self.cells:
            # What somebody has read stays what it was; the cell is asked again.
            cell.node = None
            cell.version += 1


def whole_of(cells: Sequence[Cell]) -> Whole | None:
    """The array that all of these cells look at, in this order; None if one of them has a value of its own."""
    home = cells[0].home
    if not isinstance(home, Part) or len(home.whole.cells) != len(cells):
        return None
    whole = home.whole
    for cell, other, part in zip(cells, whole.cells, whole.parts, strict=True):
        if cell is not other or cell.home is not part or not (cell.node is None or cell.node is cell.synced):
            return None
    return whole
