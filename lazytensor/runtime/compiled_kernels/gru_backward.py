"""Backward pass of a GRU through all time steps, last step first, for some rows of the batch."""

from typing import Any

from lazytensor.kernels.recurrent_geometry import BATCH, EACH, HIDDEN, IS_REVERSE, PACKERS, SLACK, STEPS
from lazytensor.runtime.compiled_kernels.recurrent_parts import ONE, clear, copy, multiply, pack, piece
from lazytensor.runtime.language import inline, typed


@inline
def _cell(dh: Any, direct: Any, before: Any, line: Any, out: Any, own: Any, hidden: int) -> None:
    """Compute the gradients of one row, given the gradient `dh` of the output.

    `out` gets the gradients of the input's product, `own` those of the hidden state's product (reset, update, new), and
    `direct` the gradient that reaches the old hidden state `before` without a product. `line` holds the gates of the
    forward pass and the hidden state's product of the new gate.
    """
    reset, update = piece(line, 0, hidden), piece(line, 1, hidden)
    new, product = piece(line, 2, hidden), piece(line, 3, hidden)
    d_reset, d_update, d_new = piece(out, 0, hidden), piece(out, 1, hidden), piece(out, 2, hidden)
    own_new = piece(own, 2, hidden)
    for k in range(hidden):
        d_new[k] = dh[k] * (ONE - update[k]) * (ONE - new[k] * new[k])
    for k in range(hidden):
        d_update[k] = dh[k] * (before[k] - new[k]) * update[k] * (ONE - update[k])
    for k in range(hidden):
        d_reset[k] = d_new[k] * product[k] * reset[k] * (ONE - reset[k])
    for k in range(hidden):
        own_new[k] = d_new[k] * reset[k]
    for k in range(2 * hidden):
        own[k] = out[k]
    for k in range(hidden):
        direct[k] = dh[k] * update[k]


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
    seeds: Any,
    y: Any,
    values: Any,
    weight: Any,
    h0: Any,
    out: Any,
    products: Any,
    d_h0: Any,
) -> None:
    """Compute the gradients `out` of the input's product, `products` of the hidden state's, and `d_h0` of the first
    state.

    `seeds` are the gradients of the outputs `y`, and `values` holds the gates of the forward pass. Phase 0 packs the
    weight into `shared`; a part of phase 1 is some rows of the batch through all time steps, with the scratch buffer
    `own`.
    """
    steps, batch, hidden = g[STEPS], g[BATCH], g[HIDDEN]
    width = 3 * hidden
    if phase == 0:
        pack(weight, hidden, width, 1, hidden, part, g[PACKERS], shared)
        return
    first = part * g[EACH]
    height = min(g[EACH], batch - first)
    pitch, reach = hidden + SLACK, width + SLACK
    rows, rest = own[: g[EACH] * reach], own[g[EACH] * reach :]
    sums, direct = rest[: g[EACH] * pitch], rest[g[EACH] * pitch :]
    clear(rows, g[EACH] * reach)
    clear(rest, g[EACH] * (pitch + hidden))
    for s in range(steps - 1, -1, -1):
        time = steps - 1 - s if g[IS_REVERSE] else s
        before = (time + 1 if g[IS_REVERSE] else time - 1) * batch
        for r in range(height):
            n = time * batch + first + r
            past = piece(y, before + first + r, hidden) if s > 0 else piece(h0, first + r, hidden)
            dh, beside, seed = piece(sums, r, pitch), piece(direct, r, hidden), piece(seeds, n, hidden)
            for k in range(hidden):
                dh[k] = dh[k] + beside[k] + seed[k]
            gradient = piece(products, n, width)
            _cell(dh, beside, past, piece(values, n, 4 * hidden), piece(out, n, width), gradient, hidden)
            copy(gradient, piece(rows, r, reach), width)
        multiply(shared, hidden, width, rows, height, sums, pitch, before + first, values, 4 * hidden, products, width)
    for r in range(height):
        last, dh, beside = piece(d_h0, first + r, hidden), piece(sums, r, pitch), piece(direct, r, hidden)
        for k in range(hidden):
            last[k] = dh[k] + beside[k]
