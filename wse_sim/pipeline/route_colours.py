"""Assign colours to routes: each route gets the first colour that no other route uses on any of its routers."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from lazytensor.errors import PlacementError
from wse_sim.fabric.mesh import RAMP, Mesh
from wse_sim.pipeline.layer_region import CoreCoordinates, CorePath, link_direction


class RouteColours:
    """Configures routes on a mesh and records the colours in use on each router."""

    def __init__(self, mesh: Mesh):
        self.mesh = mesh
        self._used: dict[CoreCoordinates, set[int]] = defaultdict(set)

    def free(self, cells: Iterable[CoreCoordinates], what: str) -> int:
        """Reserve the first colour that is free on all these routers, and return it. No route is configured.

        Raise PlacementError if there is none. `what` names the route in the message.
        """
        # A router has one input for a colour, so routes that share a router need different colours.
        here = list(cells)
        used = set().union(*(self._used[cell] for cell in here))
        colour = next((c for c in range(int(self.mesh.machine.colours)) if c not in used), None)
        if colour is None:
            fullest = max(here, key=lambda cell: len(self._used[cell]))
            text = (
                f"{what}: none of {int(self.mesh.machine.colours)} colours is free on the whole route; router "
                f"{fullest} uses "
                f"{len(self._used[fullest])}"
            )
            raise PlacementError(text, hint="Place the rectangles further apart, or in the order of the layers.")
        for cell in here:
            self._used[cell].add(colour)
        return colour

    @property
    def most(self) -> int:
        """Return the largest number of colours in use on one router; 0 without routes."""
        return max(map(len, self._used.values()), default=0)

    def path(self, path: CorePath, what: str) -> int:
        """Configure a route from the first core of `path` to the last, and return its colour.

        Raise PlacementError, with `what` in the message, if no colour is free.
        """
        colour = self.free(path, what)
        self._lay(colour, path)
        return colour

    def links(self, cells: Sequence[CoreCoordinates], what: str) -> list[int]:
        """Configure a route from each core to the next one, and return their colours, one fewer than cores.

        Two colours alternate, because a core receives on one and sends on the other. Both are free on all the cores.
        Raise PlacementError if there are not enough.
        """
        colours = [self.free(cells, what) for _ in range(min(2, len(cells) - 1))]
        for n, step in enumerate(pairwise(cells)):
            self._lay(colours[n % 2], step)
        return [colours[n % 2] for n in range(len(cells) - 1)]

    def spread(self, lines: Sequence[CorePath], what: str) -> int:
        """Configure a multicast from the first core of each line to its other cores, and return the common colour.

        The lines may not share a core. Raise PlacementError if no colour is free.
        """
        # One sender per line: one colour suffices for any length.
        colour = self.free((cell for line in lines for cell in line), what)
        for line in lines:
            self._lay(colour, line)
            # The last router delivers to its core already.
            for before, cell in pairwise(line[:-1]):
                self.mesh.route(colour, *cell, link_direction(cell, before), [RAMP])
        return colour

    def sums(self, lines: Sequence[CorePath], what: str) -> list[int]:
        """Configure single steps as `links` does, with the same colours on lines of equal length that share no core.

        Return the colours of one line.
        """
        # Lines do not meet, so a hundred of them need no more colours than one.
        cells = [cell for line in lines for cell in line]
        colours = [self.free(cells, what) for _ in range(min(2, len(lines[0]) - 1))]
        for line in lines:
            for n, step in enumerate(pairwise(line)):
                self._lay(colours[n % 2], step)
        return [colours[n % 2] for n in range(len(lines[0]) - 1)]

    def _lay(self, colour: int, path: CorePath) -> None:
        """Configure the routers of a path for a colour: up the ramp at its start and down the ramp at its end."""
        for n, cell in enumerate(path):
            source = link_direction(cell, path[n - 1]) if n else RAMP
            target = link_direction(cell, path[n + 1]) if n < len(path) - 1 else RAMP
            self.mesh.route(colour, *cell, source, [target])
