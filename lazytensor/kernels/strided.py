"""Gradients of strided windows as routines."""

import math

import numpy as np

from lazytensor.core.dtype import float32
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.routine import Routine

MOST_DIMS = 6
"""The number of loops of the kernel."""


def strided_sum(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `strided_sum` (gradient of a window -> gradient of the tensor).

    Return None for other types than float32, for windows of more than six dimensions, and if something is empty.
    """
    size, stride = attrs["size"], attrs["stride"]
    if ins[0].dtype.host != float32.host or len(size) > MOST_DIMS or not math.prod(size) or not outs[0].size:
        return None
    lead = MOST_DIMS - len(size)
    geometry = [outs[0].size, attrs["offset"], *(1,) * lead, *size, *(0,) * lead, *stride]
    return Routine(module="strided_sum", geometry=np.array(geometry, np.int64), parts=(1,), is_special=True)
