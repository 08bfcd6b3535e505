"""Shape curves: arrays with the least height of a block for each width.

`curve[w - 1]` is the least height for a width of at most w, or `INFEASIBLE`. A curve never increases. Its inverse is
the least width for each height. The curve of stacked blocks is the sum of their curves, and the inverse curve of
adjacent blocks is the sum of their inverses.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

ShapeCurve = NDArray[np.int16]

INFEASIBLE = 16000
"""A height larger than any mesh. The sum of two still fits in 16 bits, which gives the widest vector additions."""


def curve_from_shapes(shapes: Iterable[tuple[int, int]], width: int, height: int) -> ShapeCurve:
    """Return the curve of a block that may have any of the `shapes` (width, height).

    Those larger than the mesh are left out.
    """
    pairs = np.array(list(shapes), np.int64).reshape(-1, 2)
    return curve_from_arrays(pairs[:, 0], pairs[:, 1], width, height)


def curve_from_arrays(widths: NDArray[np.int64], heights: NDArray[np.int64], width: int, height: int) -> ShapeCurve:
    """Return the curve of a block whose possible shapes are given by two arrays of equal length.

    Shapes that exceed the mesh in width or height are left out. Widths without a shape are `INFEASIBLE`.
    """
    curve = np.full(width, INFEASIBLE, np.int64)
    fits = (widths <= width) & (heights <= height)
    np.minimum.at(curve, widths[fits] - 1, heights[fits])
    return np.minimum.accumulate(curve).astype(np.int16)


def inverse_curve(curve: ShapeCurve, height: int) -> ShapeCurve:
    """Return the least width for each height from 1 to `height`, or `INFEASIBLE` where no width suffices."""
    # Count the entries above each height: the first width that suffices comes after them.
    counts = np.bincount(np.minimum(curve, height + 1), minlength=height + 2)
    first = len(curve) - np.cumsum(counts)[1 : height + 1] + 1
    return np.where(first > len(curve), INFEASIBLE, first).astype(np.int16)


def min_curve_area(curve: ShapeCurve) -> int:
    """Return the width times height of the smallest shape of a curve, or `INFEASIBLE` squared if it has none."""
    # Areas need 64 bits: a mesh has more cells than 16 bits can count.
    areas = np.arange(1, len(curve) + 1) * curve.astype(np.int64)
    return int(areas[curve < INFEASIBLE].min(initial=INFEASIBLE * INFEASIBLE))
