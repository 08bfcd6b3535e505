"""Learning rates over time, as torch.optim.lr_scheduler gives them.

Most schedules are stated as a step from the present rate to the next, since schedules may be chained and then multiply.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lazytensor.core.tensor import Tensor
from lazytensor.optim import curves
from lazytensor.optim.traced.optimizer import Optimizer


class LRScheduler:
    """Sets the rate of each group once an epoch. A subclass says in `get_lr` what the rates are at `last_epoch`."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                # In the group and not here: it is saved with the optimizer, and schedules that follow each other start
                # from the same.
                group.setdefault("initial_lr", _copy(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    f"last_epoch >= 0: load the optimizer's state first"
                )
        self.base_lrs = [_copy(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        # The constructor takes the first step, so that the rates of epoch 0 are set before the first update.
        self._is_initial = True
        # State dicts of PyTorch have it; it is True only inside of `step`.
        self._get_lr_called_within_step = False
        self.step()
        self._is_initial = False

    def _rates(self) -> list[Any]:
        return [_copy(group["lr"]) for group in self.optimizer.param_groups]

    def get_lr(self) -> list[float]:
        """The rates at `last_epoch`, from the present ones."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr")

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go on by one epoch, or to the one given."""
        # Once, at the first step after the constructor's; optimizers that do not count are taken to have stepped.
        if self._step_count == 1 and getattr(self.optimizer, "steps_taken", 1) == 0:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first rate is skipped.",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None) -> None:
        """Set the rates of the next epoch, or of the one given."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        # A jump cannot go from rate to rate; schedules without a closed form take it as one step.
        closed = getattr(self, "_closed_form", None) if epoch is not None else None
        self._set(closed() if closed is not None else self.get_lr())

    def _set(self, rates: Iterable[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            _set_rate(group, rate)
        self._last_lr = self._rates()

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule knows, except the optimizer and what cannot be compared: functions."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.__dict__.update(state_dict)


def _copy(rate: Any) -> Any:
    return rate.clone() if isinstance(rate, Tensor) else rate


def _set_rate(group: dict[str, Any], rate: Any) -> None:
    """Set the rate of a group; a tensor stays the same object and gets a new value."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate.reshape(()) if isinstance(rate, Tensor) else rate)
    else:
        group["lr"] = rate


class LambdaLR(LRScheduler):
    """The first rate times a function of the epoch."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = _one_each(lr_lambda, optimizer, "lr_lambdas")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Without the functions; an object that is called gives its attributes."""
        # A function cannot be saved, and is to be given again; an object that is called has its state in attributes.
        saved = [None if hasattr(f, "__code__") else dict(vars(f)) for f in self.lr_lambdas]
        state = super().state_dict()
        del state["lr_lambdas"]
        return {**state, "lr_lambdas": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved state; the functions stay."""
        state = dict(state_dict)
        for f, saved in zip(self.lr_lambdas, state.pop("lr_lambdas"), strict=True):
            if saved is not None:
                vars(f).update(saved)
        super().load_state_dict(state)

    def get_lr(self) -> list[float]:
        """base * lambda(epoch)"""
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


# Has no closed form, since its factors can be anything; LambdaLR needs none, because it starts from the base each time.
class MultiplicativeLR(LambdaLR):
    """The present rate times a function of the epoch."""

    def get_lr(self) -> list[float]:
        """lr * lambda(epoch)"""
        if self._is_initial:
            return self._rates()
        return [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, self._rates(), strict=True)]


def _one_each(setting: Any, optimizer: Optimizer, what: str) -> list[Any]:
    n = len(optimizer.param_groups)
    if not isinstance(setting, list | tuple):
        return [setting] * n
    if len(setting) != n:
        raise ValueError(f"Expected {n} {what}, but got {len(setting)}")
    return list(setting)


class StepLR(LRScheduler):
    """Times gamma every `step_size` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """lr, or lr * gamma at a multiple of the step size"""
        # Epoch 0 is a multiple of everything, and is the constructor's step.
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._rates()
        return [lr * self.gamma for lr in self._rates()]

    def _closed_form(self) -> list[float]:
        return [curves.decayed(base, self.gamma, self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times gamma at each milestone."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        # Counted, since a milestone may stand twice and then multiplies twice; PyTorch saves it so.
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """lr, or lr * gamma for each time that this epoch is a milestone"""
        if self.last_epoch not in self.milestones:
            return self._rates()
        return [lr * self.gamma ** self.milestones[self.last_epoch] for lr in self._rates()]

    def _closed_form(self) -> list[float]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [curves.decayed(base, self.gamma, passed) for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """A factor for the first epochs."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The factor comes at epoch 0 and goes at `total_iters`."""
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._rates()]
        if self.last_epoch != self.total_iters:
            return self._rates()
        # Divided out again, so that what other schedules did to the rate meanwhile stays.
        return [lr * (1.0 / self.factor) for lr in self._rates()]

    def _closed_form(self) -> list[float]:
        factor = self.factor if self.last_epoch < self.total_iters else 1
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """A factor that goes in a straight line from one value to another."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Each epoch multiplies by the quotient of its factor and the one before."""
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._rates()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        rise = self.end_factor - self.start_factor
        # f(e) / f(e - 1) of the line f, with both times `total_iters`, as PyTorch has it rounded.
        quotient = 1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)
        return [lr * quotient for lr in self._rates()]

    def _closed_form(self) -> list[float]:
        rise = (self.end_factor - self.start_factor) * min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + rise) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times gamma every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """lr * gamma"""
        return self._rates() if self._is_initial else [lr * self.gamma for lr in self._rates()]

    def _closed_form(self) -> list[float]:
        return [curves.decayed(base, self.gamma, self.last_epoch) for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Down to zero as a power of the time left."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """lr times the power of the quotient of times left"""
        e, n = self.last_epoch, self.total_iters
        if self._is_initial or e > n:
            return self._rates()
        # At e = n the quotient is 0, and the rate stays 0 from there on, whatever is chained to it.
        quotient = ((1.0 - e / n) / (1.0 - (e - 1) / n)) ** self.power
        return [lr * quotient for lr in self._rates()]

    def _closed_form(self) -> list[float]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine wave from the first rate to `eta_min` in `T_max` epochs, and back."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The distance to `eta_min` changes by the quotient of the waves; from the lowest point it is built anew."""
        # Chained, the wave is of what other schedules left of the rate: only the distance to `eta_min` is scaled.
        e, n, low = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return self._rates()
        # At the lowest point the distance is 0, and no quotient leads away from it.
        if (e - 1 - n) % (2 * n) == 0:
            lift = (1 - math.cos(math.pi / n)) / 2
            return [lr + (base - low) * lift for base, lr in zip(self.base_lrs, self._rates(), strict=True)]
        quotient = curves.half_wave(math.pi * e / n) / curves.half_wave(math.pi * (e - 1) / n)
        return [quotient * (lr - low) + low for lr in self._rates()]

    def _closed_form(self) -> list[float]:
        angle = math.pi * self.last_epoch / self.T_max
        return [curves.cosine(base, self.eta_min, angle) for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine wave down, then a jump back up; each wave is `T_mult` times as long as the last."""

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        # T_cur is where in the wave, T_i how long it is: PyTorch's names, which its state dicts have.
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The wave at T_cur of T_i."""
        angle = math.pi * self.T_cur / self.T_i
        return [curves.cosine(base, self.eta_min, angle) for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on by one epoch, or to a time that may lie between two."""
        if epoch is None and self.last_epoch >= 0:
            self.last_epoch += 1
            self.T_cur += 1
            # Not `last_epoch`: with waves that grow the place in a wave is no remainder of it.
            if self.T_cur >= self.T_i:
                self.T_cur, self.T_i = self.T_cur % self.T_i, self.T_i * self.T_mult
        else:
            self._jump(0 if epoch is None else epoch)
        self._set(self.get_lr())

    def _jump(self, epoch: float) -> None:
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        # Waves of one length are skipped at once; those that grow are few.
        start, length = 0, self.T_0
        if self.T_mult == 1:
            start = int(epoch // length) * length
        while epoch >= start + length:
            start, length = start + length, length * self.T_mult
        self.T_cur, self.T_i, self.last_epoch = epoch - start, length, math.floor(epoch)  # type: ignore[assignment]


class SequentialLR(LRScheduler):
    """One schedule after the other, each from its milestone on."""

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if not schedulers or len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR expects one milestone less than schedulers: got {len(schedulers)} schedulers and "
                f"{len(milestones)} milestones"
            )
        # A schedule of another optimizer would move rates that nobody looks at here.
        if any(s.optimizer is not optimizer for s in schedulers):
            raise ValueError("SequentialLR expects all schedulers to belong to its optimizer")
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        self.last_epoch, self.optimizer = last_epoch + 1, optimizer
        # Each schedule has taken its first step already; all are undone, and only the first starts again.
        for group in optimizer.param_groups:
            _set_rate(group, group["initial_lr"])
        for s in self._schedulers:
            s.last_epoch -= 1
        self._schedulers[0]._step_count -= 1
        self._schedulers[0].step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Let the schedule in charge go on; at its milestone it starts."""
        self.last_epoch += 1
        # On the right: a milestone belongs to the schedule that it starts.
        i = bisect_right(self._milestones, self.last_epoch)
        s = self._schedulers[i]
        if i and self._milestones[i - 1] == self.last_epoch:
            # A jump to its own epoch 0, which takes the closed form: it must not go on from where the one before left
            # the rate.
            s._update_lr(0)
        else:
            s.step()
        self._last_lr = s.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """The state of each schedule inside its own."""
        # The schedules hold the optimizer too: their own state dicts leave it out.
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        return {**state, "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved state, here and in each schedule."""
        state = dict(state_dict)
        for s, saved in zip(self._schedulers, state.pop("_schedulers"), strict=True):
            s.load_state_dict(saved)
        self.__dict__.update(state)


class ChainedScheduler(SequentialLR):
    """Several schedules at once; their factors multiply."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
        self.optimizer = optimizer or schedulers[0].optimizer
        if any(s.optimizer is not self.optimizer for s in schedulers):
            raise ValueError("ChainedScheduler expects all schedulers to belong to the same optimizer")
        self._schedulers = list(schedulers)
        self._last_lr = self._rates()

    def step(self, epoch: int | None = None) -> None:
        """Let every schedule go on."""
        for s in self._schedulers:
            s.step()
        self._last_lr = self._rates()
