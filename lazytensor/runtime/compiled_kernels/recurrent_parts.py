"""What recurrent layers share: a weight as panels, rows of a batch as the other factor, and their product.

A part of a layer is some rows of the batch through all times, so that no thread ever waits for another; the weight goes
by once for each time and part, and is laid out so that it goes by in order.
"""

from typing import Any

import numpy as np

from lazytensor.kernels.recurrent_geometry import SLACK
from lazytensor.runtime.language import inline
from lazytensor.runtime.panels import PAIR, ROWS, address, block_asking
from lazytensor.runtime.vecmath import sigmoid_f4, tanh_f4

ONE, ZERO = np.float32(1), np.float32(0)
"""As bare numbers they would be whole ones of 64 bits, and all that they meet be computed in double precision."""


@inline
def clear(x: Any, count: int) -> None:
    """Zeros."""
    for k in range(count):
        x[k] = 0


@inline
def copy(source: Any, target: Any, count: int) -> None:
    """As they are."""
    for k in range(count):
        target[k] = source[k]


@inline
def sigmoids(x: Any, count: int) -> None:
    """Each number by its sigmoid."""
    for k in range(count):
        x[k] = sigmoid_f4(x[k])


@inline
def tanhs(x: Any, count: int) -> None:
    """Each number by its hyperbolic tangent."""
    for k in range(count):
        x[k] = tanh_f4(x[k])


@inline
def piece(x: Any, number: int, length: int) -> Any:
    """One of the pieces of equal length that an array consists of."""
    return x[number * length : (number + 1) * length]


@inline
def pack(weight: Any, width: int, count: int, across: int, along: int, part: int, parts: int, out: Any) -> None:
    """Every parts-th panel: PAIR columns of the product, for each of the `count` factors their weights in order.

    Weights of neighbouring columns lie `across` apart, those of neighbouring factors `along`.
    """
    for panel in range(part, (width + PAIR - 1) // PAIR, parts):
        column = panel * PAIR
        lanes = min(PAIR, width - column)
        for k in range(count):
            to, at = (panel * count + k) * PAIR, column * across + k * along
            for lane in range(lanes):
                out[to + lane] = weight[at + lane * across]
            for lane in range(lanes, PAIR):
                out[to + lane] = 0


@inline
def multiply(
    panels: Any,
    width: int,
    count: int,
    rows: Any,
    height: int,
    out: Any,
    pitch: int,
    first: int,
    x: Any,
    x_length: int,
    y: Any,
    y_length: int,
) -> None:
    """out[r, column] for `height` rows of `count` factors, SLACK apart, filled up to whole tiles.

    Meanwhile memory brings as many rows of `x` and `y` from the first on: what is used next.
    """
    # Were rows of a power of two close together, all of them would share one set of the cache.
    reach = count + SLACK
    steps = (width + PAIR - 1) // PAIR * ((height + ROWS - 1) // ROWS) * count
    # Bytes a step, so that all are asked for evenly: many at once would have to be waited for.
    x_step = (4 * height * x_length + steps - 1) // steps
    y_step = (4 * height * y_length + steps - 1) // steps
    from_x, from_y = address(x) + 4 * first * x_length, address(y) + 4 * first * y_length
    for panel in range((width + PAIR - 1) // PAIR):
        b = address(panels) + 4 * panel * PAIR * count
        for r in range(0, height, ROWS):
            a, c = address(rows) + 4 * r * reach, address(out) + 4 * (r * pitch + panel * PAIR)
            block_asking(a, reach, 1, count, b, c, pitch, from_x, x_step, from_y, y_step)
            from_x, from_y = from_x + x_step * count, from_y + y_step * count
