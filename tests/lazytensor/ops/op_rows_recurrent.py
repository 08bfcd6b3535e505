"""Rows for recurrent layers: the cells written out once more, and their gradients by a step into the imaginary."""

from itertools import product
from typing import Any

import numpy as np

from lazytensor.ops import OPS
from tests.lazytensor.ops.op_rows import Case, Draw, Row

PARTS = {"LSTM": 2, "GRU": 1, "RNN_TANH": 1, "RNN_RELU": 1}
GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
STEP = 1e-20


def _case(d: Draw) -> Case:
    mode = d.one(*PARTS)
    times, batch, hidden = (int(d.rng.integers(low, 4)) for low in (1, 2, 2))
    rows = GATES[mode] * hidden
    shapes = [(times, batch, rows), (rows, hidden), (rows,), *[(batch, hidden)] * PARTS[mode]]
    attrs = {"mode": mode, "reverse": d.flag()}
    while True:
        # Small ones: of a gate that is nearly open, float32 does not know how far it is shut.
        operands = [d.within(-0.7, 0.7, s) for s in shapes]
        if mode != "RNN_RELU" or _distance_to_kink(*operands, reverse=attrs["reverse"]) > 1e-3:
            return operands, attrs


def _distance_to_kink(gates, weight, bias, state, reverse: bool) -> float:
    """The least distance of a sum from 0, where relu has no slope and a difference quotient means nothing."""
    nearest = np.inf
    for x in gates[::-1] if reverse else gates:
        total = x + _products(state, weight, bias)
        nearest, state = min(nearest, np.abs(total).min()), np.maximum(total, 0)
    return nearest


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _time(mode: str, x: np.ndarray, p: np.ndarray, state: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """The state after one time and the values kept, one row of gates at a time, for any kind of numbers."""
    h = state[0]
    if mode == "LSTM":
        i, f, g, o = np.array_split(x + p, 4, 1)
        c = _sigmoid(f) * state[1] + _sigmoid(i) * np.tanh(g)
        return [_sigmoid(o) * np.tanh(c), c], np.hstack([_sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o), c])
    if mode == "GRU":
        (xr, xz, xn), (pr, pz, pn) = np.array_split(x, 3, 1), np.array_split(p, 3, 1)
        r, z = _sigmoid(xr + pr), _sigmoid(xz + pz)
        n = np.tanh(xn + r * pn)
        return [(1 - z) * n + z * h], np.hstack([r, z, n, pn])
    total = x + p
    return [np.tanh(total) if mode == "RNN_TANH" else np.where(total.real > 0, total, 0)], np.zeros((len(x), 0))


def _products(h: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return np.einsum("nk,rk->nr", h, weight) + bias


def _layer(gates, weight, bias, *state, mode: str, reverse: bool, moved: Any = 0) -> list[np.ndarray]:
    """`moved` is added to the products of the state of each time."""
    at = list(range(len(gates)))
    outputs, kept, state = [None] * len(at), [None] * len(at), list(state)
    moved = np.broadcast_to(moved, gates.shape)
    for t in at[::-1] if reverse else at:
        state, kept[t] = _time(mode, gates[t], _products(state[0], weight, bias) + moved[t], state)
        outputs[t] = state[0]
    return [np.stack(outputs), *state[1:], *([np.stack(kept)] if kept[0].size else [])]


def _gradients(seeds, gates, weight, bias, *state, mode: str, reverse: bool) -> list[np.ndarray]:
    """The gradients of the products of the input, for a GRU of those of the state, and of the first state."""
    attrs = {"mode": mode, "reverse": reverse}
    operands = [gates, weight, bias, *state, np.zeros(gates.shape)]
    asked = [0, *([len(operands) - 1] if mode == "GRU" else []), *range(3, 3 + len(state))]
    gradients = []
    for k in asked:
        gradient = np.zeros(operands[k].shape)
        for place in product(*map(range, gradient.shape)):
            moved = [np.asarray(a, complex) for a in operands]
            moved[k][place] += STEP * 1j
            results = _layer(*moved[:-1], **attrs, moved=moved[-1])
            gradient[place] = sum(np.sum(s * r) for s, r in zip(seeds, results, strict=False)).imag / STEP
        gradients.append(gradient)
    return gradients


def _grad_case(d: Draw) -> Case:
    operands, attrs = _case(d)
    parts = PARTS[attrs["mode"]]
    outputs, *rest = OPS["recurrent"].eval(*operands, **attrs)
    seeds = [d.values(r.shape) for r in (outputs, *rest[: parts - 1])]
    return [*seeds, *map(d.cast, (outputs, *rest[parts - 1 :])), *operands], attrs


def _grad(*operands: np.ndarray, mode: str, reverse: bool) -> list[np.ndarray]:
    parts = PARTS[mode]
    return _gradients(operands[:parts], *operands[-3 - parts :], mode=mode, reverse=reverse)


def _sweep_case(d: Draw) -> Case:
    operands, attrs = _grad_case(d)
    first = len(operands) - 3 - PARTS[attrs["mode"]]
    return [*operands[:first], operands[first + 1], *operands[first + 3 :]], attrs


def _sweep(*operands: np.ndarray, mode: str, reverse: bool) -> list[np.ndarray]:
    """From the values kept alone: what the state's products had been is solved from the cells' own equations."""
    parts = PARTS[mode]
    seeds, (weight, *state) = operands[:parts], operands[-1 - parts :]
    outputs, kept = operands[parts], operands[-2 - parts]
    before = np.concatenate([outputs[1:], state[:1]] if reverse else [state[:1], outputs[:-1]])
    own = np.einsum("tnk,rk->tnr", before, weight)
    if mode == "LSTM":
        i, f, g, o, _ = np.array_split(kept, 5, 2)
        total = np.concatenate([_logit(i), _logit(f), np.arctanh(g), _logit(o)], 2)
    elif mode == "GRU":
        r, z, n, product_new = np.array_split(kept, 4, 2)
        bias = product_new - np.array_split(own, 3, 2)[2]
        own = np.concatenate([*np.array_split(own, 3, 2)[:2], product_new], 2)
        total = np.concatenate([_logit(r), _logit(z), np.arctanh(n) - r * product_new + own[..., -n.shape[2] :]], 2)
        return _gradients(
            seeds,
            total - own,
            weight,
            np.concatenate([0 * bias[0, 0], 0 * bias[0, 0], bias[0, 0]]),
            *state,
            mode=mode,
            reverse=reverse,
        )
    else:
        total = np.arctanh(outputs) if mode == "RNN_TANH" else np.where(outputs > 0, outputs, -1)
    zero = np.zeros(len(weight))
    return _gradients(seeds, total - own, weight, zero, *state, mode=mode, reverse=reverse)


def _logit(p: np.ndarray) -> np.ndarray:
    return np.log(p / (1 - p))


ROWS = {
    "recurrent": Row(_case, _layer),
    "recurrent_grad": Row(_grad_case, _grad),
    "recurrent_sweep": Row(_sweep_case, _sweep),
}
NOT_DIFFERENTIABLE = {"recurrent_sweep"}
