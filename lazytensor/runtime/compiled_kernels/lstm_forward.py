"""Forward pass of an LSTM through all time steps, for some rows of the batch."""

from typing import Any

from lazytensor.kernels.recurrent_geometry import BATCH, EACH, HIDDEN, IS_REVERSE, PACKERS, SLACK, STEPS
from lazytensor.runtime.compiled_kernels.recurrent_parts import clear, copy, multiply, pack, piece
from lazytensor.runtime.language import inline, typed
from lazytensor.runtime.vecmath import sigmoid_f4, tanh_f4


@inline
def _cell(x: Any, own: Any, bias: Any, before: Any, values: Any, cell: Any, y: Any, hidden: int) -> None:
    """Compute one row: write the gates to `values`, the new cell state to `cell` and the output to `y`.

    `x` and `own` are the products of the input and of the hidden state, and `before` is the old cell state. Each loop
    touches few arrays: LLVM checks all arrays of a loop for overlap, and does not vectorise if there are many.
    """
    for k in range(2 * hidden):
        values[k] = sigmoid_f4(x[k] + (own[k] + bias[k]))
    for k in range(2 * hidden, 3 * hidden):
        values[k] = tanh_f4(x[k] + (own[k] + bias[k]))
    for k in range(3 * hidden, 4 * hidden):
        values[k] = sigmoid_f4(x[k] + (own[k] + bias[k]))
    admit, forget = piece(values, 0, hidden), piece(values, 1, hidden)
    new, show = piece(values, 2, hidden), piece(values, 3, hidden)
    for k in range(hidden):
        cell[k] = forget[k] * before[k] + admit[k] * new[k]
    for k in range(hidden):
        y[k] = show[k] * tanh_f4(cell[k])


@typed(
    "void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1],"
    " float32[::1], float32[::1], float32[::1], float32[::1], float32[::1])",
)
def kernel(
    phase: int,
    part: int,
    g: Any,
    shared: Any,
    own: Any,
    gates: Any,
    weight: Any,
    bias: Any,
    h0: Any,
    c0: Any,
    y: Any,
    last: Any,
    values: Any,
) -> None:
    """Compute the outputs `y`, the last cell state `last` and the gates (`values`) of some rows of the batch through
    all time steps.

    Phase 0 packs the weight into `shared`. `gates` are the products of the input, and `h0` and `c0` the first hidden
    and cell states. A row of `values` holds the input, forget, cell and output gates and the cell state. If
    g[IS_REVERSE], the last time step is processed first.
    """
    steps, batch, hidden = g[STEPS], g[BATCH], g[HIDDEN]
    width = 4 * hidden
    if phase == 0:
        pack(weight, width, hidden, hidden, 1, part, g[PACKERS], shared)
        return
    first = part * g[EACH]
    height = min(g[EACH], batch - first)
    pitch, reach = width + SLACK, hidden + SLACK
    # Rows that fill up the last block are zeros.
    rows, sums = own[: g[EACH] * reach], own[g[EACH] * reach :]
    clear(rows, g[EACH] * reach)
    for r in range(height):
        copy(piece(h0, first + r, hidden), piece(rows, r, reach), hidden)
    before = 0
    for s in range(steps):
        time = steps - 1 - s if g[IS_REVERSE] else s
        multiply(
            shared, width, hidden, rows, height, sums, pitch, time * batch + first, gates, width, values, 5 * hidden
        )
        for r in range(height):
            n = time * batch + first + r
            line = piece(values, n, 5 * hidden)
            past = piece(values, 5 * (before + first + r) + 4, hidden) if s > 0 else piece(c0, first + r, hidden)
            cell, out = line[width:], piece(y, n, hidden)
            _cell(piece(gates, n, width), sums[r * pitch :], bias, past, line, cell, out, hidden)
            copy(out, piece(rows, r, reach), hidden)
            if s == steps - 1:
                copy(cell, piece(last, first + r, hidden), hidden)
        before = time * batch
