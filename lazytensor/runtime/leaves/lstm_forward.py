"""Long short-term memory along all times, for some rows of the batch."""

from typing import Any

from lazytensor.kernels.times import BATCH, EACH, HIDDEN, IS_REVERSE, PACKERS, SLACK, STEPS
from lazytensor.runtime.leaves.gather import leaf, typed
from lazytensor.runtime.leaves.steps import clear, copy, multiply, pack, piece, places, put_row, sigmoids, tanhs


@leaf
def _cell(x: Any, own: Any, bias: Any, before: Any, values: Any, cell: Any, y: Any, hidden: int) -> None:
    """One row: the gates into `values`, the memory into `cell`, the output into `y`.

    Short loops of few arrays: LLVM compares the addresses of all that a loop touches, and gives up on many.
    """
    for k in range(4 * hidden):
        values[k] = x[k] + (own[k] + bias[k])
    sigmoids(values, 2 * hidden)
    admit, forget = piece(values, 0, hidden), piece(values, 1, hidden)
    new, show = piece(values, 2, hidden), piece(values, 3, hidden)
    tanhs(new, hidden)
    sigmoids(show, hidden)
    for k in range(hidden):
        cell[k] = forget[k] * before[k] + admit[k] * new[k]
    copy(cell, y, hidden)
    tanhs(y, hidden)
    for k in range(hidden):
        y[k] = show[k] * y[k]


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
    """Outputs, last memory and gates of some rows; phase 0 lays the weight out."""
    steps, batch, hidden = g[STEPS], g[BATCH], g[HIDDEN]
    width = 4 * hidden
    if phase == 0:
        pack(weight, width, hidden, hidden, 1, part, g[PACKERS], shared)
        return
    first = part * g[EACH]
    height = min(g[EACH], batch - first)
    pitch, offsets = width + SLACK, places(hidden)
    # Rows that fill the last block up are zero, as is memory that nobody has written to.
    rows, sums = own[: g[EACH] * hidden], own[g[EACH] * hidden :]
    clear(rows, g[EACH] * hidden)
    for r in range(height):
        put_row(piece(h0, first + r, hidden), hidden, r, rows)
    before = 0
    for s in range(steps):
        time = steps - 1 - s if g[IS_REVERSE] else s
        multiply(shared, offsets, width, hidden, rows, height, sums, pitch)
        for r in range(height):
            n = time * batch + first + r
            line = piece(values, n, 5 * hidden)
            past = piece(values, 5 * (before + first + r) + 4, hidden) if s > 0 else piece(c0, first + r, hidden)
            cell, out = line[width:], piece(y, n, hidden)
            _cell(piece(gates, n, width), sums[r * pitch :], bias, past, line, cell, out, hidden)
            put_row(out, hidden, r, rows)
            if s == steps - 1:
                copy(cell, piece(last, first + r, hidden), hidden)
        before = time * batch
