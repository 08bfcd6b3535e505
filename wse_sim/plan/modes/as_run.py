"""Pipelined mode as simulated cores run it: a chain of linear layers, micro-batch by micro-batch, with its routes.

The lanes of `wse_sim.pipeline.price` give the step: what each layer, each port between two of them and both ends take,
and how they wait for each other. `wse_sim.pipeline.step_run` runs the same on the same rectangles. Rectangles come from
the placer of the mode, which asks for the time of a layer on many of them; the size of a micro-batch is the fastest.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lazytensor.errors import LazyError, PlacementError
from wse_sim.isa.core_program import WORD_BYTES
from wse_sim.layout import Rect
from wse_sim.pipeline.chain import Chain, chain_of
from wse_sim.pipeline.price import StepPrice, layer_cycles, price_step
from wse_sim.pipeline.sites import sites_of
from wse_sim.plan.modes.mode_plan import (
    Case,
    ModePlan,
    Place,
    SweepCycles,
    does_not_fit,
    host_bounds,
    layer_row,
    per_second,
)
from wse_sim.plan.place import Floor, Placement, Placer
from wse_sim.plan.report import Bound, LayerRow, ModeReport, verdict
from wse_sim.plan.stages import Stage
from wse_sim.plan.timeline import Timeline, TimeSpan

MODE = "pipelined"
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


def as_run(case: Case, stages: Sequence[Stage], kinds: Sequence[int], placer: Placer) -> ModePlan:
    """Place and price the step of a chain of layers; its report says why where it is none or does not fit."""
    try:
        chain = chain_of(case.program)
        if len(chain.layers) != len(stages):
            raise LazyError(f"{len(stages)} stages for {len(chain.layers)} layers", hint="Use linear layers alone.")
        run = _fastest(case, chain, stages, kinds, placer)
    except LazyError as error:
        refusal = PlacementError(
            f"not run as a whole on simulated cores: {error.what}", where=error.where, hint=error.hint
        )
        return does_not_fit(MODE, refusal)
    return _plan(case, chain, stages, run)


def _fastest(case: Case, chain: Chain, stages: Sequence[Stage], kinds: Sequence[int], placer: Placer) -> _Run:
    """The fastest over all sizes of a micro-batch that halving the batch gives."""
    best: _Run | None = None
    refusal: PlacementError | None = None
    for micro in _sizes(chain.samples):
        try:
            run = _run(case, chain, stages, kinds, placer, micro)
        # Small micro-batches need less memory: one that does not fit says nothing of the others.
        except PlacementError as error:
            refusal = error
            continue
        if best is None or run.price.cycles < best.price.cycles:
            best = run
        # Ever smaller ones pay for ever more setups: from here on it only becomes worse.
        elif run.price.cycles > _NO_MORE * best.price.cycles:
            break
    if best is None:
        assert refusal is not None
        raise refusal
    return best


def _sizes(samples: int) -> Iterator[int]:
    # Long vectors against an early start of the next layer: neither end is best for all.
    size = samples
    while size > 1 and size % 2 == 0:
        yield size
        size //= 2
    yield size


def _run(case: Case, chain: Chain, stages: Sequence[Stage], kinds: Sequence[int], placer: Placer, micro: int) -> _Run:
    placement = placer(Floor(stages, kinds, _times(chain, micro, case), case.batch_size, case.machine))
    price = price_step(sites_of(chain, placement.rects, micro), case.machine)
    if price.words * WORD_BYTES > case.machine.usable_bytes_per_pe:
        text = f"{price.words * WORD_BYTES:,} bytes on a core of {case.machine.usable_bytes_per_pe:,} usable"
        raise PlacementError(text, hint="Use a smaller batch, or a larger machine.")
    return _Run(placement, micro, price)


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
    price = run.price
    names = {f"layer {n}": stage.name for n, stage in enumerate(stages)}
    bounds = list(_bounds(case, price, stages))
    limit, sentence = verdict(bounds, blame={"fill": ("compute", "edge")})
    entering = sum(case.wiring.type(b).nbytes for b in case.program.batch)
    report = ModeReport(
        mode=MODE,
        fits=True,
        step_cycles=price.cycles,
        fill_cycles=max(s.end_cycles for s in price.spans if s.lane == "layer 0" and s.label.endswith(" 0")),
        samples_per_s=limit.samples_per_s,
        limit=limit.kind,
        verdict=sentence,
        bounds=tuple(bounds),
        peak_bytes_per_pe=price.words * WORD_BYTES,
        edge_bytes_in=entering,
        edge_bytes_out=sum(case.wiring.type(b).nbytes for b in case.program.fetches),
        micro_batches=chain.samples // run.micro,
        rows=tuple(_rows(case, stages, run)),
    )
    return ModePlan(report, placement=run.placement, timeline=_timeline(price, names))


def _bounds(case: Case, price: StepPrice, stages: Sequence[Stage]) -> Iterator[Bound]:
    # Of all lanes, ports and the core with the loss too: any of them may be what the others wait for.
    yield from host_bounds(case)
    slowest = max(price.work, key=price.own_cycles)
    source = "instructions and streams of the busiest lane, without waiting"
    rate = per_second(case.batch_size, price.own_cycles(slowest), case.machine)
    stage = stages[int(slowest.removeprefix("layer "))] if slowest.startswith("layer ") else None
    where = str(stage.where) if stage and stage.where else ""
    yield Bound("compute", rate, source, stage.name if stage else slowest, where)
    whole = per_second(case.batch_size, price.cycles, case.machine)
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


def _timeline(price: StepPrice, names: Mapping[str, str]) -> Timeline:
    """The lanes as a timeline; a span begins where the one before it on its lane ends, waiting included."""
    # Lanes begin at the start and have no gaps, so that the lane which ends last is a path from 0 to the end.
    spans: list[TimeSpan] = []
    last: dict[str, int] = {}
    ordered = sorted(price.spans, key=lambda span: (span.start_cycles, span.end_cycles))
    for span in ordered:
        lane = names.get(span.lane, span.lane)
        lane = f"{lane} {span.lane.removeprefix('layer ')}" if list(names.values()).count(lane) > 1 else lane
        spans.append(TimeSpan(lane, span.label, span.start_cycles, span.end_cycles, last.get(span.lane)))
        last[span.lane] = len(spans) - 1
    return Timeline(tuple(spans))
