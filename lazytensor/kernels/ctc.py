"""The loss of connectionist temporal classification, and its gradient, as routines."""

import numpy as np

from lazytensor.core.dtype import float32
from lazytensor.ir.types import Type
from lazytensor.kernels.kernel import Attrs
from lazytensor.kernels.loop_parts import SPECIAL, bounds
from lazytensor.kernels.routine import Routine


def _routine(module: str, attrs: Attrs, log_probs: Type, labels: Type) -> Routine | None:
    """Return the routine `module`, or None unless the log-probabilities are float32 and not empty."""
    if log_probs.dtype is not float32 or not log_probs.size:
        return None
    (times, n, classes), width = log_probs.shape, labels.shape[1]
    parts = bounds(n, 4 * SPECIAL * n * times * width)
    geometry = np.array([n, parts[0][1], times, classes, width, attrs["zero_infinity"]], np.int64)
    # Numbers of two parts for each time and two more rows, and two rows of numbers of one part.
    rows = 2 * (times + 2) + 2
    return Routine(module=module, geometry=geometry, parts=(len(parts),), own=rows * (width + 4))


def ctc_loss(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `ctc_loss` (log-probabilities, labels, lengths -> losses), or None."""
    return _routine("ctc_loss", attrs, ins[0], ins[1])


def ctc_loss_grad(attrs: Attrs, outs: tuple[Type, ...], ins: tuple[Type, ...]) -> Routine | None:
    """Return the routine of `ctc_loss_grad` (slopes, log-probabilities, labels, lengths -> gradient), or None."""
    return _routine("ctc_loss_gradient", attrs, ins[1], ins[2])
