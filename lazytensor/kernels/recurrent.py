"""Recurrent layers as routines. A part is some sequences of the batch, through all time steps."""

import numpy as np

from lazytensor.core.dtype import float32
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.recurrent_geometry import SLACK
from lazytensor.kernels.routine import Routine
from lazytensor.ops.recurrent_cells import CELLS

LEAST_FLOPS = 200_000  # minimum flops for a routine: below this NumPy's loop is as fast as compiled code
BLOCK = 8  # rows of the highest tile
MOST_ROWS = 32  # maximum rows of a part: more do not make reading the weight cheaper
PACKERS = 4


def _routine(way: str, attrs: Attrs, products: Type, columns: int, factors: int) -> Routine | None:
    """Return the routine of a layer, or None if it is not float32 or has less than LEAST_FLOPS flops per pass.

    `way` is "forward" or "backward". In each time step, rows of `factors` elements are multiplied by a matrix of
    `columns` columns. `products` is the type of the products of the input: (steps, batch, gates * hidden).
    """
    steps, batch, rows = products.shape
    mode = attrs["mode"]
    hidden = rows // CELLS[mode].gates
    if products.dtype is not float32 or 2 * products.size * hidden < LEAST_FLOPS:
        return None
    # At least two parts, if there are rows for two blocks.
    each = min(MOST_ROWS, -(-batch // (2 * BLOCK)) * BLOCK)
    return Routine(
        module=f"{mode.split('_')[0].lower()}_{way}",
        geometry=np.array([steps, batch, hidden, attrs["reverse"], each, PACKERS, mode == "RNN_RELU"], np.int64),
        parts=(PACKERS, -(-batch // each)),
        shared=factors * (columns + SLACK),
        own=each * (factors + columns + 2 * SLACK + hidden),
    )


def recurrent(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `recurrent`, or None if it is not float32 or has little work.

    Operands are the product of the input, the weight, the bias and the state; results are the outputs, the rest of the
    last state (LSTM only) and the saved values.
    """
    rows, hidden = ins[1].shape
    return _routine("forward", attrs, ins[0], rows, hidden)


def recurrent_sweep(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `recurrent_sweep`, the backward pass, or None if it is not float32 or has little work.

    Operands are described at that operation.
    """
    rows, hidden = ins[-1 - CELLS[attrs["mode"]].parts].shape
    return _routine("backward", attrs, outs[0], hidden, rows)
