"""The schedules of `cerebras_torch.optim.lr_scheduler`: names without LR, and older arguments."""

from typing import Any

from cstorch_compat.generations.early.configured import named_arguments
from cstorch_compat.generations.latest import lr_schedules

NAMES = """Constant Exponential InverseExponentialTimeDecay Polynomial Linear CosineDecay CosineAnnealing Step
    MultiStep Lambda PiecewiseConstant Multiplicative InverseSquareRootDecay Cyclic OneCycle Sequential Chained"""
IGNORED = "disable_lr_steps_reset"
"""An argument for graphs that a schedule enters twice."""


def _older(kind: type) -> type:
    """A class of the latest release that takes `val`, `decay_steps` and the like too."""

    def init(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        # Graphs here are entered once, so there is nothing to reset or to keep.
        kwargs.pop(IGNORED, None)
        kind.__init__(self, optimizer, *args, **named_arguments(kind, kwargs))  # type: ignore[misc]

    # Made here and not written down: they differ from today's in nothing but the names of their arguments.
    members = {"__doc__": kind.__doc__, "__module__": __name__, "__init__": init}
    return type(kind.__name__.removesuffix("LR"), (kind,), members)


# Scripts write both spellings, Constant and ConstantLR; the restarts never had an LR.
_KINDS = [*(getattr(lr_schedules, f"{n}LR") for n in NAMES.split()), lr_schedules.CosineAnnealingWarmRestarts]
_OLDER = {kind.__name__.removesuffix("LR"): _older(kind) for kind in _KINDS}
_OLDER |= {f"{n}LR": _OLDER[n] for n in NAMES.split()}
__all__ = [*_OLDER]  # noqa: PLE0604


def __getattr__(name: str) -> type:
    """The class of that name, with or without LR, one for each of the latest release."""
    if name not in _OLDER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _OLDER[name]
