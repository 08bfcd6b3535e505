"""Routines that read rows of a table by index, and that add rows to a table by index."""

import numpy as np

from lazytensor.core.dtype import float32, int64
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.loop_parts import bounds
from lazytensor.kernels.routine import Routine


def _routine(module: str, table: Type, rows: Type, places: tuple[Type, ...], dims: tuple[int, ...]) -> Routine | None:
    """Return the routine `module`, or None unless one int64 tensor indexes dimension 0 of a float32 table.

    `rows` is the type of the selected rows, and `places` has the types of the indices. Return None for empty tensors
    too. Running the routine raises IndexError for an index out of range.
    """
    is_plain = dims == (0,) and table.dtype.host == rows.dtype.host == float32.host and len(places) == 1
    if not is_plain or places[0].dtype is not int64 or rows.shape != (*places[0].shape, *table.shape[1:]):
        return None
    count, height = places[0].size, table.shape[0]
    if not rows.size or not table.size:
        return None
    columns = rows.size // count
    # The gradient is cut by columns, because different indices may add to the same row.
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
    """Return the routine of `index_get` (table, indices -> rows), or None."""
    return _routine("embedding", ins[0], outs[0], ins[1:], attrs["dims"])


def index_put(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `index_put` (table, rows, indices -> table) with accumulate, or None.

    A one-dimensional table has none, because NumPy adds pairwise there, which is more accurate.
    """
    # NumPy adds single numbers pairwise, which is more accurate than one after the other.
    is_wide = len(ins[0].shape) > 1
    return (
        _routine("embedding_gradient", ins[0], ins[1], ins[2:], attrs["dims"])
        if attrs["accumulate"] and is_wide
        else None
    )
