"""The cores of a layer: those of its rectangle that compute, and the ports next to them.

A layer receives activations along one axis of its rectangle, the *inner* one, and sends results along the other, the
*outer* one. Position (u, v) counts along the inner and the outer axis. Activations enter at (0, 0) and are distributed
along v = 0. Results are summed to u = 0 and leave at the largest v. The *ports* follow after the largest v. One port
receives what the layer sends to the next layer, and the other what it sends to the previous layer. Each port stores a
whole micro-batch, so that a layer need not wait for its neighbour. It also converts the parts of one layer's layout
into those of the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lazytensor.errors import PlacementError
from wse_sim.fabric.mesh import EAST, NORTH, SOUTH, WEST
from wse_sim.layout import Rect

CoreCoordinates = tuple[int, int]
"""Column and row of a core."""
CorePath = tuple[CoreCoordinates, ...]
"""Cores from a sender to a receiver, each adjacent to the previous one."""


@dataclass(frozen=True)
class LayerRegion:
    """The cores of a layer: `width` x `height` computing cores along the inner and the outer axis.

    - `rect`: its rectangle
    - `is_turned`: whether the inner axis runs along columns of the mesh, else along rows
    - `width`, `height`: computing cores along both axes
    - `inputs`, `outputs`: columns of its activations and results
    """

    rect: Rect
    is_turned: bool
    width: int
    height: int
    inputs: int
    outputs: int

    def cell(self, u: int, v: int) -> CoreCoordinates:
        """Return column and row on the mesh of the core at position (u, v). Ports have `v` >= `height`."""
        return (self.rect.x + v, self.rect.y + u) if self.is_turned else (self.rect.x + u, self.rect.y + v)

    def inner(self, u: int) -> range:
        """Return the range of activation columns that cores at position u store. Lengths differ by at most one."""
        return range(self.inputs * u // self.width, self.inputs * (u + 1) // self.width)

    def outer(self, v: int) -> range:
        """Return the range of result columns that cores at position v compute. Lengths differ by at most one."""
        return range(self.outputs * v // self.height, self.outputs * (v + 1) // self.height)

    @property
    def most(self) -> tuple[int, int]:
        """Return the largest numbers of activation columns and of result columns on a core."""
        return -(-self.inputs // self.width), -(-self.outputs // self.height)

    @property
    def positions(self) -> list[tuple[int, int]]:
        """Return the positions (u, v) of all computing cores, row by row along u."""
        return [(u, v) for v in range(self.height) for u in range(self.width)]

    @property
    def after(self) -> CoreCoordinates:
        """Return the port that receives the layer's results."""
        return self.cell(0, self.height)

    @property
    def before(self) -> CoreCoordinates:
        """Return the port that receives gradients for the previous layer.

        For the first layer it is the core that sends the samples.
        """
        return self.cell(self.width - 1, self.height) if self.width > 1 else self.cell(0, self.height + 1)


def make_layer_region(rect: Rect, inputs: int, outputs: int, name: str) -> LayerRegion:
    """Return the largest region of computing cores in a rectangle that leaves room for the ports.

    The ports need a line of cores beside the region, or two cores if the region is one core wide. The inner axis
    runs along the shorter side, with at most one core for each of `inputs`; the outer axis has at most one for each
    of `outputs`. Raise PlacementError if no core is left to compute. `name` is used in its message.
    """
    # Ports need a whole line of cores, so put it along the shorter side.
    is_turned = rect.width > rect.height
    along, across = (rect.height, rect.width) if is_turned else (rect.width, rect.height)
    # Cores without a column would only lengthen routes. On a line of one core, the two ports follow each other.
    width = min(along, inputs)
    height = min(across - (1 if width > 1 else 2), outputs)
    if height < 1:
        hint = "Use at least three cores, of which two are ports."
        raise PlacementError(f"{name} on {rect}: no core is left to compute besides the ports", hint=hint)
    return LayerRegion(rect, is_turned=is_turned, width=width, height=height, inputs=inputs, outputs=outputs)


def make_core_path(start: CoreCoordinates, end: CoreCoordinates, is_row_first: bool) -> CorePath:
    """Return the cores from `start` to `end`, both included, along the row and then the column.

    If `is_row_first` is False, along the column and then the row.
    """
    # At most one turn: the path is shortest, and turns take cycles on some machines.
    (x, y), (to_x, to_y) = start, end
    row, column = _coordinate_range(x, to_x), _coordinate_range(y, to_y)
    if is_row_first:
        return (*((i, y) for i in (x, *row)), *((to_x, j) for j in column))
    return (*((x, j) for j in (y, *column)), *((i, to_y) for i in row))


def _coordinate_range(start: int, end: int) -> Sequence[int]:
    return range(start + 1, end + 1) if end > start else range(start - 1, end - 1, -1)


def link_direction(start: CoreCoordinates, end: CoreCoordinates) -> int:
    """Return the direction from a core to an adjacent one: NORTH, EAST, SOUTH or WEST of `fabric.mesh`."""
    return {(0, -1): NORTH, (1, 0): EAST, (0, 1): SOUTH, (-1, 0): WEST}[end[0] - start[0], end[1] - start[1]]
