"""The optimizers of `cerebras_torch.optim` in releases 1.2 to 1.8, whose step unscales gradients.

The classes are derived from those of the current release.
"""

import inspect
from collections.abc import Callable
from typing import Any

from cstorch_compat.cerebras.pytorch.optim import optimizers
from cstorch_compat.generations.cbtorch import amp
from lazytensor.core.tensor import grad_mode


def _call_with_gradients(closure: Callable[[], Any]) -> Any:
    with grad_mode(True):
        return closure()


class UnscalingOptimizer:
    """A mixin whose `step` unscales the gradients and updates the scaler if a scaler was called since the last step."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter once, with unscaled gradients if a scaler was called since the last step.

        The scaler is updated afterwards. If `closure` is given, call it to compute the loss and the gradients before
        they are unscaled and the parameters change, and return its result.
        """
        # The closure scales its loss and computes gradients, so it runs before the gradients are unscaled.
        loss = None if closure is None else _call_with_gradients(closure)
        # The scaler was called with the loss, before the gradients existed.
        scaler = amp.take_pending_scaler()
        if scaler is None:
            super().step()  # type: ignore[misc]
            return loss
        scaler.step(self)
        scaler.update()
        return loss


OPTIMIZER_NAMES = "ASGD SGD Adadelta Adafactor Adagrad Adam Adamax AdamW Lamb NAdam RAdam RMSprop Rprop"
"""The names of the optimizers."""
# This generation does not have Lion and Muon.
_LATEST_CLASSES = {name: getattr(optimizers, name) for name in OPTIMIZER_NAMES.split()}
_STEP_NOTE = (
    "If a gradient scaler was called since the last step, `step` unscales the gradients and updates the scaler."
)
_OLDER_CLASSES = {
    name: type(
        name,
        (UnscalingOptimizer, kind),
        {"__doc__": f"{inspect.cleandoc(kind.__doc__ or '')}\n\n{_STEP_NOTE}", "__module__": __name__},
    )
    for name, kind in _LATEST_CLASSES.items()
}
__all__ = [*_OLDER_CLASSES]  # noqa: PLE0604


def __getattr__(name: str) -> type:
    """Return the optimizer class `name`. Raises AttributeError if there is none."""
    if name not in _OLDER_CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _OLDER_CLASSES[name]
