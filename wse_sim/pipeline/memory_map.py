"""Where values lie in the memories of a layer's cores, of its ports, and of the core at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from wse_sim.kernels.kernel import BANK_PAIRS, Room
from wse_sim.pipeline.layer_chain import ChainValue, LayerChain, LossWork, PointwiseWork, ValueLocation
from wse_sim.pipeline.layer_region import LayerRegion

ELEMENT_DTYPE = "float32"


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

    def add(self, value: ChainValue, words: int, slots: int = 1, bank: int | None = None) -> None:
        """Give a value room, once; `bank` as in `Room.take`."""
        if value.number not in self.addresses:
            self.addresses[value.number] = self.room.take(words * slots, ELEMENT_DTYPE, bank)
            self.sizes[value.number], self.slots[value.number] = words, slots

    def at(self, value: ChainValue, batch: int) -> int:
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


def make_layer_map(chain: LayerChain, layer: int, seat: LayerRegion, micro: int, flights: int) -> LayerMap:
    """Addresses on all cores of a layer: as large as the largest of them needs."""
    # One map for all cores: those with smaller tiles leave words free, and equal addresses make equal programs.
    memory, (inner, outer) = LayerMap(flights=flights), seat.most
    banks = _assign_banks(chain, layer)
    for value in find_location_values(chain, ValueLocation("tiles", layer)):
        memory.add(value, inner * outer, bank=banks.get(value.number))
    memory.waiting_words = _round_to_bank_pairs(inner * micro)
    memory.waiting = memory.room.take(memory.waiting_words * flights, ELEMENT_DTYPE, _ACTIVATION_BANKS)
    memory.gradient = memory.room.take(outer * micro, ELEMENT_DTYPE, _GRADIENT_BANKS)
    memory.partial = memory.room.take(max(inner, outer) * micro, ELEMENT_DTYPE, _SUM_BANKS)
    for value in find_location_values(chain, ValueLocation("edge", layer)):
        # An activation waits for its gradient, so there is one for each micro-batch on its way.
        is_sample = value.when == "sample"
        size = _round_to_bank_pairs(outer * micro) if is_sample else (outer if value.shape else 1)
        memory.add(value, size, flights if is_sample else 1, banks.get(value.number))
    return memory


def _round_to_bank_pairs(words: int) -> int:
    # Then all slots begin in one pair of banks, and every micro-batch takes as long as the first.
    return -(-words // BANK_PAIRS) * BANK_PAIRS


_WEIGHT_BANKS, _ACTIVATION_BANKS, _GRADIENT_BANKS, _SUM_BANKS = range(BANK_PAIRS)
"""Pairs of banks: of each of the three products the operands and the sum lie in three of them."""


def _assign_banks(chain: LayerChain, layer: int) -> dict[int, int]:
    """The pair of banks of what is multiplied, by the number of the value."""
    one = chain.layers[layer]
    banks = {one.weight.number: _WEIGHT_BANKS, one.result.number: _SUM_BANKS}
    if chain.is_training:
        banks |= {chain.gradient(layer).number: _GRADIENT_BANKS, chain.weight_gradient(layer).result.number: _SUM_BANKS}
    return banks


def make_end_map(chain: LayerChain, micro: int) -> MemoryMap:
    """Addresses on the core behind the last layer: what comes from outside, or goes there, lies there whole."""
    # Fetches are read after the step, so that no micro-batch may take the place of another there.
    memory, count = MemoryMap(), chain.samples // micro
    fetched = {chain.finals[f].number for f in chain.program.fetches if f in chain.finals}
    for value in find_location_values(chain, ValueLocation("end")):
        if value.when == "sample" and value.shape:
            is_whole = value.is_given or value.number in fetched
            memory.add(value, prod(value.shape[1:]) * micro, count if is_whole else 1)
        else:
            memory.add(value, prod(value.shape))
    if any(isinstance(work, LossWork) for work in chain.works):
        memory.targets = memory.room.take(chain.samples * chain.layers[-1].outputs, ELEMENT_DTYPE)
    return memory


def find_location_values(chain: LayerChain, home: ValueLocation) -> Sequence[ChainValue]:
    """All values of a home, in order."""
    # Values name themselves by number; one that is read by many is one.
    seen: dict[int, ChainValue] = {}
    for value in _all_values(chain):
        if value.home == home:
            seen[value.number] = value
    return list(seen.values())


def _all_values(chain: LayerChain) -> Sequence[ChainValue]:
    values: list[ChainValue] = []
    for layer in chain.layers:
        values += [layer.weight, layer.source, layer.result]
    for work in chain.works:
        if isinstance(work, PointwiseWork):
            values += [*work.reads, *work.writes]
        elif isinstance(work, LossWork):
            values += [work.logits, work.labels, work.losses, work.gradient]
        else:
            values += [work.source, work.result]
    return [*values, *chain.finals.values()]


def find_external_values(chain: LayerChain) -> Mapping[int, ChainValue]:
    """What comes from outside, by number."""
    return {value.number: value for value in _all_values(chain) if value.is_given}
