"""The op table: one row for each operation, one file for each family. Importing this package fills it."""

from lazytensor.ir.operation import OPS, Op
from lazytensor.ops import (
    activation,
    average,
    conv,
    draws,
    elementwise,
    factor,
    half_types,
    identity,
    index,
    integer_arithmetic,
    loss,
    norm,
    picked_loss,
    pool,
    probability,
    products,
    recurrence,
    reduce,
    rows,
    shape,
    sort,
    special_functions,
    strided,
    wafer,
)
from lazytensor.ops.op import call, const, full, full_like

FAMILIES = (
    activation,
    average,
    conv,
    draws,
    elementwise,
    factor,
    half_types,
    identity,
    index,
    integer_arithmetic,
    loss,
    norm,
    picked_loss,
    pool,
    probability,
    products,
    recurrence,
    reduce,
    rows,
    shape,
    sort,
    special_functions,
    strided,
    wafer,
)

__all__ = ["FAMILIES", "OPS", "Op", "call", "const", "full", "full_like"]
