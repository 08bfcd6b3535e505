"""What a step of a pipeline takes, without a wavelet: lanes of its layers, its ports, and its two ends.

Local work is counted by instruction, as cores run it; streams by their words, and what each core on the way adds. The
first sample fills the pipeline and the last drains it as they come out of the lanes, so no term stands for either.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lazytensor.errors import PlacementError
from wse_sim.cost_model.core_time import body_cycles
from wse_sim.isa.core_program import WORD_BYTES
from wse_sim.isa.issue_rates import round_cycles
from wse_sim.kernels.kernel import BANK_PAIRS
from wse_sim.layout import Rect
from wse_sim.machine import Machine
from wse_sim.pipeline.core_bodies import CoreBodies, CoreBody
from wse_sim.pipeline.lane_schedule import (
    BusyStep,
    ChannelTiming,
    LaneSpan,
    LaneStep,
    ReceiveStep,
    SendStep,
    schedule_lanes,
)
from wse_sim.pipeline.layer_chain import LayerChain, StepPart
from wse_sim.pipeline.layer_placement import ChainPlacement, sites_of
from wse_sim.pipeline.memory_map import make_end_map


@dataclass(frozen=True)
class StepCost:
    """Cycles of a step, and when each lane does what. Memories have `words`.

    `work` has by lane, and by the first word of what it does, the cycles that it would need if it waited for nobody.
    """

    cycles: int
    words: int
    spans: tuple[LaneSpan, ...]
    work: Mapping[str, Mapping[str, int]]

    def own_cycles(self, lane: str) -> int:
        """Cycles of a lane if it waited for nobody."""
        return sum(self.work[lane].values())


MAX_SCHEDULED_MICRO_BATCHES = 128
"""Micro-batches of a step beyond which the rest is told from the rhythm of the later half of so many."""


def price_step(sites: ChainPlacement, machine: Machine) -> StepCost:
    """The price of a step. Of one with more than LONG micro-batches `spans` are those of the first LONG."""
    if sites.count <= MAX_SCHEDULED_MICRO_BATCHES:
        return _StepPricing(sites, machine).price()
    # By then the pipeline is full, and each micro-batch takes as long as the one before.
    half, whole = (
        _StepPricing(_shorten_step(sites, count), machine).price()
        for count in (MAX_SCHEDULED_MICRO_BATCHES // 2, MAX_SCHEDULED_MICRO_BATCHES)
    )
    times = (sites.count - MAX_SCHEDULED_MICRO_BATCHES) / (
        MAX_SCHEDULED_MICRO_BATCHES - MAX_SCHEDULED_MICRO_BATCHES // 2
    )
    work = {
        lane: {what: round(own + times * (own - half.work[lane][what])) for what, own in works.items()}
        for lane, works in whole.work.items()
    }
    cycles = round(whole.cycles + times * (whole.cycles - half.cycles))
    return StepCost(cycles, whole.words, spans=whole.spans, work=work)


def _shorten_step(sites: ChainPlacement, count: int) -> ChainPlacement:
    return replace(sites, chain=replace(sites.chain, samples=count * sites.micro))


def layer_cycles(chain: LayerChain, layer: int, rect: Rect, micro: int, machine: Machine) -> int:
    """Cycles of one layer for a step on a rectangle, if it waited for no other one. Raises PlacementError if too small.

    The last one waits for the loss of each micro-batch. A placer asks this of many rectangles, so that nothing of the
    other layers is priced.
    """
    rects = [rect if n == layer else Rect(0, 0, 3, 3) for n in range(len(chain.layers))]
    pricing = _StepPricing(sites_of(chain, rects, micro), machine)
    cycles = pricing.layer_cycles(layer)
    require_memory(max(pricing.bodies.words, pricing.sites.maps[layer].room.words), machine)
    return cycles


def end_core_words(chain: LayerChain, micro: int) -> int:
    """Words on the core behind the last layer, which has the loss."""
    # The core that feeds and the one at the end stand for the edge: samples and labels come over it as they are
    # needed, and one micro-batch counts.
    return make_end_map(replace(chain, samples=micro), micro).room.words


def require_memory(words: int, machine: Machine, which: str = "a core") -> None:
    """Raises PlacementError if a core has fewer words; `which` says what core it is."""
    size, usable = words * WORD_BYTES, machine.usable_bytes_per_pe
    if size > usable:
        text = f"{size:,} bytes on {which} of {usable:,} usable"
        raise PlacementError(text, hint="Use a smaller batch, or a larger machine.")


class _StepPricing:
    """Writes the lanes of one pipeline."""

    def __init__(self, sites: ChainPlacement, machine: Machine):
        self.sites, self.chain, self.machine = sites, sites.chain, machine
        # The same instructions as in the programs: what a core does alone takes exactly what is counted here.
        self.bodies = CoreBodies(sites)
        self.setup = round_cycles(machine.dsd_setup_cycles)
        # A word that a core passes on goes up its ramp, down again, and to the next router.
        self.pass_cycles = math.ceil(machine.depth_step_cycles + machine.hop_cycles)
        self.lanes: dict[str, list[LaneStep]] = {}
        self.ways: dict[str, ChannelTiming] = {}

    def price(self) -> StepCost:
        chain, last = self.chain, len(self.chain.layers) - 1
        self.lanes["feed"] = [SendStep("0 in", self._words(chain.layers[0].inputs))] * self.sites.count
        for n in range(last + 1):
            self.lanes[f"layer {n}"] = self._layer(n)
            if n < last:
                self._port(f"{n} out", f"{n + 1} in", chain.layers[n].outputs)
            if n and chain.is_training:
                self._port(f"{n} back", f"{n - 1} arrives", chain.layers[n].inputs)
        self.lanes["end"] = self._end()
        self._ways()
        spans = schedule_lanes(self.lanes, self.ways, self.setup)
        work = {lane: self._work(steps) for lane, steps in self.lanes.items()}
        return StepCost(max(span.end_cycles for span in spans), self._memory_words(), spans=spans, work=work)

    def _work(self, steps: Sequence[LaneStep]) -> dict[str, int]:
        work: dict[str, int] = {}
        for step in steps:
            what = step.label.partition(" ")[0]
            own = step.cycles if isinstance(step, BusyStep) else self.setup + step.words + step.tail_cycles
            work[what] = work.get(what, 0) + own
        return work

    def _memory_words(self) -> int:
        # Programs share one size of memory, that of the core which holds the most.
        end = end_core_words(self.chain, self.sites.micro)
        ports = max(self._words(layer.outputs) for layer in self.chain.layers)
        return max(end, ports, self.bodies.words, *(memory.room.words for memory in self.sites.maps))

    def layer_cycles(self, n: int) -> int:
        """Cycles of a layer, if it waited for no other one."""
        # One micro-batch is as good as any other, and a batch may have thousands.
        each = sum(self._work([*self._forward(n, 0), *self._backward(n, 0)]).values())
        if self.chain.is_training and n == len(self.chain.layers) - 1:
            each += self._time(self.bodies.end("sample", 0))
        return self._once(n, "before") + self.sites.count * each + self._once(n, "after")

    def _words(self, columns: int) -> int:
        return columns * self.sites.micro

    def _port(self, source: str, target: str, columns: int) -> None:
        words = self._words(columns)
        self.lanes[f"port {source}"] = [ReceiveStep(source, words), SendStep(target, words)] * self.sites.count

    def _ways(self) -> None:
        """Hops between a port and the core that it gives to; a queue at each router, and the wires to it."""
        # The same ends as in `layer_routes`; a way turns once at most, so that its length is known without its route.
        seats, machine = self.sites.seats, self.machine
        for n, on in enumerate(seats):
            before = on.before if n == 0 else seats[n - 1].after
            ends = {f"{n} in": (before, on.cell(0, 0)), f"{n} out": (on.cell(0, on.height - 1), on.after)}
            behind = on.after if n == len(seats) - 1 else seats[n + 1].before
            ends |= {
                f"{n} arrives": (behind, on.cell(0, on.height - 1)),
                f"{n} back": (on.cell(on.width - 1, 0), on.before),
            }
            for channel, ((x, y), (to_x, to_y)) in ends.items():
                hops = abs(x - to_x) + abs(y - to_y)
                lag = math.ceil(2 * machine.ramp_cycles + 1 + hops * machine.hop_cycles)
                # Each router on the way has a queue, and the core at the end one more.
                self.ways[channel] = ChannelTiming(lag, int(machine.queue_depth) * (hops + 2) + lag)

    def _layer(self, n: int) -> list[LaneStep]:
        steps: list[LaneStep] = [BusyStep(self._once(n, "before"), "before")]
        # All slots of a layer begin in the same banks, so that one micro-batch is as good as any other.
        sweeps = {"forward": self._forward(n, 0), "backward": self._backward(n, 0)}
        for sweep, m in self.sites.turns(n):
            same = sweeps[sweep]
            steps += [replace(step, label=f"{sweep} {m}") for step in same]
        return [*steps, BusyStep(self._once(n, "after"), "update")]

    def _forward(self, n: int, m: int) -> list[LaneStep]:
        # The core with the largest tile stands for all: the others wait for it at the next sum.
        on, memory, (inner, outer) = self.sites.seats[n], self.sites.maps[n], self.sites.seats[n].most
        product = self._time(self.bodies.product(n, "forward", (inner, outer), memory.activations(m), memory.partial))
        sums = self._chain(on.width, self._words(outer))
        edge = self._time(self.bodies.edge(n, outer, m, is_back=False))
        return [
            ReceiveStep(f"{n} in", self._words(on.inputs), self._along(on.width) + self._spread(on.height, inner)),
            BusyStep(product + sums + edge),
            SendStep(f"{n} out", self._words(on.outputs), self._along(on.height)),
        ]

    def _backward(self, n: int, m: int) -> list[LaneStep]:
        on, memory, (inner, outer) = self.sites.seats[n], self.sites.maps[n], self.sites.seats[n].most
        if not self.chain.is_training:
            return []
        edge = self._time(self.bodies.edge(n, outer, m, is_back=True))
        spread = self._spread(on.width, outer)
        steps: list[LaneStep] = [
            ReceiveStep(f"{n} arrives", self._words(on.outputs), self._along(on.height)),
            BusyStep(edge + spread),
        ]
        if n:
            product = self.bodies.product(n, "input", (inner, outer), memory.gradient, memory.partial)
            steps += [
                BusyStep(self._time(product) + self._chain(on.height, self._words(inner))),
                SendStep(f"{n} back", self._words(on.inputs), self._along(on.width)),
            ]
        # The gradient of the activations is given first: the layer before can begin.
        change = self.bodies.product(n, "weight", (inner, outer), memory.gradient, memory.activations(m))
        return [*steps, BusyStep(self._time(change))]

    def _end(self) -> list[LaneStep]:
        last = len(self.chain.layers) - 1
        words = self._words(self.chain.layers[-1].outputs)
        steps: list[LaneStep] = [BusyStep(self._time(self.bodies.end("before", 0)), "before")]
        # Micro-batches begin in all pairs of banks in turn, and conflicts depend on nothing else.
        times = [self._time(self.bodies.end("sample", m)) for m in range(min(self.sites.count, BANK_PAIRS))]
        for m in range(self.sites.count):
            label = f"loss {m}"
            steps += [ReceiveStep(f"{last} out", words, label=label), BusyStep(times[m % BANK_PAIRS], label)]
            if self.chain.is_training:
                steps.append(SendStep(f"{last} arrives", words, label=label))
        return [*steps, BusyStep(self._time(self.bodies.end("after", 0)), "after")]

    def _once(self, n: int, when: StepPart) -> int:
        return self._time(self.bodies.once(n, self.sites.seats[n].most, is_edge=True, when=when))

    def _time(self, body: CoreBody) -> int:
        return body_cycles(body, self.machine)

    def _along(self, cores: int) -> int:
        """What a line of cores adds to a stream of which each takes or gives its own part."""
        # Between its own part and what it passes on a core begins another operation, and the stream waits for that.
        return (cores - 1) * (self.pass_cycles + self.setup)

    def _spread(self, cores: int, columns: int) -> int:
        """Cycles in which a core gives its words to all of a line."""
        if cores == 1:
            return 0
        hops = math.ceil((cores - 1) * self.machine.hop_cycles + 2 * self.machine.ramp_cycles + 1)
        return self.setup + self._words(columns) + hops

    def _chain(self, cores: int, words: int) -> int:
        """Cycles in which words of a line are summed."""
        # All but the last core wait at their addition already: one setup, and the way of the first word.
        return 0 if cores == 1 else self.setup + words + (cores - 1) * self.pass_cycles
