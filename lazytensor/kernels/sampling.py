"""Sampling of images at coordinates, and its gradients, as routines."""

import math

import numpy as np

from lazytensor.core.dtype import float32
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.loop_parts import bounds
from lazytensor.kernels.routine import Routine

_TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4}
"""The number of taps along each dimension."""
_PADDING_MODES = ("zeros", "border", "reflection")
"""The padding modes, by the number that the kernels have for them."""


def _routine(module: str, attrs: Attrs, images: Type, grid: Type, by_points: bool, *more: int) -> Routine | None:
    """Return the routine `module`, or None unless the operands are float32 and not empty.

    A part is some points of some images if `by_points`, else some channels.
    """
    if images.dtype is not float32 or grid.dtype is not float32 or not images.size or not grid.size:
        return None
    n, channels, *extents = images.shape
    rank, taps, points = len(extents), _TAPS[attrs["mode"]], math.prod(grid.shape[1:-1])
    work = n * channels * points * taps**rank
    groups = bounds(n, work)
    strips = bounds(points if by_points else channels, work // len(groups))
    lead = 3 - rank
    geometry = [n, channels, strips[0][1], points, *(1,) * lead, *extents, *(1,) * lead, *(taps,) * rank]
    geometry += [_PADDING_MODES.index(attrs["padding_mode"]), int(attrs["align_corners"]), rank, groups[0][1], *more]
    return Routine(module=module, geometry=np.array(geometry, np.int64), parts=(len(groups) * len(strips),))


def grid_sample(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `grid_sample` (images, grid -> samples), or None."""
    return _routine("grid_sample", attrs, ins[0], ins[1], False, 0)


def grid_sample_image_grad(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `grid_sample_image_grad` (gradient of the samples, grid -> gradient of the images), or
    None.
    """
    return _routine("grid_sample", attrs, outs[0], ins[1], False, 1)


def grid_sample_grid_grad(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `grid_sample_grid_grad` (gradient of the samples, images, grid -> gradient of the grid), or
    None.
    """
    return _routine("grid_sample_slopes", attrs, ins[1], ins[2], True)
