"""Helpers of recurrent layers: pack a weight into panels, and multiply it with rows of a batch.

A part of a layer is some rows of the batch through all time steps, so that no thread waits for another. The weight is
read once for each time step and part, and its panels are contiguous in that order.
"""

from typing import Any

import numpy as np

from lazytensor.kernels.recurrent_geometry import SLACK
from lazytensor.runtime.language import inline
from lazytensor.runtime.panels import PAIR, ROWS, address, block_asking
from lazytensor.runtime.vecmath import sigmoid_f4, tanh_f4

ONE, ZERO = np.float32(1), np.float32(0)
"""Typed constants: bare numbers would be int64 and make the arithmetic float64."""


@inline
def clear(x: Any, count: int) -> None:
    """Set the first `count` elements of x to zero."""
    for k in range(count):
        x[k] = 0


@inline
def copy(source: Any, target: Any, count: int) -> None:
    """Copy the first `count` elements of `source` to `target`."""
    for k in range(count):
        target[k] = source[k]


@inline
def sigmoids(x: Any, count: int) -> None:
    """Replace the first `count` elements of x by their sigmoid."""
    for k in range(count):
        x[k] = sigmoid_f4(x[k])


@inline
def tanhs(x: Any, count: int) -> None:
    """Replace the first `count` elements of x by their hyperbolic tangent."""
    for k in range(count):
        x[k] = tanh_f4(x[k])


@inline
def piece(x: Any, number: int, length: int) -> Any:
    """Return piece `number` of an array that consists of pieces of `length` elements."""
    return x[number * length : (number + 1) * length]


@inline
def pack(weight: Any, width: int, count: int, across: int, along: int, part: int, parts: int, out: Any) -> None:
    """Pack every `parts`-th panel of a weight, from panel `part` on, into `out`.

    A panel holds PAIR columns of the product, and for each of `count` factors their weights. In `weight`, neighbouring
    columns are `across` elements apart and neighbouring factors `along`. Columns from `width` on are zeros.
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
    """Multiply `height` rows of `count` factors with packed panels: out[r, column] for `width` columns.

    Rows of `rows` are count + SLACK elements apart, rows of `out` `pitch`. The number of rows is rounded up to whole
    tiles. Meanwhile `height` rows of `x` and of `y`, from row `first` on, are prefetched for their next use; `x_length`
    and `y_length` are their row lengths.
    """
    # SLACK keeps rows whose length is a power of two from sharing one cache set.
    reach = count + SLACK
    steps = (width + PAIR - 1) // PAIR * ((height + ROWS - 1) // ROWS) * count
    # Bytes to prefetch per term, so that prefetches are spread evenly: many at once would stall.
    x_step = (4 * height * x_length + steps - 1) // steps
    y_step = (4 * height * y_length + steps - 1) // steps
    from_x, from_y = address(x) + 4 * first * x_length, address(y) + 4 * first * y_length
    for panel in range((width + PAIR - 1) // PAIR):
        b = address(panels) + 4 * panel * PAIR * count
        for r in range(0, height, ROWS):
            a, c = address(rows) + 4 * r * reach, address(out) + 4 * (r * pitch + panel * PAIR)
            block_asking(a, reach, 1, count, b, c, pitch, from_x, x_step, from_y, y_step)
            from_x, from_y = from_x + x_step * count, from_y + y_step * count
