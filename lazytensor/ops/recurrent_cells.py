"""Cells of recurrent layers: one step, written once for any kind of value with operators, and its gradient over arrays.

`CellFunctions` provides the functions of a step for one kind of value: tensors, nodes or NumPy arrays.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

State = tuple[Any, ...]
Parts = tuple[Any, ...]


@dataclass(frozen=True)
class CellFunctions:
    """Functions of one kind of value. `parts(x, count)` splits the last dimension into equal parts."""

    sigmoid: Callable[[Any], Any]
    tanh: Callable[[Any], Any]
    relu: Callable[[Any], Any]
    parts: Callable[[Any, int], Sequence[Any]]


@dataclass(frozen=True)
class CellGradient:
    """The gradients that one step gives.

    `gates` are those of the input's product, `own` those of the state's product. `before` is the gradient that reaches
    the previous state without a product.
    """

    gates: Parts
    own: Parts
    before: Parts


@dataclass(frozen=True)
class RecurrentCell:
    """One kind of cell.

    - `gates`: the number of gates.
    - `parts`: the number of tensors in the state.
    - `kept`: the number of values saved for the gradient, each of the hidden size.
    - `step(functions, input's product, state's product, state)`: returns the new state, whose first part is the output,
      and the saved values, of which the last are the other parts of the new state.
    - `back(gradient of the new state, saved values, old state, output)`: returns a `CellGradient`, over arrays.
    """

    gates: int
    parts: int
    kept: int
    step: Callable[[CellFunctions, Any, Any, State], tuple[State, Parts]]
    back: Callable[[Parts, Parts, State, Any], CellGradient]


def _lstm(f: CellFunctions, gates: Any, own: Any, state: State) -> tuple[State, Parts]:
    _, c = state
    # The order of the rows of PyTorch's weights, on which checkpoints depend: input, forget, cell, output.
    admit, forget, new, show = f.parts(gates + own, 4)
    # The forget gate's bias has no extra 1, which other frameworks add: PyTorch's checkpoints do not include it.
    i, k, g, o = f.sigmoid(admit), f.sigmoid(forget), f.tanh(new), f.sigmoid(show)
    c = k * c + i * g
    return (o * f.tanh(c), c), (i, k, g, o, c)


def _lstm_backward(gradient: Parts, kept: Parts, before: State, y: Any) -> CellGradient:
    (dh, dc), (i, k, g, o, c) = gradient, kept
    t = np.tanh(c)
    dc = dc + dh * o * (1 - t * t)
    gates = dc * g * i * (1 - i), dc * before[1] * k * (1 - k), dc * i * (1 - g * g), dh * t * o * (1 - o)
    return CellGradient(gates, gates, (np.zeros_like(dh), dc * k))


def _gru(f: CellFunctions, gates: Any, own: Any, state: State) -> tuple[State, Parts]:
    (h,) = state
    # Reset, update, new. The reset gate multiplies the state's product with its bias (Cho et al. 2014, version 1, as in
    # cuDNN), so the two products of the new gate cannot be added first.
    reset, update, new = f.parts(gates, 3)
    own_reset, own_update, own_new = f.parts(own, 3)
    r, z = f.sigmoid(reset + own_reset), f.sigmoid(update + own_update)
    n = f.tanh(new + r * own_new)
    # (1 - z) n + z h with one product less, rounded as in PyTorch.
    return (n + z * (h - n),), (r, z, n, own_new)


def _gru_backward(gradient: Parts, kept: Parts, before: State, y: Any) -> CellGradient:
    (dh,), (r, z, n, own_new), (h,) = gradient, kept, before
    new = dh * (1 - z) * (1 - n * n)
    reset, update = new * own_new * r * (1 - r), dh * (h - n) * z * (1 - z)
    return CellGradient((reset, update, new), (reset, update, new * r), (dh * z,))


def _tanh(f: CellFunctions, gates: Any, own: Any, state: State) -> tuple[State, Parts]:
    return (f.tanh(gates + own),), ()


def _tanh_backward(gradient: Parts, kept: Parts, before: State, y: Any) -> CellGradient:
    gates = (gradient[0] * (1 - y * y),)
    return CellGradient(gates, gates, (np.zeros_like(y),))


def _relu(f: CellFunctions, gates: Any, own: Any, state: State) -> tuple[State, Parts]:
    return (f.relu(gates + own),), ()


def _relu_backward(gradient: Parts, kept: Parts, before: State, y: Any) -> CellGradient:
    gates = (np.where(y > 0, gradient[0], 0),)
    return CellGradient(gates, gates, (np.zeros_like(y),))


CELLS: Mapping[str, RecurrentCell] = {
    "LSTM": RecurrentCell(gates=4, parts=2, kept=5, step=_lstm, back=_lstm_backward),
    "GRU": RecurrentCell(gates=3, parts=1, kept=4, step=_gru, back=_gru_backward),
    "RNN_TANH": RecurrentCell(gates=1, parts=1, kept=0, step=_tanh, back=_tanh_backward),
    "RNN_RELU": RecurrentCell(gates=1, parts=1, kept=0, step=_relu, back=_relu_backward),
}
"""The cells, by PyTorch's name of the mode."""
