"""What recurrent layers share: a weight as panels, rows of a batch as the other factor, and their product.

A part of a layer is some rows of the batch through all times, so that no thread ever waits for another; the weight goes
by once for each time and part, and is laid out so that it goes by in order.
"""

from typing import Any

import numpy as np

from lazytensor.runtime.leaves.gather import leaf
from lazytensor.runtime.panels import LANES, ROWS, VECTORS, address, products
from lazytensor.runtime.vecmath import sigmoid_f4, tanh_f4

TILE = LANES * VECTORS


@leaf
def clear(x: Any, count: int) -> None:
    """Zeros."""
    for k in range(count):
        x[k] = 0


@leaf
def copy(source: Any, target: Any, count: int) -> None:
    """As they are."""
    for k in range(count):
        target[k] = source[k]


@leaf
def sigmoids(x: Any, count: int) -> None:
    """Each number by its sigmoid."""
    for k in range(count):
        x[k] = sigmoid_f4(x[k])


@leaf
def tanhs(x: Any, count: int) -> None:
    """Each number by its hyperbolic tangent."""
    for k in range(count):
        x[k] = tanh_f4(x[k])


@leaf
def piece(x: Any, number: int, length: int) -> Any:
    """One of the pieces of equal length that an array consists of."""
    return x[number * length : (number + 1) * length]


@leaf
def pack(weight: Any, width: int, count: int, across: int, along: int, part: int, parts: int, out: Any) -> None:
    """Every parts-th panel: TILE columns of the product, for each of the `count` factors their weights in order.

    Weights of neighbouring columns lie `across` apart, those of neighbouring factors `along`.
    """
    for panel in range(part, (width + TILE - 1) // TILE, parts):
        to = panel * TILE * count
        for k in range(count):
            for lane in range(TILE):
                column = panel * TILE + lane
                out[to] = weight[column * across + k * along] if column < width else 0
                to += 1


@leaf
def places(count: int) -> Any:
    """Where the weights of each factor begin in a panel."""
    offsets = np.empty(count, np.int64)
    for k in range(count):
        offsets[k] = k * TILE
    return offsets


@leaf
def put_row(row: Any, count: int, r: int, out: Any) -> None:
    """Row r of the other factor: blocks of ROWS rows lie side by side."""
    to = r // ROWS * ROWS * count + r % ROWS
    for k in range(count):
        out[to + k * ROWS] = row[k]


@leaf
def multiply(panels: Any, offsets: Any, width: int, count: int, rows: Any, height: int, out: Any, pitch: int) -> None:
    """out[r, column] for `height` rows, filled up to whole tiles."""
    for panel in range((width + TILE - 1) // TILE):
        b = address(panels) + 4 * panel * TILE * count
        for r in range(0, height, ROWS):
            c = address(out) + 4 * (r * pitch + panel * TILE)
            products(address(rows) + 4 * r * count, address(offsets), count, b, c, pitch)
