"""The optimizers of releases 1.2 to 1.8, whose step takes back what a scaler did: `cerebras_torch.optim`."""

from collections.abc import Callable
from typing import Any

from cstorch_compat.cerebras.pytorch.optim import optimizers
from cstorch_compat.generations.cbtorch import amp


class UnscalingOptimizer:
    """A step that unscales gradients first, if a scaler was called since the last one, and updates the scaler."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter once."""
        # The scaler was called with the loss, long before; the step is the first to know that the gradients are there.
        scaler = amp.take_pending_scaler()
        if scaler is None:
            return super().step(closure)  # type: ignore[misc]
        answer = scaler.step(self, closure)
        scaler.update()
        return answer


OPTIMIZER_NAMES = "ASGD SGD Adadelta Adafactor Adagrad Adam Adamax AdamW Lamb NAdam RAdam RMSprop Rprop"
# Lion and Muon came after this generation and are not in it.
_LATEST_CLASSES = {name: getattr(optimizers, name) for name in OPTIMIZER_NAMES.split()}
_OLDER_CLASSES = {
    name: type(name, (UnscalingOptimizer, kind), {"__doc__": kind.__doc__, "__module__": __name__})
    for name, kind in _LATEST_CLASSES.items()
}
__all__ = [*_OLDER_CLASSES]  # noqa: PLE0604


def __getattr__(name: str) -> type:
    """The class of that name, one for each of the latest release."""
    if name not in _OLDER_CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _OLDER_CLASSES[name]
