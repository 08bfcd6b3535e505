"""Colours of routes: each route gets the first colour that no other route uses on any router that it passes."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from lazytensor.errors import PlacementError
from wse_sim.fabric.mesh import RAMP, Mesh
from wse_sim.pipeline.layer_region import CoreCoordinates, CorePath, link_direction


class RouteColours:
    """Routes of a mesh. `words` counts routes on each link, (core, direction)."""

    def __init__(self, mesh: Mesh):
        self.mesh = mesh
        self._used: dict[CoreCoordinates, set[int]] = defaultdict(set)

    def free(self, cells: Iterable[CoreCoordinates], what: str) -> int:
        """Take a colour that is free on all of these routers. Raises PlacementError if each is in use somewhere."""
        # A router takes a colour from one side only, so that routes share one only where they share no router.
        here = list(cells)
        used = set().union(*(self._used[cell] for cell in here))
        colour = next((c for c in range(int(self.mesh.machine.colours)) if c not in used), None)
        if colour is None:
            fullest = max(here, key=lambda cell: len(self._used[cell]))
            text = (
                f"{what}: no colour left of {int(self.mesh.machine.colours)}; {len(self._used[fullest])} pass {fullest}"
            )
            raise PlacementError(text, hint="Set the rectangles further apart, or in the order of the layers.")
        for cell in here:
            self._used[cell].add(colour)
        return colour

    @property
    def most(self) -> int:
        """Colours on the fullest router."""
        return max(map(len, self._used.values()), default=0)

    def path(self, path: CorePath, what: str) -> int:
        """The colour of a route from the first core to the last."""
        colour = self.free(path, what)
        self._lay(colour, path)
        return colour

    def links(self, cells: Sequence[CoreCoordinates], what: str) -> list[int]:
        """The colours of single steps from each core to the next: two in turn, as a core takes on one and sends on the
        other.
        """
        colours = [self.free(cells, what) for _ in range(min(2, len(cells) - 1))]
        for n, step in enumerate(pairwise(cells)):
            self._lay(colours[n % 2], step)
        return [colours[n % 2] for n in range(len(cells) - 1)]

    def spread(self, lines: Sequence[CorePath], what: str) -> int:
        """One colour for lines that have no core in common: each router gives what the first sends to its core too."""
        # One sender for each line and every core a reader: one colour, whatever the length.
        colour = self.free((cell for line in lines for cell in line), what)
        for line in lines:
            self._lay(colour, line)
            # The last router gives it to its core already.
            for before, cell in pairwise(line[:-1]):
                self.mesh.route(colour, *cell, link_direction(cell, before), [RAMP])
        return colour

    def sums(self, lines: Sequence[CorePath], what: str) -> list[int]:
        """As `links`, the same colours for lines of one length that have no core in common."""
        # Lines side by side do not meet, so that a hundred rows need no more colours than one.
        cells = [cell for line in lines for cell in line]
        colours = [self.free(cells, what) for _ in range(min(2, len(lines[0]) - 1))]
        for line in lines:
            for n, step in enumerate(pairwise(line)):
                self._lay(colours[n % 2], step)
        return [colours[n % 2] for n in range(len(lines[0]) - 1)]

    def _lay(self, colour: int, path: CorePath) -> None:
        # Up the ramp at one end and down it at the other; no core in between takes part.
        for n, cell in enumerate(path):
            source = link_direction(cell, path[n - 1]) if n else RAMP
            target = link_direction(cell, path[n + 1]) if n < len(path) - 1 else RAMP
            self.mesh.route(colour, *cell, source, [target])
