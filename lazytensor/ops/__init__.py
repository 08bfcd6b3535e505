"""The op table: one row for each operation, one file for each family. Importing this package fills the table."""

from lazytensor.ir.operation import OPS, Op
from lazytensor.ops import (
    activation,
    average,
    cirh_only,
    cirh_rows,
    conv,
    elementwise,
    half_types,
    identity,
    index,
    integer_arithmetic,
    linalg,
    loss,
    norm,
    picked_loss,
    pool,
    probability,
    products,
    random,
    recurrence,
    reduce,
    shape,
    sort,
    special_functions,
    strided,
)
from lazytensor.ops.op import call, const, full, full_like

FAMILIES = (
    activation,
    average,
    conv,
    random,
    elementwise,
    linalg,
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
    cirh_rows,
    shape,
    sort,
    special_functions,
    strided,
    cirh_only,
)

__all__ = ["FAMILIES", "OPS", "Op", "call", "const", "full", "full_like"]
