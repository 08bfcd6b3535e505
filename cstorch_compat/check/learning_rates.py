"""Find the lines that change learning rates, where these are Python numbers."""

import functools
from dataclasses import dataclass
from typing import Any

from cstorch_compat.check.findings import Findings
from lazytensor.core import source
from lazytensor.ir.types import Where
from lazytensor.optim.traced.optimizer import Optimizer, alive


class WatchedGroup(dict[str, Any]):
    """A parameter group of an optimizer.

    `changed_at` is the line that set the learning rate last, None before that, and `times` is how often it was set.
    """

    changed_at: Where | None = None
    times = 0

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        if key == "lr":
            self.changed_at, self.times = source.where(), self.times + 1

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set each item, as `dict.update` does."""
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __ior__(self, other: Any) -> "WatchedGroup":  # type: ignore[override, misc]
        self.update(other)
        return self


class RateWatcher:
    """A context manager in which every new parameter group of an optimizer is a WatchedGroup."""

    def __enter__(self) -> "RateWatcher":
        self._original = take = Optimizer._take_group

        @functools.wraps(take)
        def watched(optimizer: Optimizer, group: dict[str, Any]) -> None:
            take(optimizer, group)
            optimizer.param_groups[-1] = WatchedGroup(optimizer.param_groups[-1])

        Optimizer._take_group = watched  # type: ignore[assignment, method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        Optimizer._take_group = self._original  # type: ignore[method-assign]


@dataclass(frozen=True)
class LearningRate:
    """The learning rate of a parameter group: `value` is None where it is no Python number.

    `optimizer` is the name of the optimizer's class. `changed_at` is the line that set the rate last, if it is known,
    and `times` is how often the rate was set.
    """

    optimizer: str
    value: float | None
    changed_at: Where | None
    times: int


def list_learning_rates() -> list[LearningRate]:
    """Return the learning rates of all optimizers."""
    return [
        LearningRate(
            type(optimizer).__name__,
            rate if isinstance(rate := group.get("lr"), int | float) else None,
            *((group.changed_at, group.times) if isinstance(group, WatchedGroup) else (None, 0)),
        )
        for optimizer in alive()
        for group in optimizer.param_groups
    ]


def examine_learning_rates(findings: Findings, loop: Where, before: list[LearningRate]) -> bool:
    """Add a finding if a learning rate that is a Python number was set since `before`, and return whether it was.

    `before` are the rates of the first step, and the current ones are those of the second step. The finding is at the
    line that has set the rate, or at `loop` if that line is unknown.
    """
    pair = find_set_rate(before)
    if pair is None:
        return False
    old, new = pair
    detail = (
        f"lr is {old.value:g} after the first iteration and {new.value:g} after the second"
        if old.value != new.value
        else f"lr is set in each iteration, to {new.value:g} in the first two"
    )
    findings.add("python learning rate", new.changed_at or loop, new.optimizer, detail)
    return True


def find_set_rate(before: list[LearningRate]) -> tuple[LearningRate, LearningRate] | None:
    """Return the first learning rate that was set since `before`: as it was and as it is. Return None without one.

    Only rates that are Python numbers count.
    """
    # One rate is enough: usually one line changes all of them.
    for old, new in zip(before, list_learning_rates(), strict=False):
        # A schedule may set the same value for many steps before it changes.
        if None not in (old.value, new.value) and (old.value, old.times) != (new.value, new.times):
            return old, new
    return None
