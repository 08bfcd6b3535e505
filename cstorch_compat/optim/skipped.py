"""Steps that overflowed: what they wrote is taken back, and what counts steps is held back with them."""

import math
import weakref
from collections.abc import Iterable
from typing import Any

from lazytensor import trace
from lazytensor.dtype import float32
from lazytensor.functions import pointwise as pw
from lazytensor.functions import reductions
from lazytensor.functions.creation import tensor
from lazytensor.functions.shapes import stack
from lazytensor.tensor import Tensor, grad_mode

_verdicts: "weakref.WeakKeyDictionary[Any, tuple[weakref.ref[trace.Epoch], Tensor]]" = weakref.WeakKeyDictionary()
"""Of each optimizer that a dynamic scaler stepped: the traced step, and whether its gradients were finite."""


def gradients(optimizer: Any) -> list[Tensor]:
    """The gradients of an optimizer's parameters."""
    return [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


def squared_norm(grads: Iterable[Tensor]) -> Tensor:
    """The sum of the squares of all elements; infinite or NaN if one of them is, or if it overflows float32."""
    parts = [reductions.sum(pw.square(pw.cast_to(g, float32))) for g in grads]
    return reductions.sum(stack(parts)) if parts else tensor(0.0)


def is_finite_norm(squared: Tensor) -> Tensor:
    """Whether a norm is finite, given its square."""
    return pw.sqrt(squared) < math.inf


def isfinite(optimizer: Any) -> Tensor:
    """Whether the global norm of an optimizer's gradients is finite, as bool[]."""
    return is_finite_norm(squared_norm(gradients(optimizer)))


def step_where(finite: Tensor, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an optimizer's step and take back what it wrote wherever `finite` does not hold."""
    changed = [p for group in optimizer.param_groups for p in group["params"]]
    changed += [t for state in optimizer.state.values() for t in state.values() if isinstance(t, Tensor)]
    changed += [t for follower in getattr(optimizer, "followers", ()) for t in follower.state_tensors()]
    before = [t.detach().clone() for t in changed]
    answer = optimizer.step(*args, **kwargs)
    for t, old in zip(changed, before, strict=True):
        _take_back(t, old, finite)
    if trace.current is not None:
        _verdicts[optimizer] = weakref.ref(trace.current), finite
    return answer


def _take_back(t: Tensor, old: Tensor, finite: Tensor) -> None:
    with grad_mode(False):
        t.write(pw.where(finite, t, old).node)


def update_if_finite(optimizer: Any, tensor: Tensor) -> None:
    """Give a tensor the value it has now at the end of the step, if a dynamic scaler takes the optimizer's step back.

    To be called before the tensor is changed. Has no effect outside a traced step.
    """
    capture = trace.current
    if capture is None:
        return
    before = tensor.detach().clone()

    def hold_back() -> None:
        verdict = _verdicts.get(optimizer)
        if verdict is not None and verdict[0]() is capture:
            _take_back(tensor, before, verdict[1])

    capture.at_end(hold_back)
