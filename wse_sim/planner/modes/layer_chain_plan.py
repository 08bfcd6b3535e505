"""Placement and price of a chain of linear layers that simulated cores run.

The placer uses the time of each layer on a rectangle. The whole step is then priced on the resulting floorplan.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from lazytensor.errors import PlacementError
from wse_sim.layout import Rect, ceil_div
from wse_sim.pipeline.cost import StepCost, end_core_words, layer_cycles, price_step, require_memory
from wse_sim.pipeline.layer_chain import LayerChain
from wse_sim.pipeline.layer_placement import sites_of
from wse_sim.planner.floorplan import MAX_CUT_ROUNDS, FloorplanProblem, Placement, Placer, min_memory_pes
from wse_sim.planner.modes.mode_plan import PlanningCase
from wse_sim.planner.modes.pipeline_routes import lay_pipeline_routes
from wse_sim.planner.modes.replicas import GradientSums
from wse_sim.planner.routing import Routes
from wse_sim.planner.stages import Stage

TOO_SMALL_CYCLES = 1 << 40
"""The time on a rectangle that is too small for a layer and its ports. It exceeds all real times."""


@dataclass(frozen=True)
class ChainRun:
    """A way to run a chain of layers.

    - `placement`: the floorplan
    - `micro`: samples of a micro-batch
    - `price`: the priced lanes of the step
    - `step_cycles`: cycles of a step, including the gradient sums over copies
    - `sum_cycles`: cycles of these sums
    - `slowest_cycles`: cycles of the slowest layer
    - `routes`: the routes between layers
    """

    placement: Placement
    micro: int
    price: StepCost
    step_cycles: int
    sum_cycles: int
    slowest_cycles: int
    routes: Routes

    @property
    def fill_cycles(self) -> int:
        """Return the cycles of the first micro-batch forward and backward through the empty pipeline."""
        return _fill_cycles(self.price)


class ChainPlanner:
    """Places and prices the layers of a chain with micro-batches of `micro` samples."""

    def __init__(
        self, case: PlanningCase, chain: LayerChain, stages: Sequence[Stage], kinds: Sequence[Hashable], micro: int
    ):
        self.case, self.chain, self.stages, self.kinds, self.micro = case, chain, stages, kinds, micro
        self.least_pes = [min_memory_pes(stage, case.machine) for stage in stages]
        self._cycles: dict[tuple[Hashable, int, int], int] = {}
        self._sums = GradientSums(case, stages)
        self._floor = FloorplanProblem(stages, kinds, self.cycles, case.batch_size, case.machine)

    def fastest(self, placer: Placer) -> ChainRun:
        """Return the priced run on the floorplan of `placer`.

        Raise PlacementError if memory, area or colours do not suffice.
        """
        # Raise before placing if a core needs more memory than it has, whatever the mesh.
        machine = self.case.machine
        require_memory(self.micro * max(layer.outputs for layer in self.chain.layers), machine, "a port between layers")
        require_memory(end_core_words(self.chain, self.micro), machine, "the core with the loss")
        placement = placer(self._floor, MAX_CUT_ROUNDS, True)
        if self._slowest(placement.parts) == TOO_SMALL_CYCLES:
            raise self._no_room()
        run = self._priced(placement.rects, placement.parts)
        bound, shortest = placement.bound_cycles, placement.shortest_cycles
        return replace(run, placement=replace(run.placement, bound_cycles=bound, shortest_cycles=shortest))

    def cycles(self, n: int, width: int, height: int) -> int:
        """Return the cycles of layer `n` for a batch on `width` x `height` cores, without waiting for other layers.

        Return TOO_SMALL_CYCLES if the layer does not fit there. Layers of one kind share a cached result.
        """
        key = self.kinds[n], width, height
        if key not in self._cycles:
            # A placer may request extents that are too small. They are priced and raise no error.
            try:
                rect = Rect(0, 0, width, height)
                self._cycles[key] = layer_cycles(self.chain, n, rect, self.micro, self.case.machine)
            except PlacementError:
                self._cycles[key] = TOO_SMALL_CYCLES
        return self._cycles[key]

    def _slowest(self, parts: Sequence[tuple[int, int]]) -> int:
        return max(self.cycles(n, *part) for n, part in enumerate(parts))

    def _priced(self, areas: Sequence[Rect], parts: Sequence[tuple[int, int]]) -> ChainRun:
        """Return the priced run whose layers use the upper left `parts` (width, height) of the rectangles `areas`.

        Its area bound is 0. Its step takes at least until the last micro-batch, which enters when the edge has
        delivered it, has passed all layers. Raise PlacementError if memory or colours do not suffice.
        """
        case = self.case
        # Use the part and not the whole area, which may be slower because prices have steps.
        rects = tuple(Rect(area.x, area.y, *part) for area, part in zip(areas, parts, strict=True))
        per_pe = (ceil_div(stage.held_bytes, rect.area) for stage, rect in zip(self.stages, rects, strict=True))
        sum_cycles = self._sums.cycles(rects)
        sites = sites_of(self.chain, rects, self.micro)
        price = price_step(sites, case.machine)
        require_memory(price.words, case.machine)
        # The step ends no earlier than the last micro-batch, which enters when the edge has delivered it.
        entered = math.ceil((1 - self.micro / self.chain.samples) * edge_cycles(case))
        return ChainRun(
            Placement(rects, tuple(parts), tuple(per_pe)),
            self.micro,
            price=price,
            step_cycles=max(price.cycles, entered + _fill_cycles(price)) + sum_cycles,
            sum_cycles=sum_cycles,
            slowest_cycles=self._slowest(parts),
            routes=lay_pipeline_routes(sites, case.machine),
        )

    def _no_room(self) -> PlacementError:
        """Return the error for layers that do not fit.

        It names the first layer that does not fit on the whole mesh, or else says that all fit only one by one.
        """
        machine, stages = self.case.machine, self.stages
        hint = "Use weight-streaming mode, smaller layers or a larger machine."
        for n, stage in enumerate(stages):
            whole = Rect(0, 0, machine.usable_width, machine.usable_height)
            try:
                layer_cycles(self.chain, n, whole, self.micro, machine)
            except PlacementError as error:
                what = f"{stage.name} does not fit on {machine.name} even if it has all PEs: {error.what}"
                return PlacementError(what, where=stage.where, hint=hint)
        largest = max(stages, key=lambda stage: stage.held_bytes)
        return PlacementError(
            f"each of {len(stages)} layers fits by itself on the {machine.usable_pes:,} PEs of {machine.name} with "
            f"{machine.usable_bytes_per_pe:,} usable bytes each, but all layers together do not fit; the largest "
            "layer, "
            f"{largest.name}, needs {largest.held_bytes:,} bytes",
            where=largest.where,
            hint=hint,
        )


def _fill_cycles(price: StepCost) -> int:
    """Return the cycle in which the last span of micro-batch 0 ends."""
    return max(span.end_cycles for span in price.spans if span.label.endswith(" 0"))


def edge_bytes(case: PlanningCase) -> tuple[int, int]:
    """Return the bytes that enter and that leave the wafer in a step, for all copies of the pipeline on it.

    They are the batch tensors and the fetches of the case's program, times the number of copies.
    """
    copies = case.share.copies if case.share else 1
    types = case.dataflow.type
    entering, leaving = (sum(types(b).nbytes for b in own) for own in (case.program.batch, case.program.fetches))
    return copies * entering, copies * leaving


def edge_cycles(case: PlanningCase) -> int:
    """Return the cycles that the wafer's edge needs for the larger of both numbers of bytes."""
    return math.ceil(max(edge_bytes(case)) * 8 / case.machine.edge_bits_per_cycle)
