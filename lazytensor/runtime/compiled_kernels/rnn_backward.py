"""Backward pass of a plain (Elman) recurrent layer through all time steps, last step first, for some rows of
the batch.
"""

from typing import Any

from lazytensor.kernels.recurrent_geometry import BATCH, EACH, HIDDEN, IS_RELU, IS_REVERSE, PACKERS, SLACK, STEPS
from lazytensor.runtime.compiled_kernels.recurrent_parts import ONE, ZERO, clear, copy, multiply, pack, piece
from lazytensor.runtime.language import inline, typed


@inline
def _cell(dh: Any, seed: Any, y: Any, out: Any, hidden: int, is_relu: int) -> None:
    """Compute one row: add the gradient `seed` of the output to `dh`, in place, and write the gradient of the products
    to `out`.

    `y` is the output. The nonlinearity is ReLU if `is_relu`, and else tanh. The slope of ReLU at 0 is 0.
    """
    for k in range(hidden):
        dh[k] += seed[k]
    if is_relu:
        for k in range(hidden):
            out[k] = dh[k] if y[k] > ZERO else ZERO
    else:
        for k in range(hidden):
            out[k] = dh[k] * (ONE - y[k] * y[k])


@typed(
    "void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1],"
    " float32[::1], float32[::1], float32[::1])",
)
def kernel(
    phase: int, part: int, g: Any, shared: Any, own: Any, seeds: Any, y: Any, weight: Any, h0: Any, out: Any, d_h0: Any
) -> None:
    """Compute the gradients `out` of the input's and the hidden state's product, which are equal, and `d_h0`.

    `seeds` are the gradients of the outputs `y`, and `d_h0` is the gradient of the first hidden state `h0`. Phase 0
    packs the weight into `shared`. The nonlinearity is ReLU if g[IS_RELU], and tanh otherwise.
    """
    steps, batch, hidden = g[STEPS], g[BATCH], g[HIDDEN]
    if phase == 0:
        pack(weight, hidden, hidden, 1, hidden, part, g[PACKERS], shared)
        return
    first = part * g[EACH]
    height = min(g[EACH], batch - first)
    pitch, reach = hidden + SLACK, hidden + SLACK
    rows, sums = own[: g[EACH] * reach], own[g[EACH] * reach :]
    clear(rows, g[EACH] * reach)
    clear(sums, g[EACH] * pitch)
    for s in range(steps - 1, -1, -1):
        time = steps - 1 - s if g[IS_REVERSE] else s
        for r in range(height):
            n = time * batch + first + r
            gradient = piece(out, n, hidden)
            _cell(piece(sums, r, pitch), piece(seeds, n, hidden), piece(y, n, hidden), gradient, hidden, g[IS_RELU])
            copy(gradient, piece(rows, r, reach), hidden)
        before = (time + 1 if g[IS_REVERSE] else time - 1) * batch + first
        multiply(shared, hidden, hidden, rows, height, sums, pitch, before, seeds, hidden, out, hidden)
    for r in range(height):
        copy(piece(sums, r, pitch), piece(d_h0, first + r, hidden), hidden)
