"""Schedules of the learning rate: `cerebras.pytorch.optim.lr_scheduler`."""

from collections.abc import Sequence
from typing import Any

from cstorch_compat.cerebras.pytorch.optim.compound_schedules import ChainedScheduler as ChainedBase
from cstorch_compat.cerebras.pytorch.optim.compound_schedules import ScalePerParamScheduler, SequentialScheduler
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
from cstorch_compat.cerebras.pytorch.optim.schedules import LRScheduler, Tags
from cstorch_compat.cerebras.pytorch.optim.signatures import show


class ConstantLR(LRScheduler, ConstantScheduler):
    """The learning rate: always the same."""


class PolynomialLR(LRScheduler, PolynomialScheduler):
    """The learning rate: (initial - end) * (1 - t / total) ^ power + end, and the end from then on."""


class LinearLR(LRScheduler, LinearScheduler):
    """The learning rate: a straight line from the initial value to the end."""


class ExponentialLR(LRScheduler, ExponentialScheduler):
    """The learning rate: initial * decay_rate ^ (t / total); staircase rounds the exponent down."""


class InverseExponentialTimeDecayLR(LRScheduler, InverseExponentialTimeDecayScheduler):
    """The learning rate: initial / (1 + decay_rate * t ^ step_exponent / total); staircase rounds the quotient down."""


class InverseSquareRootDecayLR(LRScheduler, InverseSquareRootDecayScheduler):
    """The learning rate: initial * scale / sqrt(t), level until the step `warmup_steps`."""


class CosineDecayLR(LRScheduler, CosineDecayScheduler):
    """The learning rate: half a cosine wave from the initial value to the end, and the end from then on."""


class CosineAnnealingLR(LRScheduler, CosineAnnealingScheduler):
    """The learning rate: a cosine wave from the initial value to eta_min at T_max, and back again."""


class StepLR(LRScheduler, StepScheduler):
    """The learning rate: times gamma every `step_size` steps."""


class MultiStepLR(LRScheduler, MultiStepScheduler):
    """The learning rate: times gamma at each milestone."""


class MultiplicativeLR(LRScheduler, MultiplicativeScheduler):
    """The learning rate: times a coefficient in every step."""


class LambdaLR(LRScheduler, LambdaScheduler):
    """The learning rate: the initial value times functions of the step, listed in `set_value_lambda`."""


class CyclicLR(LRScheduler, CyclicScheduler):
    """The learning rate: up and down between two values, over and over."""


class OneCycleLR(LRScheduler, OneCycleScheduler):
    """The learning rate: up to the maximum and far down again, once, by cosines or lines."""


class SequentialLR(LRScheduler, SequentialScheduler):
    """The learning rate: one schedule after the other; `milestones` are the steps at which the next one takes over."""


class ScalePerParamLR(LRScheduler, ScalePerParamScheduler):
    """The learning rate: a schedule times a factor of each group of parameters."""


class ChainedLR(LRScheduler, ChainedBase):
    """The learning rate: the product of schedules; the first gives the scale."""


class CosineAnnealingWarmRestarts(LRScheduler, CosineAnnealingWarmRestartsScheduler):
    """The learning rate: half a cosine wave in T_0 steps. Raises ValueError unless T_mult is 1."""


class PiecewiseConstantLR(LRScheduler, PiecewiseConstantScheduler):
    """The learning rate: one constant after the other."""

    def __init__(
        self, optimizer: Any, learning_rates: Sequence[float], milestones: Sequence[int], param_group_tags: Tags = None
    ):
        super().__init__(optimizer, ConstantLR, learning_rates, milestones, param_group_tags)


class ChainedScheduler(ChainedLR):
    """ChainedLR under its older name."""


show(
    ConstantLR,
    PolynomialLR,
    LinearLR,
    ExponentialLR,
    InverseExponentialTimeDecayLR,
    InverseSquareRootDecayLR,
    CosineDecayLR,
    CosineAnnealingLR,
    StepLR,
    MultiStepLR,
    MultiplicativeLR,
    LambdaLR,
    CyclicLR,
    OneCycleLR,
    SequentialLR,
    ScalePerParamLR,
    ChainedLR,
    CosineAnnealingWarmRestarts,
    PiecewiseConstantLR,
    ChainedScheduler,
    kind=LRScheduler,
    names=LRScheduler.NAMES,
)
