"""Register tiles, addresses and copies, which `lazytensor.native` writes in place of their calls in kernel texts."""

from typing import Any

from lazytensor.native.tiles import DOTS, LANES, PAIR, ROWS, VECTORS

__all__ = ["DOTS", "LANES", "PAIR", "ROWS", "VECTORS"]


def _written(*numbers: Any) -> Any:
    """What a text may call and Python may not."""
    raise NotImplementedError


address = copied = products = products_narrow = dots = block = block_more = block_asking = turned = asked = _written
from_image = to_result = from_result = from_weight = to_weight = _written
