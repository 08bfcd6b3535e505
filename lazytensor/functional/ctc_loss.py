"""Connectionist temporal classification (Graves et al. 2006): the probability of a label sequence over all alignments.

The forward recursion is recorded step by step, so its gradient is the gradient of those operations. log(0) is
represented by -1e30 instead of -inf, so that no difference of two infinities appears.
"""

from collections.abc import Sequence

import numpy as np

from lazytensor.core import dtype as dt
from lazytensor.core import source
from lazytensor.core.tensor import Tensor, from_array, operand_node
from lazytensor.errors import ShapeError
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction as red
from lazytensor.functional.loss import resolve_reduction
from lazytensor.functional.padding_and_shuffles import pad
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.views import select, slice_dim, unsqueeze, view
from lazytensor.ops import call

LOG_ZERO = -1e30
"""The logarithm that stands for probability 0: far below every sum of logarithms, far above the lowest float32."""

Lengths = Tensor | Sequence[int]


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return the negative log-probability of the target label sequences, summed over all alignments.

    - `log_probs`: log-probabilities [T, N, C], or [T, C] for one sequence.
    - `targets`: labels [N, S], or all sequences concatenated in one vector.
    - `input_lengths`, `target_lengths`: the length of each sequence in `log_probs` and `targets`.
    - `blank`: class of the blank label.
    - `reduction`: "none" gives [N] ([] for one sequence); "sum" the sum; "mean" divides each loss by its target length
      and averages over N.
    - `zero_infinity`: return 0 instead of inf for sequences without an alignment.

    Raises ShapeError if the lengths or `blank` do not fit. `targets` and lengths are read, which raises TraceError
    inside a compiled step.

    >>> import lazytensor as lt
    >>> log_probs = lt.zeros(4, 1, 3).log_softmax(-1)
    >>> lt.nn.functional.ctc_loss(log_probs, lt.tensor([[1, 2]]), lt.tensor([4]), lt.tensor([2]))
    tensor(0.8432)
    """
    if log_probs.ndim == 2:
        one = ctc_loss(
            unsqueeze(log_probs, 1), view(targets, (1, -1)), _to_int_list(input_lengths),
            _to_int_list(target_lengths), blank,
            "none", zero_infinity,
        )  # fmt: skip
        return (
            view(one, ())
            if resolve_reduction(reduction) != "mean"
            else red.mean(_divide_by_length(one, _to_int_list(target_lengths)))
        )
    steps, long = np.array(_to_int_list(input_lengths)), np.array(_to_int_list(target_lengths))
    _check_lengths(log_probs, targets, steps, long, blank)
    if len(steps) != log_probs.spec.shape[1] or len(long) != len(steps) or (steps > log_probs.spec.shape[0]).any():
        raise ShapeError(
            f"the input lengths {steps.tolist()} and target lengths {long.tolist()} do not match log_probs of "
            f"shape {list(log_probs.shape)}",
            where=source.where(),
            hint="Pass lengths within the shape of log_probs, one for each sample.",
        )
    labels = _insert_blanks(targets.array("ctc_loss"), long, blank)
    loss = -_log_likelihood(log_probs, labels, steps, long, blank) + _normalizer(log_probs, steps)
    # -LOG_ZERO / 2 is above every finite loss and below every loss that contains LOG_ZERO.
    loss = pw.where(loss > -LOG_ZERO / 2, 0.0 if zero_infinity else np.inf, loss)
    if resolve_reduction(reduction) == "none":
        return loss
    return red.sum(loss) if reduction == "sum" else red.mean(_divide_by_length(loss, long.tolist()))


def _check_lengths(log_probs: Tensor, targets: Tensor, steps: np.ndarray, long: np.ndarray, blank: int) -> None:
    """Raise ShapeError if `blank` is no class, a length is negative, or a target is longer than its row.

    `log_probs` is [T, N, C]; `steps` and `long` are the input and target lengths. Targets in one vector have no rows.
    """
    if not 0 <= blank < log_probs.spec.shape[2]:
        raise ShapeError(
            f"blank must be in label range, but got {blank} for {log_probs.spec.shape[2]} labels",
            where=source.where(),
            hint="Pass a blank of at least 0 and below the number of classes.",
        )
    for name, lengths in (("input", steps), ("target", long)):
        if (lengths < 0).any():
            least = int(lengths.min())
            text = f"Expected {name}_lengths to have value at least 0, but got value {least}"
            raise ShapeError(text, where=source.where(), hint="Pass lengths that are not larger than the tensor.")
    if targets.ndim == 2 and long.max(initial=0) > targets.spec.shape[1]:
        text = f"Expected tensor to have size at least {int(long.max())} at dimension 1, but got size "
        raise ShapeError(
            f"{text}{targets.spec.shape[1]} for argument #2 'targets'",
            where=source.where(),
            hint="Pad the targets, or reduce the target lengths.",
        )


def _to_int_list(lengths: Lengths) -> list[int]:
    values = lengths.array("ctc_loss") if isinstance(lengths, Tensor) else lengths
    return [int(v) for v in np.ravel(values)]


def _divide_by_length(loss: Tensor, lengths: list[int]) -> Tensor:
    divisor = np.maximum(np.array(lengths), 1).astype(loss.dtype.host)
    return loss / from_array(divisor, loss.dtype)


def _insert_blanks(targets: np.ndarray, lengths: np.ndarray, blank: int) -> np.ndarray:
    """Return the labels with a blank before, between and after them: [N, 2 * S + 1], padded with blanks.

    `targets` is a matrix of which row k has `lengths[k]` labels, or a vector of all labels in order.
    """
    most = int(lengths.max(initial=0))
    out = np.full((len(lengths), 2 * most + 1), blank, np.int64)
    ends = np.cumsum(lengths)
    for k, n in enumerate(lengths):
        # A padded matrix, or all targets concatenated.
        row = targets[k, :n] if targets.ndim == 2 else targets[ends[k] - n : ends[k]]
        out[k, 1 : 2 * n : 2] = row
    return out


def _log_likelihood(log_probs: Tensor, labels: np.ndarray, steps: np.ndarray, long: np.ndarray, blank: int) -> Tensor:
    """Return the log-probability of each label sequence over all its alignments: [N].

    `labels` comes from `_insert_blanks`; `steps` and `long` are the input and target lengths. A sequence without an
    alignment gets about LOG_ZERO, a large negative number, in place of -inf.
    """
    times, n, _ = log_probs.spec.shape
    width = labels.shape[1]
    places = from_array(np.broadcast_to(labels, (times, n, width)), dt.int64)
    emitted = tensor_of(call("at_places", operand_node(log_probs), places.node), log_probs)
    # The blank between two labels may be skipped unless the labels are equal.
    before = np.roll(labels, 2, 1)
    may_skip = from_array((labels != blank) & (labels != before) & (np.arange(width) >= 2))
    # An alignment begins with the first blank or the first label.
    start = from_array(np.broadcast_to(np.arange(width) < 2, (n, width)) & (np.arange(width) <= 2 * long[:, None]))
    alpha = pw.where(start, select(emitted, 0, 0), LOG_ZERO)
    for t in range(1, times):
        # alpha[s] sums the alignments that end at position s: from s itself, from s - 1, or from s - 2 past a blank.
        one = _shift_right(alpha, 1)
        two = pw.where(may_skip, _shift_right(alpha, 2), LOG_ZERO) if width > 1 else one
        ahead = _log_sum_exp(alpha, one, two) + select(emitted, 0, t)
        # Finished sequences keep their last alpha.
        running = t < steps
        alpha = ahead if running.all() else pw.where(from_array(running[:, None]), ahead, alpha)
    # An alignment ends with the last blank or the last label. An empty target has only the blank.
    ends = np.stack([2 * long, np.maximum(2 * long - 1, 0)], 1)
    last = tensor_of(call("at_places", alpha.node, from_array(ends).node), alpha)
    second = pw.where(from_array(long > 0), select(last, 1, 1), LOG_ZERO)
    total = _log_sum_exp(select(last, 1, 0), second)
    if steps.all():
        return total
    # With zero input steps the empty target has probability 1, and every other target 0.
    nothing = from_array(np.where(long > 0, LOG_ZERO, 0).astype(total.dtype.host), total.dtype)
    return pw.where(from_array(steps > 0), total, nothing)


def _normalizer(log_probs: Tensor, steps: np.ndarray) -> Tensor:
    """Return zeros [N] whose gradient by `log_probs` is exp(log_probs) at the times before `steps`.

    PyTorch differentiates by the scores before log_softmax, which adds this term to the gradient.
    """
    running = np.arange(log_probs.spec.shape[0])[:, None, None] < steps[:, None]
    mass = red.sum(pw.where(from_array(running), pw.exp(log_probs), 0.0), (0, 2))
    return mass - mass.detach()


def _shift_right(alpha: Tensor, by: int) -> Tensor:
    width = alpha.spec.shape[1]
    return slice_dim(pad(alpha, (by, 0), value=LOG_ZERO), 1, 0, width)


def _log_sum_exp(*parts: Tensor) -> Tensor:
    """Return log(sum of exp(part)) over the tensors `parts`, elementwise and without overflow."""
    # The largest part is subtracted first, so that no exponential overflows. Its gradient cancels.
    top = parts[0].detach()
    for part in parts[1:]:
        top = pw.maximum(top, part.detach())
    total = pw.exp(parts[0] - top)
    for part in parts[1:]:
        total = total + pw.exp(part - top)
    return pw.log(total) + top
