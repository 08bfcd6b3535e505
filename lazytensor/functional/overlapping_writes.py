"""In-place writes to views that contain storage elements several times, such as those of `expand` and `unfold`.

PyTorch allows such writes in few functions: `zero_`, `fill_` of a number, `masked_fill_`, `index_fill_`, `index_put_`.
"""

import numpy as np

from lazytensor.core.dtype import int64
from lazytensor.core.overlapping_views import apply_views, has_repeats
from lazytensor.core.tensor import Tensor, operand_node, tensor_from_storage
from lazytensor.functional.type_promotion import Operand, prepare_stored
from lazytensor.functional.views import normalize_dim
from lazytensor.ir.graph import Node
from lazytensor.ir.types import Type
from lazytensor.ops import call, const
from lazytensor.ops.index import index_put_at


def has_repeated_elements(x: Tensor) -> bool:
    """Return whether the view `x` may contain an element of its storage several times."""
    return bool(x.view_ops) and has_repeats(x)


def storage_indices(x: Tensor) -> np.ndarray:
    """Return the flat storage index of each element of `x`, as an array in the shape of `x`."""
    shape = x.cell.type.shape
    return apply_views(np.arange(x.cell.type.size).reshape(shape), x)


def write_at_indices(x: Tensor, places: np.ndarray, values: Node, accumulate: bool = False) -> Tensor:
    """Write `values` to the flat storage indices `places` of `x`, or add them if `accumulate` is true, and return `x`.

    If an index occurs several times, the last value remains, or all are added.
    """
    base = tensor_from_storage(x.cell, tuple(step for step in x.view_ops if step[0] == "variable"), x.history)
    base.device, base.leaf_id = x.device, x.leaf_id
    flat = base.make_view("reshape", shape=(x.cell.type.size,))
    values = call("reshape", values, shape=(places.size,))
    at = const(places.reshape(-1).astype(np.int64), Type((places.size,), int64))
    flat.write(index_put_at(operand_node(flat), values, (at,), (0,), accumulate))
    return x


def fill(x: Tensor, value: Operand) -> Tensor:
    """Write the number `value` to all elements of `x`, and return `x`.

    `x` may contain storage elements several times. Raises NumberTooLarge if the dtype cannot hold the number.
    """
    places = np.unique(storage_indices(x))
    return write_at_indices(x, places, prepare_stored(value, x.dtype, places.shape))


def masked_fill(x: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """Write the number `value` to the elements of `x` where `mask` is true, and return `x`.

    `x` may contain storage elements several times; one is written if `mask` is true for any occurrence. `mask`
    broadcasts to `x` and is read.
    """
    places = storage_indices(x)
    places = np.unique(places[np.broadcast_to(mask.array("masked_fill_"), places.shape)])
    return write_at_indices(x, places, prepare_stored(value, x.dtype, places.shape))


def index_fill(x: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor:
    """Write the number `value` to the elements of `x` at the positions `index` along `dim`, and return `x`.

    `x` may contain storage elements several times. `index` is read.
    """
    places = np.unique(storage_indices(x).take(index.array("index_fill_"), axis=normalize_dim(dim, x.ndim)))
    return write_at_indices(x, places, prepare_stored(value, x.dtype, places.shape))
