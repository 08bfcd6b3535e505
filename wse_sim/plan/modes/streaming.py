"""Weight-streaming mode: kernels take the whole wafer in turn, activations stay, weights come over the edge.

For each kernel of the forward sweep, then of the backward sweep, three things overlap: its weights (and the batch, when
it is first read) come in, it computes, and what it made for the weight host (gradients) or for the user goes out. The
weight host prepares and updates the weights; its time is not modelled and taken as hidden.
Source: the weight-streaming model t = max(compute, weights / edge) for each layer, in and out at the same time; a step
is the sum. Left out: moving activations between the layouts of two kernels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from lazytensor.errors import PlacementError
from wse_sim.layout import Rect, ceil_div
from wse_sim.machine import Machine
from wse_sim.phase import Par, Stream
from wse_sim.plan.modes.mode_plan import ModePlan, does_not_fit, kernel_row, samples_per_s
from wse_sim.plan.place import place_streaming
from wse_sim.plan.recipes import phase_program
from wse_sim.plan.report import ModeReport
from wse_sim.plan.timeline import Task, Timeline, schedule
from wse_sim.plan.wiring import OUTSIDE, BufferVersion, Wiring
from wse_sim.price.cost import FREE, Cost, cost

MODE = "streaming"


@dataclass(frozen=True)
class EdgeTraffic:
    """What crosses the edge for one kernel, and what the wafer holds while it runs."""

    weight_bytes: int = 0
    batch_bytes: int = 0
    bytes_out: int = 0
    live_bytes: int = 0

    @property
    def bytes_in(self) -> int:
        """All that comes in over the edge."""
        return self.weight_bytes + self.batch_bytes


@dataclass(frozen=True)
class _Layer:
    """A kernel's turn, priced: in, compute, out, and all three at once."""

    arriving: Cost
    computing: Cost
    leaving: Cost
    all: Cost


def streaming(wiring: Wiring, machine: Machine) -> ModePlan:
    """Place and time `wiring` in weight-streaming mode. If it does not fit, the report says why."""
    traffic = edge_traffic(wiring)
    try:
        _require_memory(wiring, traffic, machine)
    except PlacementError as error:
        return does_not_fit(MODE, error)
    placement = place_streaming(wiring, tuple(traffic), _body_price(wiring, machine), machine)
    # A step is a plain sum: one kernel has the whole wafer at a time.
    layers = {i: _layer(crossing, placement.costs[i], machine) for i, crossing in traffic.items()}
    step_cycles = sum(layer.all.cycles for layer in layers.values())
    report = ModeReport(
        mode=MODE,
        fits=True,
        step_cycles=step_cycles,
        fill_cycles=next((layer.arriving.cycles for layer in layers.values()), 0),
        samples_per_s=samples_per_s(wiring.batch_size, step_cycles, machine),
        limit=_limit(wiring, layers, step_cycles),
        peak_bytes_per_pe=max((_spread(t, machine) for t in traffic.values()), default=0),
        edge_bytes_in=sum(t.bytes_in for t in traffic.values()),
        edge_bytes_out=sum(t.bytes_out for t in traffic.values()),
        rows=tuple(
            kernel_row(wiring, i, placement, _spread(traffic[i], machine) if i in traffic else 0, machine)
            for i in wiring.kernels
        ),
    )
    return ModePlan(report, placement, _timeline(wiring, layers))


def edge_traffic(wiring: Wiring) -> dict[int, EdgeTraffic]:
    """The traffic of each kernel that runs on the wafer, in the order of the program."""
    order = [i for i in wiring.kernels if not wiring.is_on_host(i)]
    first, last = _lifetimes(wiring, order)
    traffic: dict[int, EdgeTraffic] = {}
    arrived: set[BufferVersion] = set()
    for n, i in enumerate(order):
        weights, batch = _arriving(wiring, i, arrived)
        # Spread over all PEs of the wafer, since every kernel has the whole of it in its turn.
        live = sum(wiring.type(o.buffer).nbytes for o in first if first[o] <= n <= last[o])
        traffic[i] = EdgeTraffic(weights, batch, _leaving_bytes(wiring, i), live + weights)
    return traffic


def _arriving(wiring: Wiring, i: int, arrived: set[BufferVersion]) -> tuple[int, int]:
    """Bytes that kernel `i` needs from outside: weights each time, all else once. Adds to `arrived`."""
    weights = batch = 0
    for operand in wiring.operands[i]:
        size = wiring.type(operand.buffer).nbytes
        if operand.buffer in wiring.resident:
            # A weight comes again each time that a kernel needs it: the wafer keeps none, which is the point of this
            # mode.
            weights += size
        elif not _is_made_on_wafer(wiring, operand) and operand not in arrived:
            arrived.add(operand)
            batch += size
    return weights, batch


def _is_made_on_wafer(wiring: Wiring, operand: BufferVersion) -> bool:
    return operand.source != OUTSIDE and not wiring.is_on_host(operand.source)


def _leaving_bytes(wiring: Wiring, i: int) -> int:
    """Bytes of the results that the weight host or the user needs: gradients, statistics, fetches."""
    asked_for = set(wiring.final.values())
    total = 0
    for buffer in wiring.results[i]:
        version = BufferVersion(buffer, i)
        users = wiring.users.get((buffer, i), ())
        # Everything else is read by later kernels on the wafer and stays there.
        if version in asked_for or any(wiring.is_on_host(u) for u in users):
            total += wiring.type(buffer).nbytes
    return total


def _lifetimes(wiring: Wiring, order: list[int]) -> tuple[dict[BufferVersion, int], dict[BufferVersion, int]]:
    """First and last turn at which the wafer holds each tensor that is not a weight."""
    first: dict[BufferVersion, int] = {}
    last: dict[BufferVersion, int] = {}
    for n, i in enumerate(order):
        used = (o for o in wiring.operands[i] if o.buffer not in wiring.resident)
        for operand in (*used, *(BufferVersion(b, i) for b in wiring.results[i])):
            first[operand] = min(n, first.get(operand, n))
            last[operand] = max(n, last.get(operand, n))
    return first, last


def _spread(traffic: EdgeTraffic, machine: Machine) -> int:
    return ceil_div(traffic.live_bytes, machine.usable_pes)


def _require_memory(wiring: Wiring, traffic: dict[int, EdgeTraffic], machine: Machine) -> None:
    if not traffic:
        return
    worst = max(traffic, key=lambda i: traffic[i].live_bytes)
    needed, instr = _spread(traffic[worst], machine), wiring.program.instrs[worst]
    # The turn that holds most: a kernel's weights are there only while it runs, activations until their last reader.
    if needed > machine.usable_bytes_per_pe:
        raise PlacementError(
            f"while {instr.label} runs, activations and its weights take {needed:,} bytes a PE and the limit is "
            f"{machine.usable_bytes_per_pe:,}",
            where=instr.where,
            hint="Use a smaller batch or a larger machine.",
        )


def _body_price(wiring: Wiring, machine: Machine) -> Callable[[int, int, int], Cost]:
    @cache
    def price(i: int, width: int, height: int) -> Cost:
        return cost(phase_program(wiring.program.instrs[i], wiring, Rect(0, 0, width, height), machine), machine)

    return price


def _layer(traffic: EdgeTraffic, computing: Cost, machine: Machine) -> _Layer:
    """Streams use the whole wafer's edge, whatever part of the mesh the kernel takes."""
    mesh = Rect.whole(machine)
    # In and out are full duplex on the edge, so the two streams do not share its bandwidth.
    arriving = cost(Par((Stream(mesh, traffic.bytes_in, "in", "edge"),)), machine)
    leaving = cost(Par((Stream(mesh, traffic.bytes_out, "out", "edge"),)), machine)
    return _Layer(arriving, computing, leaving, FREE.beside(arriving).beside(computing).beside(leaving))


def _limit(wiring: Wiring, layers: dict[int, _Layer], step_cycles: int) -> str:
    """The side that decides more of the step's cycles, and its largest kernel."""
    if not layers:
        return "nothing to compute"
    # Layers whose arithmetic does not hide their stream.
    waiting = {i: layer for i, layer in layers.items() if layer.all.cycles > layer.computing.cycles}
    wait_cycles = sum(layer.all.cycles for layer in waiting.values())
    if 2 * wait_cycles > step_cycles:
        worst = max(waiting, key=lambda i: waiting[i].all.cycles)
        return (
            f"weight stream over the edge: {wait_cycles:,} of {step_cycles:,} cycles are bound by it, most for "
            f"{wiring.program.instrs[worst].label}"
        )
    worst = max(layers, key=lambda i: layers[i].computing.cycles)
    return (
        f"compute of {wiring.program.instrs[worst].label}, {layers[worst].computing.cycles:,} of {step_cycles:,} cycles"
    )


def _timeline(wiring: Wiring, layers: dict[int, _Layer]) -> Timeline:
    """Three lanes; a layer starts when the one before is done with all three."""
    tasks: list[Task] = []
    before: tuple[int, ...] = ()
    for i, layer in layers.items():
        label, here = wiring.program.instrs[i].label, len(tasks)
        lanes = (("edge in", layer.arriving), ("mesh", layer.computing), ("edge out", layer.leaving))
        tasks += [Task(lane, label, stage_cost.cycles, before) for lane, stage_cost in lanes if stage_cost.cycles]
        # A layer without any cycles adds no task; then the next one waits for what the last one waited for.
        before = tuple(range(here, len(tasks))) or before
    return schedule(tasks)
