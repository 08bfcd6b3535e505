"""Memory addresses of values on a layer's cores, and on the core at the end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from wse_sim.kernels.kernel import BANK_PAIRS, Allocator
from wse_sim.pipeline.layer_chain import ChainValue, LayerChain, LossWork, PointwiseWork, ValueLocation
from wse_sim.pipeline.layer_region import LayerRegion

ELEMENT_DTYPE = "float32"


@dataclass
class MemoryMap:
    """Addresses of values on one kind of core.

    - `room`: the memory allocated so far
    - `addresses`: the address of each value, by its number
    - `sizes`: words of each value for one micro-batch
    - `slots`: number of micro-batches that each value has memory for
    - `targets`: the address of the one-hot labels of a loss
    """

    room: Allocator = field(default_factory=Allocator)
    addresses: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    slots: dict[int, int] = field(default_factory=dict)
    targets: int = 0

    def add(self, value: ChainValue, words: int, slots: int = 1, bank: int | None = None) -> None:
        """Allocate `words` for each of `slots` micro-batches of a value. Do nothing if it has an address already.

        `bank` is the pair of memory banks to start in, as in `Allocator.take`.
        """
        if value.number not in self.addresses:
            self.addresses[value.number] = self.room.take(words * slots, ELEMENT_DTYPE, bank)
            self.sizes[value.number], self.slots[value.number] = words, slots

    def at(self, value: ChainValue, batch: int) -> int:
        """Return the address of a value for micro-batch `batch`. Slots are reused cyclically.

        Raise KeyError for a value without an address.
        """
        number = value.number
        return self.addresses[number] + batch % self.slots[number] * self.sizes[number]

    def scratch(self) -> Allocator:
        """Return an `Allocator` for scratch memory that begins after all values.

        Its allocations do not change the map.
        """
        room = Allocator()
        room.words = self.room.words
        return room


@dataclass
class LayerMap(MemoryMap):
    """The memory map of a layer's cores.

    - `waiting`, `waiting_words`: address of the saved activations, and words of each slot
    - `flights`: number of slots, which is the maximum number of micro-batches in flight
    - `gradient`: address of incoming gradients
    - `partial`: address of partial sums
    """

    waiting: int = 0
    waiting_words: int = 0
    flights: int = 1
    gradient: int = 0
    partial: int = 0

    def activations(self, batch: int) -> int:
        """Return the address of the activations of a micro-batch."""
        return self.waiting + batch % self.flights * self.waiting_words


def make_layer_map(chain: LayerChain, layer: int, seat: LayerRegion, micro: int, flights: int) -> LayerMap:
    """Return the memory map of all cores of a layer, with the sizes of the largest tile.

    `micro` are the samples of a micro-batch, and `flights` the micro-batches in flight. Activations, and per-sample
    values where results leave, have a slot for each of these.
    """
    # Use one map for all cores of a layer: equal addresses make equal programs, and smaller tiles leave memory unused.
    memory, (inner, outer) = LayerMap(flights=flights), seat.most
    banks = _assign_banks(chain, layer)
    for value in find_location_values(chain, ValueLocation("tiles", layer)):
        memory.add(value, inner * outer, bank=banks.get(value.number))
    memory.waiting_words = _round_to_bank_pairs(inner * micro)
    memory.waiting = memory.room.take(memory.waiting_words * flights, ELEMENT_DTYPE, _ACTIVATION_BANKS)
    memory.gradient = memory.room.take(outer * micro, ELEMENT_DTYPE, _GRADIENT_BANKS)
    memory.partial = memory.room.take(max(inner, outer) * micro, ELEMENT_DTYPE, _SUM_BANKS)
    for value in find_location_values(chain, ValueLocation("edge", layer)):
        # Activations wait for their gradients, so there is one slot for each micro-batch in flight.
        is_sample = value.when == "sample"
        size = _round_to_bank_pairs(outer * micro) if is_sample else (outer if value.shape else 1)
        memory.add(value, size, flights if is_sample else 1, banks.get(value.number))
    return memory


def _round_to_bank_pairs(words: int) -> int:
    # All slots then start in the same pair of banks, and all micro-batches take equally long.
    return -(-words // BANK_PAIRS) * BANK_PAIRS


_WEIGHT_BANKS, _ACTIVATION_BANKS, _GRADIENT_BANKS, _SUM_BANKS = range(BANK_PAIRS)
"""Pairs of memory banks. The operands and the sum of each of the three products are in different pairs."""


def _assign_banks(chain: LayerChain, layer: int) -> dict[int, int]:
    """Return the pair of memory banks for values that take part in products, by value number.

    They are the weight and the result and, in training, both of their gradients.
    """
    one = chain.layers[layer]
    banks = {one.weight.number: _WEIGHT_BANKS, one.result.number: _SUM_BANKS}
    if chain.is_training:
        banks |= {chain.gradient(layer).number: _GRADIENT_BANKS, chain.weight_gradient(layer).result.number: _SUM_BANKS}
    return banks


def make_end_map(chain: LayerChain, micro: int) -> MemoryMap:
    """Return the memory map of the core after the last layer, which stores inputs and fetches of the whole batch.

    Other per-sample values have memory for one micro-batch of `micro` samples. With a loss there is memory for one-hot
    labels of all samples.
    """
    # Fetches are read after the step, so their micro-batches cannot share a slot.
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
    """Return all values at the location `home`, each once, in the order of layers and then of other work."""
    seen: dict[int, ChainValue] = {}
    for value in _all_values(chain):
        if value.home == home:
            seen[value.number] = value
    return list(seen.values())


def _all_values(chain: LayerChain) -> Sequence[ChainValue]:
    """Return the values of all layers, of all works, and those that buffers hold at the end, with repetitions."""
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
    """Return a mapping from value number to value for all inputs of the step."""
    return {value.number: value for value in _all_values(chain) if value.is_given}
