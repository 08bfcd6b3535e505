"""The loss of connectionist temporal classification (Graves et al. 2006), and its gradient.

The probability of a label sequence is the sum over all alignments with the time steps. The labels have a blank before,
between and after them, so that a sequence has W = 2 * S + 1 positions. The forward recursion gives the logarithm of the
probability of all beginnings of alignments that reach a position at a time, the backward recursion that of all
continuations.
"""

import numpy as np

from lazytensor.core.dtype import int64
from lazytensor.errors import AutogradError, ShapeError
from lazytensor.ir.graph import Node
from lazytensor.ir.operation import CLIENT_HINT, illegal_with_hint
from lazytensor.ir.types import Type, Work
from lazytensor.ops.op import call, op

LOG_ZERO = -1e30
"""The logarithm that represents probability 0, so that no difference of two infinities appears."""


def _log_sum(*parts: np.ndarray) -> np.ndarray:
    top = np.maximum.reduce(parts)
    return np.asarray(np.log(sum(np.exp(part - top) for part in parts)) + top)


def _shifted(rows: np.ndarray, by: int) -> np.ndarray:
    """Return the columns of `rows` moved by `by` positions to the right (left if negative), filled with LOG_ZERO."""
    out = np.full_like(rows, LOG_ZERO)
    if by > 0:
        out[:, by:] = rows[:, :-by]
    else:
        out[:, :by] = rows[:, -by:]
    return out


def _emissions(log_probs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the log-probability of each position's label at each time, in float64: [T, N, W]."""
    places = np.broadcast_to(labels, (len(log_probs), *labels.shape))
    picked = np.take_along_axis(log_probs.astype(np.float64), places, 2)
    return np.where(picked < LOG_ZERO, LOG_ZERO, picked)


def _skips(labels: np.ndarray) -> np.ndarray:
    """Return 0 where an alignment may skip the blank before a label, and LOG_ZERO elsewhere: [N, W]."""
    before = np.concatenate([labels[:, :2], labels[:, :-2]], 1)[:, : labels.shape[1]]
    is_label = (np.arange(labels.shape[1]) % 2 == 1) & (np.arange(labels.shape[1]) >= 2)
    return np.where(is_label & (labels != before) & (labels != labels[:, :1]), 0.0, LOG_ZERO)


def _forward(emitted: np.ndarray, labels: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the forward logarithms [T, N, W] and the losses [N], infinity without an alignment."""
    width, (steps, long) = labels.shape[1], lengths.T
    places, skips = np.arange(width), _skips(labels)
    rows = np.where((places < 2) & (places <= 2 * long[:, None]), emitted[:1].sum(0), LOG_ZERO)
    alpha = [rows]
    for at in emitted[1:]:
        rows = _log_sum(rows, _shifted(rows, 1), _shifted(rows, 2) + skips) + at
        alpha.append(rows)
    stacked = np.array(alpha)
    last, samples = np.maximum(steps - 1, 0), np.arange(len(labels))
    blank_end = stacked[last, samples, 2 * long]
    label_end = np.where(long > 0, stacked[last, samples, np.maximum(2 * long - 1, 0)], LOG_ZERO)
    # With zero input steps the empty target has probability 1, and every other target 0.
    total = np.where(steps > 0, _log_sum(blank_end, label_end), np.where(long > 0, LOG_ZERO, 0.0))
    return stacked, np.where(total < LOG_ZERO / 2, np.inf, -total)


def _loss(log_probs: np.ndarray, labels: np.ndarray, lengths: np.ndarray, *, zero_infinity: bool) -> np.ndarray:
    _, loss = _forward(_emissions(log_probs, labels), labels, lengths)
    if zero_infinity:
        loss = np.where(np.isinf(loss), 0.0, loss)
    return loss.astype(log_probs.dtype)


def _loss_gradient(
    g: np.ndarray, log_probs: np.ndarray, labels: np.ndarray, lengths: np.ndarray, *, zero_infinity: bool
) -> np.ndarray:
    emitted, skips = _emissions(log_probs, labels), _skips(labels)
    alpha, loss = _forward(emitted, labels, lengths)
    steps, long = lengths.T
    places = np.arange(labels.shape[1])
    ends = (places == 2 * long[:, None]) | ((places == 2 * long[:, None] - 1) & (long[:, None] > 0))
    # PyTorch differentiates by the scores before log_softmax, which adds the probabilities to the gradient.
    out = np.exp(log_probs.astype(np.float64))
    samples = np.arange(len(labels))[:, None]
    follow = np.full(labels.shape, LOG_ZERO)
    for t in reversed(range(len(log_probs))):
        rest = _log_sum(follow, _shifted(follow, -1), _shifted(follow + skips, -2))
        rest = np.where((t == steps - 1)[:, None], np.where(ends, 0.0, LOG_ZERO), rest)
        np.subtract.at(out[t], (samples, labels), np.exp(alpha[t] + rest + loss[:, None]))
        follow = rest + emitted[t]
    is_running = np.arange(len(log_probs))[:, None] < steps
    is_finite = np.isfinite(loss)
    out = np.where(is_finite[:, None], out * g[:, None], 0.0 if zero_infinity else np.nan)
    return np.where(is_running[:, :, None], out, 0.0).astype(log_probs.dtype)


def _loss_type(log_probs: Type, labels: Type, lengths: Type, *, zero_infinity: bool) -> Type:
    n = log_probs.shape[1] if len(log_probs.shape) == 3 else -1
    if len(labels.shape) != 2 or labels.shape[0] != n or lengths != Type((n, 2), int64):
        raise ShapeError(f"labels {labels} and lengths {lengths} do not fit log-probabilities of {log_probs}")
    return Type((n,), log_probs.dtype)


def _gradient_vjp(h: Node, y: Node, *operands: Node, zero_infinity: bool) -> tuple[None, ...]:
    raise AutogradError(
        "derivative for aten::_ctc_loss_backward is not implemented",
        hint="Differentiate the loss once only.",
    )


def _work(out: Type, *types: Type, zero_infinity: bool) -> Work:
    log_probs, labels = types[-3:-1]
    return Work(30 * labels.size * log_probs.shape[0], sum(t.nbytes for t in types), out.nbytes)


op(
    # log_probs [T, N, C], labels with blanks int64 [N, W], input and target lengths int64 [N, 2] -> losses [N].
    "ctc_loss",
    _loss_type,
    _loss,
    vjp=lambda g, y, log_probs, labels, lengths, **attrs: (
        call("ctc_loss_grad", g, log_probs, labels, lengths, **attrs),
        None,
        None,
    ),
    work=_work,
    cirh=illegal_with_hint(CLIENT_HINT),
)
op(
    "ctc_loss_grad",
    lambda g, log_probs, labels, lengths, **attrs: log_probs,
    _loss_gradient,
    vjp=_gradient_vjp,
    work=_work,
    cirh=illegal_with_hint(CLIENT_HINT),
)
