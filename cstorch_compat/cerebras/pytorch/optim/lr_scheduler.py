"""Schedules of the learning rate: `cerebras.pytorch.optim.lr_scheduler`.

Each class combines a formula of `schedule_formulas` or `compound_schedules` with the setting it changes. In the
formulas, t is the number of steps taken.
"""

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
    """A learning rate that stays at `learning_rate`."""


class PolynomialLR(LRScheduler, PolynomialScheduler):
    """A learning rate that decays polynomially: (initial - end) * (1 - t / total_iters) ^ power + end.

    It stays at `end_learning_rate` from step `total_iters` on. `cycle` has no effect.
    """


class LinearLR(LRScheduler, LinearScheduler):
    """A learning rate that changes linearly from `initial_learning_rate` to `end_learning_rate` in `total_iters` steps.

    It stays at `end_learning_rate` afterwards. `cycle` has no effect.
    """


class ExponentialLR(LRScheduler, ExponentialScheduler):
    """A learning rate that decays exponentially: initial * decay_rate ^ (t / total_iters).

    `staircase` rounds the exponent down to an integer. The decay continues after `total_iters`.
    """


class InverseExponentialTimeDecayLR(LRScheduler, InverseExponentialTimeDecayScheduler):
    """A learning rate initial / (1 + decay_rate * t ^ step_exponent / total_iters).

    `staircase` rounds t ^ step_exponent / total_iters down to an integer.
    """


class InverseSquareRootDecayLR(LRScheduler, InverseSquareRootDecayScheduler):
    """A learning rate initial * scale / sqrt(max(t, warmup_steps)).

    It is constant up to step `warmup_steps`.
    """


class CosineDecayLR(LRScheduler, CosineDecayScheduler):
    """A learning rate that falls from `initial_learning_rate` to `end_learning_rate` along half a cosine wave.

    The wave takes `total_iters` steps. The rate stays at `end_learning_rate` afterwards.
    """


class CosineAnnealingLR(LRScheduler, CosineAnnealingScheduler):
    """A learning rate that follows a cosine wave from `initial_learning_rate` to `eta_min` at step `T_max`, and back.

    The wave continues after `T_max`, as in PyTorch's closed form.
    """


class StepLR(LRScheduler, StepScheduler):
    """A learning rate that is multiplied by `gamma` every `step_size` steps."""


class MultiStepLR(LRScheduler, MultiStepScheduler):
    """A learning rate that is multiplied by `gamma` at each step in `milestones`."""


class MultiplicativeLR(LRScheduler, MultiplicativeScheduler):
    """A learning rate that is multiplied by `coefficient` in every step."""


class LambdaLR(LRScheduler, LambdaScheduler):
    """A learning rate given by functions of the step, which a subclass returns from `set_value_lambda`.

    With one function f it is initial * f(t). See `LambdaScheduler` for several functions.
    """


class CyclicLR(LRScheduler, CyclicScheduler):
    """A learning rate that moves up and down between `base_lr` and `max_lr` in cycles.

    See `CyclicScheduler` for the parameters.
    """


class OneCycleLR(LRScheduler, OneCycleScheduler):
    """A learning rate that rises to `max_lr` once and then falls far below its initial value.

    See `OneCycleScheduler` for the parameters.
    """


class SequentialLR(LRScheduler, SequentialScheduler):
    """A learning rate that uses several schedules one after another.

    `milestones` are the steps at which the next schedule begins.
    """


class ScalePerParamLR(LRScheduler, ScalePerParamScheduler):
    """A learning rate of another schedule, multiplied by a factor of each parameter group.

    The factor is the group's entry `adjust_learning_rate`, else `adjust_val`, else 1.
    """


class ChainedLR(LRScheduler, ChainedBase):
    """A learning rate that is the product of several schedules.

    All schedules but the first are divided by their initial value.
    """


class CosineAnnealingWarmRestarts(LRScheduler, CosineAnnealingWarmRestartsScheduler):
    """A learning rate that falls from `initial_learning_rate` to `eta_min` along half a cosine wave in `T_0` steps.

    After `T_0` it alternates between the two values, as recorded from the original. Raises ValueError unless `T_mult`
    is 1.
    """


class PiecewiseConstantLR(LRScheduler, PiecewiseConstantScheduler):
    """A learning rate that takes the values in `learning_rates` one after another.

    `milestones` are the steps at which the next value begins.
    """

    def __init__(
        self, optimizer: Any, learning_rates: Sequence[float], milestones: Sequence[int], param_group_tags: Tags = None
    ):
        super().__init__(optimizer, ConstantLR, learning_rates, milestones, param_group_tags)


class ChainedScheduler(ChainedLR):
    """The older name of `ChainedLR`."""


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
