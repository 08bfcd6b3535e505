"""What `cerebras.pytorch.optim.lr_scheduler` offers: schedules of the learning rate."""

import sys
from collections.abc import Sequence
from typing import Any

from cstorch_compat.names import manifest
from cstorch_compat.optim.curves import (
    ConstantScheduler,
    CosineAnnealingScheduler,
    CosineAnnealingWarmRestartsScheduler,
    CosineDecayScheduler,
    CyclicScheduler,
    ExponentialScheduler,
    InverseExponentialTimeDecayScheduler,
    InverseSquareRootDecayScheduler,
    LambdaScheduler,
    LinearScheduler,
    MultiplicativeScheduler,
    MultiStepScheduler,
    OneCycleScheduler,
    PiecewiseConstantScheduler,
    PolynomialScheduler,
    StepScheduler,
)
from cstorch_compat.optim.schedules import ChainedScheduler as _Chained
from cstorch_compat.optim.schedules import (
    LRScheduler,
    ScalePerParamScheduler,
    Scheduler,
    SequentialScheduler,
    Tags,
)


class ConstantLR(LRScheduler, ConstantScheduler):
    __doc__ = ConstantScheduler.__doc__


class PolynomialLR(LRScheduler, PolynomialScheduler):
    __doc__ = PolynomialScheduler.__doc__


class LinearLR(LRScheduler, LinearScheduler):
    __doc__ = LinearScheduler.__doc__


class ExponentialLR(LRScheduler, ExponentialScheduler):
    __doc__ = ExponentialScheduler.__doc__


class InverseExponentialTimeDecayLR(LRScheduler, InverseExponentialTimeDecayScheduler):
    __doc__ = InverseExponentialTimeDecayScheduler.__doc__


class InverseSquareRootDecayLR(LRScheduler, InverseSquareRootDecayScheduler):
    __doc__ = InverseSquareRootDecayScheduler.__doc__


class CosineDecayLR(LRScheduler, CosineDecayScheduler):
    __doc__ = CosineDecayScheduler.__doc__


class CosineAnnealingLR(LRScheduler, CosineAnnealingScheduler):
    __doc__ = CosineAnnealingScheduler.__doc__


class StepLR(LRScheduler, StepScheduler):
    __doc__ = StepScheduler.__doc__


class MultiStepLR(LRScheduler, MultiStepScheduler):
    __doc__ = MultiStepScheduler.__doc__


class MultiplicativeLR(LRScheduler, MultiplicativeScheduler):
    __doc__ = MultiplicativeScheduler.__doc__


class LambdaLR(LRScheduler, LambdaScheduler):
    __doc__ = LambdaScheduler.__doc__


class CyclicLR(LRScheduler, CyclicScheduler):
    __doc__ = CyclicScheduler.__doc__


class OneCycleLR(LRScheduler, OneCycleScheduler):
    __doc__ = OneCycleScheduler.__doc__


class SequentialLR(LRScheduler, SequentialScheduler):
    __doc__ = SequentialScheduler.__doc__


class ScalePerParamLR(LRScheduler, ScalePerParamScheduler):
    __doc__ = ScalePerParamScheduler.__doc__


class ChainedLR(LRScheduler, _Chained):
    __doc__ = _Chained.__doc__


class CosineAnnealingWarmRestarts(LRScheduler, CosineAnnealingWarmRestartsScheduler):
    __doc__ = CosineAnnealingWarmRestartsScheduler.__doc__


class PiecewiseConstantLR(LRScheduler, PiecewiseConstantScheduler):
    __doc__ = PiecewiseConstantScheduler.__doc__

    def __init__(
        self, optimizer: Any, learning_rates: Sequence[float], milestones: Sequence[int], param_group_tags: Tags = None
    ):
        super().__init__(optimizer, ConstantLR, learning_rates, milestones, param_group_tags)


class ChainedScheduler(ChainedLR):
    """ChainedLR under its older name."""


BaseChainedScheduler = _Chained

__all__ = [
    "BaseChainedScheduler",
    "ChainedLR",
    "ChainedScheduler",
    "ConstantLR",
    "ConstantScheduler",
    "CosineAnnealingLR",
    "CosineAnnealingScheduler",
    "CosineAnnealingWarmRestarts",
    "CosineAnnealingWarmRestartsScheduler",
    "CosineDecayLR",
    "CosineDecayScheduler",
    "CyclicLR",
    "CyclicScheduler",
    "ExponentialLR",
    "ExponentialScheduler",
    "InverseExponentialTimeDecayLR",
    "InverseExponentialTimeDecayScheduler",
    "InverseSquareRootDecayLR",
    "InverseSquareRootDecayScheduler",
    "LRScheduler",
    "LambdaLR",
    "LambdaScheduler",
    "LinearLR",
    "LinearScheduler",
    "MultiStepLR",
    "MultiStepScheduler",
    "MultiplicativeLR",
    "MultiplicativeScheduler",
    "OneCycleLR",
    "OneCycleScheduler",
    "PiecewiseConstantLR",
    "PiecewiseConstantScheduler",
    "PolynomialLR",
    "PolynomialScheduler",
    "ScalePerParamLR",
    "ScalePerParamScheduler",
    "Scheduler",
    "SequentialLR",
    "SequentialScheduler",
    "StepLR",
    "StepScheduler",
]
manifest.explain("cerebras.pytorch.optim.lr_scheduler", sys.modules[__name__])
