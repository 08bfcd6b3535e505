"""Choose the number of copies of a pipeline on each wafer, and the number of systems, for the highest rate.

The mesh is divided among the copies of a system into parts that are as square as possible. Each copy gets a share of
the batch. Once a step the gradients of all copies are summed, along rows, then columns of copies, then over the tree
between systems. Every copy then updates its weights. Each copy needs a separate input worker.

Source: the vendor's compiler picks the number of copies, synchronises each batch, and needs at least that number of
workers. Pipelines on several systems are an extension of ours: published ones run on one system.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from lazytensor.errors import LazyError, PlacementError
from wse_sim.cost_model.collectives import broadcast_terms
from wse_sim.cost_model.reduction_tree import choose_all_reduce, reduce_terms
from wse_sim.host import Host
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.planner.dataflow import Dataflow
from wse_sim.planner.modes.mode_plan import ModePlan, PlanningCase, ReplicaShare, make_unfit_plan
from wse_sim.planner.report import Alternative
from wse_sim.planner.stages import Stage

ON_WAFER_LIMITS = ("compute", "moving", "link", "adapter", "fill", "gradients")
"""Limits that another number of copies or systems may change. Workers and edges are shared by all copies."""

SUMS_SOURCE = "closed forms of sums along rows and columns, and the tree"

ReplicaPlanner = Callable[[PlanningCase], ModePlan]
"""A function that plans a case as one copy of a pipeline."""


def plan_replicas(case: PlanningCase, run: ReplicaPlanner) -> ModePlan:
    """Return the fastest plan over the numbers of systems and copies, with the others that fit as alternatives.

    `run` plans a single copy. If none fits, or if the step is not available for a share of the batch, the report has
    the reason.
    """
    counts = system_counts(case)
    outcomes = {systems: list(_search_replica_counts(case, systems, run)) for systems in counts}
    # If the step has no program for a share of the batch, several systems cannot be used.
    if not outcomes[counts[0]]:
        what = f"{case.systems} systems share a batch of {case.batch_size}, but the program has only this batch size"
        hint = "Pass a recorded step, which supports any batch size, or use one system."
        return make_unfit_plan("pipelined", PlacementError(what, hint=hint))
    return select_fastest([outcome for plans in outcomes.values() for outcome in plans])


def select_fastest(outcomes: list[ModePlan]) -> ModePlan:
    """Return the fastest plan with the other plans that fit as its alternatives.

    Of equally fast plans, the one with fewer systems and then fewer copies is returned. If none fits, the first is
    returned unchanged.
    """
    best = max(outcomes, key=lambda o: (o.report.samples_per_s, -o.report.used_systems, -o.report.copies))
    if not best.report.fits:
        return outcomes[0]
    others = tuple(
        Alternative(o.report.used_systems, o.report.copies, o.report.samples_per_s, o.report.limit)
        for o in outcomes
        if o is not best and o.report.fits
    )
    return replace(best, report=replace(best.report, alternatives=others))


def system_counts(case: PlanningCase) -> list[int]:
    """Return the numbers of systems to try: all of them first, at most one for each sample, then smaller ones.

    A smaller number is the largest with a tree of less depth. If all systems do not share the batch evenly, numbers
    that give a larger share to each are included, down to half of the systems.
    """
    # Among numbers with one tree depth, the largest leaves the least work per system. More systems than samples are
    # useless.
    counts, reach = [min(case.systems, case.batch_size)], 1
    while reach < counts[0]:
        counts.append(reach)
        reach *= case.host.fan_out
    return [*counts, *(n for n in _uneven_system_counts(case.batch_size, counts[0]) if n not in counts)]


def _uneven_system_counts(batch_size: int, systems: int) -> Iterator[int]:
    """Yield numbers of systems above half of `systems` to try; nothing if `systems` share the batch evenly.

    The share of a system is rounded up. For each share that is larger than that of `systems`, the least number is
    yielded.
    """
    # A smaller share may have fewer micro-batch sizes or tiles with gaps. Then fewer systems with a larger even share
    # may be faster.
    if batch_size % systems:
        shares = {ceil_div(batch_size, n): n for n in range(systems - 1, systems // 2, -1)}
        yield from (n for share, n in shares.items() if share != ceil_div(batch_size, systems))


def _search_replica_counts(case: PlanningCase, systems: int, run: ReplicaPlanner) -> Iterator[ModePlan]:
    """Yield the plan with one copy on each of `systems` systems, then plans with more copies.

    The number of copies doubles while the limit is on the wafer and the rate rises. One number between the last two is
    tried at the end. Yield nothing if the step is not available for the share of one system.
    """
    best = _start_search(case, systems, 1, run)
    if best is None:
        return
    yield best
    most = _max_replicas(case, systems, best)
    count, tried = 1, {1}
    # Double the copies until the rate falls, then try one number in between: each trial is a placement.
    while best.report.limit in ON_WAFER_LIMITS and count < most:
        count = min(2 * count, most)
        tried.add(count)
        outcome = _start_search(case, systems, count, run)
        if outcome is None:
            break
        yield outcome
        if outcome.report.samples_per_s <= best.report.samples_per_s:
            break
        best = outcome
    between = 3 * best.report.copies // 2
    if best.report.copies > 1 and between < max(tried) and between not in tried:
        outcome = _start_search(case, systems, between, run)
        if outcome is not None:
            yield outcome


def _max_replicas(case: PlanningCase, systems: int, single: ModePlan) -> int:
    """Return the maximum number of copies that samples, workers and memory allow; 1 without a source or a floorplan.

    `single` is the plan with one copy on each system.
    """
    if case.source is None or single.placement is None:
        return 1
    own = ceil_div(case.batch_size, systems)
    return min(own, case.host.workers, case.machine.usable_pes // max(1, single.least_pes))


def _start_search(case: PlanningCase, systems: int, copies: int, run: ReplicaPlanner) -> ModePlan | None:
    """Return the plan for `copies` copies on each of `systems` systems, or None if the step has no such batch size.

    `run` plans one copy, with its share of the batch (rounded up) and its part of the mesh.
    """
    columns, rows = replica_grid(copies, case.machine)
    share = ReplicaShare(case.batch_size, systems, columns, rows)
    try:
        part = case.with_batch(ceil_div(ceil_div(case.batch_size, systems), copies))
    except LazyError:
        # The script supports only its own batch size, which is enough for one copy on one system.
        return None
    if part is None:
        return None
    return run(replace(part, machine=replica_machine(case.machine, columns, rows), systems=systems, share=share))


def replica_grid(copies: int, machine: Machine) -> tuple[int, int]:
    """Return the numbers of columns and rows of copies for which their parts of the mesh are most nearly square.

    Their product is `copies`.
    """
    shapes = [(n, copies // n) for n in range(1, copies + 1) if copies % n == 0]
    return min(shapes, key=lambda s: abs(math.log(machine.usable_width * s[1] / (machine.usable_height * s[0]))))


def replica_machine(machine: Machine, columns: int, rows: int) -> Machine:
    """Return a machine with the part of the mesh that a copy has, and otherwise the same properties.

    Sides are rounded down but at least 1. A grid of 1 x 1 returns the same machine.
    """
    if columns * rows == 1:
        return machine
    width, height = machine.usable_width // columns, machine.usable_height // rows
    return replace(machine, width=max(1, width), height=max(1, height), reserved_columns=0, reserved_rows=0)


class GradientSums:
    """The cycles of summing the gradients of all copies in a step, on each wafer and then between wafers.

    They are zero if there is only one copy. The case is that of one copy.
    """

    def __init__(self, case: PlanningCase, stages: Sequence[Stage]):
        share = case.share or ReplicaShare(case.batch_size, 1, 1, 1)
        self._machine, self._columns, self._rows = case.machine, share.columns, share.rows
        self._sizes = (
            [_gradient_bytes(case.dataflow, stage) for stage in stages] if share.systems * share.copies > 1 else []
        )
        # A system sends the sums over its copies.
        self._tree_cycles = tree_sum_cycles(sum(self._sizes), share.systems, case.host, case.machine)

    def cycles(self, rects: Sequence[Rect]) -> int:
        """Return the cycles of the sums in a step if each copy has its stages on `rects`; 0 for a single copy.

        They are the sums along rows of copies, then along columns, then over the tree between systems.
        """
        if not self._sizes:
            return 0
        # Copies are packed: the next one starts where the rectangles of this one end.
        width = max(r.x + r.width for r in rects) - min(r.x for r in rects)
        height = max(r.y + r.height for r in rects) - min(r.y for r in rects)
        # All gradients in a row of cores use the same links to the next copy, whichever layer they belong to.
        rows = max_line_bytes([(r.y, r.height, size) for r, size in zip(rects, self._sizes, strict=True)])
        columns = max_line_bytes([(r.x, r.width, size) for r, size in zip(rects, self._sizes, strict=True)])
        return self._sum_over_lines(rows, columns, width, height)

    def _sum_over_lines(self, row_bytes: float, column_bytes: float, width: int, height: int) -> int:
        """Return the cycles of the sums along rows of copies, then along columns of copies, then over the tree.

        `row_bytes` and `column_bytes` are the most bytes on one row and on one column of cores. `width` and `height`
        are the extents of a copy, the distances to the next one.
        """
        machine, link_bytes = self._machine, self._machine.link_bits // 8
        along_rows = line_sum_cycles(self._columns, width, math.ceil(row_bytes / link_bytes), machine)
        along_columns = line_sum_cycles(self._rows, height, math.ceil(column_bytes / link_bytes), machine)
        return along_rows + along_columns + self._tree_cycles


def line_sum_cycles(copies: int, stride: int, words: int, machine: Machine) -> int:
    """Return the cycles of an all-reduce of `words` words over `copies` copies in a line, `stride` cores apart.

    It is 0 for fewer than 2 copies or no words.
    """
    if copies < 2 or not words:
        return 0
    # Published closed forms for a line with one core for each copy. Words are those that share a link, and a hop spans
    # the distance between two copies.
    name = choose_all_reduce(copies, words, machine)
    moves = (reduce_terms(copies, words, name, 0, machine), broadcast_terms(copies, words))
    return sum(replace(terms, distance=terms.distance * stride).cycles(machine) for terms in moves)


def tree_sum_cycles(size: int, systems: int, host: Host, machine: Machine) -> int:
    """Return the cycles to sum `size` bytes over the tree between systems and stream the sums back.

    The bytes count once, at the slower rate of the wafer's edge and the weight host, plus the latency of the tree. It
    is 0 for one system.
    """
    if systems < 2:
        return 0
    bits_per_s = min(machine.edge_bits_per_s, host.stream_bits_per_s)
    return math.ceil((size * 8 / bits_per_s + host.tree_seconds(systems)) * machine.clock_hz)


def _gradient_bytes(dataflow: Dataflow, stage: Stage) -> int:
    """Return the total bytes of the gradients of a stage's parameters. The largest version of each gradient counts."""
    own = {p for layer in stage.layers for p in layer.parameters}
    sizes: dict[int, int] = {}
    for version, parameter in dataflow.gradients.items():
        # A cast of a gradient replaces it, so count the larger one.
        if parameter in own:
            sizes[parameter] = max(sizes.get(parameter, 0), dataflow.type(version.buffer).nbytes)
    return sum(sizes.values())


def max_line_bytes(spans: list[tuple[int, int, int]]) -> float:
    """Return the most bytes on one line of cores, 0 without spans.

    Each span (first line, number of lines, bytes) has its bytes spread evenly over its lines.
    """
    changes: list[tuple[int, float]] = []
    for first, count, size in spans:
        changes += [(first, size / count), (first + count, -size / count)]
    most = total = 0.0
    # At equal lines, spans end before others begin.
    for _, change in sorted(changes):
        total += change
        most = max(most, total)
    return most
