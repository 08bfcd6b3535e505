"""Distances of pairs of rows, and their gradient, as routines."""

import math

import numpy as np

from lazytensor.core.dtype import float32
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.loop_parts import bounds
from lazytensor.kernels.routine import Routine


def _pairs(module: str, a: Type, b: Type, shared: int = 0) -> Routine | None:
    """Return the routine `module` over the rows of `a`, or None unless the operands are float32 and not empty."""
    if a.dtype.host != float32.host or not a.size or not b.size:
        return None
    (rows, columns), others = a.shape[-2:], b.shape[-2]
    matrices = math.prod(a.shape[:-2])
    parts = bounds(matrices * rows, a.size * others)
    geometry = np.array([matrices * rows, rows, others, columns, matrices, parts[0][1]], np.int64)
    phases = (1, len(parts)) if shared else (len(parts),)
    return Routine(module=module, geometry=geometry, parts=phases, shared=shared, is_special=True)


def pair_distances(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `pair_distances` (rows, rows -> distances), or None."""
    return _pairs("pair_distances", ins[0], ins[1], shared=ins[1].size)


def pair_pull(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `pair_pull` (weights, rows, rows -> weighted sums of differences), or None."""
    return _pairs("pair_pull", ins[1], ins[2])
