"""Pipelined mode: all layers are on the wafer at once, and samples flow through them.

In the steady state a sample takes as long as the slowest stage needs for its forward and backward kernels, or as links
or the wafer's edge need to transfer it. A step takes this rhythm for all its samples, plus the latency of one sample
through all stages, plus the update. The latency counts because the pipeline fills at the start of a step and drains
before the update. Source: samples/s = clock / slowest stage, also bounded by transmission, as the vendor's compile
report prints them.

Copies of the pipeline, on one system and on several, are planned by `replicas`. Activations use the routes of
`routing`, whose fullest link is a bound too. If the layouts at both ends of a route differ, the ports of an adapter
receive and send each sample.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace

from lazytensor.errors import LazyError, PlacementError
from wse_sim.cost_model.colours import count_colours
from wse_sim.cost_model.cost import ZERO_COST, Cost, cost
from wse_sim.cost_model.relayout import adapter_cycles
from wse_sim.kernels.mesh_call import operation
from wse_sim.layout import Rect, ceil_div
from wse_sim.phase import Par, Stream
from wse_sim.planner.bounds import RateBound, find_limit
from wse_sim.planner.dataflow import EXTERNAL_SOURCE
from wse_sim.planner.floorplan import PLACERS, FloorplanProblem, Placement, min_memory_pes, require_enough_pes
from wse_sim.planner.layers import SWEEPS
from wse_sim.planner.modes.mode_plan import (
    LayerPlacement,
    ModePlan,
    PlanningCase,
    ReplicaShare,
    SweepCycles,
    error_reason,
    host_bounds,
    layer_row,
    make_uncut_plan,
    make_unfit_plan,
    route_rows,
    samples_per_second,
)
from wse_sim.planner.modes.pipeline_cuts import fastest_cutting
from wse_sim.planner.modes.replicas import SUMS_SOURCE, GradientSums, plan_replicas
from wse_sim.planner.modes.simulated_pipeline import MAX_SIMULATED_CORES, find_largest_batch, plan_simulated_pipeline
from wse_sim.planner.relays import relay_flows
from wse_sim.planner.report import LayerRow, ModeReport
from wse_sim.planner.routing import Route, Routes, StageColours, lay_routes, require_colours, stage_flows
from wse_sim.planner.stages import Stage, unique_stage_names
from wse_sim.planner.timeline import Timeline, TimelineTask, schedule_tasks

MODE = "pipelined"


def plan_pipelined(case: PlanningCase, placer: str = "slicing") -> ModePlan:
    """Plan a step in pipelined mode, with the number of copies and systems that gives the highest rate.

    On a mesh of at most `MAX_SIMULATED_CORES`, a chain of linear layers is priced as simulated cores run it. All other
    steps are priced by the kernels of their stages; on such a mesh `not_run` then has the reason. A chain that
    simulated cores have no room for does not fit. Nothing is raised for a step that does not fit. `placer` is a key of
    `PLACERS`.
    """
    if case.machine.usable_pes > MAX_SIMULATED_CORES:
        return _plan_priced_pipeline(case, placer)
    unrunnable: list[LazyError] = []

    def run_copy(copy: PlanningCase) -> ModePlan:
        try:
            return _plan_simulated_replica(copy, placer)
        except LazyError as error:
            unrunnable.append(error)
            return make_unfit_plan(MODE, error)

    # Run all numbers of copies the same way. Otherwise copies that cores cannot run would look faster.
    run = plan_replicas(case, run_copy)
    if run.report.fits:
        return run
    # If simulated cores have no room for the chain, it does not fit. Prices of kernels would make a mesh that can run
    # nothing look faster than a larger one.
    if not unrunnable:
        largest = find_largest_batch(case, lambda smaller: _plan_simulated_replica(smaller, placer))
        return replace(run, report=replace(run.report, largest_batch=largest))
    outcome = _plan_priced_pipeline(case, placer)
    not_run = error_reason(unrunnable[0]) if outcome.report.fits else ""
    return replace(outcome, report=replace(outcome.report, not_run=not_run))


def _plan_simulated_replica(case: PlanningCase, placer: str) -> ModePlan:
    """Return the plan of one copy as simulated cores run it.

    If it does not fit, the report has the reason. Raise LazyError if cores cannot run the program.
    """
    line = _PricedPipeline(case)
    return plan_simulated_pipeline(case, line.stages, line.kinds, PLACERS[placer])


def _plan_priced_pipeline(case: PlanningCase, placer: str) -> ModePlan:
    """Return the plan of a step that is priced by the kernels of its stages.

    If the script requests micro-batches, it does not fit, because samples pass one by one.
    """
    if case.micro_batching.cuts:
        return make_uncut_plan(MODE)
    return plan_replicas(case, lambda copy: _plan_one_replica(copy, placer))


def _plan_one_replica(case: PlanningCase, placer: str) -> ModePlan:
    """Return the plan of one copy on its part of the mesh. If it does not fit, the report has the reason."""
    try:
        # Check memory first: further facts of the stages are expensive to derive.
        require_enough_pes(case.stages, case.machine)
        return fastest_cutting(_PricedPipeline(case), PLACERS[placer])
    except PlacementError as error:
        return make_unfit_plan(MODE, error)


@dataclass(frozen=True)
class _StageCosts:
    """Costs of a stage for a whole batch on one part: of each sweep, and of a batch in the steady state."""

    forward: Cost
    backward: Cost
    update: Cost
    steady: Cost


class _PricedPipeline:
    """The stages of a step and their prices on parts of the mesh.

    - `kinds`: for each stage a number, equal for stages with equal prices
    - `bytes_in`, `bytes_out`, `edge_cycles`: transfers over the wafer's edge in a step, for all copies on it
    - `least_pes`: for each stage, the PEs that its memory needs
    - `flows`: bytes for each sample between stages
    """

    def __init__(self, case: PlanningCase):
        self.case, self.dataflow = case, case.dataflow
        self.stages = case.stages
        self.kinds = self._numbered_kinds()
        self._costs: dict[tuple[int, int, int], _StageCosts] = {}
        self._stage_colours: dict[tuple[int, int, int], StageColours] = {}
        self.bytes_in, self.bytes_out = self._edge_bytes()
        self.share = case.share or ReplicaShare(case.batch_size, 1, 1, 1)
        self.bytes_in, self.bytes_out = (self.share.copies * size for size in (self.bytes_in, self.bytes_out))
        self.edge_cycles = math.ceil(max(self.bytes_in, self.bytes_out) * 8 / case.machine.edge_bits_per_cycle)
        self.least_pes = [min_memory_pes(stage, case.machine) for stage in self.stages]
        self.flows = stage_flows(case.dataflow, self.stages)
        self._sums = GradientSums(case, self.stages)

    def _numbered_kinds(self) -> list[int]:
        """Return a number for each stage; stages that have equal kernels and input bytes share a number.

        Numbers start at 0, in order of appearance.
        """
        numbers: dict[object, int] = {}
        return [numbers.setdefault(self._kind(stage), len(numbers)) for stage in self.stages]

    def _kind(self, stage: Stage) -> object:
        """Return the key of a stage, equal for stages with equal prices.

        It has the price kinds of the kernels in each sweep, those of recomputed kernels, and the input bytes.
        """
        prices = self.case.prices
        runs = (*(stage.kernels(sweep) for sweep in SWEEPS), stage.recomputed)
        return tuple(tuple(prices.kinds(self.dataflow, kernels)) for kernels in runs), stage.bytes_in

    def stage_costs(self, n: int, width: int, height: int) -> _StageCosts:
        """Return the costs of stage `n` on a part of `width` x `height` PEs. Stages of one kind share a cached result.

        The backward sweep includes recomputed forward kernels. `steady` is forward and backward, overlapped with the
        streams of inputs and outputs.
        """
        key = self.kinds[n], width, height
        if key not in self._costs:
            stage, prices = self.stages[n], self.case.prices
            backward = (*stage.recomputed, *stage.kernels("backward"))
            forward, backward_cost, update = (
                prices.kernels(self.dataflow, kernels, width, height)
                for kernels in (stage.kernels("forward"), backward, stage.kernels("update"))
            )
            # In the steady state a stage computes one sample while it receives the next and sends the previous one.
            steady = forward.then(backward_cost).overlap(self._flow(stage, width, height))
            self._costs[key] = _StageCosts(forward, backward_cost, update, steady)
        return self._costs[key]

    def _flow(self, stage: Stage, width: int, height: int) -> Cost:
        """Return the cost of streaming a stage's inputs and outputs of a batch over its border; zero if it has none."""
        streams = self._flow_phase(stage, width, height)
        return cost(streams, self.case.machine) if streams.parts else ZERO_COST

    def _flow_phase(self, stage: Stage, width: int, height: int) -> Par:
        """Return a phase program that streams a stage's inputs and outputs of a whole batch over its border.

        Both overlap. It has no parts if the stage has neither.
        """
        rect, batch = Rect(0, 0, width, height), self.case.batch_size
        sides = (("in", stage.bytes_in * batch), ("out", stage.bytes_out * batch))
        return Par(tuple(Stream(rect, size, side) for side, size in sides if size))

    def cycles(self, n: int, width: int, height: int) -> int:
        """Return the cycles of stage `n` for a step on a part: the batch in the steady state, and the update."""
        costs = self.stage_costs(n, width, height)
        return costs.steady.cycles + costs.update.cycles

    def relayed(self) -> "_PricedPipeline | None":
        """Return a copy with relayed tensors, or None if no tensor can be relayed.

        In a relay each reader passes a shared tensor on to the next one. The inputs of stages change by what relays and
        partial sums bring to them.
        """
        line, flows = copy(self), relay_flows(self.dataflow, self.stages)
        if flows == self.flows:
            return None
        line.flows, line._costs, line._stage_colours = flows, {}, {}
        more = Counter[int]()
        for between, sign in ((flows, 1), (self.flows, -1)):
            for (_, target), size in between.items():
                more[target] += sign * size
        line.stages = tuple(stage.with_input_bytes(more[n]) for n, stage in enumerate(self.stages))
        line.least_pes = [min_memory_pes(stage, self.case.machine) for stage in line.stages]
        line.kinds = line._numbered_kinds()
        return line

    def floor(self) -> FloorplanProblem:
        """Return the placement problem of the stages."""
        return FloorplanProblem(self.stages, self.kinds, self.cycles, self.case.batch_size, self.case.machine)

    def routes(self, placement: Placement) -> Routes:
        """Return the routes between the rectangles of a floorplan. Raise NoColoursError if colours do not suffice."""
        colours = [self._colours(n, *part) for n, part in enumerate(placement.parts)]
        routes = lay_routes(self.flows, placement.rects, self.case.machine, colours)
        require_colours(routes, self.stages, placement.rects, self.case.machine, colours)
        return routes

    def _link_cycles(self, routes: Routes) -> int:
        """Return the cycles of a step in which the fullest link transfers its bytes."""
        return math.ceil(routes.link_bytes * self.case.batch_size * 8 / self.case.machine.link_bits)

    def _colours(self, n: int, width: int, height: int) -> StageColours:
        """Return the colours that stage `n` uses on its part, and the kernel that uses most. Cached for each kind.

        Inputs and outputs are counted separately, because they overlap with kernels.
        """
        key = self.kinds[n], width, height
        if key not in self._stage_colours:
            stage, prices = self.stages[n], self.case.prices
            every = (*stage.recomputed, *(i for sweep in SWEEPS for i in stage.kernels(sweep)))
            kernels = [(prices.colours(self.dataflow, i, width, height), i) for i in every]
            own, most = max(kernels, default=(0, None))
            name = operation(self.dataflow.program.instrs[most]) if most is not None else ""
            # Inputs and outputs overlap with kernels, so they need colours in addition.
            flow = count_colours(self._flow_phase(stage, width, height), self.case.machine)
            self._stage_colours[key] = StageColours(name, own, flow)
        return self._stage_colours[key]

    def _adapter_cycles(self, route: Route, samples: int = 1) -> int:
        """Return the cycles of `samples` samples in the adapter of a route, priced as long vectors."""
        return adapter_cycles(samples * route.port_words, self.case.machine)

    def _adapter_bounds(self, routes: Routes) -> Iterator[RateBound]:
        """Yield the bound of the slowest adapter; nothing if no route has one."""
        slowest = max(routes.routes, key=self._adapter_cycles, default=None)
        if slowest is None or not slowest.ports:
            return
        cycles = self._adapter_cycles(slowest, self.case.batch_size)
        yield self._between(
            "adapter", slowest, cycles, "activations between layers with different layouts, which pass the ports"
        )

    def _link_bounds(self, routes: Routes) -> Iterator[RateBound]:
        """Yield the bound of the fullest link; nothing without routes."""
        if routes.fullest is None:
            return
        source = "bytes on the fullest link between stages, one word per cycle"
        yield self._between("link", routes.fullest, self._link_cycles(routes), source)

    def _between(self, kind: str, route: Route, cycles: int, source: str) -> RateBound:
        """Return a bound of the given kind on the rate, for a `route` that takes `cycles` for the batch of a copy.

        It has the names of both ends and the script line of the first.
        """
        ends = self.stages[route.source], self.stages[route.target]
        rate = samples_per_second(self.share.batch_size, cycles, self.case.machine)
        place = str(ends[0].where) if ends[0].where else ""
        return RateBound(kind, rate, source, f"{ends[0].name} to {ends[1].name}", place)

    def _whole(self, costs: Sequence[_StageCosts], way_cycles: int, routes: Routes) -> int:
        """Return the cycles of a step of the whole batch.

        `way_cycles` is the latency of the first sample, with sums and updates. The others follow in the rhythm of the
        slowest stage, adapter, link or edge.
        """
        batch = self.case.batch_size
        # Ports are separate cores that work while stages process other samples.
        adapters = (self._adapter_cycles(route, batch) for route in routes.routes)
        slowest = max((self.edge_cycles, self._link_cycles(routes), *adapters, *(t.steady.cycles for t in costs)))
        # The first sample takes its latency; the others follow in the rhythm of the slowest resource.
        return max(slowest, math.ceil((batch - 1) * slowest / batch) + way_cycles)

    def plan(self, placement: Placement, routes: Routes) -> ModePlan:
        """Return the plan of the stages on the parts of `placement`: report, timeline of one sample, and routes.

        A step takes the rhythm of the slowest resource for the batch, plus the latency of the first sample.
        """
        costs = [self.stage_costs(n, *part) for n, part in enumerate(placement.parts)]
        sum_cycles = self._sums.cycles(placement.rects)
        timeline = self._first_sample_timeline(costs, placement.parts, routes, sum_cycles)
        step_cycles = self._whole(costs, timeline.end_cycles, routes)
        bounds = self._bounds([t.steady for t in costs], step_cycles, sum_cycles)
        bounds += [*self._link_bounds(routes), *self._adapter_bounds(routes)]
        limit, sentence = find_limit(
            bounds, blame={"fill": ("compute", "moving", "link", "adapter", "edge", "gradients")}
        )
        report = ModeReport(
            mode=MODE,
            fits=True,
            step_cycles=step_cycles,
            fill_cycles=timeline.end_cycles,
            samples_per_s=limit.samples_per_s,
            limit=limit.kind,
            verdict=sentence,
            bounds=tuple(bounds),
            peak_bytes_per_pe=placement.peak_bytes_per_pe,
            edge_bytes_in=self.bytes_in,
            edge_bytes_out=self.bytes_out,
            used_systems=self.share.systems,
            copies=self.share.copies,
            copy_grid=(self.share.columns, self.share.rows),
            gradient_cycles=sum_cycles,
            slowest_cycles=max((t.steady.cycles + t.update.cycles for t in costs), default=0),
            bound_cycles=placement.bound_cycles,
            route_hops=sum(route.hops for route in routes.routes),
            colours=routes.colours,
            router_colours=routes.router_colours,
            routes=route_rows(routes, self.stages, self.case.machine),
            rows=tuple(self._rows(placement)),
        )
        least = sum(min_memory_pes(stage, self.case.machine) for stage in self.stages)
        return ModePlan(report, placement=placement, timeline=timeline, least_pes=least, routes=routes)

    def _first_sample_timeline(
        self, costs: Sequence[_StageCosts], parts: Sequence[tuple[int, int]], routes: Routes, sum_cycles: int
    ) -> Timeline:
        """Return the timeline of one sample forward and backward, followed by gradient sums and updates.

        Each stage is a lane. Routes, adapters and gradient sums have lanes too, if they take cycles. Only routes
        between neighbouring stages count.
        """
        line = list(zip(unique_stage_names(self.stages), costs, parts, strict=True))
        ways = {(route.source, route.target): route for route in routes.routes}
        tasks: list[TimelineTask] = []
        for n, (lane, t, part) in enumerate(line):
            tasks += self._way("forward", ways.get((n - 1, n)), tasks)
            tasks.append(TimelineTask(lane, "forward", self._sample_cycles(t.forward, part), _last_task(tasks)))
        for n, (lane, t, part) in reversed(list(enumerate(line))):
            tasks += self._way("backward", ways.get((n + 1, n)), tasks)
            tasks.append(TimelineTask(lane, "backward", self._sample_cycles(t.backward, part), _last_task(tasks)))
        summed: tuple[int, ...] = ()
        if sum_cycles:
            # The sums of all stages share the links between copies, so none is complete before the last.
            tasks.append(TimelineTask("gradients", "sum", sum_cycles, _last_task(tasks)))
            summed = _last_task(tasks)
        # Each stage updates after its last gradient, while earlier stages still wait for theirs.
        tasks += [TimelineTask(lane, "update", t.update.cycles, summed) for lane, t, _ in line]
        return schedule_tasks(tasks)

    def _way(self, sweep: str, route: Route | None, before: Sequence[TimelineTask]) -> Iterator[TimelineTask]:
        """Yield the tasks of a sample on its route to a neighbouring stage: the hops, then the adapters.

        A task is left out if the route has no hops or no ports, and both are for None. `before` are the tasks that
        come first. Callers pass no routes that skip stages, because their data starts earlier and arrives before it is
        needed.
        """
        if route is None:
            return
        after = _last_task(before)
        if cycles := math.ceil(route.hops * self.case.machine.hop_cycles):
            yield TimelineTask("routes", sweep, cycles, after)
            after = (after[0] + 1,)
        # An adapter receives a whole sample before it sends any of it.
        if route.ports:
            yield TimelineTask("adapters", sweep, self._adapter_cycles(route), after)

    def _sample_cycles(self, whole: Cost, part: tuple[int, int]) -> int:
        """Return the cycles of one sample in a stage: its share of the batch's, and hops across the part.

        It is at most `whole`, the cost of a batch, and 0 if that is 0. `part` is (width, height).
        """
        # The cost of a batch includes the latencies of all its rounds, so scale it and add one crossing of the part.
        across = math.ceil(sum(part) * self.case.machine.hop_cycles) if whole.cycles else 0
        return min(whole.cycles, ceil_div(whole.cycles, self.case.batch_size) + across)

    def _edge_bytes(self) -> tuple[int, int]:
        """Return the bytes that enter and leave the wafer in a step, for one copy.

        Each batch tensor enters once, however many layers read it. Each fetched tensor leaves once.
        """
        dataflow = self.dataflow
        # Count buffers: one copy crosses the edge and is multicast to all layers that read it.
        used = {o.buffer for i in dataflow.kernels for o in dataflow.operands[i] if o.source == EXTERNAL_SOURCE}
        entering = sum(dataflow.type(b).nbytes for b in used if dataflow.kind(b) == "batch")
        leaving = {dataflow.final[f] for f in dataflow.program.fetches}
        return entering, sum(dataflow.type(v.buffer).nbytes for v in leaving if v.source != EXTERNAL_SOURCE)

    def _bounds(self, steady: Sequence[Cost], step_cycles: int, sum_cycles: int) -> list[RateBound]:
        """Return the bounds of host, edge, slowest stage, gradient sums and the whole step.

        The slowest stage gives "compute" if computing takes at least half of its cycles, else "moving". Without stages
        or cycles only the bounds of host and edge are returned, or "nothing".
        """
        case, samples = self.case, self.share.batch_size
        bounds = host_bounds(case)
        if self.edge_cycles:
            rate = samples_per_second(samples, self.edge_cycles, case.machine)
            bounds.append(RateBound("edge", rate, case.machine.sources["edge_bits_per_s"]))
        worst = max(range(len(steady)), key=lambda n: steady[n].cycles, default=None)
        if worst is None or not step_cycles:
            return bounds or [RateBound("nothing", 0.0, "the program has no kernel")]
        stage, slowest = self.stages[worst], steady[worst]
        kind = "compute" if 2 * slowest.compute_cycles >= slowest.cycles else "moving"
        place = str(stage.where) if stage.where else ""
        rate = samples_per_second(samples, slowest.cycles, case.machine)
        bounds.append(RateBound(kind, rate, "closed forms of the slowest stage", stage.name, place))
        # This bound is always the lowest of the wafer's bounds; the others explain it.
        whole = samples_per_second(samples, step_cycles, case.machine)
        if sum_cycles:
            rate = samples_per_second(samples, sum_cycles, case.machine)
            bounds.append(RateBound("gradients", rate, SUMS_SOURCE))
        return [*bounds, RateBound("fill", whole, "the whole step: steady state, fill, drain and update")]

    def _rows(self, placement: Placement) -> Iterator[LayerRow]:
        """Yield the report rows of all layers, with cycles for a batch.

        Recomputed forward kernels are counted in the backward sweep.
        """
        for n, stage in enumerate(self.stages):
            for layer in stage.layers:
                again = tuple(i for i in stage.recomputed if i in layer.kernels["forward"])
                forward, backward, update = (
                    self.case.prices.kernels(self.dataflow, kernels, *placement.parts[n]).cycles
                    for kernels in (
                        layer.kernels["forward"],
                        (*again, *layer.kernels["backward"]),
                        layer.kernels["update"],
                    )
                )
                place = LayerPlacement(placement.rects[n], placement.parts[n], placement.bytes_per_pe[n])
                yield layer_row(self.case, layer, place, SweepCycles(forward, backward, update))


def _last_task(tasks: Sequence[TimelineTask]) -> tuple[int, ...]:
    return (len(tasks) - 1,) if tasks else ()
