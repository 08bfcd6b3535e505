"""The op table: one record for each operation, one file for each family."""

from lazytensor.ops import composite, linalg, pointwise, random, reduce, shape
from lazytensor.ops.op import OPS, Op, call, const, full, full_like

__all__ = [
    "OPS",
    "Op",
    "call",
    "composite",
    "const",
    "full",
    "full_like",
    "linalg",
    "pointwise",
    "random",
    "reduce",
    "shape",
]
