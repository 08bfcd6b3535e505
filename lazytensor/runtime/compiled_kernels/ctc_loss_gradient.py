"""The gradient of the loss of connectionist temporal classification; see `lazytensor.ops.ctc`."""

from typing import Any

import numpy as np

from lazytensor.runtime.ctc_alignments import LOG_ZERO, begin_alignments, read, read_emissions, sum_neighbours, write
from lazytensor.runtime.language import typed
from lazytensor.runtime.vecmath import exp_f4


@typed(
    "void(int64, int64, int64[::1], float32[::1], float32[::1], float32[::1], float32[::1], int64[::1], int64[::1],"
    " float32[::1])"
)
def kernel(
    phase: int, part: int, g: Any, shared: Any, own: Any, slope: Any, x: Any, labels: Any, lengths: Any, y: Any
) -> None:
    """Set y to the gradient of a part's losses by the log-probabilities `x`, times `slope`.

    `g` holds the number of samples, samples per part, time steps, classes, positions of a label sequence, and whether
    an infinite loss is 0. `phase` and `shared` are unused.
    """
    samples, times, classes, width = g[0], g[2], g[3], g[4]
    row = width + 4
    low = (times + 2) * row
    # The continuations from a time with its own step, and without.
    after, rest = times * row + 2, (times + 1) * row + 2
    emitted, skip = 2 * low + 2, 2 * low + row + 2
    for n in range(part * g[1], min((part + 1) * g[1], samples)):
        steps, last, first = lengths[2 * n], 2 * lengths[2 * n + 1], n * width
        total = begin_alignments(own, x, labels, n, samples, classes, times, width, steps, last)
        for step in range(times):
            t = times - 1 - step
            to, here = (t * samples + n) * classes, t * row + 2
            if t >= steps or total < 0.5 * LOG_ZERO:
                value = np.float32(0) if t >= steps or g[5] == 1 else np.float32(np.nan)
                for k in range(to, to + classes):
                    y[k] = value
            else:
                if t == steps - 1:
                    for s in range(width):
                        write(own, rest + s, low, 0.0 if s == last or s == last - 1 else LOG_ZERO)
                else:
                    sum_neighbours(own, after, 1, rest, skip, low, width)
                read_emissions(own, emitted, x, to, labels, first, width)
                # PyTorch differentiates by the scores before log_softmax, which adds the probabilities.
                for k in range(to, to + classes):
                    y[k] = exp_f4(x[k])
                for s in range(width):
                    continued = read(own, rest + s, low)
                    y[to + labels[first + s]] -= exp_f4(np.float32(read(own, here + s, low) + continued - total))
                    write(own, after + s, low, continued + np.float64(own[emitted + s]))
                for k in range(to, to + classes):
                    y[k] *= slope[n]
