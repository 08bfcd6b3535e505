"""Solutions of triangular systems as routines."""

import math

import numpy as np

from lazytensor.core.dtype import float32
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.loop_parts import bounds
from lazytensor.kernels.routine import Routine


def triangular_solve(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `triangular_solve` (matrices, right-hand sides -> solutions), or None unless they are
    float32 and not empty.
    """
    a, b = ins
    if a.dtype is not float32 or b.dtype is not float32 or not b.size or not a.size:
        return None
    matrices, (n, columns) = math.prod(b.shape[:-2]), b.shape[-2:]
    parts = bounds(matrices, b.size * n // 2)
    strips = bounds(columns, b.size * n // 2 // len(parts))
    geometry = np.array([matrices, parts[0][1], n, columns, strips[0][1], attrs["lower"], attrs["adjoint"]], np.int64)
    return Routine(module="triangular_solve", geometry=geometry, parts=(len(parts) * len(strips),))
