"""Routes of a pipeline on simulated cores in the form of the planner's reports. Each has one lane and one port."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from wse_sim.fabric.mesh import Mesh
from wse_sim.isa.core_program import WORD_BYTES
from wse_sim.machine import Machine
from wse_sim.pipeline.layer_placement import ChainPlacement
from wse_sim.pipeline.layer_region import CoreCoordinates, CorePath, make_core_path
from wse_sim.pipeline.layer_routes import LayerRoutes, lay_layer_routes
from wse_sim.pipeline.route_colours import RouteColours
from wse_sim.planner.routing import (
    EAST_LINK,
    LINK_DIRECTIONS,
    NO_LINK,
    NORTH_LINK,
    SOUTH_LINK,
    WEST_LINK,
    Route,
    RouteLink,
    Routes,
)

_STEP_DIRECTIONS = {(1, 0): EAST_LINK, (-1, 0): WEST_LINK, (0, 1): SOUTH_LINK, (0, -1): NORTH_LINK}


@dataclass(frozen=True)
class _LayerPath:
    """A route between neighbouring layers, without its fullest link, and the cores that it passes."""

    route: Route
    path: CorePath

    @property
    def links(self) -> list[tuple[int, int, int]]:
        """Return indices [direction, y, x] of the links on the path."""
        return [(_STEP_DIRECTIONS[x - at_x, y - at_y], at_y, at_x) for (at_x, at_y), (x, y) in pairwise(self.path)]


def lay_pipeline_routes(sites: ChainPlacement, machine: Machine) -> Routes:
    """Return the routes between the layers of a chain, as its cores are configured, with the loads of links per sample.

    Routes lead to the next layer and, in training, back. Raise PlacementError if colours do not suffice.
    """
    rects = [seat.rect for seat in sites.seats]
    mesh = Mesh(machine, max(r.x + r.width for r in rects), max(r.y + r.height for r in rects))
    ways = list(_make_layer_paths(sites, lay_layer_routes(sites.seats, RouteColours(mesh), sites.chain.is_training)))
    loads = np.zeros((len(LINK_DIRECTIONS), machine.usable_height, machine.usable_width))
    for way in ways:
        for link in way.links:
            loads[link] += way.route.sample_bytes
    # Determine the fullest links after all routes have been added.
    routes = tuple(replace(way.route, link=_fullest_path_link(way, loads)) for way in ways)
    return Routes(
        routes,
        link_bytes=float(loads.max()),
        fullest=max(routes, key=lambda r: r.link.bytes, default=None),
        # The mesh contains the routes within layers too.
        router_colours=int(np.sum([mesh.sources(colour) >= 0 for colour in mesh.colours], axis=0).max()),
        core_bytes=loads.max(axis=0),
    )


def _make_layer_paths(sites: ChainPlacement, laid: Sequence[LayerRoutes]) -> Iterator[_LayerPath]:
    """Yield the path from each layer to the next one and, in training, the path back, pair by pair.

    `laid` has the colours of each layer's routes.
    """
    seats, layers = sites.seats, sites.chain.layers
    for n, (one, other) in enumerate(pairwise(seats)):
        # The ends are those of `lay_layer_routes`: from one layer's port to the corner of the next layer.
        yield _make_layer_path(n, n + 1, layers[n].outputs, (one.after, other.cell(0, 0)), laid[n + 1].enter[0])
        if sites.chain.is_training:
            ends = other.before, one.cell(0, one.height - 1)
            yield _make_layer_path(n + 1, n, layers[n + 1].inputs, ends, laid[n].back_enter[-1])


def _make_layer_path(
    source: int, target: int, columns: int, ends: tuple[CoreCoordinates, CoreCoordinates], colour: int
) -> _LayerPath:
    """Return the path from core `ends[0]` to `ends[1]`, along its row first, for `columns` words of each sample."""
    path = make_core_path(*ends, is_row_first=True)
    size, hops = columns * WORD_BYTES, len(path) - 1
    # There is always one port. It buffers a micro-batch, so that its layer need not wait for the next one.
    return _LayerPath(Route(source, target, sample_bytes=size, hops=hops, lanes=1, ports=1, colour=colour), path)


def _fullest_path_link(way: _LayerPath, loads: np.ndarray) -> RouteLink:
    """Return the fullest link on a path, or NO_LINK if the ends are the same core. `loads` is [direction, y, x]."""
    # Adjacent rectangles may leave no link between port and corner.
    if not way.links:
        return NO_LINK
    side, y, x = max(way.links, key=lambda link: float(loads[link]))
    return RouteLink(x, y, LINK_DIRECTIONS[side], float(loads[side, y, x]))
