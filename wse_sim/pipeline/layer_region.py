"""Where a layer sits: the cores of its rectangle that compute, and those beside them that pass activations on.

A layer takes its activations along one axis of its rectangle, the *inner* one, and gives its results along the other.
Position (u, v) counts along the inner and the outer axis. Activations come in at (0, 0) and lie along v = 0; results
are summed to u = 0 and leave at the far end of it. Beyond the last v sit the *ports*: one core takes what the layer
gives to the next one, another what it gives to the one before. Each holds a whole micro-batch, so that a layer need not
wait until its neighbour is ready, and it makes the parts of one layer into those of the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lazytensor.errors import PlacementError
from wse_sim.fabric.mesh import EAST, NORTH, SOUTH, WEST
from wse_sim.layout import Rect

CoreCoordinates = tuple[int, int]
"""Column and row of a core."""
CorePath = tuple[CoreCoordinates, ...]
"""Cores from a sender to a receiver, each next to the one before."""


@dataclass(frozen=True)
class LayerRegion:
    """A layer on `width` x `height` cores that compute, along the inner and the outer axis."""

    rect: Rect
    is_turned: bool
    width: int
    height: int
    inputs: int
    outputs: int

    def cell(self, u: int, v: int) -> CoreCoordinates:
        """The core at a position."""
        return (self.rect.x + v, self.rect.y + u) if self.is_turned else (self.rect.x + u, self.rect.y + v)

    def inner(self, u: int) -> range:
        """Columns of the activations that position u has."""
        return range(self.inputs * u // self.width, self.inputs * (u + 1) // self.width)

    def outer(self, v: int) -> range:
        """Columns of the results that position v has."""
        return range(self.outputs * v // self.height, self.outputs * (v + 1) // self.height)

    @property
    def most(self) -> tuple[int, int]:
        """The most columns of activations and of results that a core has."""
        return -(-self.inputs // self.width), -(-self.outputs // self.height)

    @property
    def positions(self) -> list[tuple[int, int]]:
        """All that compute."""
        return [(u, v) for v in range(self.height) for u in range(self.width)]

    @property
    def after(self) -> CoreCoordinates:
        """The core that takes the results."""
        return self.cell(0, self.height)

    @property
    def before(self) -> CoreCoordinates:
        """The core that takes gradients for the layer before; of the first layer the one that gives samples."""
        return self.cell(self.width - 1, self.height) if self.width > 1 else self.cell(0, self.height + 1)


def make_layer_region(rect: Rect, inputs: int, outputs: int, name: str) -> LayerRegion:
    """The largest part of a rectangle that leaves room for the ports. Raises PlacementError if there is none."""
    # Ports take a line: the shorter side of the rectangle loses less.
    is_turned = rect.width > rect.height
    along, across = (rect.height, rect.width) if is_turned else (rect.width, rect.height)
    # Cores without a column would only lengthen the way; on a line of one the ports stand behind each other.
    width = min(along, inputs)
    height = min(across - (1 if width > 1 else 2), outputs)
    if height < 1:
        hint = "Give three cores at least; a line of two has no room for the ports."
        raise PlacementError(f"{name} on {rect}: no room for a core that computes beside its ports", hint=hint)
    return LayerRegion(rect, is_turned=is_turned, width=width, height=height, inputs=inputs, outputs=outputs)


def make_core_path(start: CoreCoordinates, end: CoreCoordinates, is_row_first: bool) -> CorePath:
    """The cores from one to another, along the row and then the column, or the other way round."""
    # One turn at most: no way is shorter, and each turn takes cycles on some machines.
    (x, y), (to_x, to_y) = start, end
    row, column = _coordinate_range(x, to_x), _coordinate_range(y, to_y)
    if is_row_first:
        return (*((i, y) for i in (x, *row)), *((to_x, j) for j in column))
    return (*((x, j) for j in (y, *column)), *((i, to_y) for i in row))


def _coordinate_range(start: int, end: int) -> Sequence[int]:
    return range(start + 1, end + 1) if end > start else range(start - 1, end - 1, -1)


def link_direction(start: CoreCoordinates, end: CoreCoordinates) -> int:
    """The direction from a core to one next to it."""
    return {(0, -1): NORTH, (1, 0): EAST, (0, 1): SOUTH, (-1, 0): WEST}[end[0] - start[0], end[1] - start[1]]
