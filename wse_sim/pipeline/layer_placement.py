"""A chain of layers in its rectangles: who sits where, what lies where, and in which order micro-batches come."""

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
    """The order of a layer: `flights` micro-batches forward, then one back and one forward in turn."""
    # As many forward as layers follow: when they are through, the first gradient is on its way back.
    order = [("forward", m) for m in range(min(flights, count) if is_training else count)]
    if is_training:
        for m in range(count):
            order.append(("backward", m))
            if m + flights < count:
                order.append(("forward", m + flights))
    return order


@dataclass(frozen=True)
class ChainPlacement:
    """A chain on its cores: `seats` and `maps` by layer, and `end` for the memory of the core behind them."""

    chain: LayerChain
    micro: int
    seats: Sequence[LayerRegion]
    maps: Sequence[LayerMap]
    end: MemoryMap

    @property
    def count(self) -> int:
        """Micro-batches of a step."""
        return self.chain.samples // self.micro

    def turns(self, layer: int) -> list[ScheduleEntry]:
        """The order of a layer."""
        return micro_batch_schedule(self.count, self.maps[layer].flights, self.chain.is_training)


def sites_of(chain: LayerChain, rects: Sequence[Rect], micro: int) -> ChainPlacement:
    """Put a chain on rectangles, one for each layer, with `micro` samples at a time.

    Raises LazyError for a size that does not divide the batch, PlacementError for rectangles that are too few or small.
    """
    if chain.samples % micro:
        raise LazyError(f"{chain.samples} samples in parts of {micro}", hint="Give a size that divides the batch.")
    if len(rects) != len(chain.layers):
        raise PlacementError(f"{len(rects)} rectangles for {len(chain.layers)} layers", hint="Give one for each.")
    pairs = enumerate(zip(rects, chain.layers, strict=True))
    seats = [make_layer_region(rect, layer.inputs, layer.outputs, f"layer {n}") for n, (rect, layer) in pairs]
    count = chain.samples // micro
    # One micro-batch for each layer from this one to the last is on its way; forward alone nothing waits.
    flights = [min(count, len(seats) - n) if chain.is_training else 1 for n in range(len(seats))]
    maps = [make_layer_map(chain, n, one, micro, flights[n]) for n, one in enumerate(seats)]
    return ChainPlacement(chain, micro, seats=seats, maps=maps, end=make_end_map(chain, micro))
