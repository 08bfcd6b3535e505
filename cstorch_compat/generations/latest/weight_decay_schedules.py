"""Schedules of the weight decay: `cerebras.pytorch.optim.weight_decay_scheduler`."""

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
from cstorch_compat.optim.schedules import (
    ChainedScheduler,
    ScalePerParamScheduler,
    SequentialScheduler,
    Tags,
    WeightDecayScheduler,
)


class ConstantWD(WeightDecayScheduler, ConstantScheduler):
    __doc__ = ConstantScheduler.__doc__


class PolynomialWD(WeightDecayScheduler, PolynomialScheduler):
    __doc__ = PolynomialScheduler.__doc__


class LinearWD(WeightDecayScheduler, LinearScheduler):
    __doc__ = LinearScheduler.__doc__


class ExponentialWD(WeightDecayScheduler, ExponentialScheduler):
    __doc__ = ExponentialScheduler.__doc__


class InverseExponentialTimeDecayWD(WeightDecayScheduler, InverseExponentialTimeDecayScheduler):
    __doc__ = InverseExponentialTimeDecayScheduler.__doc__


class InverseSquareRootDecayWD(WeightDecayScheduler, InverseSquareRootDecayScheduler):
    __doc__ = InverseSquareRootDecayScheduler.__doc__


class CosineDecayWD(WeightDecayScheduler, CosineDecayScheduler):
    __doc__ = CosineDecayScheduler.__doc__


class CosineAnnealingWD(WeightDecayScheduler, CosineAnnealingScheduler):
    __doc__ = CosineAnnealingScheduler.__doc__


class StepWD(WeightDecayScheduler, StepScheduler):
    __doc__ = StepScheduler.__doc__


class MultiStepWD(WeightDecayScheduler, MultiStepScheduler):
    __doc__ = MultiStepScheduler.__doc__


class MultiplicativeWD(WeightDecayScheduler, MultiplicativeScheduler):
    __doc__ = MultiplicativeScheduler.__doc__


class LambdaWD(WeightDecayScheduler, LambdaScheduler):
    __doc__ = LambdaScheduler.__doc__


class CyclicWD(WeightDecayScheduler, CyclicScheduler):
    __doc__ = CyclicScheduler.__doc__


class OneCycleWD(WeightDecayScheduler, OneCycleScheduler):
    __doc__ = OneCycleScheduler.__doc__


class SequentialWD(WeightDecayScheduler, SequentialScheduler):
    __doc__ = SequentialScheduler.__doc__


class ScalePerParamWD(WeightDecayScheduler, ScalePerParamScheduler):
    __doc__ = ScalePerParamScheduler.__doc__


class ChainedWD(WeightDecayScheduler, ChainedScheduler):
    __doc__ = ChainedScheduler.__doc__


class CosineAnnealingWarmRestartsWD(WeightDecayScheduler, CosineAnnealingWarmRestartsScheduler):
    __doc__ = CosineAnnealingWarmRestartsScheduler.__doc__


class PiecewiseConstantWD(WeightDecayScheduler, PiecewiseConstantScheduler):
    __doc__ = PiecewiseConstantScheduler.__doc__

    def __init__(self, optimizer: Any, vals: Sequence[float], milestones: Sequence[int], param_group_tags: Tags = None):
        super().__init__(optimizer, ConstantWD, vals, milestones, param_group_tags)
