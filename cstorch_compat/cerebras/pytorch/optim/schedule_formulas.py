"""Formulas of schedules: the value of each as a closed form of the step t.

The order of operations is that of the vendor's front end, because tests compare the printed graphs line by line.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cstorch_compat.cerebras.pytorch.optim.compound_schedules import SequentialScheduler
from cstorch_compat.cerebras.pytorch.optim.schedules import Scheduler, Tags, constant
from cstorch_compat.cerebras.pytorch.optim.signatures import show
from lazytensor.core import dtype as dt
from lazytensor.core.tensor import Tensor
from lazytensor.functional import pointwise as pw
from lazytensor.functional.creation import tensor
from lazytensor.optim import curves


def _operand(x: Any) -> Tensor:
    # Numbers become float32 constants of the graph.
    return x if isinstance(x, Tensor) else constant(float(x))


class ConstantScheduler(Scheduler):
    """A schedule with the constant value `val`.

    >>> import torch, cerebras.pytorch as cstorch
    >>> model = cstorch.compile(torch.nn.Linear(2, 1), cstorch.backend("CPU"))
    >>> optimizer = cstorch.optim.SGD(model.parameters(), lr=0.1)
    >>> schedule = cstorch.optim.lr_scheduler.ConstantLR(optimizer, 0.5)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [tensor(0.5000)]
    """

    def __init__(self, optimizer: Any, val: float, total_iters: int | None = None, param_group_tags: Tags = None):
        self.val = val
        super().__init__(optimizer, total_iters, param_group_tags=param_group_tags)

    def _get_closed_form(self) -> Any:
        # An int stays an integer, as in the original.
        return constant(self.val)


class PolynomialScheduler(Scheduler):
    """The polynomial decay (initial_val - end_val) * (1 - t / total_iters) ^ power + end_val.

    The value stays at `end_val` from step `total_iters` on. `cycle` has no effect, as in the original.

    >>> import torch, cerebras.pytorch as cstorch
    >>> model = cstorch.compile(torch.nn.Linear(2, 1), cstorch.backend("CPU"))
    >>> optimizer = cstorch.optim.SGD(model.parameters(), lr=0.1)
    >>> schedule = cstorch.optim.lr_scheduler.PolynomialLR(optimizer, 0.1, 0.0, 2, 2.0)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [tensor(0.0250)]
    """

    def __init__(
        self,
        optimizer: Any,
        initial_val: float,
        end_val: float,
        total_iters: int,
        power: float = 1.0,
        cycle: bool = False,
        param_group_tags: Tags = None,
    ):
        self.initial_val, self.end_val, self.power, self.cycle = initial_val, end_val, power, cycle
        super().__init__(optimizer, total_iters, param_group_tags=param_group_tags)

    def _get_closed_form(self) -> Any:
        # After the end 1 - t / total is negative, and its power may be NaN. The selection below discards it.
        left = 1.0 - self.last_epoch / tensor(float(self.total_iters or 0))
        # LinearScheduler has power 1 and needs no power operation.
        if self.power != 1:
            left = pw.pow(left, self.power)
        value = left * (self.initial_val - self.end_val) + self.end_val
        return pw.where(self.last_epoch >= (self.total_iters or 0), self.end_val, value)


class LinearScheduler(PolynomialScheduler):
    """A linear change from `initial_val` to `end_val` in `total_iters` steps. The value stays at `end_val` afterwards.

    >>> import torch, cerebras.pytorch as cstorch
    >>> model = cstorch.compile(torch.nn.Linear(2, 1), cstorch.backend("CPU"))
    >>> optimizer = cstorch.optim.SGD(model.parameters(), lr=0.1)
    >>> schedule = cstorch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 0.0, 4)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [tensor(0.0750)]
    """

    def __init__(
        self,
        optimizer: Any,
        initial_val: float,
        end_val: float,
        total_iters: int,
        cycle: bool = False,
        param_group_tags: Tags = None,
    ):
        super().__init__(optimizer, initial_val, end_val, total_iters, 1.0, cycle, param_group_tags)


class ExponentialScheduler(Scheduler):
    """The exponential decay initial_val * decay_rate ^ (t / total_iters).

    `staircase` rounds the exponent down to an integer. The decay continues after `total_iters`.

    >>> import torch, cerebras.pytorch as cstorch
    >>> model = cstorch.compile(torch.nn.Linear(2, 1), cstorch.backend("CPU"))
    >>> optimizer = cstorch.optim.SGD(model.parameters(), lr=0.1)
    >>> schedule = cstorch.optim.lr_scheduler.ExponentialLR(optimizer, 0.1, 4, 0.5)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [tensor(0.0841)]
    """

    def __init__(
        self,
        optimizer: Any,
        initial_val: float,
        total_iters: int,
        decay_rate: float,
        staircase: bool = False,
        param_group_tags: Tags = None,
    ):
        self.initial_val, self.decay_rate, self.staircase = initial_val, decay_rate, staircase
        super().__init__(optimizer, total_iters, param_group_tags=param_group_tags)

    def _get_closed_form(self) -> Any:
        # As in the original, the decay continues after total_iters.
        exponent = self.last_epoch / (self.total_iters or 0)
        exponent = pw.floor(exponent) if self.staircase else exponent
        return curves.decayed(self.initial_val, self.decay_rate, exponent)


class InverseExponentialTimeDecayScheduler(Scheduler):
    """The decay initial_val / (1 + decay_rate * t ^ step_exponent / total_iters).

    `staircase` rounds t ^ step_exponent / total_iters down to an integer.
    """

    def __init__(
        self,
        optimizer: Any,
        initial_val: float,
        step_exponent: int,
        total_iters: int,
        decay_rate: float,
        staircase: bool = False,
        param_group_tags: Tags = None,
    ):
        self.initial_val, self.step_exponent = initial_val, step_exponent
        self.decay_rate, self.staircase = decay_rate, staircase
        super().__init__(optimizer, total_iters, param_group_tags=param_group_tags)

    def _get_closed_form(self) -> Any:
        # A power of int64 would overflow; in float32 it becomes infinity.
        time = pw.pow(pw.cast_to(self.last_epoch, dt.float32), self.step_exponent) / (self.total_iters or 0)
        time = pw.floor(time) if self.staircase else time
        return tensor(float(self.initial_val)) / (time * self.decay_rate + 1.0)


class InverseSquareRootDecayScheduler(Scheduler):
    """The decay initial_val * scale / sqrt(max(t, warmup_steps)), which is constant up to step `warmup_steps`."""

    def __init__(
        self,
        optimizer: Any,
        initial_val: float = 1.0,
        scale: float = 1.0,
        warmup_steps: float = 1.0,
        param_group_tags: Tags = None,
    ):
        self.initial_val, self.scale, self.warmup_steps = initial_val, scale, warmup_steps
        super().__init__(optimizer, None, param_group_tags=param_group_tags)

    def _get_closed_form(self) -> Any:
        # The front end expresses the maximum as a clamp.
        time = pw.clamp(tensor(float(self.warmup_steps)), pw.cast_to(self.last_epoch, dt.float32), math.inf)
        return tensor(float(self.scale)) / pw.sqrt(time) * self.initial_val


class CosineDecayScheduler(Scheduler):
    """Half a cosine wave from `initial_val` to `end_val` in `total_iters` steps.

    The value stays at `end_val` afterwards.

    >>> import torch, cerebras.pytorch as cstorch
    >>> model = cstorch.compile(torch.nn.Linear(2, 1), cstorch.backend("CPU"))
    >>> optimizer = cstorch.optim.SGD(model.parameters(), lr=0.1)
    >>> schedule = cstorch.optim.lr_scheduler.CosineDecayLR(optimizer, 0.1, 0.0, 2)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [tensor(0.0500)]
    """

    def __init__(
        self, optimizer: Any, initial_val: float, end_val: float, total_iters: int, param_group_tags: Tags = None
    ):
        self.initial_val, self.end_val = initial_val, end_val
        super().__init__(optimizer, total_iters, param_group_tags=param_group_tags)

    def _get_closed_form(self) -> Any:
        total = float(self.total_iters or 0)
        # The front end expresses the minimum as a clamp.
        time = pw.clamp(tensor(total), -math.inf, pw.cast_to(self.last_epoch, dt.float32))
        # Near the end cos is close to -1 and the sum cancels: one bit of cos changes the fourth digit of the value. So
        # the float32 cosine is rounded as in PyTorch, and the argument is computed in this order.
        return curves.half_wave(time * (math.pi / total)) * 0.5 * (self.initial_val - self.end_val) + self.end_val


class CosineAnnealingScheduler(Scheduler):
    """A cosine wave from `initial_val` to `eta_min` at step `T_max`, and back. The wave continues after `T_max`."""

    def __init__(
        self, optimizer: Any, initial_val: float, T_max: int, eta_min: float = 0.0, param_group_tags: Tags = None
    ):
        self.initial_val, self.T_max, self.eta_min = initial_val, float(T_max), eta_min
        super().__init__(optimizer, None, param_group_tags=param_group_tags)

    def _get_closed_form(self) -> Any:
        # The wave continues after T_max, as in PyTorch's closed form.
        return curves.cosine(self.initial_val, self.eta_min, self.last_epoch / self.T_max * math.pi)


class CosineAnnealingWarmRestartsScheduler(Scheduler):
    """Half a cosine wave from `initial_val` to `eta_min` in `T_0` steps, followed by a square wave.

    After `T_0` steps the value alternates between `initial_val` and `eta_min` every `T_0` steps instead of restarting.
    This matches values recorded from the original. Raises ValueError unless `T_mult` is 1.
    """

    def __init__(
        self,
        optimizer: Any,
        initial_val: float,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        param_group_tags: Tags = None,
    ):
        if T_mult != 1:
            raise ValueError(
                "Unsupported value of Parameters 'T_mult' for LR scheduler type CosineAnnealingWarmRestarts, Only "
                "supported default T_mult value: 1.0. "
                "\n  Pass T_mult=1, or chain CosineAnnealingLR in a SequentialLR."
            )
        self.initial_val, self.T_0, self.T_mult, self.eta_min = initial_val, T_0, T_mult, eta_min
        super().__init__(optimizer, None, param_group_tags=param_group_tags)

    def _get_closed_form(self) -> Any:
        # floor((t - T_0) / T_0) is an integer n, and the half wave is 2 for even n and 0 for odd n. The value therefore
        # jumps between `initial_val` and `eta_min`. A restart would use the remainder of the division. This matches
        # values recorded from the original.
        later = pw.floor((self.last_epoch - self.T_0) / self.T_0)
        part = pw.where(self.last_epoch >= self.T_0, later, self.last_epoch / self.T_0)
        return curves.cosine(self.initial_val, self.eta_min, part * math.pi)


class StepScheduler(Scheduler):
    """A schedule that starts at `initial_val` and is multiplied by `gamma` every `step_size` steps.

    >>> import torch, cerebras.pytorch as cstorch
    >>> model = cstorch.compile(torch.nn.Linear(2, 1), cstorch.backend("CPU"))
    >>> optimizer = cstorch.optim.SGD(model.parameters(), lr=0.1)
    >>> schedule = cstorch.optim.lr_scheduler.StepLR(optimizer, 0.1, 1, 0.5)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [tensor(0.0500)]
    """

    def __init__(self, optimizer: Any, initial_val: float, step_size: int, gamma: float, param_group_tags: Tags = None):
        self.initial_val, self.gamma, self.step_size = float(initial_val), gamma, step_size
        super().__init__(optimizer, None, param_group_tags=param_group_tags)

    def _get_closed_form(self) -> Any:
        # The quotient is float32 before it is rounded down, as in values recorded from the original.
        turns = pw.floor(self.last_epoch / float(self.step_size))
        return curves.decayed(self.initial_val, self.gamma, turns)


class MultiStepScheduler(Scheduler):
    """A schedule that starts at `initial_val` and is multiplied by `gamma` at each step in `milestones`.

    >>> import torch, cerebras.pytorch as cstorch
    >>> model = cstorch.compile(torch.nn.Linear(2, 1), cstorch.backend("CPU"))
    >>> optimizer = cstorch.optim.SGD(model.parameters(), lr=0.1)
    >>> schedule = cstorch.optim.lr_scheduler.MultiStepLR(optimizer, 0.1, 0.5, [1])
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [tensor(0.0500)]
    """

    def __init__(
        self,
        optimizer: Any,
        initial_val: float,
        gamma: float,
        milestones: Sequence[int],
        param_group_tags: Tags = None,
    ):
        self.initial_val, self.gamma, self.milestones = initial_val, gamma, list(milestones)
        super().__init__(optimizer, None, param_group_tags=param_group_tags)

    def _get_closed_form(self) -> Any:
        # Before the first selection both values are numbers, which the front end multiplies in float32 before they
        # become constants. Later products are operations of the graph.
        value: Any = np.float32(self.initial_val)
        for milestone in self.milestones:
            later = value * self.gamma if isinstance(value, Tensor) else value * np.float32(self.gamma)
            value = pw.where(self.last_epoch < milestone, *map(_operand, (value, later)))
        return _operand(value)


class MultiplicativeScheduler(Scheduler):
    """A schedule that starts at `initial_val` and is multiplied by `coefficient` in every step."""

    def __init__(self, optimizer: Any, initial_val: float, coefficient: float, param_group_tags: Tags = None):
        self.initial_val, self.coefficient = initial_val, coefficient
        super().__init__(optimizer, None, param_group_tags=param_group_tags)

    def _get_closed_form(self) -> Any:
        # PyTorch multiplies by a function of the step in every step, which has no closed form; hence a constant
        # coefficient.
        return curves.decayed(self.initial_val, self.coefficient, pw.cast_to(self.last_epoch, dt.float32))


class LambdaScheduler(Scheduler):
    """The product of `initial_val` * f(t) over the functions f that `set_value_lambda` returns.

    One function gives initial_val * f(t), two give initial_val^2 * f(t) * g(t), and none gives 1, as in the original.
    """

    def __init__(self, optimizer: Any, initial_val: float, param_group_tags: Tags = None):
        self.initial_val = initial_val
        super().__init__(optimizer, None, param_group_tags=param_group_tags)

    def set_value_lambda(self) -> list[Callable[[Tensor], Any]]:
        """Return the list of functions of the step. Override it in a subclass.

        The default is that of PyTorch's example: t / 30 and 0.95 ^ t.
        """
        return [lambda epoch: epoch / 30, lambda epoch: 0.95**epoch]

    def _get_closed_form(self) -> Any:
        value: Any = None
        for function in self.set_value_lambda():
            # The function is called during tracing. If it reads the value of the step, it raises an error there.
            factor = function(self.last_epoch) * self.initial_val
            value = factor if value is None else factor * value
        return _operand(1.0 if value is None else value)


class PiecewiseConstantScheduler(SequentialScheduler):
    """A schedule that takes the values in `vals` one after another.

    `milestones` are the steps at which the next value begins. `constant_cls` is the class of the constant parts.
    """

    def __init__(
        self,
        optimizer: Any,
        constant_cls: type,
        vals: Sequence[float],
        milestones: Sequence[int],
        param_group_tags: Tags = None,
    ):
        # The lengths do not affect the values; they are entries of the parts' state dicts, as in the original.
        lengths = [b - a for a, b in zip([0, *milestones], milestones, strict=False)]
        lengths += [None] * (len(vals) - len(lengths))  # type: ignore[list-item]
        parts = [
            constant_cls(optimizer, val, length, param_group_tags=param_group_tags)
            for val, length in zip(vals, lengths, strict=False)
        ]
        super().__init__(optimizer, parts, milestones, param_group_tags=param_group_tags)


class CyclicScheduler(Scheduler):
    """A schedule that moves up and down between `base_val` and `max_val` in cycles (Smith 2017).

    - `step_size_up`, `step_size_down`: the numbers of rising and falling steps of a cycle; by default they are equal.
    - `mode`: "triangular", "triangular2" (the amplitude halves in each cycle) or "exp_range" (it decays by `gamma` in
      each step).
    - `scale_mode`: no effect; "triangular2" scales by cycle and "exp_range" by step.
    """

    def __init__(
        self,
        optimizer: Any,
        base_val: float,
        max_val: float,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_mode: str = "cycle",
        param_group_tags: Tags = None,
    ):
        self.base_val, self.max_val, self.step_size_up = base_val, max_val, step_size_up
        self.step_size_down = step_size_up if step_size_down is None else step_size_down
        self.mode, self.gamma = mode, gamma
        # As in the original, the mode determines the scaling, and the argument is ignored.
        self.scale_mode = "cycle" if mode in ("triangular", "triangular2") else "iterations"
        super().__init__(optimizer, None, param_group_tags=param_group_tags)

    def _get_closed_form(self) -> Any:
        # Smith's formula: the cycle number, and the position x in 0..1 within the cycle. The value rises up to `ratio`.
        total = self.step_size_up + self.step_size_down
        ratio = self.step_size_up / total
        turns = self.last_epoch / float(total)
        # Cycles count from 1, so that triangular2 does not reduce the first one.
        cycle = pw.floor(turns + 1.0)
        x = turns - cycle + 1.0
        height = curves.triangle(x, ratio) * (self.max_val - self.base_val)
        if self.mode in ("triangular2", "exp_range"):
            step = pw.cast_to(self.last_epoch, dt.float32)
            height = height * curves.cycle_scale(self.mode, self.gamma, cycle, step)
        return height + self.base_val


class OneCycleScheduler(Scheduler):
    """A schedule that rises to `max_val` once and then falls to initial_val / final_div_factor (Smith and Topin 2018).

    - `total_steps`: the length of the cycle. Later values continue the last line or wave.
    - `pct_start`: the fraction of steps in which the value rises.
    - `three_phase`: fall to `initial_val` first, symmetrically to the rise, and then to the minimum.
    - `anneal_strategy`: "cos" for cosine waves; any other value means lines.
    """

    def __init__(
        self,
        optimizer: Any,
        initial_val: float,
        max_val: float,
        total_steps: int = 1000,
        pct_start: float = 0.3,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        anneal_strategy: str = "cos",
        param_group_tags: Tags = None,
    ):
        self.initial_val, self.max_val, self.total_steps = initial_val, max_val, total_steps
        self.pct_start, self.final_div_factor, self.three_phase = pct_start, final_div_factor, three_phase
        self.anneal_strategy = anneal_strategy
        super().__init__(optimizer, None, param_group_tags=param_group_tags)

    def _get_closed_form(self) -> Any:
        levels = {
            "initial": self.initial_val,
            "max": self.max_val,
            "min": self.initial_val / self.final_div_factor,
        }
        value, first = None, 0.0
        for phase in curves.one_cycle_phases(self.total_steps, self.pct_start, self.three_phase):
            time = pw.cast_to(self.last_epoch, dt.float32)
            # As recorded from the original, values after the end follow the same line or wave.
            part = (time - first if first else time) / (float(phase.end) - first)
            start, end = levels[phase.start_level], levels[phase.end_level]
            later = curves.annealed(start, end, part, self.anneal_strategy == "cos")
            # The last phase that has begun is selected. At a boundary both phases give the same value.
            value = later if value is None else pw.where(time > first, later, value)
            first = float(phase.end)
        assert value is not None
        return value


show(
    ConstantScheduler,
    PolynomialScheduler,
    LinearScheduler,
    ExponentialScheduler,
    InverseExponentialTimeDecayScheduler,
    InverseSquareRootDecayScheduler,
    CosineDecayScheduler,
    CosineAnnealingScheduler,
    CosineAnnealingWarmRestartsScheduler,
    StepScheduler,
    MultiStepScheduler,
    MultiplicativeScheduler,
    LambdaScheduler,
    PiecewiseConstantScheduler,
    CyclicScheduler,
    OneCycleScheduler,
)
