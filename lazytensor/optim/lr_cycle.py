"""Learning rate schedules that follow batches or results: OneCycleLR, CyclicLR and ReduceLROnPlateau."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

from lazytensor.core import source
from lazytensor.errors import OptionInvalid
from lazytensor.optim import curves
from lazytensor.optim.lr_scheduler import LRScheduler, _one_each, _set_rate
from lazytensor.optim.traced.optimizer import Optimizer


def _momentum_name(group: dict[str, Any]) -> str | None:
    """Return the setting that has the momentum of a group; None if there is none."""
    return "betas" if "betas" in group else "momentum" if "momentum" in group else None


def _set_momentum(group: dict[str, Any], value: float) -> None:
    """Set the momentum of a group: beta1 if the group has "betas", else "momentum".

    Other betas are unchanged.
    """
    # For Adam, beta1 is the momentum; other betas are unchanged.
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def _phase(end: float, start_level: curves.Level, end_level: curves.Level) -> dict[str, Any]:
    """Return a phase of OneCycleLR as in PyTorch's state dicts. Momentum is low where the rate is high.

    `end` is the last step. Rates and momenta at the start and the end are given as names of settings, such as "max_lr".
    """
    momentum = {"initial": "max_momentum", "max": "base_momentum", "min": "max_momentum"}
    rates = {"end_step": end, "start_lr": f"{start_level}_lr", "end_lr": f"{end_level}_lr"}
    return {**rates, "start_momentum": momentum[start_level], "end_momentum": momentum[end_level]}


class OneCycleLR(LRScheduler):
    """Raise the learning rate to `max_lr` and then lower it far below the initial one, once (Smith and Topin 2018).

    Momentum moves in the opposite direction if `cycle_momentum`. The arguments are those of PyTorch's class.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise OptionInvalid(
                    "You must define either total_steps OR (epochs AND steps_per_epoch)"
                    f": {total_steps}, {epochs} and {steps_per_epoch}",
                    where=source.where(),
                    hint="Pass total_steps, or epochs and steps_per_epoch.",
                )
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0 or not 0 <= pct_start <= 1 or anneal_strategy not in ("cos", "linear"):
            raise OptionInvalid(
                f"OneCycleLR does not accept total_steps={total_steps!r}, pct_start={pct_start!r}, "
                f"anneal_strategy={anneal_strategy!r}",
                where=source.where(),
                hint='Pass a positive integer, a fraction from 0 to 1, and "cos" or "linear".',
            )
        self.total_steps = total_steps
        phases = curves.one_cycle_phases(total_steps, pct_start, three_phase)
        self._schedule_phases = [_phase(*phase) for phase in phases]
        self._anneal_func_type, self.cycle_momentum = anneal_strategy, cycle_momentum
        if last_epoch == -1:
            groups = zip(optimizer.param_groups, _one_each(max_lr, optimizer, "max_lr"), strict=True)
            for group, top in groups:
                # As in PyTorch, the optimizer's rate is overwritten.
                group["initial_lr"] = top / div_factor
                _set_rate(group, group["initial_lr"])
                group["max_lr"], group["min_lr"] = top, top / div_factor / final_div_factor
            if cycle_momentum:
                self._start_momentum(optimizer, base_momentum, max_momentum)
        super().__init__(optimizer, last_epoch)

    def _start_momentum(self, optimizer: Optimizer, low: Any, high: Any) -> None:
        """Set the momentum of all groups to `high`, and store both limits in the groups.

        `low` and `high` are numbers or one for each group. Raises ValueError if the optimizer has no momentum, or if a
        list has another length than the groups.
        """
        if _momentum_name(optimizer.defaults) is None:
            raise OptionInvalid(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled",
                where=source.where(),
                hint="Pass cycle_momentum=False, or an optimizer with momentum.",
            )
        self.use_beta1 = "betas" in optimizer.defaults
        lows, highs = _one_each(low, optimizer, "base_momentum"), _one_each(high, optimizer, "max_momentum")
        for group, base, top in zip(optimizer.param_groups, lows, highs, strict=True):
            _set_momentum(group, top)
            group["max_momentum"], group["base_momentum"] = top, base

    def get_lr(self) -> list[float]:
        """Return the rate of each group for this batch, and set the momentum of the groups if `cycle_momentum`.

        Raises ValueError after more than `total_steps` steps.
        """
        t = self.last_epoch
        # `>` instead of `>=`: as in PyTorch, the constructor's step counts, so one more step than updates is allowed.
        if t > self.total_steps:
            raise OptionInvalid(
                f"Tried to step {t} times. The specified number of total steps is {self.total_steps}",
                where=source.where(),
                hint="Increase total_steps, or call step() less often.",
            )
        start = 0.0
        for phase in self._schedule_phases:
            end = phase["end_step"]
            # The last phase also covers a remainder from rounding.
            if t <= end or phase is self._schedule_phases[-1]:
                break
            start = end
        # Phases may end at a fraction of a step, so the peak need not be at a step.
        part, is_cosine = (t - start) / (end - start), self._anneal_func_type == "cos"
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(curves.annealed(group[phase["start_lr"]], group[phase["end_lr"]], part, is_cosine))
            if self.cycle_momentum:
                momentum = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, curves.annealed(*momentum, part, is_cosine))
        return rates


class CyclicLR(LRScheduler):
    """Move the learning rate up and down between `base_lr` and `max_lr` repeatedly (Smith 2017).

    The arguments are those of PyTorch's class.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise OptionInvalid(
                f"mode is invalid and scale_fn is None: {mode!r}",
                where=source.where(),
                hint='Pass mode="triangular", "triangular2" or "exp_range", or a scale_fn.',
            )
        lows = _one_each(base_lr, optimizer, "base_lr")
        if last_epoch == -1:
            for group, low in zip(optimizer.param_groups, lows, strict=True):
                _set_rate(group, low)
        self.max_lrs = _one_each(max_lr, optimizer, "max_lr")
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size, self.step_ratio = float(step_size_up + down), step_size_up / (step_size_up + down)
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = scale_mode if scale_fn else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            if _momentum_name(optimizer.defaults) is None:
                raise OptionInvalid(
                    "optimizer must support momentum or beta1 with `cycle_momentum` option enabled",
                    where=source.where(),
                    hint="Pass cycle_momentum=False, or an optimizer with momentum.",
                )
            self.use_beta1 = "betas" in optimizer.defaults
            self.base_momentums = _one_each(base_momentum, optimizer, "base_momentum")
            self.max_momentums = _one_each(max_momentum, optimizer, "max_momentum")
            momenta = zip(optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, base, top in momenta:
                _set_momentum(group, top)
                group["max_momentum"], group["base_momentum"] = top, base
        super().__init__(optimizer, last_epoch)
        # Set after the constructor's step, which starts from the optimizer's rates.
        self.base_lrs = lows

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the schedule.

        A custom scale function is saved as None; a callable object as its attributes.
        """
        state = super().state_dict()
        f = state.pop("_scale_fn_custom")
        return {**state, "_scale_fn_custom": None if f is None or hasattr(f, "__code__") else dict(vars(f))}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a saved state. The scale function stays the same; a callable object gets the saved attributes.

        As in PyTorch, this removes the function's entry from `state_dict`.
        """
        saved = state_dict.pop("_scale_fn_custom")
        super().load_state_dict(state_dict)
        if saved is not None:
            vars(self._scale_fn_custom).update(saved)

    def _scale(self, x: float) -> float:
        """Return the factor for the height: the user's function of `x`, or that of `mode` (see `curves.cycle_scale`).

        `x` is the number of the cycle from 1, or that of the batch from 0, as `scale_mode` selects.
        """
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        # x is the number of the cycle, from 1, or of the batch, from 0.
        return float(curves.cycle_scale(self.mode, self.gamma, x, x))

    def get_lr(self) -> list[float]:
        """Return the rate of each group for this batch, and set the momentum of the groups if `cycle_momentum`."""
        turns = self.last_epoch / self.total_size
        cycle = math.floor(1 + turns)
        x = 1.0 + turns - cycle
        height = curves.triangle(x, self.step_ratio)
        scale = self._scale(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            # Momentum falls as the rate rises, by the same height.
            momenta = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in momenta:
                _set_momentum(group, high - (high - low) * height * scale)
        return [base + (top - base) * height * scale for base, top in zip(self.base_lrs, self.max_lrs, strict=True)]


class ReduceLROnPlateau(LRScheduler):
    """Multiply the learning rate by `factor` if a metric has not improved for more than `patience` epochs.

    After a reduction, epochs do not count for `cooldown` epochs. The rate does not fall below `min_lr`, and changes of
    at most `eps` are not made. The arguments are those of PyTorch's class.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise OptionInvalid(
                f"Factor should be < 1.0. Got {factor}.", where=source.where(), hint="Pass a factor below 1."
            )
        if mode not in ("min", "max"):
            raise OptionInvalid(f"mode {mode} is unknown!", where=source.where(), hint='Pass mode="min" or mode="max".')
        if threshold_mode not in ("rel", "abs"):
            raise OptionInvalid(
                f"threshold mode {threshold_mode} is unknown!",
                where=source.where(),
                hint='Pass threshold_mode="rel" or threshold_mode="abs".',
            )
        # Do not call the base constructor, which takes a step: there is no metric yet.
        self.optimizer, self.factor = optimizer, factor
        # The order is that of PyTorch's state dicts.
        self.default_min_lr = min_lr if isinstance(min_lr, int | float) else None
        self.min_lrs = _one_each(min_lr, optimizer, "min_lrs")
        self.patience, self.cooldown, self.eps, self.last_epoch = patience, cooldown, eps, 0
        self._last_lr = self._rates()
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.best, self.cooldown_counter, self.num_bad_epochs = self.mode_worse, 0, 0

    def is_better(self, a: float, best: float) -> bool:
        """Return whether the metric `a` is better than `best` by more than the threshold; NaN is never better.

        "rel" multiplies the threshold by `best`. An infinite `best` is compared without a threshold.
        """
        # The margin of an infinite best would be infinite or NaN. NaN is never better.
        if math.isinf(best):
            return a < best if self.mode == "min" else a > best
        # As in PyTorch, the margin of "rel" is relative to the best value, so it is negative for a negative metric.
        margin = self.threshold * (1.0 if self.threshold_mode == "abs" else best)
        return a < best - margin if self.mode == "min" else a > best + margin

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs without improvement are currently not counted."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Update the schedule with the metric of an epoch, and reduce the rates after more than `patience` bad epochs.

        `metrics` is a number or a tensor with one element. `epoch` replaces the count of epochs. Bad epochs of a
        cooldown do not count.
        """
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        # Reset the count, so that the patience restarts after the cooldown.
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, low in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                rate = float(group["lr"])
                lowered = max(rate * self.factor, low)
                # Small changes are not made, but the cooldown starts.
                if rate - lowered > self.eps:
                    _set_rate(group, lowered)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rates()
