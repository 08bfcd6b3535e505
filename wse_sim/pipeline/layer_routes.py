"""The routes of a layer: from its neighbours, along and across its cores, and to its ports."""

from collections.abc import Sequence
from dataclasses import dataclass

from wse_sim.pipeline.layer_region import CoreCoordinates, LayerRegion, make_core_path
from wse_sim.pipeline.route_colours import RouteColours


@dataclass(frozen=True)
class LayerRoutes:
    """Colours of a layer's routes. Lists have a colour for each position of a line, and -1 means no route.

    - `enter`: forward activations enter along u
    - `down`: and are multicast along v from v = 0
    - `sums`: partial results are summed to u = 0
    - `leave`: results leave along v
    - `back_enter`: gradients enter along v from its end
    - `back_along`: and are multicast along u
    - `back_sums`: gradients of activations are summed to v = 0
    - `back_leave`: and leave along u
    """

    enter: list[int]
    down: int
    sums: list[int]
    leave: list[int]
    back_enter: list[int]
    back_along: int
    back_sums: list[int]
    back_leave: list[int]


def lay_layer_routes(seats: Sequence[LayerRegion], wires: RouteColours, is_training: bool) -> list[LayerRoutes]:
    """Configure the routes of all layers on the mesh of `wires` and return their colours."""
    return [_LayerRouter(seats, n, wires).routes(is_training) for n in range(len(seats))]


class _LayerRouter:
    """Configures the routes of one layer."""

    def __init__(self, seats: Sequence[LayerRegion], number: int, wires: RouteColours):
        self.seats, self.number, self.wires, self.on = seats, number, wires, seats[number]
        on, self.name = self.on, f"layer {number}"
        self.rows = [tuple(on.cell(u, v) for u in range(on.width)) for v in range(on.height)]
        self.columns = [tuple(on.cell(u, v) for v in range(on.height)) for u in range(on.width)]

    def routes(self, is_training: bool) -> LayerRoutes:
        """Configure all routes of the layer and return their colours.

        Backward routes exist in training only, and those to the previous layer not in the first one. Raise
        PlacementError if a route finds no free colour.
        """
        on, wires, name, n = self.on, self.wires, self.name, self.number
        start = on.before if n == 0 else self.seats[n - 1].after
        return LayerRoutes(
            enter=[self._path(start, on.cell(0, 0)), *wires.links(self.rows[0], name)],
            leave=wires.links([*self.columns[0], on.after], name),
            down=wires.spread(self.columns, name) if on.height > 1 else -1,
            # Sums run inwards from the far end. Reverse the list so that colour i leads from i + 1 to i.
            sums=wires.sums([row[::-1] for row in self.rows], name)[::-1],
            back_enter=self._back_enter() if is_training else [],
            back_along=wires.spread(self.rows, name) if is_training and on.width > 1 else -1,
            back_sums=wires.sums([column[::-1] for column in self.columns], name)[::-1] if is_training and n else [],
            back_leave=self._back_leave() if is_training and n else [],
        )

    def _back_enter(self) -> list[int]:
        """Configure the routes on which gradients enter, from the largest v to 0 along u = 0.

        Return a colour for each position v: the one on which its core receives.
        """
        # Gradients enter where results leave, so that the corner core is on one route only.
        column = self.columns[0]
        source = self.on.after if self.number == len(self.seats) - 1 else self.seats[self.number + 1].before
        return [*self.wires.links(column[::-1], self.name)[::-1], self._path(source, column[-1])]

    def _back_leave(self) -> list[int]:
        """Configure the routes on which gradients of activations leave along u at v = 0, to the port at the largest u.

        Return a colour for each position u: the one on which its core sends.
        """
        # Leave at the far end, because the near core forwards all activations already.
        corner = self.on.cell(self.on.width - 1, 0)
        return [*self.wires.links(self.rows[0], self.name), self._path(corner, self.on.before)]

    def _path(self, start: CoreCoordinates, end: CoreCoordinates) -> int:
        """Configure a route between two cores, along the row first, and return its colour."""
        return self.wires.path(make_core_path(start, end, is_row_first=True), f"a route of {self.name}")
