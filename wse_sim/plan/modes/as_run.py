"""Pipelined mode as simulated cores run it: a chain of linear layers, micro-batch by micro-batch, with its routes.

The lanes of `wse_sim.pipeline.price` give the step: what each layer, each port between two of them and both ends take,
and how they wait for each other. `wse_sim.pipeline.step_run` runs the same on the same rectangles. Rectangles come from
the placer of the mode, which asks for the time of a layer on many of them; the size of a micro-batch is the fastest.
Copies and systems add what they add to any pipeline: sums of gradients, and an edge that all copies share.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lazytensor.errors import LazyError, PlacementError
from wse_sim.isa.core_program import WORD_BYTES
from wse_sim.layout import Rect
from wse_sim.pipeline.chain import Chain, chain_of
from wse_sim.pipeline.price import StepPrice, layer_cycles, price_step, require_memory
from wse_sim.pipeline.sites import sites_of
from wse_sim.plan.modes.mode_plan import (
    Case,
    ModePlan,
    Place,
    Share,
    SweepCycles,
    does_not_fit,
    host_bounds,
    layer_row,
    per_second,
    route_rows,
)
from wse_sim.plan.modes.replicas import SUMS_SOURCE, GradientSums
from wse_sim.plan.modes.run_routes import run_routes
from wse_sim.plan.place import ROUNDS, Floor, Placement, Placer, least_area
from wse_sim.plan.report import Bound, LayerRow, ModeReport, verdict
from wse_sim.plan.routes import Routes
from wse_sim.plan.stages import Stage
from wse_sim.plan.timeline import Timeline, TimeSpan

MODE = "pipelined"
LARGEST = 1024
"""Cores of a mesh on which a pipeline is priced so: beyond, ports of one core are not what a compiler would lay."""
_NO_MORE = 1.25
"""So many times as slow as the fastest: no smaller micro-batch is looked at."""
TOO_SMALL_CYCLES = 1 << 40
"""The time on a rectangle that has no room for a layer and its ports: more than any other."""


@dataclass(frozen=True)
class _Run:
    """A way to run a chain: where, with how many samples at a time, and what it takes."""

    placement: Placement
    micro: int
    price: StepPrice
    step_cycles: int
    routes: Routes

    @property
    def fill_cycles(self) -> int:
        """Cycles of the first micro-batch in an empty pipeline, all the way and back."""
        return max(span.end_cycles for span in self.price.spans if span.label.endswith(" 0"))


def as_run(case: Case, stages: Sequence[Stage], kinds: Sequence[Hashable], placer: Placer) -> ModePlan:
    """Place and price the step of a chain of layers; its report says why where it is none or does not fit."""
    try:
        chain = chain_of(case.program)
        # The last one waits for the loss, and equal ones do not.
        kinds = [(kind, n == len(stages) - 1) for n, kind in enumerate(kinds)]
        if len(chain.layers) != len(stages):
            raise LazyError(f"{len(stages)} stages for {len(chain.layers)} layers", hint="Use linear layers alone.")
        run = _fastest(case, chain, stages, kinds, placer)
    except LazyError as error:
        return does_not_fit(MODE, PlacementError(error.what, where=error.where, hint=error.hint))
    return _plan(case, chain, stages, run)


def _fastest(case: Case, chain: Chain, stages: Sequence[Stage], kinds: Sequence[Hashable], placer: Placer) -> _Run:
    """The fastest over the sizes of a micro-batch."""
    best: _Run | None = None
    refusal: PlacementError | None = None
    for micro in _sizes(chain.samples):
        try:
            run = _run(case, chain, stages, kinds, placer, micro)
        # Small micro-batches need less memory: one that does not fit says nothing of the others.
        except PlacementError as error:
            refusal = error
            continue
        if best is None or run.step_cycles < best.step_cycles:
            best = run
        # Ever smaller ones pay for ever more setups: from here on it only becomes worse.
        elif run.step_cycles > _NO_MORE * best.step_cycles:
            break
    if best is None:
        assert refusal is not None
        raise refusal
    return best


def _sizes(samples: int) -> Iterator[int]:
    """The sizes that are tried: each about half of the one before, down to single samples."""
    # Long vectors against an early start of the next layer: neither end is best for all.
    size = samples
    while size > 1:
        yield size
        # A batch that halves no more has other divisors, or none but one: shares of a batch may be odd.
        size = next(s for s in range(size // 2, 0, -1) if samples % s == 0)
    yield 1


def _run(
    case: Case, chain: Chain, stages: Sequence[Stage], kinds: Sequence[Hashable], placer: Placer, micro: int
) -> _Run:
    # A port has a whole micro-batch: what is too much for one is not placed in vain.
    require_memory(micro * max(layer.outputs for layer in chain.layers), case.machine)
    placement = placer(Floor(stages, kinds, _times(chain, micro, case), case.batch_size, case.machine), ROUNDS)
    sites = sites_of(chain, placement.rects, micro)
    price = price_step(sites, case.machine)
    require_memory(price.words, case.machine)
    run = _Run(placement, micro, price=price, step_cycles=price.cycles, routes=run_routes(sites, case.machine))
    # The last micro-batch enters when the edge has brought it, and then goes its way.
    entered = math.ceil((1 - micro / chain.samples) * _edge_cycles(case))
    return replace(run, step_cycles=max(price.cycles, entered + run.fill_cycles))


def _edge_bytes(case: Case) -> tuple[int, int]:
    """Bytes that enter and leave the wafer in a step, of all copies on it."""
    copies = case.share.copies if case.share else 1
    types = case.wiring.type
    entering, leaving = (sum(types(b).nbytes for b in own) for own in (case.program.batch, case.program.fetches))
    return copies * entering, copies * leaving


def _edge_cycles(case: Case) -> int:
    return math.ceil(max(_edge_bytes(case)) * 8 / case.machine.edge_bits_per_cycle)


def _times(chain: Chain, micro: int, case: Case) -> Callable[[int, int, int], int]:
    """What a placer asks: the time of a layer on a rectangle."""

    def time(n: int, width: int, height: int) -> int:
        # A placer asks for any extents; too small ones are bad, and no error.
        try:
            return layer_cycles(chain, n, Rect(0, 0, width, height), micro, case.machine)
        except PlacementError:
            return TOO_SMALL_CYCLES

    return time


def _plan(case: Case, chain: Chain, stages: Sequence[Stage], run: _Run) -> ModePlan:
    price, share = run.price, case.share or Share(case.batch_size, 1, 1, 1)
    rects = run.placement.rects
    # Copies lie side by side as far as each reaches, whatever room they have.
    width = max(r.x + r.width for r in rects) - min(r.x for r in rects)
    height = max(r.y + r.height for r in rects) - min(r.y for r in rects)
    sum_cycles = GradientSums(case, stages).cycles(rects, width, height)
    entering, leaving = _edge_bytes(case)
    time = _times(chain, run.micro, case)
    edge_cycles, step_cycles = _edge_cycles(case), run.step_cycles + sum_cycles
    bounds = list(_bounds(case, price, stages, step_cycles))
    extra = (("edge", edge_cycles, case.machine.sources["edge_bits_per_s"]), ("gradients", sum_cycles, SUMS_SOURCE))
    bounds += [
        Bound(kind, per_second(share.batch_size, cycles, case.machine), source)
        for kind, cycles, source in extra
        if cycles
    ]
    limit, sentence = verdict(bounds, blame={"fill": ("compute", "edge", "gradients")})
    report = ModeReport(
        mode=MODE,
        fits=True,
        is_as_run=True,
        step_cycles=step_cycles,
        fill_cycles=run.fill_cycles,
        samples_per_s=limit.samples_per_s,
        limit=limit.kind,
        verdict=sentence,
        bounds=tuple(bounds),
        peak_bytes_per_pe=price.words * WORD_BYTES,
        edge_bytes_in=entering,
        edge_bytes_out=leaving,
        micro_batches=chain.samples // run.micro,
        used_systems=share.systems,
        copies=share.copies,
        copy_grid=(share.columns, share.rows),
        gradient_cycles=sum_cycles,
        slowest_cycles=max(time(n, r.width, r.height) for n, r in enumerate(rects)),
        bound_cycles=run.placement.bound_cycles,
        route_hops=sum(route.hops for route in run.routes.routes),
        colours=len({route.colour for route in run.routes.routes}),
        router_colours=run.routes.router_colours,
        routes=route_rows(run.routes, stages, case.machine),
        rows=tuple(_rows(case, stages, run)),
    )
    return ModePlan(
        report,
        placement=run.placement,
        timeline=_timeline(price, stages, step_cycles),
        least_pes=sum(least_area(stage, case.machine) for stage in stages),
        routes=run.routes,
    )


def _bounds(case: Case, price: StepPrice, stages: Sequence[Stage], step_cycles: int) -> Iterator[Bound]:
    # Of all lanes, ports and the core with the loss too: any of them may be what the others wait for.
    yield from host_bounds(case)
    samples = case.share.batch_size if case.share else case.batch_size
    slowest = max(price.work, key=price.own_cycles)
    source = "instructions and streams of the busiest lane, without waiting"
    rate = per_second(samples, price.own_cycles(slowest), case.machine)
    stage = stages[int(slowest.removeprefix("layer "))] if slowest.startswith("layer ") else None
    where = str(stage.where) if stage and stage.where else ""
    yield Bound("compute", rate, source, stage.name if stage else slowest, where)
    whole = per_second(samples, step_cycles, case.machine)
    yield Bound("fill", whole, "the whole step: lanes that work, give, take and wait")


def _rows(case: Case, stages: Sequence[Stage], run: _Run) -> Iterator[LayerRow]:
    for n, stage in enumerate(stages):
        work: Mapping[str, int] = run.price.work[f"layer {n}"]
        place = Place(run.placement.rects[n], run.placement.parts[n], run.price.words * WORD_BYTES)
        for layer in stage.layers:
            # What has no product of its own is done at the edge of the one that has, and counted there.
            cycles = work if layer.has_product else {}
            sweeps = (cycles.get(sweep, 0) for sweep in ("forward", "backward", "update"))
            yield layer_row(case, layer, place, SweepCycles(*sweeps))


def _timeline(price: StepPrice, stages: Sequence[Stage], step_cycles: int) -> Timeline:
    """The lanes as a timeline; a span begins where the one before it on its lane ends, waiting included.

    Micro-batches that have no spans, and what copies add at the end of a step, are a span of their own.
    """
    # Lanes begin at the start and have no gaps, so that the lane which ends last is a path from 0 to the end.
    names = {f"layer {n}": stage.name for n, stage in enumerate(stages)}
    spans: list[TimeSpan] = []
    last: dict[str, int] = {}
    ordered = sorted(price.spans, key=lambda span: (span.start_cycles, span.end_cycles))
    for span in ordered:
        lane = names.get(span.lane, span.lane)
        lane = f"{lane} {span.lane.removeprefix('layer ')}" if list(names.values()).count(lane) > 1 else lane
        spans.append(TimeSpan(lane, span.label, span.start_cycles, span.end_cycles, last.get(span.lane)))
        last[span.lane] = len(spans) - 1
    latest = max(range(len(spans)), key=lambda n: spans[n].end_cycles)
    if spans[latest].end_cycles < step_cycles:
        spans.append(TimeSpan("the rest", "more", spans[latest].end_cycles, step_cycles, latest))
    return Timeline(tuple(spans))
