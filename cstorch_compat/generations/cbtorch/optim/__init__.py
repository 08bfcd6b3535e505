"""What `cerebras_torch.optim` offers: the optimizers of release 1.8, whose step takes back what a scaler did."""

import sys
from collections.abc import Callable
from typing import Any

from cstorch_compat.generations.cbtorch import amp
from cstorch_compat.generations.cbtorch.optim import lr_scheduler
from cstorch_compat.generations.cstorch import optim
from cstorch_compat.generations.cstorch.optim import Optimizer
from cstorch_compat.names import manifest

NAMES = "ASGD SGD Adadelta Adafactor Adagrad Adam Adamax AdamW Lamb NAdam RAdam RMSprop Rprop".split()


class Unscaling:
    """A step that unscales gradients first, if a scaler was called since the last one, and updates the scaler."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter once."""
        scaler = amp.owing()
        if scaler is None:
            return super().step(closure)  # type: ignore[misc]
        answer = scaler.step(self, closure)
        scaler.update()
        return answer


globals().update({n: type(n, (Unscaling, getattr(optim, n)), {"__doc__": getattr(optim, n).__doc__}) for n in NAMES})
__all__ = ["Optimizer", "lr_scheduler", *NAMES]  # noqa: PLE0604
manifest.explain("cerebras_torch.optim", sys.modules[__name__])
