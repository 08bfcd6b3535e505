"""Shape curves: the least height that a block needs for each width, as an array.

`curve[w - 1]` is the least height for a width of at most w, `INFEASIBLE` if there is none; it never rises. Its inverse
is the least width for each height. Curves of blocks that stand above each other add up; for blocks beside each other
their inverses do.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

ShapeCurve = NDArray[np.int16]

INFEASIBLE = 16000
"""More than any mesh is high; two of them still fit 16 bits, in which a processor adds most at once."""


def curve_from_shapes(shapes: Iterable[tuple[int, int]], width: int, height: int) -> ShapeCurve:
    """The curve of a block that may have any of the `shapes` (width, height), on a mesh of that size."""
    pairs = np.array(list(shapes), np.int64).reshape(-1, 2)
    return curve_from_arrays(pairs[:, 0], pairs[:, 1], width, height)


def curve_from_arrays(widths: NDArray[np.int64], heights: NDArray[np.int64], width: int, height: int) -> ShapeCurve:
    """The curve of shapes that are given as two arrays."""
    # Several shapes may have one width: the lowest of them counts.
    curve = np.full(width, INFEASIBLE, np.int64)
    fits = (widths <= width) & (heights <= height)
    np.minimum.at(curve, widths[fits] - 1, heights[fits])
    return np.minimum.accumulate(curve).astype(np.int16)


def inverse_curve(curve: ShapeCurve, height: int) -> ShapeCurve:
    """The least width for each height from 1 to `height`."""
    # A height is enough for all widths from the first on whose entry does not exceed it: counted, not searched.
    counts = np.bincount(np.minimum(curve, height + 1), minlength=height + 2)
    first = len(curve) - np.cumsum(counts)[1 : height + 1] + 1
    return np.where(first > len(curve), INFEASIBLE, first).astype(np.int16)


def min_curve_area(curve: ShapeCurve) -> int:
    """Cells of the smallest shape of a curve, or `INFEASIBLE` squared if it has none."""
    # In 64 bits: a mesh has more cells than 16 bits count.
    areas = np.arange(1, len(curve) + 1) * curve.astype(np.int64)
    return int(areas[curve < INFEASIBLE].min(initial=INFEASIBLE * INFEASIBLE))
