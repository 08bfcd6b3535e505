"""A chain of layers on rectangles: cores and memory maps of each layer, and the order of micro-batches."""

from collections.abc import Sequence
from dataclasses import dataclass

from lazytensor.errors import LazyError, PlacementError
from wse_sim.layout import Rect
from wse_sim.pipeline.layer_chain import LayerChain
from wse_sim.pipeline.layer_region import LayerRegion, make_layer_region
from wse_sim.pipeline.memory_map import LayerMap, MemoryMap, make_end_map, make_layer_map

ScheduleEntry = tuple[str, int]
"""A sweep, "forward" or "backward", and the number of a micro-batch."""


def micro_batch_schedule(count: int, flights: int, is_training: bool) -> list[ScheduleEntry]:
    """Return the order of `count` micro-batches in a layer, as (sweep, number of the micro-batch) pairs.

    In training, the first `flights` go forward, then one backward and one forward in turn (one-forward-one-backward).
    Otherwise all go forward.
    """
    # When the first of them has passed the following layers, its gradient returns.
    order = [("forward", m) for m in range(min(flights, count) if is_training else count)]
    if is_training:
        for m in range(count):
            order.append(("backward", m))
            if m + flights < count:
                order.append(("forward", m + flights))
    return order


@dataclass(frozen=True)
class ChainPlacement:
    """A chain of layers on its cores.

    - `chain`: the chain
    - `micro`: samples of a micro-batch
    - `seats`: the region of each layer
    - `maps`: the memory map of each layer
    - `end`: the memory map of the core after the last layer
    """

    chain: LayerChain
    micro: int
    seats: Sequence[LayerRegion]
    maps: Sequence[LayerMap]
    end: MemoryMap

    @property
    def count(self) -> int:
        """Return the number of micro-batches of a step."""
        return self.chain.samples // self.micro

    def turns(self, layer: int) -> list[ScheduleEntry]:
        """Return the order of micro-batches in a layer; see `micro_batch_schedule`."""
        return micro_batch_schedule(self.count, self.maps[layer].flights, self.chain.is_training)


def sites_of(chain: LayerChain, rects: Sequence[Rect], micro: int) -> ChainPlacement:
    """Place a chain on rectangles, one for each layer, with micro-batches of `micro` samples.

    In training a layer has memory for one micro-batch for each layer from this one to the last. Raise LazyError if
    `micro` does not divide the batch, and PlacementError if there is not one rectangle for each layer or one is too
    small.
    """
    if chain.samples % micro:
        raise LazyError(
            f"{chain.samples} samples cannot be cut into parts of {micro}", hint="Use a size that divides the batch."
        )
    if len(rects) != len(chain.layers):
        raise PlacementError(
            f"there are {len(rects)} rectangles for {len(chain.layers)} layers", hint="Pass one for each layer."
        )
    pairs = enumerate(zip(rects, chain.layers, strict=True))
    seats = [make_layer_region(rect, layer.inputs, layer.outputs, f"layer {n}") for n, (rect, layer) in pairs]
    count = chain.samples // micro
    # In training, one micro-batch is in flight for each layer from this one to the last. Otherwise none waits.
    flights = [min(count, len(seats) - n) if chain.is_training else 1 for n in range(len(seats))]
    maps = [make_layer_map(chain, n, one, micro, flights[n]) for n, one in enumerate(seats)]
    return ChainPlacement(chain, micro, seats=seats, maps=maps, end=make_end_map(chain, micro))
