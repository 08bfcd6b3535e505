"""Weight-streaming mode: layers use the whole wafer in turn, activations stay on it, and weights stream in.

In each turn three things overlap: weights (and the batch, when it is first read) stream in, the layer computes, and
gradients or fetched results leave. Weights of later turns are prefetched into memory that activations do not use. A
step starts with an empty wafer, since its first weights depend on the previous step's update. A batch whose activations
do not fit is cut into micro-batches, whose gradients the weight host sums. Activations within segments of layers are
recomputed if that is faster. Several systems share the batch; a tree between them and the weight host broadcasts
weights and sums gradients. Activations move from one layer's layout to the next while the next layer works on what has
arrived.

Sources: the weight-streaming model t = max(compute, weights / edge) for each layer, in and out at the same time;
prefetch that hides latency except at the start of a step, by the vendor's glossary on the weight memory. Not modelled:
layouts within a layer, and the arithmetic of the weight host.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lazytensor.errors import LazyError, PlacementError
from wse_sim.layout import ceil_div
from wse_sim.planner.micro_batches import ExploredSize
from wse_sim.planner.modes.mode_plan import ModePlan, PlanningCase, make_unfit_plan
from wse_sim.planner.modes.replicas import select_fastest, system_counts
from wse_sim.planner.modes.streaming_timeline import MODE, StreamedRun, usable_bytes
from wse_sim.planner.streaming_schedule import MemoryPeak, StreamingSchedule

MIN_TREE_STEP_RATIO = 0.01
"""Fewer systems are tried if the tree's latency is at least this share of a step, or if shares are uneven."""


def plan_streaming(case: PlanningCase) -> ModePlan:
    """Plan a step in weight-streaming mode, with the number of systems that gives the highest rate.

    Fewer than all systems are tried only if the batch is uneven or the tree's latency is at least `MIN_TREE_STEP_RATIO`
    of a step. They are then listed as alternatives. If the step does not fit, the report has the reason.
    """
    most, *fewer = system_counts(case)
    whole = _plan_on_all_systems(replace(case, systems=most))
    tree_cycles = case.host.tree_seconds(most) * case.machine.clock_hz
    is_even = case.batch_size % most == 0
    if not whole.report.fits or (is_even and tree_cycles < MIN_TREE_STEP_RATIO * whole.report.step_cycles):
        return whole
    # A deeper tree may cost more than smaller shares save, and an odd share more than a larger even one.
    return select_fastest([whole, *(_plan_on_all_systems(replace(case, systems=count)) for count in fewer)])


def _plan_on_all_systems(case: PlanningCase) -> ModePlan:
    """Return the plan on all systems of a case, with the micro-batches that the script requests or the fastest ones.

    If the step does not fit or cannot be cut, the report has the reason; nothing is raised.
    """
    if case.micro_batching.kind != "auto":
        return _plan_requested_sizes(case)
    whole = case.turns
    try:
        ways = list(_feasible_sizes(case, whole))
    except PlacementError as error:
        return make_unfit_plan(MODE, error)
    try:
        runs = [run for way in ways if (run := _find_fastest_run(case, *way))]
    except LazyError as error:
        # If samples depend on each other, the step cannot be cut.
        what = f"the batch fits only in micro-batches, but {error.what}"
        hint = "Use a smaller batch or a larger machine, or take the batch from the data (x.shape[0])."
        return make_unfit_plan(MODE, PlacementError(what, where=error.where, hint=hint))
    if not runs:
        return make_unfit_plan(MODE, _sample_too_large_error(case, whole, whole.memory(), usable_bytes(case)))
    return min(runs, key=lambda run: run.step_cycles).plan()


def _plan_requested_sizes(case: PlanningCase) -> ModePlan:
    """Return the plan with the requested micro-batches; of several requested sizes, the fastest that fits.

    Each is tried with and without recomputation. If none fits, the batch has too few samples, or the script does not
    support the size, the report has the reason. The report lists the sizes if the script explores, else the requested
    one.
    """
    asked, own = case.micro_batching, ceil_div(case.batch_size, case.systems)
    counts = asked.counts(own)
    if not counts:
        what = f"the batch of a system has {own:,} samples, and the smallest size to explore is {asked.least:,}"
        return make_unfit_plan(MODE, PlacementError(what, hint=f"Explore sizes of at most {own:,} samples."), None)
    # Try with and without recomputation, which may be faster or fit where the other does not.
    ways = (False, True) if case.turns.backward else (False,)
    try:
        tried = [[StreamedRun(case, count, has_recompute) for has_recompute in ways] for count in counts]
    except LazyError as error:
        what = f"the script requests micro-batches, but {error.what}"
        hint = "Set micro_batch_size to None, or take the batch from the data (x.shape[0])."
        return make_unfit_plan(MODE, PlacementError(what, where=error.where, hint=hint), None)
    fitting = [[run for run in runs if run.free_bytes >= 0] for runs in tried]
    best = [min(runs, key=lambda run: run.step_cycles) for runs in fitting if runs]
    if not best:
        # The last run has the smallest micro-batches and recomputes activations, so it needs the least memory.
        return make_unfit_plan(MODE, _requested_too_large_error(tried[-1][-1]), None)
    outcome = min(best, key=lambda run: run.step_cycles).plan()
    if asked.kind == "explore":
        explored = tuple(_explored_size(own, count, runs) for count, runs in zip(counts, fitting, strict=True))
        return replace(outcome, report=replace(outcome.report, explored=explored))
    size = own if asked.kind == "whole" else asked.least
    return replace(outcome, report=replace(outcome.report, asked_micro_batch_size=size))


def _requested_too_large_error(run: StreamedRun) -> PlacementError:
    """Return the error if no requested micro-batches fit. `run` is the one with the smallest micro-batches."""
    machine, kind = run.case.machine, run.case.micro_batching.kind
    usable = usable_bytes(run.case)
    return PlacementError(
        f"micro-batches of {run.size:,} samples need {usable - run.free_bytes:,} bytes, but the {machine.usable_pes:,} "
        f"PEs of {machine.name} have {usable:,}: {-run.free_bytes:,} bytes over",
        hint='Set micro_batch_size to "auto", or use a smaller batch.'
        if kind == "whole"
        else 'Use a smaller micro_batch_size, or "auto".',
    )


def _explored_size(own: int, count: int, fitting: Sequence[StreamedRun]) -> ExploredSize:
    """Return the report row of `count` micro-batches, with the faster run of `fitting`.

    `own` is the number of samples of a system. `fitting` are the runs that fit: with recomputation, without it, or
    both. If it is empty, the row does not fit.
    """
    samples = ceil_div(own, count)
    if not fitting:
        return ExploredSize(samples, count, fits=False)
    best = min(fitting, key=lambda run: run.step_cycles)
    return ExploredSize(
        samples,
        count,
        fits=True,
        has_recompute=best.has_recompute,
        step_cycles=best.step_cycles,
        samples_per_s=best.plan().report.samples_per_s,
    )


def _find_fastest_run(case: PlanningCase, size: int, has_recompute: bool) -> StreamedRun | None:
    """Return the fastest run with micro-batches of at most `size` samples that fits, or None.

    If the case has a source, the first size that fits is returned, since each size would have to be recorded.
    """
    own = ceil_div(case.batch_size, case.systems)
    best: StreamedRun | None = None
    # The estimated size may be slightly too large, so smaller sizes follow.
    for count in dict.fromkeys(ceil_div(own, n) for n in range(size, 0, -1)):
        run = StreamedRun(case, count, has_recompute)
        if run.free_bytes < 0:
            continue
        # More micro-batches send the weights more often and are usually no faster.
        if best and run.least_cycles(best) >= best.step_cycles:
            break
        if not best or run.step_cycles < best.step_cycles:
            best = run
        # With a source, each further size would have to be recorded and priced.
        if case.source:
            break
    return best


def _feasible_sizes(case: PlanningCase, whole: StreamingSchedule) -> Iterator[tuple[int, bool]]:
    """Yield (samples of the largest micro-batch that fits, False without or True with recomputation).

    A way in which no sample fits is left out. Sizes are estimates for the memory of the whole batch, scaled. Raise
    PlacementError if a single sample does not fit in either way.
    """
    own = ceil_div(case.batch_size, case.systems)
    needs = {False: whole.memory()}
    if whole.backward:
        needs[True] = whole.memory_with_recompute()
    usable = usable_bytes(case)
    fitting = False
    for has_recompute, need in needs.items():
        room = usable - need.fixed
        # `need` is for the batch of all systems. Round down to whole samples: parts of equal bytes would be rounded up
        # to more than fits.
        size = min(own, room * case.batch_size // max(1, need.per_batch)) if room > 0 else 0
        if size:
            fitting = True
            yield size, has_recompute
    if not fitting:
        raise _sample_too_large_error(case, whole, needs[len(needs) > 1], usable)


def _sample_too_large_error(
    case: PlanningCase, whole: StreamingSchedule, need: MemoryPeak, usable: int
) -> PlacementError:
    """Return the error for a single sample that needs `need` and does not fit in `usable` bytes.

    It names the layer whose kernels touch the most bytes.
    """
    worst = max(
        whole.every,
        key=lambda turn: sum(case.dataflow.type(b).nbytes for i in turn.kernels for b in _touched_buffers(case, i)),
    )
    usable_pes = f"{case.machine.usable_pes:,} PEs of {case.machine.name}"
    needed = need.per_batch // case.batch_size + need.fixed
    return PlacementError(
        f"one sample needs {needed:,} bytes of activations, most of them in {worst.layer.name}, "
        f"but the {usable_pes} have {usable:,}: {needed - usable:,} bytes over",
        where=worst.layer.where,
        hint="Use a shorter sequence, a smaller layer or a larger machine.",
    )


def _touched_buffers(case: PlanningCase, i: int) -> set[int]:
    """Return the buffers that kernel `i` reads or writes."""
    return {o.buffer for o in case.dataflow.operands[i]} | set(case.dataflow.results[i])
