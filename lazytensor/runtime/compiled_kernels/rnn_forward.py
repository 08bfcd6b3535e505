"""Forward pass of a plain (Elman) recurrent layer through all time steps, for some rows of the batch."""

from typing import Any

from lazytensor.kernels.recurrent_geometry import BATCH, EACH, HIDDEN, IS_RELU, IS_REVERSE, PACKERS, SLACK, STEPS
from lazytensor.runtime.compiled_kernels.recurrent_parts import clear, copy, multiply, pack, piece, tanhs
from lazytensor.runtime.language import inline, typed
from lazytensor.runtime.vecmath import relu_f4


@inline
def _cell(x: Any, own: Any, bias: Any, y: Any, hidden: int, is_relu: int) -> None:
    """Compute one row: apply the nonlinearity to the sum of both products and the bias, and write it to `y`."""
    for k in range(hidden):
        y[k] = x[k] + (own[k] + bias[k])
    if is_relu:
        for k in range(hidden):
            y[k] = relu_f4(y[k])
    else:
        tanhs(y, hidden)


@typed(
    "void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1],"
    " float32[::1], float32[::1])",
)
def kernel(
    phase: int, part: int, g: Any, shared: Any, own: Any, gates: Any, weight: Any, bias: Any, h0: Any, y: Any
) -> None:
    """Compute the outputs `y` of some rows of the batch through all time steps. Phase 0 packs the weight into `shared`.

    `gates` are the products of the input, and `h0` is the first hidden state. The nonlinearity is ReLU if g[IS_RELU],
    and tanh otherwise. If g[IS_REVERSE], the last time step is processed first.
    """
    steps, batch, hidden = g[STEPS], g[BATCH], g[HIDDEN]
    if phase == 0:
        pack(weight, hidden, hidden, hidden, 1, part, g[PACKERS], shared)
        return
    first = part * g[EACH]
    height = min(g[EACH], batch - first)
    pitch, reach = hidden + SLACK, hidden + SLACK
    rows, sums = own[: g[EACH] * reach], own[g[EACH] * reach :]
    clear(rows, g[EACH] * reach)
    for r in range(height):
        copy(piece(h0, first + r, hidden), piece(rows, r, reach), hidden)
    for s in range(steps):
        time = steps - 1 - s if g[IS_REVERSE] else s
        start = time * batch + first
        multiply(shared, hidden, hidden, rows, height, sums, pitch, start, gates, hidden, y, hidden)
        for r in range(height):
            n = time * batch + first + r
            out = piece(y, n, hidden)
            _cell(piece(gates, n, hidden), piece(sums, r, pitch), bias, out, hidden, g[IS_RELU])
            copy(out, piece(rows, r, reach), hidden)
