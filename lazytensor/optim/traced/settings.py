"""What the settings of optimizers must be, and arithmetic with settings that may be tensors."""

import math
from typing import Any

import numpy as np

from lazytensor import cells
from lazytensor.functions import pointwise as pw
from lazytensor.functions import reductions
from lazytensor.functions.creation import tensor
from lazytensor.tensor import Tensor

LEAST = " - should be >= 0.0"
"""What some optimizers add to their errors."""
CONSTANT = ("const", "leaf")
"""Nodes that stand for a value that is known and stays."""


def complement(beta: float) -> float:
    """Return 1 - beta; in a step that is traced for the wafer as `folded_complement`."""
    if cells.here.current is None or cells.here.current.readable:
        return 1.0 - beta
    return folded_complement(beta)


def folded_complement(beta: float) -> float:
    """Return 1 - beta in float32, as the front end folds it (0.100000024 for 0.9)."""
    return float(np.float32(1) - np.float32(beta))


def is_on(setting: Any) -> bool:
    """Whether a setting has an effect; a tensor that is not a constant of the step always counts."""
    return bool(setting) if not isinstance(setting, Tensor) or setting.node.op in CONSTANT else True


def check_least(hint: str = "", **settings: Any) -> None:
    """Raise ValueError for a number below 0. Tensors are not looked at."""
    names = {"lr": "learning rate", "eps": "epsilon value", "momentum": "momentum value"}
    for name, value in settings.items():
        # A tensor's value may not exist yet, and reading it would end the trace.
        if not isinstance(value, Tensor) and value < 0:
            raise ValueError(f"Invalid {names.get(name, f'{name} value')}: {value}{hint}")


def check_betas(
    betas: tuple[float, float], hint: str = " - should be in [0.0, 1.0)", *, is_numbered: bool = False
) -> None:
    """Raise ValueError for a decay outside [0, 1), which the error calls by its number if it `is_numbered`."""
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter{f' at index {i}' if is_numbered else ''}: {beta}{hint}")


def as_tensor(setting: Any) -> Tensor:
    """Return a setting as a tensor: a number becomes a float32 scalar."""
    return setting if isinstance(setting, Tensor) else tensor(float(setting))


def descend(p: Tensor, d: Tensor, lr: Any) -> None:
    """p -= lr * d; the rate is a number, or a 0-d tensor that a schedule computes."""
    p.add_(scaled(d, lr))


def scaled(d: Tensor, lr: Any) -> Tensor:
    """-lr * d, with the products in the order of the front end; a rate that is a constant of the step is a number."""
    # The order of the products is seen in the printed CIRH, and in the last bit of half types.
    if isinstance(lr, Tensor) and lr.node.op not in CONSTANT:
        return lr * -1.0 * d
    return d * -float(lr)


def larger(a: Tensor, b: Any) -> Tensor:
    """The larger of two, as a clamp: the wafer has no maximum of two tensors."""
    return pw.clamp(a, b, math.inf)


def length(x: Tensor) -> Tensor:
    """The Euclidean norm of all elements."""
    return pw.sqrt(reductions.sum(x * x))


def directed(group: dict[str, Any], p: Tensor, g: Tensor) -> Tensor:
    """The gradient, or its opposite to maximize, with the decay of the weights added."""
    if group.get("maximize"):
        g = -g
    # With maximize the decay still shrinks: it is added after the sign is turned.
    return g + p * group["weight_decay"] if is_on(group["weight_decay"]) else g
