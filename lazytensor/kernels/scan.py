"""Running sums, products and extremes along one dimension, as routines."""

import math

import numpy as np

from lazytensor.core.dtype import float32
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.loop_parts import SPECIAL, bounds
from lazytensor.kernels.routine import Routine

_KINDS = ("add", "mul", "logaddexp")
"""The kinds of `scan`, by the number that its kernel has for them."""


def _along(module: str, x: Type, dim: int, work: int, *more: int) -> Routine | None:
    """Return the routine `module` over the tables and columns around dimension `dim`, or None unless `x` is float32 and
    not empty.
    """
    if x.dtype.host != float32.host or not x.size:
        return None
    tables, height, columns = math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :])
    parts = bounds(tables, work)
    strips = bounds(columns, work // len(parts))
    geometry = np.array([tables, height, columns, parts[0][1], strips[0][1], *more], np.int64)
    return Routine(module=module, geometry=geometry, parts=(len(parts) * len(strips),), is_special=True)


def scan(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `scan` (x -> running sums, products or sums of exponentials), or None."""
    kind = attrs["kind"]
    work = ins[0].size * (4 * SPECIAL if kind == "logaddexp" else 1)
    return _along("scan", ins[0], attrs["dim"], work, _KINDS.index(kind), int(attrs["reverse"]))


def arg_scan(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `arg_scan` (x -> indices of running extremes), or None."""
    return _along("arg_scan", ins[0], attrs["dim"], 2 * ins[0].size, int(attrs["kind"] == "min"))
