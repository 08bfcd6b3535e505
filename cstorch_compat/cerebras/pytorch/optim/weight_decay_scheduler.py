"""Schedules of the weight decay: `cerebras.pytorch.optim.weight_decay_scheduler`.

Each class combines a formula of `schedule_formulas` or `compound_schedules` with the setting it changes. In the
formulas, t is the number of steps taken.
"""

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
    """A weight decay that stays at `val`."""


class PolynomialWD(WeightDecayScheduler, PolynomialScheduler):
    """A weight decay that decays polynomially to `end_val`: (initial - end) * (1 - t / total_iters) ^ power + end.

    It stays at `end_val` from step `total_iters` on. `cycle` has no effect.
    """


class LinearWD(WeightDecayScheduler, LinearScheduler):
    """A weight decay that changes linearly from `initial_val` to `end_val` in `total_iters` steps.

    It stays at `end_val` afterwards. `cycle` has no effect.
    """


class ExponentialWD(WeightDecayScheduler, ExponentialScheduler):
    """A weight decay that decays exponentially: initial * decay_rate ^ (t / total_iters).

    `staircase` rounds the exponent down to an integer. The decay continues after `total_iters`.
    """


class InverseExponentialTimeDecayWD(WeightDecayScheduler, InverseExponentialTimeDecayScheduler):
    """A weight decay initial / (1 + decay_rate * t ^ step_exponent / total_iters).

    `staircase` rounds t ^ step_exponent / total_iters down to an integer.
    """


class InverseSquareRootDecayWD(WeightDecayScheduler, InverseSquareRootDecayScheduler):
    """A weight decay initial * scale / sqrt(max(t, warmup_steps)).

    It is constant up to step `warmup_steps`.
    """


class CosineDecayWD(WeightDecayScheduler, CosineDecayScheduler):
    """A weight decay that falls from `initial_val` to `end_val` along half a cosine wave in `total_iters` steps.

    It stays at `end_val` afterwards.
    """


class CosineAnnealingWD(WeightDecayScheduler, CosineAnnealingScheduler):
    """A weight decay that follows a cosine wave from `initial_val` to `eta_min` at step `T_max`, and back.

    The wave continues after `T_max`, as in PyTorch's closed form.
    """


class StepWD(WeightDecayScheduler, StepScheduler):
    """A weight decay that is multiplied by `gamma` every `step_size` steps."""


class MultiStepWD(WeightDecayScheduler, MultiStepScheduler):
    """A weight decay that is multiplied by `gamma` at each step in `milestones`."""


class MultiplicativeWD(WeightDecayScheduler, MultiplicativeScheduler):
    """A weight decay that is multiplied by `coefficient` in every step."""


class LambdaWD(WeightDecayScheduler, LambdaScheduler):
    """A weight decay given by functions of the step, which a subclass returns from `set_value_lambda`.

    With one function f it is initial * f(t). See `LambdaScheduler` for several functions.
    """


class CyclicWD(WeightDecayScheduler, CyclicScheduler):
    """A weight decay that moves up and down between `base_val` and `max_val` in cycles.

    See `CyclicScheduler` for the parameters.
    """


class OneCycleWD(WeightDecayScheduler, OneCycleScheduler):
    """A weight decay that rises to `max_val` once and then falls far below its initial value.

    See `OneCycleScheduler` for the parameters.
    """


class SequentialWD(WeightDecayScheduler, SequentialScheduler):
    """A weight decay that uses several schedules one after another.

    `milestones` are the steps at which the next schedule begins.
    """


class ScalePerParamWD(WeightDecayScheduler, ScalePerParamScheduler):
    """A weight decay of another schedule, multiplied by a factor of each parameter group.

    The factor is the group's entry `adjust_learning_rate`, else `adjust_val`, else 1.
    """


class ChainedWD(WeightDecayScheduler, ChainedScheduler):
    """A weight decay that is the product of several schedules.

    All schedules but the first are divided by their initial value.
    """


class CosineAnnealingWarmRestartsWD(WeightDecayScheduler, CosineAnnealingWarmRestartsScheduler):
    """A weight decay that falls from `initial_val` to `eta_min` along half a cosine wave in `T_0` steps.

    After `T_0` it alternates between the two values, as recorded from the original. Raises ValueError unless `T_mult`
    is 1.
    """


class PiecewiseConstantWD(WeightDecayScheduler, PiecewiseConstantScheduler):
    """A weight decay that takes the values in `vals` one after another.

    `milestones` are the steps at which the next value begins.
    """

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
