"""The op table: one record for each operation, one file for each family."""

from lazytensor.ops import (
    composite,
    conv,
    factor,
    index,
    integers,
    linalg,
    pointwise,
    pool,
    random,
    reduce,
    rule,
    shape,
    sort,
    special,
    strided,
)
from lazytensor.ops.op import OPS, Op, call, const, full, full_like

__all__ = [
    "OPS",
    "Op",
    "call",
    "composite",
    "conv",
    "const",
    "full",
    "full_like",
    "index",
    "integers",
    "linalg",
    "pointwise",
    "pool",
    "random",
    "reduce",
    "rule",
    "shape",
    "special",
    "sort",
    "strided",
    "factor",
]
