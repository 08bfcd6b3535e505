"""Steps that overflowed: what they wrote is taken back, and what counts steps is held back with them."""

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
"""Whether a script has called `cstorch.amp.init()`."""
has_scaler = process.RunLocal(lambda: False)
"""Whether a scaler was made since."""

# Weak on both sides: an optimizer that is gone needs no verdict, and the verdict of a step that is over must not
# hold counters back in the next one, which may not use the scaler at all.
_verdicts: "weakref.WeakKeyDictionary[Any, tuple[weakref.ref[storage.ActiveCapture], Tensor]]" = (
    weakref.WeakKeyDictionary()
)
"""Of each optimizer that a dynamic scaler stepped: the traced step, and whether its gradients were finite."""


def gradients(optimizer: Any) -> list[Tensor]:
    """The gradients of an optimizer's parameters."""
    return [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


def squared_norm(grads: Iterable[Tensor]) -> Tensor:
    """The sum of the squares of all elements; infinite or NaN if one of them is, or if it overflows float32."""
    # In float32: in float16 the square of 256 is infinite, which is no overflow of the step.
    parts = [reduction.sum(pw.square(pw.cast_to(g, float32))) for g in grads]
    return reduction.sum(stack(parts)) if parts else tensor(0.0)


def is_finite_norm(squared: Tensor) -> Tensor:
    """Whether a norm is finite, given its square."""
    # One comparison tells infinities and NaN, for which every comparison is false.
    return pw.sqrt(squared) < math.inf


def isfinite(optimizer: Any) -> Tensor:
    """Whether the global norm of an optimizer's gradients is finite, as bool[]."""
    return is_finite_norm(squared_norm(gradients(optimizer)))


def step_where(finite: Tensor, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an optimizer's step and take back what it wrote wherever `finite` does not hold."""
    # Everything that a step may write, before it does so: weights, the optimizer's state, and the masks and
    # counters of sparsity algorithms that follow it. A branch cannot be traced, so the step always runs, and a
    # selection takes it back.
    changed = [p for group in optimizer.param_groups for p in group["params"]]
    changed += [t for state in optimizer.state.values() for t in state.values() if isinstance(t, Tensor)]
    changed += [t for follower in getattr(optimizer, "followers", ()) for t in follower.state_tensors()]
    # No bytes are copied: a clone is a node that refers to the old value.
    before = [t.detach().clone() for t in changed]
    answer = optimizer.step(*args, **kwargs)
    for t, old in zip(changed, before, strict=True):
        _take_back(t, old, finite)
    # Counters that are advanced after the step (schedules, in a script's own line) ask for this verdict at the end.
    if storage.thread_state.current is not None:
        _verdicts[optimizer] = weakref.ref(storage.thread_state.current), finite
    return answer


def _take_back(t: Tensor, old: Tensor, finite: Tensor) -> None:
    with grad_mode(False):
        # A selection by element, also where the new value is NaN: a product with 0 or 1 would let the NaN through.
        t.write(pw.where(finite, t, old).node)


def _refuse_unwatched() -> None:
    """Refuse a schedule's step that the original does not take outside a step."""
    if is_prepared.value and has_scaler.value and not process.use_cs():
        raise RuntimeError(
            "Failed to mark tensor 0. Please ensure that the ConditionalUpdateManager context is entered before "
            "attempting to mark any tensors.\n  Call the schedule's step() in a function decorated with @cstorch.trace."
        )


def update_if_finite(optimizer: Any, tensor: Tensor) -> None:
    """Give a tensor the value it has now at the end of the step, if a dynamic scaler takes the optimizer's step back.

    To be called before the tensor is changed. Outside a traced step it has no effect, and raises RuntimeError where the
    original does: after `amp.init()`, with a scaler.
    """
    capture = storage.thread_state.current
    if capture is None:
        _refuse_unwatched()
        return
    before = tensor.detach().clone()

    # At the end, because schedules may step before or after the scaler does, and only then is the verdict known. A
    # script without dynamic scaling has no verdict, and nothing is added to its graph.
    def hold_back() -> None:
        verdict = _verdicts.get(optimizer)
        if verdict is not None and verdict[0]() is capture:
            _take_back(tensor, before, verdict[1])

    capture.run_at_end(hold_back)
