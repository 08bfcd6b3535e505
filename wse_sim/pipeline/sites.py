"""A chain of layers in its rectangles: who sits where, what lies where, and in which order micro-batches come."""

from collections.abc import Sequence
from dataclasses import dataclass

from lazytensor.errors import LazyError, PlacementError
from wse_sim.layout import Rect
from wse_sim.pipeline.chain import Chain
from wse_sim.pipeline.memory_map import LayerMap, MemoryMap, end_map, layer_map
from wse_sim.pipeline.seats import Seat, seat

Turn = tuple[str, int]
"""A sweep, "forward" or "backward", and the number of a micro-batch."""


def turns(count: int, flights: int, is_training: bool) -> list[Turn]:
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
class Sites:
    """A chain on its cores: `seats` and `maps` by layer, and `end` for the memory of the core behind them."""

    chain: Chain
    micro: int
    seats: Sequence[Seat]
    maps: Sequence[LayerMap]
    end: MemoryMap

    @property
    def count(self) -> int:
        """Micro-batches of a step."""
        return self.chain.samples // self.micro

    def turns(self, layer: int) -> list[Turn]:
        """The order of a layer."""
        return turns(self.count, self.maps[layer].flights, self.chain.is_training)


def sites_of(chain: Chain, rects: Sequence[Rect], micro: int) -> Sites:
    """Put a chain on rectangles, one for each layer, with `micro` samples at a time.

    Raises LazyError for a size that does not divide the batch, PlacementError for rectangles that are too few or small.
    """
    if chain.samples % micro:
        raise LazyError(f"{chain.samples} samples in parts of {micro}", hint="Give a size that divides the batch.")
    if len(rects) != len(chain.layers):
        raise PlacementError(f"{len(rects)} rectangles for {len(chain.layers)} layers", hint="Give one for each.")
    pairs = enumerate(zip(rects, chain.layers, strict=True))
    seats = [seat(rect, layer.inputs, layer.outputs, f"layer {n}") for n, (rect, layer) in pairs]
    count = chain.samples // micro
    # One micro-batch for each layer from this one to the last is on its way; forward alone nothing waits.
    flights = [min(count, len(seats) - n) if chain.is_training else 1 for n in range(len(seats))]
    maps = [layer_map(chain, n, one, micro, flights[n]) for n, one in enumerate(seats)]
    return Sites(chain, micro, seats=seats, maps=maps, end=end_map(chain, micro))
