"""Convolutions with one window for each channel, and their adjoint, as routines."""

import math

import numpy as np

from lazytensor.core.dtype import float32
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.loop_parts import bounds
from lazytensor.kernels.routine import Routine


def _three(values: tuple[int, ...], missing: int) -> tuple[int, ...]:
    return (missing,) * (3 - len(values)) + values


def depthwise(attrs: Attrs, image: Type, windows: Type, weight: Type, is_adjoint: bool) -> Routine | None:
    """Return the routine of a convolution from `image` to `windows`, or of its adjoint.

    Return None unless each channel has one window and one result, in float32 and at most three dimensions.
    """
    rank, channels = len(image.shape) - 2, image.shape[1]
    one_each = attrs["groups"] == channels == weight.shape[0] and weight.shape[1] == 1 and channels > 1
    is_single = all(t.dtype.host == float32.host for t in (image, windows, weight))
    if not one_each or rank > 3 or not is_single or not image.size or not windows.size:
        return None
    images, kernel = math.prod(image.shape[:2]), weight.shape[2:]
    parts = bounds(images, windows.size * math.prod(kernel))
    rows = (
        _three(image.shape[2:], 1),
        _three(windows.shape[2:], 1),
        _three(kernel, 1),
        _three(tuple(attrs["stride"]), 1),
        _three(tuple(low for low, _ in attrs["padding"]), 0),
        _three(tuple(attrs["dilation"]), 1),
    )
    numbers = [images, parts[0][1], *(v for row in rows for v in row), int(is_adjoint), channels]
    return Routine(module="depthwise", geometry=np.array(numbers, np.int64), parts=(len(parts),), is_special=True)
