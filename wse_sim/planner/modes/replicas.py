"""Copies of a pipeline: as many side by side on a wafer, and on as many of the systems, as pay off.

The mesh is divided among the copies of a system, as near to squares as their number allows, and each is placed in its
part with its share of the batch. Once a step the gradients of all copies are added up, along the rows and then the
columns in which they lie, and then over the tree between the systems; every copy updates its own weights. A copy needs
an input worker of its own.
Source: the vendor's compiler picks the number of copies, synchronises each batch, and needs at least as many workers.
That several systems run a pipeline each is our extension: published ones run on one system.
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
"""Limits that another number of copies or systems may change; workers and edges are shared by all of them."""

SUMS_SOURCE = "closed forms of sums along rows and columns, and the tree"

ReplicaPlanner = Callable[[PlanningCase], ModePlan]
"""Places and times a case as one copy of its step."""


def plan_replicas(case: PlanningCase, run: ReplicaPlanner) -> ModePlan:
    """The fastest of the numbers of systems and copies that pay, with what the others would give."""
    counts = system_counts(case)
    outcomes = {systems: list(_search_replica_counts(case, systems, run)) for systems in counts}
    # A share of the batch may be unknown, and then a pipeline over several systems is.
    if not outcomes[counts[0]]:
        what = f"{case.systems} systems share a batch of {case.batch_size}, and the program is of that batch alone"
        hint = "Give a recorded step that knows itself for any batch, or use one system."
        return make_unfit_plan("pipelined", PlacementError(what, hint=hint))
    return select_fastest([outcome for plans in outcomes.values() for outcome in plans])


def select_fastest(outcomes: list[ModePlan]) -> ModePlan:
    """The fastest outcome; of equal ones that with fewer systems and copies. It lists all of them."""
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
    """All systems, and fewer of them with a tree of less depth between: a small batch may not be worth its way."""
    # Among those of one depth the largest number has the least to do on each; without a sample it has nothing to do.
    counts, reach = [min(case.systems, case.batch_size)], 1
    while reach < counts[0]:
        counts.append(reach)
        reach *= case.host.fan_out
    return [*counts, *(n for n in _uneven_system_counts(case.batch_size, counts[0]) if n not in counts)]


def _uneven_system_counts(batch_size: int, systems: int) -> Iterator[int]:
    """Fewer systems, but more than half, for a batch that they do not share evenly."""
    # A smaller share may be cut worse than a larger one: an odd one has fewer sizes of a micro-batch, or wider tiles
    # with gaps. Then a system is left out, and each of the others has that larger share.
    if batch_size % systems:
        shares = {ceil_div(batch_size, n): n for n in range(systems - 1, systems // 2, -1)}
        yield from (n for share, n in shares.items() if share != ceil_div(batch_size, systems))


def _search_replica_counts(case: PlanningCase, systems: int, run: ReplicaPlanner) -> Iterator[ModePlan]:
    """One copy on each system, then more as long as that helps."""
    best = _start_search(case, systems, 1, run)
    if best is None:
        return
    yield best
    most = _max_replicas(case, systems, best)
    count, tried = 1, {1}
    # Doubled until it does not pay, then once in between: each is a placement.
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
    """Copies for which there are samples, workers and memory."""
    if case.source is None or single.placement is None:
        return 1
    own = ceil_div(case.batch_size, systems)
    return min(own, case.host.workers, case.machine.usable_pes // max(1, single.least_pes))


def _start_search(case: PlanningCase, systems: int, copies: int, run: ReplicaPlanner) -> ModePlan | None:
    """A number of copies on each of some systems; None if the step is not known for their share of the batch."""
    columns, rows = replica_grid(copies, case.machine)
    share = ReplicaShare(case.batch_size, systems, columns, rows)
    try:
        part = case.with_batch(ceil_div(ceil_div(case.batch_size, systems), copies))
    except LazyError:
        # The script allows its own batch alone. With one copy on one system nothing else is asked for.
        return None
    if part is None:
        return None
    return run(replace(part, machine=replica_machine(case.machine, columns, rows), systems=systems, share=share))


def replica_grid(copies: int, machine: Machine) -> tuple[int, int]:
    """Columns and rows of copies whose parts of the mesh are nearest to squares."""
    shapes = [(n, copies // n) for n in range(1, copies + 1) if copies % n == 0]
    return min(shapes, key=lambda s: abs(math.log(machine.usable_width * s[1] / (machine.usable_height * s[0]))))


def replica_machine(machine: Machine, columns: int, rows: int) -> Machine:
    """The mesh that a copy has, as a machine; its cores and its clock are those of the whole."""
    if columns * rows == 1:
        return machine
    width, height = machine.usable_width // columns, machine.usable_height // rows
    return replace(machine, width=max(1, width), height=max(1, height), reserved_columns=0, reserved_rows=0)


class GradientSums:
    """What adding up the gradients of all copies takes in a step: on the wafer, and then between the wafers.

    A case is one copy of its step. There is nothing to add up for the only one.
    """

    def __init__(self, case: PlanningCase, stages: Sequence[Stage]):
        share = case.share or ReplicaShare(case.batch_size, 1, 1, 1)
        self._machine, self._columns, self._rows = case.machine, share.columns, share.rows
        self._sizes = (
            [_gradient_bytes(case.dataflow, stage) for stage in stages] if share.systems * share.copies > 1 else []
        )
        # A system sends sums of all its copies.
        self._tree_cycles = tree_sum_cycles(sum(self._sizes), share.systems, case.host, case.machine)

    def cycles(self, rects: Sequence[Rect]) -> int:
        """Cycles for copies side by side, each with its stages on these rectangles."""
        if not self._sizes:
            return 0
        # However much of the mesh each copy was given, the next one lies where the rectangles of this one end.
        width = max(r.x + r.width for r in rects) - min(r.x for r in rects)
        height = max(r.y + r.height for r in rects) - min(r.y for r in rects)
        # All gradients of a row of cores pass the same links to the next copy, whichever layers they are of.
        rows = max_line_bytes([(r.y, r.height, size) for r, size in zip(rects, self._sizes, strict=True)])
        columns = max_line_bytes([(r.x, r.width, size) for r, size in zip(rects, self._sizes, strict=True)])
        return self._sum_over_lines(rows, columns, width, height)

    def _sum_over_lines(self, row_bytes: float, column_bytes: float, width: int, height: int) -> int:
        machine, link_bytes = self._machine, self._machine.link_bits // 8
        along_rows = line_sum_cycles(self._columns, width, math.ceil(row_bytes / link_bytes), machine)
        along_columns = line_sum_cycles(self._rows, height, math.ceil(column_bytes / link_bytes), machine)
        return along_rows + along_columns + self._tree_cycles


def line_sum_cycles(copies: int, stride: int, words: int, machine: Machine) -> int:
    """Cycles to add up `words` of a row over copies that lie `stride` cores apart in it, and to give all the sums."""
    if copies < 2 or not words:
        return 0
    # The published forms of a line with a core for each copy: words are those that share its links, and a hop is as
    # many as lie between two copies.
    name = choose_all_reduce(copies, words, machine)
    moves = (reduce_terms(copies, words, name, 0, machine), broadcast_terms(copies, words))
    return sum(replace(terms, distance=terms.distance * stride).cycles(machine) for terms in moves)


def tree_sum_cycles(size: int, systems: int, host: Host, machine: Machine) -> int:
    """Cycles to add up `size` bytes over the tree between systems, and to send the sums back as they come."""
    if systems < 2:
        return 0
    bits_per_s = min(machine.edge_bits_per_s, host.stream_bits_per_s)
    return math.ceil((size * 8 / bits_per_s + host.tree_seconds(systems)) * machine.clock_hz)


def _gradient_bytes(dataflow: Dataflow, stage: Stage) -> int:
    own = {p for layer in stage.layers for p in layer.parameters}
    sizes: dict[int, int] = {}
    for version, parameter in dataflow.gradients.items():
        # A cast of a gradient takes the place of what it was made from: the larger is what there is room for.
        if parameter in own:
            sizes[parameter] = max(sizes.get(parameter, 0), dataflow.type(version.buffer).nbytes)
    return sum(sizes.values())


def max_line_bytes(spans: list[tuple[int, int, int]]) -> float:
    """The most bytes on one line of cores, where spans of lines (first, how many) hold some bytes each."""
    changes: list[tuple[int, float]] = []
    for first, count, size in spans:
        changes += [(first, size / count), (first + count, -size / count)]
    most = total = 0.0
    # Where one span ends and another begins, the one that ends goes first.
    for _, change in sorted(changes):
        total += change
        most = max(most, total)
    return most
