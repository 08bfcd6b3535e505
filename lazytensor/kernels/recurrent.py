"""Recurrent layers as routines: parts are sequences of the batch, each of which goes through all times by itself."""

import numpy as np

from lazytensor.core.dtype import float32
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.recurrent_geometry import SLACK
from lazytensor.kernels.routine import Routine
from lazytensor.ops.recurrent_cells import CELLS

LEAST_FLOPS = 200_000  # below that NumPy's loop is as fast as anything that has to be compiled
BLOCK = 8  # rows of the highest tile
MOST_ROWS = 32  # more do not make the passing of the weight cheaper
PACKERS = 4


def _routine(way: str, attrs: Attrs, products: Type, columns: int, factors: int) -> Routine | None:
    """The routine whose steps are products of so many factors with so many columns."""
    steps, batch, rows = products.shape
    mode = attrs["mode"]
    hidden = rows // CELLS[mode].gates
    if products.dtype is not float32 or 2 * products.size * hidden < LEAST_FLOPS:
        return None
    # Two parts at least, where there are rows for two blocks.
    each = min(MOST_ROWS, -(-batch // (2 * BLOCK)) * BLOCK)
    return Routine(
        module=f"{mode.split('_')[0].lower()}_{way}",
        geometry=np.array([steps, batch, hidden, attrs["reverse"], each, PACKERS, mode == "RNN_RELU"], np.int64),
        parts=(PACKERS, -(-batch // each)),
        shared=factors * (columns + SLACK),
        own=each * (factors + columns + 2 * SLACK + hidden),
    )


def recurrent(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """`recurrent`: product of the input, weight, bias, state -> outputs, rest of the last state, values kept."""
    rows, hidden = ins[1].shape
    return _routine("forward", attrs, ins[0], rows, hidden)


def recurrent_sweep(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """`recurrent_sweep`: see its row."""
    rows, hidden = ins[-1 - CELLS[attrs["mode"]].parts].shape
    return _routine("backward", attrs, outs[0], hidden, rows)
