"""Softmax of rows of any length, with and without cross entropy, with the bits of the kernels of `kernels.softmax`."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from lazytensor.runtime import jit
from lazytensor.runtime.element_functions import in_order
from lazytensor.runtime.ordered_sums import row_sums

_TEXT = """\
import numpy as np
from lazytensor.runtime.language import typed
from lazytensor.runtime.vecmath import {name}


@typed("void(uint32, uint32, float32[::1], float32[::1])")
def kernel(first, last, x, y):
    for k in range(np.int64(first), np.int64(last)):
        y[k] = {name}(x[k])
"""


@cache
def _kernel(name: str) -> Any:
    return jit.load(_TEXT.format(name=name))


def _mapped(name: str, x: np.ndarray) -> np.ndarray:
    y = np.empty(x.shape, np.float32)
    _kernel(name)(0, x.size, in_order(x), y.reshape(-1))
    return y


def _exponentials(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each row of `x` the maximum, exp(row - maximum), and the sum of these exponentials.

    Maximum and sum keep the last dimension as 1.
    """
    top = np.max(x, axis=-1, keepdims=True)
    e = _mapped("exp_below_f4", x - top)
    return top, e, row_sums(e)[..., None]


def _softmax(x: np.ndarray) -> tuple[np.ndarray]:
    _, e, total = _exponentials(x)
    return (e * (np.float32(1) / total),)


def _softmax_cross_entropy(x: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss of each row, [N], and its gradient by `x`, [N, C]. Both are NaN for a label outside of the
    classes.
    """
    top, e, total = _exponentials(x)
    good = (labels >= 0) & (labels < x.shape[-1])
    rows, safe = np.arange(len(labels)), np.where(good, labels, 0)
    loss = _mapped("log_f4", total[:, 0]) - (x[rows, safe] - top[:, 0])
    gradient = e * (np.float32(1) / total)
    gradient[rows, safe] -= np.float32(1)
    nan = np.float32(np.nan)
    return np.where(good, loss, nan), np.where(good[:, None], gradient, nan)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "softmax": _softmax,
    "softmax_cross_entropy": _softmax_cross_entropy,
}
"""Functions by the name of the kernel. Each takes the arrays of the operands and returns a tuple of float32 results."""
