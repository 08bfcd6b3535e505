"""Pipelined mode: all kernels on the wafer at once, samples flow through them.

Steady state: a step takes as long as the slowest stage needs for the batch, or as the edge needs to bring the batch in
and the fetches out. Fill: one sample through the stages on the longest path; a stage gives a sample its latency and
its share of the rest, and what is done once for the batch (updates, preparing weights) counts whole.
Source: samples/s = clock / slowest stage, also bounded by transmission, as the vendor's compile report prints them.
Left out: the distance between rectangles, and draining the pipeline between two steps.
"""

import math
from collections import defaultdict
from functools import cache

from lazytensor.errors import PlacementError
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import Par, Phase, Stream
from wse_sim.plan.modes.mode_plan import ModePlan, does_not_fit, kernel_row, per_sample_bytes, samples_per_s
from wse_sim.plan.place import Placement, Price, place_pipelined
from wse_sim.plan.recipes import phase_program
from wse_sim.plan.report import ModeReport
from wse_sim.plan.timeline import Task, Timeline, schedule
from wse_sim.plan.wiring import OUTSIDE, Flow, Wiring, flows
from wse_sim.price.cost import Cost, cost

MODE = "pipelined"


def pipelined(wiring: Wiring, machine: Machine) -> ModePlan:
    """Place and time `wiring` in pipelined mode. If it does not fit, the report says why."""
    traffic = flows(wiring)
    try:
        placement = place_pipelined(wiring, demand_bytes(wiring), _price(wiring, traffic, machine), machine)
    except PlacementError as error:
        return does_not_fit(MODE, error)
    timeline = _first_sample(wiring, placement)
    bytes_in, bytes_out = edge_bytes(traffic)
    step_cycles, limit = _steady(wiring, placement, bytes_in, bytes_out, machine)
    report = ModeReport(
        mode=MODE,
        fits=True,
        step_cycles=step_cycles,
        fill_cycles=timeline.end_cycles,
        samples_per_s=samples_per_s(wiring.batch_size, step_cycles, machine),
        limit=limit,
        peak_bytes_per_pe=placement.peak_bytes_per_pe,
        edge_bytes_in=bytes_in,
        edge_bytes_out=bytes_out,
        rows=tuple(kernel_row(wiring, i, placement, placement.bytes_per_pe[i], machine) for i in wiring.kernels),
    )
    return ModePlan(report, placement, timeline)


def demand_bytes(wiring: Wiring) -> list[int]:
    """Bytes that each kernel holds, over all its PEs.

    Its own copy of what is resident, whole gradients, and per-sample tensors once for each stage that they wait, since
    so many samples are in flight between the kernel that makes them and this one.
    """
    depths = stage_depths(wiring)
    demands = [0] * len(wiring.program.instrs)
    for i in wiring.kernels:
        sizes: dict[int, int] = {b: per_sample_bytes(wiring, b) for b in wiring.results[i]}
        for operand in wiring.operands[i]:
            size, waits = per_sample_bytes(wiring, operand.buffer), 1
            if operand.buffer in wiring.per_sample:
                # While a sample is on its way through the stages between maker and reader, as many others follow it:
                # the activation of a forward stage waits in as many copies until its backward stage comes.
                waits = depths[i] - (depths[operand.source] if operand.source != OUTSIDE else 0)
            sizes[operand.buffer] = size * max(1, waits)
        demands[i] = sum(sizes.values())
    return demands


def stage_depths(wiring: Wiring) -> list[int]:
    """The number of stages that a sample has passed when it leaves each kernel, on the longest path."""
    depths = [0] * len(wiring.program.instrs)
    for i in wiring.kernels:
        sources = (o.source for o in wiring.operands[i] if o.source != OUTSIDE)
        # Longest path, not shortest: a sample leaves when the slowest of its operands has come.
        depths[i] = 1 + max((depths[s] for s in sources), default=0)
    return depths


def edge_bytes(traffic: tuple[Flow, ...]) -> tuple[int, int]:
    """Bytes over the wafer's edge in a step: each batch tensor once, however many kernels read it; the fetches."""
    # By buffer: one copy crosses the edge and is multicast to all kernels that read it.
    entering = {flow.buffer: flow.bytes for flow in traffic if flow.source == OUTSIDE}
    return sum(entering.values()), sum(flow.bytes for flow in traffic if flow.target == OUTSIDE)


def _price(wiring: Wiring, traffic: tuple[Flow, ...], machine: Machine) -> Price:
    entering: dict[int, dict[str, int]] = defaultdict(lambda: {"edge": 0, "fabric": 0})
    leaving: dict[int, dict[tuple[str, int], int]] = defaultdict(dict)
    for flow in traffic:
        if flow.target != OUTSIDE:
            # What comes over the edge is bounded by its bandwidth as well; what comes from a neighbour only by the
            # links.
            entering[flow.target]["edge" if flow.source == OUTSIDE else "fabric"] += flow.bytes
        if flow.source != OUTSIDE:
            # A multicast: one copy leaves for all kernels, another for the edge.
            leaving[flow.source]["edge" if flow.target == OUTSIDE else "fabric", flow.buffer] = flow.bytes

    @cache
    def price(i: int, width: int, height: int) -> Cost:
        # Where a rectangle stands makes no difference to a price: distances between rectangles are left out.
        rect = Rect(0, 0, width, height)
        streams: list[Phase] = [Stream(rect, n, "in", port) for port, n in entering[i].items() if n]
        for port in ("edge", "fabric"):
            total = sum(n for (used, _), n in leaving[i].items() if used == port)
            if total:
                streams.append(Stream(rect, total, "out", port))
        body = phase_program(wiring.program.instrs[i], wiring, rect, machine)
        # In steady state a stage computes on one sample while it takes the next and sends the last one.
        return cost(Par((*streams, body)), machine)

    return price


def _first_sample(wiring: Wiring, placement: Placement) -> Timeline:
    """One sample through an empty pipeline; every kernel is a lane."""
    position = {i: n for n, i in enumerate(wiring.kernels)}
    tasks = []
    for i in wiring.kernels:
        after = tuple(position[o.source] for o in wiring.operands[i] if o.source != OUTSIDE)
        label = wiring.program.instrs[i].label
        tasks.append(Task(f"{i} {label}", label, _sample_cycles(wiring, i, placement.costs[i]), after))
    return schedule(tasks)


def _sample_cycles(wiring: Wiring, i: int, stage_cost: Cost) -> int:
    # What is done once for the batch (an update, a cast of weights) gives its first sample no part of it: it counts
    # whole.
    if wiring.is_on_host(i):
        return stage_cost.cycles
    return stage_cost.latency_cycles + ceil_div(stage_cost.cycles - stage_cost.latency_cycles, wiring.batch_size)


def _steady(wiring: Wiring, placement: Placement, bytes_in: int, bytes_out: int, machine: Machine) -> tuple[int, str]:
    """Cycles of a step in the steady state, and the sentence that says why not fewer."""
    edge_cycles = math.ceil(max(bytes_in, bytes_out) * 8 / machine.edge_bits_per_cycle)
    slowest = max(wiring.kernels, key=lambda i: placement.costs[i].cycles, default=None)
    if slowest is None:
        return edge_cycles, "nothing to compute"
    stage_cost, label = placement.costs[slowest], wiring.program.instrs[slowest].label
    if edge_cycles > stage_cost.cycles:
        what = f"{bytes_in:,} bytes in" if bytes_in >= bytes_out else f"{bytes_out:,} bytes out"
        return edge_cycles, f"edge I/O: {what} a step; the slowest stage, {label}, needs {stage_cost.cycles:,} cycles"
    # Whatever makes up more of the slowest stage is named as the limit.
    if 2 * stage_cost.compute_cycles >= stage_cost.cycles:
        return stage_cost.cycles, f"compute of {label}, the slowest stage"
    return (
        stage_cost.cycles,
        f"moving data in {label}, the slowest stage ({stage_cost.compute_cycles:,} cycles are arithmetic)",
    )
