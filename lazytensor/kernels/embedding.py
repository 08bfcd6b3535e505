"""Rows of a table by number as routines: reading them, and adding to them."""

import numpy as np

from lazytensor.core.dtype import float32, int64
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.loop_parts import bounds
from lazytensor.kernels.routine import Routine


def _routine(module: str, table: Type, rows: Type, places: tuple[Type, ...], dims: tuple[int, ...]) -> Routine | None:
    """Where one tensor of numbers indexes the first dimension, and there is a row for each."""
    is_plain = dims == (0,) and table.dtype.host == rows.dtype.host == float32.host and len(places) == 1
    if not is_plain or places[0].dtype is not int64 or rows.shape != (*places[0].shape, *table.shape[1:]):
        return None
    count, height = places[0].size, table.shape[0]
    if not rows.size or not table.size:
        return None
    columns = rows.size // count
    # Columns of a sum are apart from each other, whatever the numbers are.
    parts = bounds(columns if module == "embedding_gradient" else count, rows.size)
    return Routine(
        module=module,
        geometry=np.array([count, height, columns, parts[0][1]], np.int64),
        parts=(len(parts),),
        refusal=f"an index is out of bounds for dimension 0 with size {height}",
        error=IndexError,
        is_special=True,
    )


def index_get(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """`index_get`: table, numbers -> rows."""
    return _routine("embedding", ins[0], outs[0], ins[1:], attrs["dims"])


def index_put(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """`index_put` where rows are added: table, rows, numbers -> table."""
    # Of single numbers NumPy adds up pairs, which is more exact than one after the other.
    is_wide = len(ins[0].shape) > 1
    return (
        _routine("embedding_gradient", ins[0], ins[1], ins[2:], attrs["dims"])
        if attrs["accumulate"] and is_wide
        else None
    )
