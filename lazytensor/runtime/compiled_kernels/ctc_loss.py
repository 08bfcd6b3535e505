"""The loss of connectionist temporal classification; see `lazytensor.ops.ctc`."""

from typing import Any

import numpy as np

from lazytensor.runtime.ctc_alignments import LOG_ZERO, begin_alignments
from lazytensor.runtime.language import typed


@typed("void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], int64[::1], int64[::1], float32[::1])")
def kernel(phase: int, part: int, g: Any, shared: Any, own: Any, x: Any, labels: Any, lengths: Any, y: Any) -> None:
    """Set y to the losses of a part's samples.

    `x` has the log-probabilities. `g` holds the number of samples, samples per part, time steps, classes, positions of
    a label sequence, and whether an infinite loss is 0. `phase` and `shared` are unused.
    """
    for n in range(part * g[1], min((part + 1) * g[1], g[0])):
        steps, last = lengths[2 * n], 2 * lengths[2 * n + 1]
        total = begin_alignments(own, x, labels, n, g[0], g[3], g[2], g[4], steps, last)
        missing = 0.0 if g[5] == 1 else np.inf
        y[n] = np.float32(missing if total < 0.5 * LOG_ZERO else -total)
