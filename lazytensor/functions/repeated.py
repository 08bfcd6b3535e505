"""Writes by place to views that show elements of the storage several times, as `expand` and `unfold` give them.

PyTorch lets few functions write to them: `zero_`, `fill_` of a number, `masked_fill_`, `index_fill_`, `index_put_`.
"""

import numpy as np

from lazytensor.dtype import int64
from lazytensor.functions.promotion import Operand, stored
from lazytensor.functions.shapes import dim_of
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type
from lazytensor.ops import call, const
from lazytensor.ops.index import place
from lazytensor.overlapping import has_repeats, through
from lazytensor.tensor import Tensor, arg, handle


def is_repeated(x: Tensor) -> bool:
    """Return whether x may show an element of its storage several times."""
    return bool(x.lens) and has_repeats(x)


def places_of(x: Tensor) -> np.ndarray:
    """Return the place in the storage of each element of x."""
    shape = x.cell.type.shape
    return through(np.arange(x.cell.type.size).reshape(shape), x)


def write_at(x: Tensor, places: np.ndarray, values: Node, accumulate: bool = False) -> Tensor:
    """Write values to places of the storage of x, or add them; of several values for one place the last remains."""
    base = handle(x.cell, tuple(step for step in x.lens if step[0] == "variable"), x.history)
    base.device, base.leaf_id = x.device, x.leaf_id
    flat = base.view_through("reshape", shape=(x.cell.type.size,))
    values = call("reshape", values, shape=(places.size,))
    at = const(places.reshape(-1).astype(np.int64), Type((places.size,), int64))
    flat.write(place(arg(flat), values, (at,), (0,), accumulate))
    return x


def fill(x: Tensor, value: Operand) -> Tensor:
    """Write one value to all elements that x shows."""
    places = np.unique(places_of(x))
    return write_at(x, places, stored(value, x.dtype, places.shape))


def masked_fill(x: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """Write one value to the elements that x shows where the mask holds."""
    places = places_of(x)
    places = np.unique(places[np.broadcast_to(mask.array("masked_fill_"), places.shape)])
    return write_at(x, places, stored(value, x.dtype, places.shape))


def index_fill(x: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor:
    """Write one value to the elements that x shows at the places of a dimension that a vector names."""
    places = np.unique(places_of(x).take(index.array("index_fill_"), axis=dim_of(dim, x.ndim)))
    return write_at(x, places, stored(value, x.dtype, places.shape))
