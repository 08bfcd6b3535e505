"""Pipelined mode as simulated cores run it: a chain of linear layers, one micro-batch after the other.

`wse_sim.pipeline.cost` computes the step from lanes: the cycles of each layer, of each port between two layers and of
both ends, and how they wait for each other. `wse_sim.pipeline.step_run` runs the same program on the same rectangles.
`layer_chain_plan` chooses the rectangles. The size of a micro-batch is the fastest one, unless the script requests
another. Copies and systems add the same costs as for any pipeline: sums of gradients, and the edge that all copies
share.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

from lazytensor.errors import LazyError, PlacementError
from wse_sim.isa.core_program import WORD_BYTES
from wse_sim.layout import ceil_div
from wse_sim.pipeline.cost import StepCost
from wse_sim.pipeline.layer_chain import LayerChain, chain_of
from wse_sim.planner.bounds import RateBound, find_limit
from wse_sim.planner.floorplan import Placer, min_memory_pes
from wse_sim.planner.micro_batches import ExploredSize
from wse_sim.planner.modes.layer_chain_plan import ChainPlanner, ChainRun, edge_bytes, edge_cycles
from wse_sim.planner.modes.mode_plan import (
    LayerPlacement,
    ModePlan,
    ModePlanner,
    PlanningCase,
    ReplicaShare,
    SweepCycles,
    host_bounds,
    layer_row,
    make_unfit_plan,
    route_rows,
    samples_per_second,
)
from wse_sim.planner.modes.replicas import SUMS_SOURCE
from wse_sim.planner.report import LayerRow, ModeReport
from wse_sim.planner.stages import Stage
from wse_sim.planner.timeline import Timeline, TimeSpan

MODE = "pipelined"
MAX_SIMULATED_CORES = 1024
"""Maximum number of cores of a mesh on which a pipeline is priced this way.

On larger meshes, ports of one core are not what a compiler would use.
"""
_MAX_SLOWDOWN_RATIO = 1.25
"""The search over micro-batch sizes stops at a run that takes more than this multiple of the fastest one."""


def plan_simulated_pipeline(
    case: PlanningCase, stages: Sequence[Stage], kinds: Sequence[Hashable], placer: Placer
) -> ModePlan:
    """Return the plan of a chain of linear layers with the fastest or the requested micro-batches.

    `kinds` are keys that are equal for equal stages. If the chain does not fit, the report has the reason. Raise
    LazyError if the program is no such chain, or contains operations that simulated cores do not run.
    """
    chain = chain_of(case.program)
    if len(chain.layers) != len(stages):
        raise LazyError(
            f"the step has {len(stages)} stages for {len(chain.layers)} linear layers", hint="Use only linear layers."
        )
    # The last layer waits for the loss, so it has a kind different from equal layers.
    kinds = [(kind, n == len(stages) - 1) for n, kind in enumerate(kinds)]
    try:
        if case.micro_batching.kind != "auto":
            return _plan_requested_sizes(case, chain, stages, kinds, placer)
        run = _find_fastest_run(case, chain, stages, kinds, placer)
    except PlacementError as error:
        return make_unfit_plan(MODE, error)
    return _plan_run(case, chain, stages, run)


def _plan_requested_sizes(
    case: PlanningCase, chain: LayerChain, stages: Sequence[Stage], kinds: Sequence[Hashable], placer: Placer
) -> ModePlan:
    """Return the plan with micro-batches of the requested size, or of the fastest requested size that fits.

    If the script explores sizes, the report lists all of them, else the requested one. Raise PlacementError if no size
    fits, or if none divides the samples.
    """
    plans: dict[int, ModePlan] = {}
    sizes, refusal = _requested_sizes(case, chain.samples), None
    for micro in sizes:
        try:
            run = ChainPlanner(case, chain, stages, kinds, micro).fastest(placer)
        except PlacementError as error:
            refusal = error
            continue
        plans[micro] = _plan_run(case, chain, stages, run)
    if refusal is not None and not plans:
        raise refusal
    fastest = min(plans.values(), key=lambda p: p.report.step_cycles)
    if case.micro_batching.kind != "explore":
        return replace(fastest, report=replace(fastest.report, asked_micro_batch_size=case.micro_batching.least))
    explored = tuple(_explored_size(micro, chain.samples // micro, plans.get(micro)) for micro in sizes)
    return replace(fastest, report=replace(fastest.report, explored=explored))


def _explored_size(micro: int, count: int, planned: ModePlan | None) -> ExploredSize:
    """Return the report row of `count` micro-batches of `micro` samples. `planned` is None if the size does not fit."""
    if planned is None:
        return ExploredSize(micro, count, fits=False)
    report = planned.report
    return ExploredSize(micro, count, fits=True, step_cycles=report.step_cycles, samples_per_s=report.samples_per_s)


def _requested_sizes(case: PlanningCase, samples: int) -> list[int]:
    """Return the micro-batch sizes that the script requests and that divide the `samples` of a copy.

    None is smaller than the requested least size. If the script requests no cut, the only size is `samples`. Raise
    PlacementError if there is none.
    """
    asked = case.micro_batching
    sizes = dict.fromkeys(ceil_div(samples, count) for count in asked.counts(samples))
    # Cores need equal micro-batches, and none smaller than the script requests.
    equal = [size for size in sizes if samples % size == 0 and size >= (asked.least if asked.cuts else samples)]
    if not equal:
        raise PlacementError(
            f"the {samples:,} samples of a copy of the pipeline cannot be cut into equal micro-batches as requested",
            hint="Use a micro_batch_size that divides the batch, or streaming mode.",
        )
    return equal


def find_largest_batch(case: PlanningCase, run: ModePlanner) -> int | None:
    """Return the largest batch that fits, 0 if none does, or None if the script requests micro-batches.

    `run` plans a case. Batches below that of the case are tried, from the number of stages down to 1. Sizes that the
    script does not support are skipped.
    """
    if case.micro_batching.cuts:
        return None
    # With single-sample micro-batches, memory does not grow beyond a batch that fills the pipeline.
    for size in range(min(case.batch_size - 1, len(case.stages)), 0, -1):
        try:
            smaller = case.with_batch(size)
            if smaller is not None and run(smaller).report.fits:
                return size
        except LazyError:
            # The script does not support this batch size.
            continue
    return 0


def _find_fastest_run(
    case: PlanningCase, chain: LayerChain, stages: Sequence[Stage], kinds: Sequence[Hashable], placer: Placer
) -> ChainRun:
    """Return the fastest run over the micro-batch sizes, from the whole batch down to 1 sample.

    The search stops at a size that takes `_MAX_SLOWDOWN_RATIO` times the fastest run. Raise the last PlacementError if
    no size fits.
    """
    best: ChainRun | None = None
    refusal: PlacementError | None = None
    for micro in _candidate_sizes(chain.samples):
        try:
            run = ChainPlanner(case, chain, stages, kinds, micro).fastest(placer)
        # Smaller micro-batches need less memory and may still fit.
        except PlacementError as error:
            refusal = error
            continue
        # Smaller micro-batches have more setups, so from here on steps only get slower.
        if best is not None and run.step_cycles > _MAX_SLOWDOWN_RATIO * best.step_cycles:
            break
        if best is None or run.step_cycles < best.step_cycles:
            best = run
    if best is None:
        assert refusal is not None
        raise refusal
    return best


def _candidate_sizes(samples: int) -> Iterator[int]:
    """Yield the micro-batch sizes to try, divisors of `samples` from `samples` down to 1.

    Each is the largest divisor that is at most half of the previous one.
    """
    # Large sizes have long vectors, small ones start the next layer earlier. Neither end is best for all.
    size = samples
    while size > 1:
        yield size
        # If half of the size is no divisor, take the next smaller divisor.
        size = next(s for s in range(size // 2, 0, -1) if samples % s == 0)
    yield 1


def _plan_run(case: PlanningCase, chain: LayerChain, stages: Sequence[Stage], run: ChainRun) -> ModePlan:
    """Return the plan of a run, with its bounds, report, timeline and routes."""
    price, share = run.price, case.share or ReplicaShare(case.batch_size, 1, 1, 1)
    entering, leaving = edge_bytes(case)
    bounds = list(_bounds(case, price, stages, run.step_cycles))
    edge_source = case.machine.sources["edge_bits_per_s"]
    extra = (("edge", edge_cycles(case), edge_source), ("gradients", run.sum_cycles, SUMS_SOURCE))
    bounds += [
        RateBound(kind, samples_per_second(share.batch_size, cycles, case.machine), source)
        for kind, cycles, source in extra
        if cycles
    ]
    limit, sentence = find_limit(bounds, blame={"fill": ("compute", "edge", "gradients")})
    report = ModeReport(
        mode=MODE,
        fits=True,
        is_as_run=True,
        step_cycles=run.step_cycles,
        fill_cycles=run.fill_cycles,
        samples_per_s=limit.samples_per_s,
        limit=limit.kind,
        verdict=sentence,
        bounds=tuple(bounds),
        peak_bytes_per_pe=price.words * WORD_BYTES,
        edge_bytes_in=entering,
        edge_bytes_out=leaving,
        micro_batches=chain.samples // run.micro,
        micro_batch_size=run.micro,
        used_systems=share.systems,
        copies=share.copies,
        copy_grid=(share.columns, share.rows),
        gradient_cycles=run.sum_cycles,
        slowest_cycles=run.slowest_cycles,
        bound_cycles=run.placement.bound_cycles,
        route_hops=sum(route.hops for route in run.routes.routes),
        colours=len({route.colour for route in run.routes.routes}),
        router_colours=run.routes.router_colours,
        routes=route_rows(run.routes, stages, case.machine),
        rows=tuple(_layer_rows(case, stages, run)),
    )
    return ModePlan(
        report,
        placement=run.placement,
        timeline=_timeline(price, stages, run.step_cycles),
        least_pes=sum(min_memory_pes(stage, case.machine) for stage in stages),
        routes=run.routes,
    )


def _bounds(case: PlanningCase, price: StepCost, stages: Sequence[Stage], step_cycles: int) -> Iterator[RateBound]:
    """Yield the bounds of the host, of the busiest lane, and of the whole step.

    The busiest lane is the layer, port or end with the most cycles, without waiting for others.
    """
    # Ports and the loss core are lanes too, and any lane may be the slowest.
    yield from host_bounds(case)
    samples = case.share.batch_size if case.share else case.batch_size
    slowest = max(price.work, key=price.own_cycles)
    source = "instructions and streams of the busiest lane, without waiting"
    rate = samples_per_second(samples, price.own_cycles(slowest), case.machine)
    stage = stages[int(slowest.removeprefix("layer "))] if slowest.startswith("layer ") else None
    where = str(stage.where) if stage and stage.where else ""
    yield RateBound("compute", rate, source, stage.name if stage else slowest, where)
    whole = samples_per_second(samples, step_cycles, case.machine)
    yield RateBound("fill", whole, "the whole step: compute, send, receive and wait")


def _layer_rows(case: PlanningCase, stages: Sequence[Stage], run: ChainRun) -> Iterator[LayerRow]:
    """Yield the report rows of all layers.

    Layers without a product have zero cycles: the layer with a product in the same stage includes theirs. All rows have
    the memory of the fullest core.
    """
    for n, stage in enumerate(stages):
        work: Mapping[str, int] = run.price.work[f"layer {n}"]
        place = LayerPlacement(run.placement.rects[n], run.placement.parts[n], run.price.words * WORD_BYTES)
        for layer in stage.layers:
            # Kernels of layers without a product run on the edge of a layer with one, and are counted there.
            cycles = work if layer.has_product else {}
            sweeps = (cycles.get(sweep, 0) for sweep in ("forward", "backward", "update"))
            yield layer_row(case, layer, place, SweepCycles(*sweeps))


def _timeline(price: StepCost, stages: Sequence[Stage], step_cycles: int) -> Timeline:
    """Return the lanes of a step as a timeline, in order of start and end.

    A span starts when the previous one on its lane ends, and may wait for another lane. One more span on the lane "the
    rest" covers the remaining cycles of the step, if any: micro-batches without spans, and sums over copies. Layers of
    equal name get their number appended.
    """
    # Lanes start at cycle 0 and have no gaps, so the lane that ends last is the critical path.
    names = {f"layer {n}": stage.name for n, stage in enumerate(stages)}
    spans: list[TimeSpan] = []
    last: dict[str, int] = {}
    ordered = sorted(price.spans, key=lambda span: (span.start_cycles, span.end_cycles))
    for span in ordered:
        lane = names.get(span.lane, span.lane)
        lane = f"{lane} {span.lane.removeprefix('layer ')}" if list(names.values()).count(lane) > 1 else lane
        spans.append(
            TimeSpan(lane, span.label, span.start_cycles, span.end_cycles, last.get(span.lane), span.wait_cycles)
        )
        last[span.lane] = len(spans) - 1
    latest = max(range(len(spans)), key=lambda n: spans[n].end_cycles)
    if spans[latest].end_cycles < step_cycles:
        spans.append(TimeSpan("the rest", "more", spans[latest].end_cycles, step_cycles, latest))
    return Timeline(tuple(spans))
