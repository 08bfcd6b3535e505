"""Schedules of the learning rate: `cerebras.pytorch.optim.lr_scheduler`."""

from collections.abc import Sequence
from typing import Any

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
from cstorch_compat.optim.schedules import ChainedScheduler as ChainedBase
from cstorch_compat.optim.schedules import (
    LRScheduler,
    ScalePerParamScheduler,
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


class ChainedLR(LRScheduler, ChainedBase):
    __doc__ = ChainedBase.__doc__


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
