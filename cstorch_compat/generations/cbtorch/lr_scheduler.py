"""The schedules of `cerebras_torch.optim.lr_scheduler`, with and without the suffix LR, and with older argument names.

The classes are derived from those of the current release.
"""

import inspect
from typing import Any

from cstorch_compat.cerebras.pytorch.optim import lr_scheduler
from cstorch_compat.generations.early.configured_optim import map_to_arguments

SCHEDULE_NAMES = """Constant Exponential InverseExponentialTimeDecay Polynomial Linear CosineDecay CosineAnnealing Step
    MultiStep Lambda PiecewiseConstant Multiplicative InverseSquareRootDecay Cyclic OneCycle Sequential Chained"""
"""The names of the schedules without the suffix LR."""
IGNORED_ARGUMENT = "disable_lr_steps_reset"
"""An argument that is accepted and ignored. It concerns graphs that a schedule enters twice."""


def _make_older_class(kind: type) -> type:
    """Return a subclass of `kind` that also accepts older argument names such as `val` and `decay_steps`."""

    def init(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        kwargs.pop(IGNORED_ARGUMENT, None)
        kind.__init__(self, optimizer, *args, **map_to_arguments(kind, kwargs))  # type: ignore[misc]

    # The classes are generated, because they differ from the current ones only in their argument names.
    note = f"Arguments may have older names, such as `val` and `decay_steps`. `{IGNORED_ARGUMENT}` is ignored."
    doc = f"{inspect.cleandoc(kind.__doc__ or '')}\n\n{note}"
    members = {"__doc__": doc, "__module__": __name__, "__init__": init}
    return type(kind.__name__.removesuffix("LR"), (kind,), members)


# Scripts use both Constant and ConstantLR. CosineAnnealingWarmRestarts has no variant with LR.
_LATEST_CLASSES = [
    *(getattr(lr_scheduler, f"{n}LR") for n in SCHEDULE_NAMES.split()),
    lr_scheduler.CosineAnnealingWarmRestarts,
]
_OLDER_CLASSES = {kind.__name__.removesuffix("LR"): _make_older_class(kind) for kind in _LATEST_CLASSES}
_OLDER_CLASSES |= {f"{n}LR": _OLDER_CLASSES[n] for n in SCHEDULE_NAMES.split()}
__all__ = [*_OLDER_CLASSES]  # noqa: PLE0604


def __getattr__(name: str) -> type:
    """Return the schedule class `name`. Raises AttributeError if there is none."""
    if name not in _OLDER_CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _OLDER_CLASSES[name]
