"""Learning rate schedules with the classes of `torch.optim.lr_scheduler`.

Most schedules compute the next rate from the current one, so that the factors of chained schedules multiply.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import ArgumentInvalid, OptionInvalid, OptionMissing
from lazytensor.optim import curves
from lazytensor.optim.traced.optimizer import Optimizer


class LRScheduler:
    """Base class of schedules, which set the learning rate of each group once per epoch.

    A subclass defines `get_lr`, which returns the rates at `last_epoch`. The constructor takes the first step, which
    sets the rates of epoch 0 if `last_epoch` is -1.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentInvalid(
                f"{type(optimizer).__name__} is not an Optimizer",
                where=source.where(),
                hint="Pass the optimizer object.",
            )
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                # Stored in the group, so that it is saved with the optimizer and shared by sequential schedules.
                group.setdefault("initial_lr", _copy(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    f"last_epoch >= 0: load the optimizer's state first"
                )
        self.base_lrs = [_copy(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        # The first step sets the rates of epoch 0 before the first update.
        self._is_initial = True
        # Part of PyTorch's state dicts; True only inside `step` there.
        self._get_lr_called_within_step = False
        self.step()
        self._is_initial = False

    def _rates(self) -> list[Any]:
        return [_copy(group["lr"]) for group in self.optimizer.param_groups]

    def get_lr(self) -> list[float]:
        """Return the rate of each group at `last_epoch`, computed from the current rates."""
        raise OptionMissing(
            f"{type(self).__name__} does not define get_lr",
            where=source.where(),
            hint="Define get_lr(self) in the class.",
        )

    def get_last_lr(self) -> list[float]:
        """Return the rates that were set last."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Advance by one epoch, or to the given epoch, and set the rates.

        For a given epoch the closed form of the schedule is used; a schedule without one treats the jump as one step.
        Warns at the first call if the optimizer has made no step yet.
        """
        # Check once, at the first step after the constructor's. An optimizer without a count is assumed to have
        # stepped.
        if self._step_count == 1 and getattr(self.optimizer, "steps_taken", 1) == 0:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first rate is skipped.",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None) -> None:
        """Set the rates of the next epoch, or of the given epoch by the closed form of the schedule if it has one.

        Without a closed form, a jump sets `last_epoch` and applies `get_lr` once.
        """
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        # A jump needs the closed form; a schedule without one treats the jump as one step.
        closed = getattr(self, "_closed_form", None) if epoch is not None else None
        self._set(closed() if closed is not None else self.get_lr())

    def _set(self, rates: Iterable[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            _set_rate(group, rate)
        self._last_lr = self._rates()

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes except the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the attributes from a state dict."""
        self.__dict__.update(state_dict)


def _copy(rate: Any) -> Any:
    return rate.clone() if isinstance(rate, Tensor) else rate


def _set_rate(group: dict[str, Any], rate: Any) -> None:
    """Set the rate of a group.

    A tensor in the group stays the same object and gets a new value; otherwise it is replaced.
    """
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate.reshape(()) if isinstance(rate, Tensor) else rate)
    else:
        group["lr"] = rate


class LambdaLR(LRScheduler):
    """Set the rate to the initial rate times `lr_lambda(epoch)`."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = _one_each(lr_lambda, optimizer, "lr_lambdas")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the schedule. A function is saved as None; a callable object as its attributes."""
        # A function cannot be saved; the state of a callable object is in its attributes.
        saved = [None if hasattr(f, "__code__") else dict(vars(f)) for f in self.lr_lambdas]
        state = super().state_dict()
        del state["lr_lambdas"]
        return {**state, "lr_lambdas": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a saved state. The functions stay the same; callable objects get the saved attributes.

        Raises ValueError if the number of functions differs.
        """
        state = dict(state_dict)
        for f, saved in zip(self.lr_lambdas, state.pop("lr_lambdas"), strict=True):
            if saved is not None:
                vars(f).update(saved)
        super().load_state_dict(state)

    def get_lr(self) -> list[float]:
        """Return initial rate * lambda(epoch)."""
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


# MultiplicativeLR has no closed form, because its factors are arbitrary. LambdaLR needs none: it uses the initial rate.
class MultiplicativeLR(LambdaLR):
    """Multiply the current rate by `lr_lambda(epoch)` in each epoch."""

    def get_lr(self) -> list[float]:
        """Return current rate * lambda(epoch) for each group. In the constructor, return the current rate."""
        if self._is_initial:
            return self._rates()
        return [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, self._rates(), strict=True)]


def _one_each(setting: Any, optimizer: Optimizer, what: str) -> list[Any]:
    """Return a list with one value of `setting` for each parameter group: a list or tuple as it is, else copies.

    Raises ValueError for a list or tuple of another length; `what` names the setting in the message.
    """
    n = len(optimizer.param_groups)
    if not isinstance(setting, list | tuple):
        return [setting] * n
    if len(setting) != n:
        raise OptionInvalid(
            f"Expected {n} {what}, but got {len(setting)}",
            where=source.where(),
            hint="Pass one setting for each parameter group, or a single one.",
        )
    return list(setting)


class StepLR(LRScheduler):
    """Multiply the rate by `gamma` every `step_size` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return current rate * gamma if the epoch is a positive multiple of the step size, else the current rate."""
        # Epoch 0, the constructor's step, is excluded.
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._rates()
        return [lr * self.gamma for lr in self._rates()]

    def _closed_form(self) -> list[float]:
        return [curves.decayed(base, self.gamma, self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiply the rate by `gamma` at each milestone."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        # A Counter, as in PyTorch's state dicts: a milestone that occurs twice multiplies twice.
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the current rate, multiplied by gamma for each time that this epoch is in the milestones."""
        if self.last_epoch not in self.milestones:
            return self._rates()
        return [lr * self.gamma ** self.milestones[self.last_epoch] for lr in self._rates()]

    def _closed_form(self) -> list[float]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [curves.decayed(base, self.gamma, passed) for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Multiply the rate by `factor` for the first `total_iters` epochs."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 <= factor <= 1:
            raise OptionInvalid(
                f"Constant multiplicative factor expected to be between 0 and 1. Got {factor}.",
                where=source.where(),
                hint="Pass a factor between 0 and 1.",
            )
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return current rate * factor at epoch 0, current rate / factor at `total_iters`, else the current rate.

        Raises ZeroDivisionError at `total_iters` if the factor is 0.
        """
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._rates()]
        if self.last_epoch != self.total_iters:
            return self._rates()
        # Divide by the factor instead of restoring the rate, to keep the effect of other schedules.
        return [lr * (1.0 / self.factor) for lr in self._rates()]

    def _closed_form(self) -> list[float]:
        factor = self.factor if self.last_epoch < self.total_iters else 1
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Multiply the rate by a factor that changes linearly with the epoch.

    It changes from `start_factor` to `end_factor` in `total_iters` epochs.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise OptionInvalid(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."
                f" Got {start_factor}.",
                where=source.where(),
                hint="Pass a start_factor above 0 and at most 1.",
            )
        if not 0 <= end_factor <= 1:
            raise OptionInvalid(
                f"Ending multiplicative factor expected to be between 0 and 1. Got {end_factor}.",
                where=source.where(),
                hint="Pass an end_factor between 0 and 1.",
            )
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return current rate * (factor of this epoch / factor of the previous epoch).

        At epoch 0, return current rate * `start_factor`. After `total_iters`, and in the constructor when training is
        resumed, return the current rate.
        """
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._rates()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        rise = self.end_factor - self.start_factor
        # f(e) / f(e - 1) for the line f, with numerator and denominator multiplied by `total_iters`: PyTorch's
        # rounding.
        quotient = 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)
        return [lr * quotient for lr in self._rates()]

    def _closed_form(self) -> list[float]:
        rise = (self.end_factor - self.start_factor) * min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + rise) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiply the rate by `gamma` in every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return current rate * gamma. In the constructor, return the current rate."""
        return self._rates() if self._is_initial else [lr * self.gamma for lr in self._rates()]

    def _closed_form(self) -> list[float]:
        return [curves.decayed(base, self.gamma, self.last_epoch) for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Lower the rate to zero in `total_iters` epochs, as the power `power` of the fraction of remaining epochs."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return current rate * (remaining epochs now / remaining epochs before) ** power.

        In the constructor and after `total_iters`, return the current rate.
        """
        e, n = self.last_epoch, self.total_iters
        if self._is_initial or e > n:
            return self._rates()
        # At e = n the quotient is 0, and the rate stays 0 even with chained schedules.
        quotient = ((1.0 - e / n) / (1.0 - (e - 1) / n)) ** self.power
        return [lr * quotient for lr in self._rates()]

    def _closed_form(self) -> list[float]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Move the rate along a half cosine wave from the initial rate to `eta_min` in `T_max` epochs, and back."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the current rate, with its distance to `eta_min` scaled to the cosine wave at this epoch.

        In the first epoch after a minimum, where the distance was zero, it is computed from the initial rate instead.
        In the constructor, return the current rate.
        """
        # Only the distance to `eta_min` is scaled, to keep the effect of chained schedules.
        e, n, low = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return self._rates()
        # At the minimum the distance is 0, which no factor can change.
        if (e - 1 - n) % (2 * n) == 0:
            lift = (1 - math.cos(math.pi / n)) / 2
            return [lr + (base - low) * lift for base, lr in zip(self.base_lrs, self._rates(), strict=True)]
        quotient = curves.half_wave(math.pi * e / n) / curves.half_wave(math.pi * (e - 1) / n)
        return [quotient * (lr - low) + low for lr in self._rates()]

    def _closed_form(self) -> list[float]:
        angle = math.pi * self.last_epoch / self.T_max
        return [curves.cosine(base, self.eta_min, angle) for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Lower the rate along a half cosine wave, then restart at the initial rate.

    The first wave takes `T_0` epochs; each following one is `T_mult` times as long as the previous one.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise OptionInvalid(
                f"Expected positive integer T_0, but got {T_0}",
                where=source.where(),
                hint="Pass a positive integer as T_0.",
            )
        if T_mult < 1 or not isinstance(T_mult, int):
            raise OptionInvalid(
                f"Expected integer T_mult >= 1, but got {T_mult}",
                where=source.where(),
                hint="Pass an integer of at least 1 as T_mult.",
            )
        # T_cur is the position in the wave and T_i its length; the names are those of PyTorch's state dicts.
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the value of the wave at position `T_cur` of `T_i`."""
        angle = math.pi * self.T_cur / self.T_i
        return [curves.cosine(base, self.eta_min, angle) for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Advance by one epoch, or to the given time, which may be a fraction of an epoch, and set the rates.

        In the constructor with `last_epoch` -1, jump to epoch 0. Raises ValueError for a negative time.
        """
        if epoch is None and self.last_epoch >= 0:
            self.last_epoch += 1
            self.T_cur += 1
            # T_cur is tracked separately, because with growing waves it is not a remainder of `last_epoch`.
            if self.T_cur >= self.T_i:
                self.T_cur, self.T_i = self.T_cur % self.T_i, self.T_i * self.T_mult
        else:
            self._jump(0 if epoch is None else epoch)
        self._set(self.get_lr())

    def _jump(self, epoch: float) -> None:
        """Set the position and length of the wave at a time, and the epoch to the time rounded down.

        Raises ValueError for a negative time.
        """
        if epoch < 0:
            raise OptionInvalid(
                f"Expected non-negative epoch, but got {epoch}",
                where=source.where(),
                hint="Pass an epoch of at least 0.",
            )
        # Waves of equal length are skipped at once; there are only few growing waves.
        start, length = 0, self.T_0
        if self.T_mult == 1:
            start = int(epoch // length) * length
        while epoch >= start + length:
            start, length = start + length, length * self.T_mult
        self.T_cur, self.T_i, self.last_epoch = epoch - start, length, math.floor(epoch)  # type: ignore[assignment]


class SequentialLR(LRScheduler):
    """Use several schedules one after the other; each one starts at its milestone."""

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if not schedulers or len(milestones) != len(schedulers) - 1:
            raise OptionInvalid(
                f"SequentialLR expects one milestone less than schedulers: got {len(schedulers)} schedulers and "
                f"{len(milestones)} milestones",
                where=source.where(),
                hint="Pass one milestone for each change of scheduler.",
            )
        if any(s.optimizer is not optimizer for s in schedulers):
            raise OptionInvalid(
                "SequentialLR expects all schedulers to belong to its optimizer",
                where=source.where(),
                hint="Create all schedulers with the same optimizer.",
            )
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        self.last_epoch, self.optimizer = last_epoch + 1, optimizer
        # Each schedule has taken its first step; undo all of them and restart the first one.
        for group in optimizer.param_groups:
            _set_rate(group, group["initial_lr"])
        for s in self._schedulers:
            s.last_epoch -= 1
        self._schedulers[0]._step_count -= 1
        self._schedulers[0].step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Advance the active schedule by one epoch. `epoch` is ignored.

        At a milestone, the next schedule starts at its epoch 0 with its closed form; one without a closed form applies
        its first step to the current rate.
        """
        self.last_epoch += 1
        # `bisect_right`: a milestone belongs to the schedule that starts there.
        i = bisect_right(self._milestones, self.last_epoch)
        s = self._schedulers[i]
        if i and self._milestones[i - 1] == self.last_epoch:
            # A jump to the new schedule's epoch 0 uses the closed form, which does not depend on the current rate.
            s._update_lr(0)
        else:
            s.step()
        self._last_lr = s.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Return the state, with a list of the states of the schedules."""
        # The schedules refer to the optimizer too; their state dicts leave it out.
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        return {**state, "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of this object and of each schedule. Raises ValueError for another number of schedules."""
        state = dict(state_dict)
        for s, saved in zip(self._schedulers, state.pop("_schedulers"), strict=True):
            s.load_state_dict(saved)
        self.__dict__.update(state)


class ChainedScheduler(SequentialLR):
    """Apply several schedules in each step; their factors multiply."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise OptionInvalid(
                "ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.",
                where=source.where(),
                hint="Pass at least one scheduler.",
            )
        self.optimizer = optimizer or schedulers[0].optimizer
        if any(s.optimizer is not self.optimizer for s in schedulers):
            raise OptionInvalid(
                "ChainedScheduler expects all schedulers to belong to the same optimizer",
                where=source.where(),
                hint="Create all schedulers with the same optimizer.",
            )
        self._schedulers = list(schedulers)
        self._last_lr = self._rates()

    def step(self, epoch: int | None = None) -> None:
        """Advance every schedule by one epoch. `epoch` is ignored."""
        for s in self._schedulers:
            s.step()
        self._last_lr = self._rates()
