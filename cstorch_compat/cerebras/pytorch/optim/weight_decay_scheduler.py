"""Schedules of the weight decay: `cerebras.pytorch.optim.weight_decay_scheduler`."""

from collections.abc import Sequence
from typing import Any

from cstorch_compat.cerebras.pytorch.optim.compound_schedules import (
    ChainedScheduler,
    ScalePerParamScheduler,
    SequentialScheduler,
)
from cstorch_compat.cerebras.pytorch.optim.schedule_formulas import (
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
from cstorch_compat.cerebras.pytorch.optim.schedules import Scheduler, Tags, WeightDecayScheduler
from cstorch_compat.cerebras.pytorch.optim.signatures import show


class ConstantWD(WeightDecayScheduler, ConstantScheduler):
    """The weight decay: always the same."""


class PolynomialWD(WeightDecayScheduler, PolynomialScheduler):
    """The weight decay: (initial - end) * (1 - t / total) ^ power + end, and the end from then on."""


class LinearWD(WeightDecayScheduler, LinearScheduler):
    """The weight decay: a straight line from the initial value to the end."""


class ExponentialWD(WeightDecayScheduler, ExponentialScheduler):
    """The weight decay: initial * decay_rate ^ (t / total); staircase rounds the exponent down."""


class InverseExponentialTimeDecayWD(WeightDecayScheduler, InverseExponentialTimeDecayScheduler):
    """The weight decay: initial / (1 + decay_rate * t ^ step_exponent / total); staircase rounds the quotient down."""


class InverseSquareRootDecayWD(WeightDecayScheduler, InverseSquareRootDecayScheduler):
    """The weight decay: initial * scale / sqrt(t), level until the step `warmup_steps`."""


class CosineDecayWD(WeightDecayScheduler, CosineDecayScheduler):
    """The weight decay: half a cosine wave from the initial value to the end, and the end from then on."""


class CosineAnnealingWD(WeightDecayScheduler, CosineAnnealingScheduler):
    """The weight decay: a cosine wave from the initial value to eta_min at T_max, and back again."""


class StepWD(WeightDecayScheduler, StepScheduler):
    """The weight decay: times gamma every `step_size` steps."""


class MultiStepWD(WeightDecayScheduler, MultiStepScheduler):
    """The weight decay: times gamma at each milestone."""


class MultiplicativeWD(WeightDecayScheduler, MultiplicativeScheduler):
    """The weight decay: times a coefficient in every step."""


class LambdaWD(WeightDecayScheduler, LambdaScheduler):
    """The weight decay: the initial value times functions of the step, listed in `set_value_lambda`."""


class CyclicWD(WeightDecayScheduler, CyclicScheduler):
    """The weight decay: up and down between two values, over and over."""


class OneCycleWD(WeightDecayScheduler, OneCycleScheduler):
    """The weight decay: up to the maximum and far down again, once, by cosines or lines."""


class SequentialWD(WeightDecayScheduler, SequentialScheduler):
    """The weight decay: one schedule after the other; `milestones` are the steps at which the next one takes over."""


class ScalePerParamWD(WeightDecayScheduler, ScalePerParamScheduler):
    """The weight decay: a schedule times a factor of each group of parameters."""


class ChainedWD(WeightDecayScheduler, ChainedScheduler):
    """The weight decay: the product of schedules; the first gives the scale."""


class CosineAnnealingWarmRestartsWD(WeightDecayScheduler, CosineAnnealingWarmRestartsScheduler):
    """The weight decay: half a cosine wave in T_0 steps. Raises ValueError unless T_mult is 1."""


class PiecewiseConstantWD(WeightDecayScheduler, PiecewiseConstantScheduler):
    """The weight decay: one constant after the other."""

    def __init__(self, optimizer: Any, vals: Sequence[float], milestones: Sequence[int], param_group_tags: Tags = None):
        super().__init__(optimizer, ConstantWD, vals, milestones, param_group_tags)


show(
    ConstantWD,
    PolynomialWD,
    LinearWD,
    ExponentialWD,
    InverseExponentialTimeDecayWD,
    InverseSquareRootDecayWD,
    CosineDecayWD,
    CosineAnnealingWD,
    StepWD,
    MultiStepWD,
    MultiplicativeWD,
    LambdaWD,
    CyclicWD,
    OneCycleWD,
    SequentialWD,
    ScalePerParamWD,
    ChainedWD,
    CosineAnnealingWarmRestartsWD,
    PiecewiseConstantWD,
    kind=Scheduler,
)
