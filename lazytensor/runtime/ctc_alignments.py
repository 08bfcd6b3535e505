"""The forward recursion of connectionist temporal classification for compiled kernels; see `lazytensor.ops.ctc`.

Logarithms have 48 bits, as sums of two float32 numbers: their errors would otherwise grow with the number of steps.
The scratch buffer has rows of W + 4 cells for the W positions of a label sequence, with two cells on either side: one
for each time and two more, then the second parts of the numbers in these rows, then the log-probabilities of the labels
at one time, and 0 where the blank before a label may be skipped.
"""

from typing import Any

import numpy as np

from lazytensor.runtime.intrinsics import maximum_f8
from lazytensor.runtime.language import inline
from lazytensor.runtime.vecmath import exp_f4, log_f4

LOG_ZERO = -1e30
"""The logarithm that represents probability 0, so that no difference of two infinities appears."""


@inline
def log_sum(a: Any, b: Any, c: Any) -> Any:
    """Return log(exp(a) + exp(b) + exp(c)) in float64, with an error of about 1e-7."""
    top = maximum_f8(maximum_f8(a, b), c)
    total = exp_f4(np.float32(a - top)) + exp_f4(np.float32(b - top)) + exp_f4(np.float32(c - top))
    return top + np.float64(log_f4(total))


@inline
def write(own: Any, place: int, low: int, value: Any) -> None:
    """Write a float64 as the float32 numbers own[place] and own[low + place]."""
    own[place] = np.float32(value)
    own[low + place] = np.float32(value - np.float64(own[place]))


@inline
def read(own: Any, place: int, low: int) -> Any:
    """Return the float64 that `write` has written."""
    return np.float64(own[place]) + np.float64(own[low + place])


@inline
def read_emissions(own: Any, to: int, x: Any, start: int, labels: Any, first: int, width: int) -> None:
    """Set cells of `own`, from `to` on, to the log-probabilities of labels, at least LOG_ZERO.

    They are read from x[start] on, and the labels from labels[first] on.
    """
    for s in range(width):
        value = x[start + labels[first + s]]
        own[to + s] = np.float32(LOG_ZERO) if value < np.float32(LOG_ZERO) else value


@inline
def sum_neighbours(own: Any, row: int, toward: int, to: int, skip: int, low: int, width: int) -> None:
    """Set the row at `to` to the sums of each position of another row and its two neighbours.

    The neighbours are before the position if `toward` is -1, after it if it is 1. The far one counts where the blank
    between may be skipped.
    """
    sums = np.empty(64, np.float64)
    ahead = 2 if toward == 1 else 0
    for strip in range(0, width, 64):
        count = min(width - strip, 64)
        # The sums go to a local array first, so that LLVM vectorises the loop.
        for s in range(count):
            at = row + strip + s
            far = read(own, at + 2 * toward, low) + np.float64(own[skip + strip + s + ahead])
            sums[s] = log_sum(read(own, at, low), read(own, at + toward, low), far)
        for s in range(count):
            write(own, to + strip + s, low, sums[s])


@inline
def begin_alignments(
    own: Any, x: Any, labels: Any, n: int, samples: int, classes: int, times: int, width: int, steps: int, last: int
) -> Any:
    """Compute the forward recursion of sample `n` in `own`, and return the logarithm of its probability.

    `steps` is the number of its time steps, and `last` the last position of its labels.
    """
    row = width + 4
    low = (times + 2) * row
    emitted, skip, first = 2 * low + 2, 2 * low + row + 2, n * width
    for k in range(low):
        write(own, k, low, LOG_ZERO)
    for s in range(-2, width + 2):
        own[skip + s] = np.float32(LOG_ZERO)
    for s in range(3, width, 2):
        if labels[first + s] != labels[first] and labels[first + s] != labels[first + s - 2]:
            own[skip + s] = np.float32(0)
    for t in range(steps):
        read_emissions(own, emitted, x, (t * samples + n) * classes, labels, first, width)
        here, before = t * row + 2, (t - 1) * row + 2
        if t == 0:
            for s in range(min(2, last + 1)):
                write(own, here + s, low, np.float64(own[emitted + s]))
        else:
            sum_neighbours(own, before, -1, here, skip, low, width)
            for s in range(width):
                write(own, here + s, low, read(own, here + s, low) + np.float64(own[emitted + s]))
    # With zero input steps the empty target has probability 1, and every other target 0.
    end = (max(steps, 1) - 1) * row + 2 + last
    label_end = read(own, end - 1, low) if last > 0 else LOG_ZERO
    nothing = 0.0 if last == 0 else LOG_ZERO
    return log_sum(read(own, end, low), label_end, LOG_ZERO) if steps > 0 else nothing
