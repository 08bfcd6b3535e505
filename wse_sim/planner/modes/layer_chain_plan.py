"""Where the layers of a chain lie so that simulated cores run it, and what a step takes there.

The placer asks for the time of a layer on many rectangles, and the whole step is priced on its placement.
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
"""The time on a rectangle that has no room for a layer and its ports: more than any other."""


@dataclass(frozen=True)
class ChainRun:
    """A way to run a chain: where, with how many samples at a time, and what it takes, sums over copies included."""

    placement: Placement
    micro: int
    price: StepCost
    step_cycles: int
    sum_cycles: int
    slowest_cycles: int
    routes: Routes

    @property
    def fill_cycles(self) -> int:
        """Cycles of the first micro-batch in an empty pipeline, all the way and back."""
        return _fill_cycles(self.price)


class ChainPlanner:
    """The layers of a chain with so many samples at a time, and what they take on rectangles."""

    def __init__(
        self, case: PlanningCase, chain: LayerChain, stages: Sequence[Stage], kinds: Sequence[Hashable], micro: int
    ):
        self.case, self.chain, self.stages, self.kinds, self.micro = case, chain, stages, kinds, micro
        self.least_pes = [min_memory_pes(stage, case.machine) for stage in stages]
        self._cycles: dict[tuple[Hashable, int, int], int] = {}
        self._sums = GradientSums(case, stages)
        self._floor = FloorplanProblem(stages, kinds, self.cycles, case.batch_size, case.machine)
        self._refusal: PlacementError | None = None

    def fastest(self, placer: Placer) -> ChainRun:
        """Return the run on the placement of `placer`. Raises PlacementError if cores or routes have no room for it."""
        # What is too much for a core on any mesh is not placed in vain.
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
        """What a layer takes for a batch."""
        key = self.kinds[n], width, height
        if key not in self._cycles:
            # A placer asks for any extents; too small ones are bad, and no error.
            try:
                rect = Rect(0, 0, width, height)
                self._cycles[key] = layer_cycles(self.chain, n, rect, self.micro, self.case.machine)
            except PlacementError:
                self._cycles[key] = TOO_SMALL_CYCLES
        return self._cycles[key]

    def _slowest(self, parts: Sequence[tuple[int, int]]) -> int:
        return max(self.cycles(n, *part) for n, part in enumerate(parts))

    def _priced(self, areas: Sequence[Rect], parts: Sequence[tuple[int, int]]) -> ChainRun:
        """How the layers run on parts of some areas."""
        case = self.case
        # The whole area may be slower than the part that was asked for: prices have steps.
        rects = tuple(Rect(area.x, area.y, *part) for area, part in zip(areas, parts, strict=True))
        per_pe = (ceil_div(stage.held_bytes, rect.area) for stage, rect in zip(self.stages, rects, strict=True))
        sum_cycles = self._sums.cycles(rects)
        sites = sites_of(self.chain, rects, self.micro)
        price = price_step(sites, case.machine)
        require_memory(price.words, case.machine)
        # The last micro-batch enters when the edge has brought it, and then goes its way.
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
        """Why layers have no room: one of them has none on the whole mesh, or all together have none."""
        machine, stages = self.case.machine, self.stages
        hint = "Use weight-streaming mode, smaller layers or a larger machine."
        for n, stage in enumerate(stages):
            whole = Rect(0, 0, machine.usable_width, machine.usable_height)
            try:
                layer_cycles(self.chain, n, whole, self.micro, machine)
            except PlacementError as error:
                what = f"{stage.name} on all of {machine.name}: {error.what}"
                return PlacementError(what, where=stage.where, hint=hint)
        largest = max(stages, key=lambda stage: stage.held_bytes)
        return PlacementError(
            f"each of {len(stages)} layers has room for itself and its ports, samples one by one, on the "
            f"{machine.usable_pes:,} PEs of {machine.name} at {machine.usable_bytes_per_pe:,} usable bytes a PE, and "
            f"all together have none; the largest, {largest.name}, holds {largest.held_bytes:,} bytes",
            where=largest.where,
            hint=hint,
        )


def _fill_cycles(price: StepCost) -> int:
    return max(span.end_cycles for span in price.spans if span.label.endswith(" 0"))


def edge_bytes(case: PlanningCase) -> tuple[int, int]:
    """Bytes that enter and leave the wafer in a step, of all copies on it."""
    copies = case.share.copies if case.share else 1
    types = case.dataflow.type
    entering, leaving = (sum(types(b).nbytes for b in own) for own in (case.program.batch, case.program.fetches))
    return copies * entering, copies * leaving


def edge_cycles(case: PlanningCase) -> int:
    """Cycles in which the edge brings and takes those of a step."""
    return math.ceil(max(edge_bytes(case)) * 8 / case.machine.edge_bits_per_cycle)
