"""What `cerebras_torch.optim.lr_scheduler` offers: the schedules under names without LR, and older arguments."""

import sys
from typing import Any

from cstorch_compat.generations.cstorch.optim import lr_scheduler as later
from cstorch_compat.generations.cstorch.optim.lr_scheduler import LRScheduler
from cstorch_compat.generations.early.configured import named_arguments
from cstorch_compat.names import manifest

NAMES = """Constant Exponential InverseExponentialTimeDecay Polynomial Linear CosineDecay CosineAnnealing Step
    MultiStep Lambda PiecewiseConstant Multiplicative InverseSquareRootDecay Cyclic OneCycle Sequential Chained"""
IGNORED = "disable_lr_steps_reset"
"""An argument for graphs that a schedule enters twice."""


def _older(kind: type) -> type:
    """A class of the latest release that takes `val`, `decay_steps` and the like too."""

    def init(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        kwargs.pop(IGNORED, None)
        kind.__init__(self, optimizer, *args, **named_arguments(kind, kwargs))  # type: ignore[misc]

    return type(kind.__name__.removesuffix("LR"), (kind,), {"__doc__": kind.__doc__, "__init__": init})


_KINDS = [*(getattr(later, f"{n}LR") for n in NAMES.split()), later.CosineAnnealingWarmRestarts]
_OLDER = {kind.__name__.removesuffix("LR"): _older(kind) for kind in _KINDS}
globals().update({**_OLDER, **{f"{n}LR": c for n, c in _OLDER.items() if n in NAMES.split()}})
__all__ = ["LRScheduler", *_OLDER]  # noqa: PLE0604
manifest.explain("cerebras_torch.optim.lr_scheduler", sys.modules[__name__])
