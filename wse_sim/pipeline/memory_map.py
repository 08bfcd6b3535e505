"""Where values lie in the memories of a layer's cores, of its ports, and of the core at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from wse_sim.kernels.kernel import BANK_PAIRS, Room
from wse_sim.pipeline.chain import Chain, Home, Loss, Pointwise, Value
from wse_sim.pipeline.seats import Seat

WIDE = "float32"


@dataclass
class MemoryMap:
    """Addresses of values on a kind of core. `slots` has how many micro-batches of a value there is room for.

    At `targets` lie rows of zeros and a one for the labels of a loss.
    """

    room: Room = field(default_factory=Room)
    addresses: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    slots: dict[int, int] = field(default_factory=dict)
    targets: int = 0

    def add(self, value: Value, words: int, slots: int = 1, bank: int | None = None) -> None:
        """Give a value room, once; `bank` as in `Room.take`."""
        if value.number not in self.addresses:
            self.addresses[value.number] = self.room.take(words * slots, WIDE, bank)
            self.sizes[value.number], self.slots[value.number] = words, slots

    def at(self, value: Value, batch: int) -> int:
        """The address of a value for a micro-batch."""
        number = value.number
        return self.addresses[number] + batch % self.slots[number] * self.sizes[number]

    def scratch(self) -> Room:
        """Words behind all values, to work in for a while."""
        room = Room()
        room.words = self.room.words
        return room


@dataclass
class LayerMap(MemoryMap):
    """That of a layer's cores: also activations that wait, gradients that come in, and sums on their way."""

    waiting: int = 0
    waiting_words: int = 0
    flights: int = 1
    gradient: int = 0
    partial: int = 0

    def activations(self, batch: int) -> int:
        """The address of a micro-batch of activations."""
        return self.waiting + batch % self.flights * self.waiting_words


def layer_map(chain: Chain, layer: int, seat: Seat, micro: int, flights: int) -> LayerMap:
    """Addresses on all cores of a layer: as large as the largest of them needs."""
    # One map for all cores: those with smaller tiles leave words free, and equal addresses make equal programs.
    memory, (inner, outer) = LayerMap(flights=flights), seat.most
    banks = _banks(chain, layer)
    for value in values_at(chain, Home("tiles", layer)):
        memory.add(value, inner * outer, bank=banks.get(value.number))
    memory.waiting_words = _whole(inner * micro)
    memory.waiting = memory.room.take(memory.waiting_words * flights, WIDE, _ACTIVATION)
    memory.gradient = memory.room.take(outer * micro, WIDE, _GRADIENT)
    memory.partial = memory.room.take(max(inner, outer) * micro, WIDE, _SUM)
    for value in values_at(chain, Home("edge", layer)):
        # An activation waits for its gradient, so there is one for each micro-batch on its way.
        is_sample = value.when == "sample"
        size = _whole(outer * micro) if is_sample else (outer if value.shape else 1)
        memory.add(value, size, flights if is_sample else 1, banks.get(value.number))
    return memory


def _whole(words: int) -> int:
    # Then all slots begin in one pair of banks, and every micro-batch takes as long as the first.
    return -(-words // BANK_PAIRS) * BANK_PAIRS


_WEIGHT, _ACTIVATION, _GRADIENT, _SUM = range(BANK_PAIRS)
"""Pairs of banks: of each of the three products the operands and the sum lie in three of them."""


def _banks(chain: Chain, layer: int) -> dict[int, int]:
    """The pair of banks of what is multiplied, by the number of the value."""
    one = chain.layers[layer]
    banks = {one.weight.number: _WEIGHT, one.result.number: _SUM}
    if chain.is_training:
        banks |= {chain.gradient(layer).number: _GRADIENT, chain.weight_gradient(layer).result.number: _SUM}
    return banks


def end_map(chain: Chain, micro: int) -> MemoryMap:
    """Addresses on the core behind the last layer: what comes from outside, or goes there, lies there whole."""
    # Fetches are read after the step, so that no micro-batch may take the place of another there.
    memory, count = MemoryMap(), chain.samples // micro
    fetched = {chain.finals[f].number for f in chain.program.fetches if f in chain.finals}
    for value in values_at(chain, Home("end")):
        if value.when == "sample" and value.shape:
            is_whole = value.is_given or value.number in fetched
            memory.add(value, prod(value.shape[1:]) * micro, count if is_whole else 1)
        else:
            memory.add(value, prod(value.shape))
    if any(isinstance(work, Loss) for work in chain.works):
        memory.targets = memory.room.take(chain.samples * chain.layers[-1].outputs, WIDE)
    return memory


def values_at(chain: Chain, home: Home) -> Sequence[Value]:
    """All values of a home, in order."""
    # Values name themselves by number; one that is read by many is one.
    seen: dict[int, Value] = {}
    for value in _values(chain):
        if value.home == home:
            seen[value.number] = value
    return list(seen.values())


def _values(chain: Chain) -> Sequence[Value]:
    values: list[Value] = []
    for layer in chain.layers:
        values += [layer.weight, layer.source, layer.result]
    for work in chain.works:
        if isinstance(work, Pointwise):
            values += [*work.reads, *work.writes]
        elif isinstance(work, Loss):
            values += [work.logits, work.labels, work.losses, work.gradient]
        else:
            values += [work.source, work.result]
    return [*values, *chain.finals.values()]


def given(chain: Chain) -> Mapping[int, Value]:
    """What comes from outside, by number."""
    return {value.number: value for value in _values(chain) if value.is_given}
