"""Connectionist temporal classification: the probability of a label sequence over all alignments."""

from collections.abc import Sequence

import numpy as np

from lazytensor.core import source
from lazytensor.core.tensor import Tensor, from_array, operand_node
from lazytensor.errors import ShapeError
from lazytensor.functional import reduction as red
from lazytensor.functional.loss import resolve_reduction
from lazytensor.functional.pointwise import tensor_of
from lazytensor.functional.views import unsqueeze, view
from lazytensor.ops import call

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
    lengths = from_array(np.stack([steps, long], 1).astype(np.int64))
    operands = operand_node(log_probs), from_array(labels).node, lengths.node
    loss = tensor_of(call("ctc_loss", *operands, zero_infinity=bool(zero_infinity)), log_probs)
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
