"""Forward pass of a GRU through all time steps, for some rows of the batch."""

from typing import Any

from lazytensor.kernels.recurrent_geometry import BATCH, EACH, HIDDEN, IS_REVERSE, PACKERS, SLACK, STEPS
from lazytensor.runtime.compiled_kernels.recurrent_parts import clear, copy, multiply, pack, piece, sigmoids, tanhs
from lazytensor.runtime.language import inline, typed


@inline
def _cell(x: Any, own: Any, bias: Any, before: Any, values: Any, y: Any, hidden: int) -> None:
    """Compute one row: write the output to `y`, and to `values` the reset, update and new gates and one product.

    The product is the hidden state's part of the new gate, with bias, before it is multiplied with the reset gate. `x`
    and `own` are the products of the input and of the hidden state, and `before` is the old hidden state.
    """
    for k in range(2 * hidden):
        values[k] = x[k] + (own[k] + bias[k])
    sigmoids(values, 2 * hidden)
    reset, update = piece(values, 0, hidden), piece(values, 1, hidden)
    new, product = piece(values, 2, hidden), piece(values, 3, hidden)
    own_new, bias_new, x_new = piece(own, 2, hidden), piece(bias, 2, hidden), piece(x, 2, hidden)
    for k in range(hidden):
        product[k] = own_new[k] + bias_new[k]
    for k in range(hidden):
        new[k] = x_new[k] + reset[k] * product[k]
    tanhs(new, hidden)
    for k in range(hidden):
        y[k] = new[k] + update[k] * (before[k] - new[k])


@typed(
    "void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1],"
    " float32[::1], float32[::1], float32[::1])",
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
    y: Any,
    values: Any,
) -> None:
    """Compute the outputs `y` and the gates (`values`) of some rows of the batch through all time steps.

    Phase 0 packs the weight into `shared`. `gates` are the products of the input, and `h0` is the first hidden state. A
    row of `values` holds the reset, update and new gates and the hidden state's product of the new gate. If
    g[IS_REVERSE], the last time step is processed first.
    """
    steps, batch, hidden = g[STEPS], g[BATCH], g[HIDDEN]
    width = 3 * hidden
    if phase == 0:
        pack(weight, width, hidden, hidden, 1, part, g[PACKERS], shared)
        return
    first = part * g[EACH]
    height = min(g[EACH], batch - first)
    pitch, reach = width + SLACK, hidden + SLACK
    rows, sums = own[: g[EACH] * reach], own[g[EACH] * reach :]
    clear(rows, g[EACH] * reach)
    for r in range(height):
        copy(piece(h0, first + r, hidden), piece(rows, r, reach), hidden)
    before = 0
    for s in range(steps):
        time = steps - 1 - s if g[IS_REVERSE] else s
        multiply(
            shared, width, hidden, rows, height, sums, pitch, time * batch + first, gates, width, values, 4 * hidden
        )
        for r in range(height):
            n = time * batch + first + r
            past = piece(y, before + first + r, hidden) if s > 0 else piece(h0, first + r, hidden)
            out = piece(y, n, hidden)
            _cell(piece(gates, n, width), piece(sums, r, pitch), bias, past, piece(values, n, 4 * hidden), out, hidden)
            copy(out, piece(rows, r, reach), hidden)
        before = time * batch
