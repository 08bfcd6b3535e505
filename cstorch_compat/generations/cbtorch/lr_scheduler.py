"""The schedules of `cerebras_torch.optim.lr_scheduler`: names without LR, and older arguments."""

from typing import Any

from cstorch_compat.cerebras.pytorch.optim import lr_scheduler
from cstorch_compat.generations.early.configured_optim import map_to_arguments

SCHEDULE_NAMES = """Constant Exponential InverseExponentialTimeDecay Polynomial Linear CosineDecay CosineAnnealing Step
    MultiStep Lambda PiecewiseConstant Multiplicative InverseSquareRootDecay Cyclic OneCycle Sequential Chained"""
IGNORED_ARGUMENT = "disable_lr_steps_reset"
"""An argument for graphs that a schedule enters twice."""


def _make_older_class(kind: type) -> type:
    """A class of the latest release that takes `val`, `decay_steps` and the like too."""

    def init(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        # Graphs here are entered once, so there is nothing to reset or to keep.
        kwargs.pop(IGNORED_ARGUMENT, None)
        kind.__init__(self, optimizer, *args, **map_to_arguments(kind, kwargs))  # type: ignore[misc]

    # Made here and not written down: they differ from today's in nothing but the names of their arguments.
    members = {"__doc__": kind.__doc__, "__module__": __name__, "__init__": init}
    return type(kind.__name__.removesuffix("LR"), (kind,), members)


# Scripts write both spellings, Constant and ConstantLR; the restarts never had an LR.
_LATEST_CLASSES = [
    *(getattr(lr_scheduler, f"{n}LR") for n in SCHEDULE_NAMES.split()),
    lr_scheduler.CosineAnnealingWarmRestarts,
]
_OLDER_CLASSES = {kind.__name__.removesuffix("LR"): _make_older_class(kind) for kind in _LATEST_CLASSES}
_OLDER_CLASSES |= {f"{n}LR": _OLDER_CLASSES[n] for n in SCHEDULE_NAMES.split()}
__all__ = [*_OLDER_CLASSES]  # noqa: PLE0604


def __getattr__(name: str) -> type:
    """The class of that name, with or without LR, one for each of the latest release."""
    if name not in _OLDER_CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _OLDER_CLASSES[name]
