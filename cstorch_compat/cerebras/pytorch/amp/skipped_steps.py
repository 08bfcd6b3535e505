"""Undo optimizer steps whose gradients overflowed, together with the step counters of schedules."""

import math
import weakref
from collections.abc import Iterable
from typing import Any

from cstorch_compat.run import process
from lazytensor.core import storage
from lazytensor.core.dtype import float32
from lazytensor.core.tensor import Tensor, grad_mode
from lazytensor.functional import pointwise as pw
from lazytensor.functional import reduction
from lazytensor.functional.creation import tensor
from lazytensor.functional.joining_and_splitting import stack

is_prepared = process.RunLocal(lambda: False)
"""Whether the script called `cstorch.amp.init()` in this run."""
has_scaler = process.RunLocal(lambda: False)
"""Whether a GradScaler was created in this run."""

# Both references are weak. A result must not apply to a later step, which may not use the scaler at all.
_verdicts: "weakref.WeakKeyDictionary[Any, tuple[weakref.ref[storage.ActiveCapture], Tensor]]" = (
    weakref.WeakKeyDictionary()
)
"""For each optimizer that a dynamic scaler stepped: the traced step, and whether its gradients were finite (bool
scalar).
"""


def gradients(optimizer: Any) -> list[Tensor]:
    """Return the gradients of all parameters of `optimizer` that have one."""
    return [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


def squared_norm(grads: Iterable[Tensor]) -> Tensor:
    """Return the sum of the squares of all elements as a float32 scalar tensor; 0 for no gradients.

    It is infinite or NaN if an element is, or if the sum overflows float32.
    """
    # The squares are float32, because 256 squared overflows float16 although the gradient itself did not overflow.
    parts = [reduction.sum(pw.square(pw.cast_to(g, float32))) for g in grads]
    return reduction.sum(stack(parts)) if parts else tensor(0.0)


def is_finite_norm(squared: Tensor) -> Tensor:
    """Return whether a norm is finite, given its square, as a bool scalar tensor."""
    # The comparison is false for infinity and for NaN.
    return pw.sqrt(squared) < math.inf


def isfinite(optimizer: Any) -> Tensor:
    """Return whether the global norm of the gradients of `optimizer` is finite, as a bool scalar tensor."""
    return is_finite_norm(squared_norm(gradients(optimizer)))


def step_where(finite: Tensor, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    """Run `optimizer.step` and undo its writes if `finite`, a bool scalar tensor, is False.

    Weights, optimizer state, and the state of sparsity algorithms that follow the optimizer are restored. In a traced
    step `finite` is also saved for `update_if_finite`. Returns the result of the step.
    """
    # Collect everything that a step may write: weights, optimizer state, and the masks and counters of sparsity
    # algorithms. A branch cannot be traced, so the step always runs, and a selection restores the old values.
    changed = [p for group in optimizer.param_groups for p in group["params"]]
    changed += [t for state in optimizer.state.values() for t in state.values() if isinstance(t, Tensor)]
    changed += [t for follower in getattr(optimizer, "followers", ()) for t in follower.state_tensors()]
    # A clone copies no data: it is a node that refers to the old value.
    before = [t.detach().clone() for t in changed]
    answer = optimizer.step(*args, **kwargs)
    for t, old in zip(changed, before, strict=True):
        _take_back(t, old, finite)
    # Schedules that step later use this result at the end of the traced step.
    if storage.thread_state.current is not None:
        _verdicts[optimizer] = weakref.ref(storage.thread_state.current), finite
    return answer


def _take_back(t: Tensor, old: Tensor, finite: Tensor) -> None:
    with grad_mode(False):
        # Select by element instead of multiplying by 0 or 1, because a product with NaN is NaN.
        t.write(pw.where(finite, t, old).node)


def _refuse_unwatched() -> None:
    """Raise the original's RuntimeError for a schedule that steps outside a traced step.

    It is raised only if `amp.init()` was called, a scaler exists, and the backend is not CSX.
    """
    if is_prepared.value and has_scaler.value and not process.use_cs():
        raise RuntimeError(
            "Failed to mark tensor 0. Please ensure that the ConditionalUpdateManager context is entered before "
            "attempting to mark any tensors.\n  Call the schedule's step() in a function decorated with @cstorch.trace."
        )


def update_if_finite(optimizer: Any, tensor: Tensor) -> None:
    """Restore the current value of `tensor` at the end of the traced step if a dynamic scaler undoes the step.

    `optimizer` is the optimizer whose step may be undone. Call the function before `tensor` is changed. Outside a
    traced step it has no effect, except that it raises RuntimeError if `amp.init()` was called, a scaler exists, and
    the backend is not CSX.
    """
    capture = storage.thread_state.current
    if capture is None:
        _refuse_unwatched()
        return
    before = tensor.detach().clone()

    # A schedule may step before or after the scaler, so the check runs at the end of the step. Without dynamic scaling
    # nothing is added to the graph.
    def hold_back() -> None:
        verdict = _verdicts.get(optimizer)
        if verdict is not None and verdict[0]() is capture:
            _take_back(tensor, before, verdict[1])

    capture.run_at_end(hold_back)
