"""Regions of a wafer, the layers that each region holds, and the memory and time of a replica of a model.

A wafer is cut into equal rectangles, the regions. A replica of a model is a pipeline of regions, on one or more wafers:
each region holds consecutive layers, the first one also the embedding and the last one also the matrix of the logits.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from wse_sim.cost_model.cost import cost
from wse_sim.host import Host
from wse_sim.layout import ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import Phase
from wse_sim.serving.layer_phases import ITEMSIZE, LayerMesh, decode_head, decode_layer, prefill_layer

MAX_REGION_COLUMNS = 6
"""Maximum number of regions along the width of a wafer. Smaller regions were never chosen for a preset."""
MAX_ASPECT_RATIO = 1.6
"""Maximum ratio of the sides of a region: words travel along both sides, so long regions are slow."""


@dataclass(frozen=True)
class RegionGrid:
    """A wafer cut into `columns` x `rows` rectangles of `width` x `height` PEs each."""

    columns: int
    rows: int
    width: int
    height: int

    @property
    def regions(self) -> int:
        """Number of regions."""
        return self.columns * self.rows


def region_grids(machine: Machine) -> Iterator[RegionGrid]:
    """Yield the cuts of a wafer into nearly square regions."""
    for columns in range(1, MAX_REGION_COLUMNS + 1):
        width = machine.usable_width // columns
        for rows in range(1, machine.usable_height + 1):
            height = machine.usable_height // rows
            if height and width and max(width / height, height / width) <= MAX_ASPECT_RATIO:
                yield RegionGrid(columns, rows, width, height)


@dataclass(frozen=True)
class Stage:
    """What one region holds: `layers` layers, and whether the embedding and the matrix of the logits."""

    layers: int
    has_embedding: bool = False
    has_head: bool = False


def split_layers(layers: int, embedding: int, layer: int, head: int, regions: int) -> tuple[Stage, ...]:
    """Return stages in at most `regions` regions whose fullest one has the fewest bytes.

    `embedding`, `layer` and `head` are the bytes of the embedding, of one layer and of the matrix of the logits.
    """
    ends = (0, embedding, head, embedding + head)
    caps = sorted({n * layer + end for n in range(layers + 1) for end in ends} | {embedding, head})
    caps = [cap for cap in caps if cap >= max(embedding, layer, head)]
    # A larger cap never needs more regions.
    first = bisect_left(caps, True, key=lambda cap: len(_fill(layers, embedding, layer, head, cap)) <= regions)
    return _fill(layers, embedding, layer, head, caps[first])


def _fill(layers: int, embedding: int, layer: int, head: int, cap: int) -> tuple[Stage, ...]:
    """Return stages of at most `cap` bytes each, filled one after the other."""
    stages, used, count, has_embedding = list[Stage](), embedding, 0, True
    for _ in range(layers):
        if used + layer > cap:
            stages.append(Stage(count, has_embedding))
            used, count, has_embedding = 0, 0, False
        used, count = used + layer, count + 1
    if used + head > cap:
        stages.append(Stage(count, has_embedding))
        count, has_embedding = 0, False
    return (*stages, Stage(count, has_embedding, has_head=True))


PhaseMaker = Callable[..., Phase]
"""A function (mesh, extents) that returns a phase."""


@lru_cache(maxsize=16384)
def _cycles(make: PhaseMaker, mesh: LayerMesh, *extents: int) -> int:
    return cost(make(mesh, *extents), mesh.machine).cycles


def _next_region(mesh: LayerMesh, tokens: int) -> Phase:
    return mesh.next_region(tokens)


@dataclass(frozen=True)
class Replica:
    """One copy of a model on `wafers` wafers.

    - `mesh`: the model on one region
    - `grid`: the regions of a wafer
    - `stages`: what each region holds, in the order of the pipeline
    - `host`: the links between wafers
    """

    mesh: LayerMesh
    grid: RegionGrid
    stages: tuple[Stage, ...]
    host: Host

    @property
    def wafers(self) -> int:
        """Number of wafers whose regions are used."""
        return ceil_div(len(self.stages), self.grid.regions)

    @cached_property
    def fullest_layers(self) -> int:
        """Layers of the region with the most layers."""
        return max(stage.layers for stage in self.stages)

    def weight_bytes(self, stage: Stage) -> int:
        """Return the bytes of weights on one PE of a stage. A tied matrix is stored twice if its ends are apart."""
        tables = stage.has_embedding + stage.has_head
        if tables == 2 and self.mesh.model.is_tied:
            tables = 1
        return stage.layers * self.mesh.layer_bytes + tables * self.mesh.table_bytes

    def used_bytes(self, stage: Stage, users: int, context: int, tokens: int = 1) -> int:
        """Return the bytes on one PE of a stage: weights, caches of `users` users, and `tokens` tokens in work."""
        caches = users * stage.layers * self.mesh.cache_bytes(context)
        return self.weight_bytes(stage) + caches + self.mesh.decoding_bytes(context, tokens)

    def fits(self, users: int, context: int, tokens: int = 1) -> bool:
        """Return whether every region has the memory for `users` users and `tokens` tokens at once."""
        usable = self.mesh.machine.usable_bytes_per_pe
        return all(self.used_bytes(stage, users, context, tokens) <= usable for stage in self.stages)

    def max_users(self, context: int) -> int:
        """Return how many users with `context` tokens each fit into the memory; 0 if the weights do not fit."""
        usable, cache = self.mesh.machine.usable_bytes_per_pe, self.mesh.cache_bytes(context)
        free = [(usable - self.used_bytes(stage, 0, context), stage.layers) for stage in self.stages]
        if min(free)[0] < 0:
            return 0
        return min(left // (layers * cache) for left, layers in free if layers)

    def missing_bytes(self, users: int, context: int) -> int:
        """Return the bytes that all PEs lack together."""
        usable, pes = self.mesh.machine.usable_bytes_per_pe, self.mesh.rect.area
        return sum(max(0, self.used_bytes(stage, users, context) - usable) * pes for stage in self.stages)

    def _crossing_seconds(self, tokens: int) -> float:
        """Return the seconds in which the activations of `tokens` tokens move from a wafer to the next one."""
        bits = 8 * ITEMSIZE * tokens * self.mesh.model.width
        return self.host.tree_node_s + bits / self.mesh.machine.edge_bits_per_s

    def _path_seconds(self, tokens: int, is_loop: bool) -> float:
        """Return the seconds on the paths between regions; `is_loop` adds the way back to the first wafer."""
        crossings = self.wafers - 1
        steps = len(self.stages) - 1 - crossings
        between = steps * _cycles(_next_region, self.mesh, tokens) / self.mesh.machine.clock_hz
        return between + (crossings + (is_loop and crossings > 0)) * self._crossing_seconds(tokens)

    def decode_seconds(self, context: int, tokens: int) -> tuple[float, float]:
        """Return (seconds of `tokens` tokens through all stages, seconds in the slowest stage)."""
        layer = _cycles(decode_layer, self.mesh, context, tokens)
        head = _cycles(decode_head, self.mesh, tokens)
        each = [stage.layers * layer + stage.has_head * head for stage in self.stages]
        clock = self.mesh.machine.clock_hz
        return sum(each) / clock + self._path_seconds(tokens, is_loop=True), max(each) / clock

    def prefill_seconds(self, prompt: int, chunk: int, is_stationary: bool) -> float:
        """Return the seconds from a prompt to its first token, if `chunk` tokens at a time enter the pipeline.

        Chunks are multiplied by weights that stay in place (`is_stationary`), as in decoding, or by two-hop products.
        A chunk takes longer the more tokens are in the cache. The first and the last chunk are priced, and the others
        are interpolated linearly.
        """
        chunks = ceil_div(prompt, chunk)

        def layer(context: int) -> int:
            if is_stationary:
                return _cycles(decode_layer, self.mesh, context, chunk)
            return _cycles(prefill_layer, self.mesh, chunk, context)

        last = layer(chunks * chunk)
        first = last if chunks == 1 else layer(chunk)
        # The first stages are busy with all chunks; the last chunk then passes all stages.
        cycles = self.mesh.model.layers * last + self.fullest_layers * (chunks * (first + last) / 2 - last)
        head = _cycles(decode_head, self.mesh, 1)
        return (cycles + head) / self.mesh.machine.clock_hz + self._path_seconds(chunk, is_loop=False)


def replicas_on(mesh: LayerMesh, grid: RegionGrid, wafers: int, context: int, host: Host) -> list[Replica]:
    """Return the placements of a model on `wafers` wafers whose fullest PE has the fewest bytes.

    The first one balances the weights only. The second one has room for the most users. Neither depends on the number
    of users.
    """
    table = mesh.table_bytes

    def place(users: int) -> Replica:
        layer = mesh.layer_bytes + users * mesh.cache_bytes(context)
        regions = wafers * grid.regions
        return Replica(mesh, grid, split_layers(mesh.model.layers, table, layer, table, regions), host)

    plain = widest = place(0)
    # Caches spread over the regions as layers do. Place for as many users as fit, until no more fit.
    users = max(1, plain.max_users(context))
    while (candidate := place(users)).max_users(context) > widest.max_users(context):
        widest, users = candidate, candidate.max_users(context)
    return [plain] if widest == plain else [plain, widest]
