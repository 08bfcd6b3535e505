"""Backward pass of an LSTM through all time steps, last step first, for some rows of the batch."""

from typing import Any

from lazytensor.kernels.recurrent_geometry import BATCH, EACH, HIDDEN, IS_REVERSE, PACKERS, SLACK, STEPS
from lazytensor.runtime.compiled_kernels.recurrent_parts import ONE, clear, copy, multiply, pack, piece
from lazytensor.runtime.language import inline, typed
from lazytensor.runtime.vecmath import tanh_f4


@inline
def _cell(dh: Any, dc: Any, t: Any, before: Any, line: Any, out: Any, hidden: int) -> None:
    """Compute the gradients of one row: write those of the gates to `out` and that of the old cell state to `dc`.

    `dh` is the gradient of the output. On entry `dc` is the gradient of the new cell state. `before` is the old
    cell state. `line` holds the gates of the forward pass after activation (input, forget, new, output) and then
    the new cell state. `out` gets the gradients before activation, in the same order. `t` is scratch.
    """
    admit, forget, new = piece(line, 0, hidden), piece(line, 1, hidden), piece(line, 2, hidden)
    show, cell = piece(line, 3, hidden), piece(line, 4, hidden)
    d_admit, d_forget = piece(out, 0, hidden), piece(out, 1, hidden)
    d_new, d_show = piece(out, 2, hidden), piece(out, 3, hidden)
    for k in range(hidden):
        t[k] = tanh_f4(cell[k])
    for k in range(hidden):
        d_show[k] = dh[k] * t[k] * show[k] * (ONE - show[k])
        dc[k] = dc[k] + dh[k] * show[k] * (ONE - t[k] * t[k])
    for k in range(hidden):
        d_admit[k] = dc[k] * new[k] * admit[k] * (ONE - admit[k])
        d_new[k] = dc[k] * admit[k] * (ONE - new[k] * new[k])
    for k in range(hidden):
        d_forget[k] = dc[k] * before[k] * forget[k] * (ONE - forget[k])
        dc[k] = dc[k] * forget[k]


@typed(
    "void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1],"
    " float32[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1], float32[::1])",
)
def kernel(
    phase: int,
    part: int,
    g: Any,
    shared: Any,
    own: Any,
    seeds: Any,
    last: Any,
    y: Any,
    values: Any,
    weight: Any,
    h0: Any,
    c0: Any,
    out: Any,
    d_h0: Any,
    d_c0: Any,
) -> None:
    """Compute the gradients `out` of the input's and the hidden state's product, which are equal, and of the first
    states.

    `seeds` are the gradients of the outputs `y` and `last` is that of the last cell state. `values` holds the gates and
    cell states of the forward pass. `d_h0` and `d_c0` get the gradients of the first hidden and cell states. Phase 0
    packs the weight into `shared`; a part of phase 1 is some rows of the batch.
    """
    steps, batch, hidden = g[STEPS], g[BATCH], g[HIDDEN]
    width = 4 * hidden
    if phase == 0:
        pack(weight, hidden, width, 1, hidden, part, g[PACKERS], shared)
        return
    first = part * g[EACH]
    height = min(g[EACH], batch - first)
    pitch, reach = hidden + SLACK, width + SLACK
    rows, rest = own[: g[EACH] * reach], own[g[EACH] * reach :]
    sums, scratch = rest[: g[EACH] * pitch], piece(rest[g[EACH] * pitch :], 0, hidden)
    clear(rows, g[EACH] * reach)
    clear(sums, g[EACH] * pitch)
    for r in range(height):
        copy(piece(last, first + r, hidden), piece(d_c0, first + r, hidden), hidden)
    for s in range(steps - 1, -1, -1):
        time = steps - 1 - s if g[IS_REVERSE] else s
        before = (time + 1 if g[IS_REVERSE] else time - 1) * batch
        for r in range(height):
            n = time * batch + first + r
            past = piece(values, 5 * (before + first + r) + 4, hidden) if s > 0 else piece(c0, first + r, hidden)
            dh, seed, gradient = piece(sums, r, pitch), piece(seeds, n, hidden), piece(out, n, width)
            for k in range(hidden):
                dh[k] += seed[k]
            line = piece(values, n, 5 * hidden)
            _cell(dh, piece(d_c0, first + r, hidden), scratch, past, line, gradient, hidden)
            copy(gradient, piece(rows, r, reach), width)
        multiply(shared, hidden, width, rows, height, sums, pitch, before + first, values, 5 * hidden, out, width)
    for r in range(height):
        copy(piece(sums, r, pitch), piece(d_h0, first + r, hidden), hidden)
