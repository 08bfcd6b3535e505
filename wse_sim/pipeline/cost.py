"""Price of a pipelined step without simulating wavelets, from lanes of its layers, its ports and both its ends.

Local work is counted by instruction, exactly as cores run it. Streams are priced by their words and by what each core
on the way adds. Filling and draining the pipeline follow from the schedule of the lanes, so there is no separate term
for them.
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
    """The price of a step.

    - `cycles`: cycles of the step
    - `words`: words in the memory of each core
    - `spans`: when each lane does each of its steps
    - `work`: for each lane, and each first word of a step's label, the cycles without waiting
    """

    cycles: int
    words: int
    spans: tuple[LaneSpan, ...]
    work: Mapping[str, Mapping[str, int]]

    def own_cycles(self, lane: str) -> int:
        """Return the cycles of a lane without waiting for others."""
        return sum(self.work[lane].values())


MAX_SCHEDULED_MICRO_BATCHES = 128
"""Maximum number of micro-batches that are scheduled.

Further ones are extrapolated from the rhythm of the second half of these.
"""


def price_step(sites: ChainPlacement, machine: Machine) -> StepCost:
    """Return the price of a step. The memory of cores is not checked.

    With more than MAX_SCHEDULED_MICRO_BATCHES micro-batches, `spans` covers only that number of them, and other numbers
    are extrapolated.
    """
    if sites.count <= MAX_SCHEDULED_MICRO_BATCHES:
        return _StepPricing(sites, machine).price()
    # The pipeline is full after half of them, and then each micro-batch takes equally long.
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
    """Return the placement with `count` micro-batches."""
    return replace(sites, chain=replace(sites.chain, samples=count * sites.micro))


def layer_cycles(chain: LayerChain, layer: int, rect: Rect, micro: int, machine: Machine) -> int:
    """Return the cycles of one layer for a step on `rect` without waiting for other layers.

    The last layer in training waits for the loss of each micro-batch, which is included. Raise PlacementError if the
    rectangle is too small or a core lacks memory. Placers call this for many rectangles, so other layers are not
    priced.
    """
    rects = [rect if n == layer else Rect(0, 0, 3, 3) for n in range(len(chain.layers))]
    pricing = _StepPricing(sites_of(chain, rects, micro), machine)
    cycles = pricing.layer_cycles(layer)
    require_memory(max(pricing.bodies.words, pricing.sites.maps[layer].room.words), machine)
    return cycles


def end_core_words(chain: LayerChain, micro: int) -> int:
    """Return the words on the core after the last layer, which computes the loss."""
    # These cores represent the wafer's edge: samples and labels stream in as they are needed, so one micro-batch
    # counts.
    return make_end_map(replace(chain, samples=micro), micro).room.words


def require_memory(words: int, machine: Machine, which: str = "a core") -> None:
    """Raise PlacementError if `words` words of 4 bytes exceed the usable memory of a core.

    `which` names the core in the message.
    """
    size, usable = words * WORD_BYTES, machine.usable_bytes_per_pe
    if size > usable:
        text = f"{which} needs {size:,} bytes and has {usable:,} usable bytes"
        raise PlacementError(text, hint="Use a smaller batch or a larger machine.")


class _StepPricing:
    """The lanes of one pipeline.

    - `setup`: cycles to start a vector operation
    - `pass_cycles`: cycles for a word to pass through a core to the next router
    - `lanes`: the steps of each lane
    - `ways`: latency and queue space of each channel
    """

    def __init__(self, sites: ChainPlacement, machine: Machine):
        self.sites, self.chain, self.machine = sites, sites.chain, machine
        # Use the instructions of the programs, so that local work is counted exactly.
        self.bodies = CoreBodies(sites)
        self.setup = round_cycles(machine.loaded_setup_cycles)
        # A word passes up the ramp, down again, and to the next router.
        self.pass_cycles = math.ceil(machine.depth_step_cycles + machine.hop_cycles)
        self.lanes: dict[str, list[LaneStep]] = {}
        self.ways: dict[str, ChannelTiming] = {}

    def price(self) -> StepCost:
        """Return the price of the step, after scheduling the lanes of all layers, of all ports and of both ends.

        Call it once, because it adds the lanes to `lanes` and `ways`.
        """
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
        """Return the cycles of steps without waiting, by the first word of their labels.

        A send or receive takes a setup, a cycle for each word, and its tail.
        """
        work: dict[str, int] = {}
        for step in steps:
            what = step.label.partition(" ")[0]
            own = step.cycles if isinstance(step, BusyStep) else self.setup + step.words + step.tail_cycles
            work[what] = work.get(what, 0) + own
        return work

    def _memory_words(self) -> int:
        """Return the memory of a core in words: that of the core that needs most, which all cores have.

        Prices of all layers have to be computed before.
        """
        # All programs have one memory size, that of the core which needs most.
        end = end_core_words(self.chain, self.sites.micro)
        ports = max(self._words(layer.outputs) for layer in self.chain.layers)
        return max(end, ports, self.bodies.words, *(memory.room.words for memory in self.sites.maps))

    def layer_cycles(self, n: int) -> int:
        """Return the cycles of layer `n` for all micro-batches without waiting for other layers.

        In training the last layer includes the loss of each micro-batch.
        """
        # All micro-batches take equally long, and a batch may have thousands.
        each = sum(self._work([*self._forward(n, 0), *self._backward(n, 0)]).values())
        if self.chain.is_training and n == len(self.chain.layers) - 1:
            each += self._time(self.bodies.end("sample", 0))
        return self._once(n, "before") + self.sites.count * each + self._once(n, "after")

    def _words(self, columns: int) -> int:
        return columns * self.sites.micro

    def _port(self, source: str, target: str, columns: int) -> None:
        """Add the lane of a port that receives from channel `source` and sends to channel `target`.

        It buffers each micro-batch of `columns` words for each sample.
        """
        words = self._words(columns)
        self.lanes[f"port {source}"] = [ReceiveStep(source, words), SendStep(target, words)] * self.sites.count

    def _ways(self) -> None:
        """Set in `ways` the latency and the queue space of all channels between ports and layers.

        Both grow with the distance.
        """
        # The ends are those of `layer_routes`. Routes turn at most once, so their length is the Manhattan distance.
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
                self.ways[channel] = ChannelTiming(lag, int(machine.queue_depth) * (hops + 2) + lag)

    def _layer(self, n: int) -> list[LaneStep]:
        """Return the steps of layer `n`: work before all samples, all micro-batches in order, and the update.

        Labels are the sweep and the number of the micro-batch.
        """
        steps: list[LaneStep] = [BusyStep(self._once(n, "before"), "before")]
        # All slots of a layer start in the same banks, so all micro-batches take equally long.
        sweeps = {"forward": self._forward(n, 0), "backward": self._backward(n, 0)}
        for sweep, m in self.sites.turns(n):
            same = sweeps[sweep]
            steps += [replace(step, label=f"{sweep} {m}") for step in same]
        return [*steps, BusyStep(self._once(n, "after"), "update")]

    def _forward(self, n: int, m: int) -> list[LaneStep]:
        """Return the forward steps of layer `n` for micro-batch `m`: receive, compute and sum, send.

        They are those of the core with the largest tile, since the others wait for it.
        """
        # Price the core with the largest tile: the others wait for it at the next sum.
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
        """Return the steps of layer `n` for a micro-batch backward; none without training.

        They are: receive the gradient, distribute it, send the gradient of activations (except in the first layer), and
        compute the weight gradient.
        """
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
        # Send the gradient of the activations first, so that the previous layer can start.
        change = self.bodies.product(n, "weight", (inner, outer), memory.gradient, memory.activations(m))
        return [*steps, BusyStep(self._time(change))]

    def _end(self) -> list[LaneStep]:
        """Return the steps of the core after the last layer: work before all samples, each micro-batch, and work after.

        For each micro-batch it receives results, computes the loss and, in training, sends the gradient.
        """
        last = len(self.chain.layers) - 1
        words = self._words(self.chain.layers[-1].outputs)
        steps: list[LaneStep] = [BusyStep(self._time(self.bodies.end("before", 0)), "before")]
        # Bank conflicts depend only on the pair of banks in which a micro-batch starts, and these repeat.
        times = [self._time(self.bodies.end("sample", m)) for m in range(min(self.sites.count, BANK_PAIRS))]
        for m in range(self.sites.count):
            label = f"loss {m}"
            steps += [ReceiveStep(f"{last} out", words, label=label), BusyStep(times[m % BANK_PAIRS], label)]
            if self.chain.is_training:
                steps.append(SendStep(f"{last} arrives", words, label=label))
        return [*steps, BusyStep(self._time(self.bodies.end("after", 0)), "after")]

    def _once(self, n: int, when: StepPart) -> int:
        """Return the cycles of the work that layer `n` does once, before or after all samples."""
        return self._time(self.bodies.once(n, self.sites.seats[n].most, is_edge=True, when=when))

    def _time(self, body: CoreBody) -> int:
        return body_cycles(body, self.machine)

    def _along(self, cores: int) -> int:
        """Return the cycles that a line of cores adds to a stream of which each core takes or gives a part."""
        # A core starts another operation between its part and what it forwards, and the stream waits for that.
        return (cores - 1) * (self.pass_cycles + self.setup)

    def _spread(self, cores: int, columns: int) -> int:
        """Return the cycles in which a core sends its `columns` of a micro-batch to all cores of a line.

        It is 0 for a line of a single core.
        """
        if cores == 1:
            return 0
        hops = math.ceil((cores - 1) * self.machine.hop_cycles + 2 * self.machine.ramp_cycles + 1)
        return self.setup + self._words(columns) + hops

    def _chain(self, cores: int, words: int) -> int:
        """Return the cycles in which `words` are summed along a line of cores; 0 for a single core."""
        # The other cores wait in their addition already: count one setup, and the way of the first word.
        return 0 if cores == 1 else self.setup + words + (cores - 1) * self.pass_cycles
