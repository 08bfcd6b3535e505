"""Schedules that combine other schedules: in sequence, as a product, or scaled for each parameter group."""

from collections.abc import Sequence
from typing import Any

from cstorch_compat.cerebras.pytorch.optim.schedules import Scheduler, Tags, tag_set
from cstorch_compat.cerebras.pytorch.optim.signatures import show
from lazytensor.core.tensor import Tensor
from lazytensor.functional import pointwise as pw


class _Compound(Scheduler):
    """The base class of schedules that combine a list of schedules, `_schedulers`."""

    _schedulers: list[Scheduler]

    def parts(self) -> list[tuple[str, Scheduler]]:
        return [(f"_schedulers.{i}", s) for i, s in enumerate(self._schedulers)]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of `Scheduler.state_dict`, with the list of the parts' state dicts as "_schedulers"."""
        return {**super().state_dict(), "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state returned by `state_dict`.

        Raises ValueError if the number of parts differs, but only after the parts that both have were restored.
        """
        for part, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            part.load_state_dict(saved)
        super().load_state_dict(state_dict)


class SequentialScheduler(_Compound):
    """A schedule that uses several schedules one after another.

    `milestones` are the steps at which the next schedule begins. Each part counts its steps from its own milestone.
    Raises ValueError unless there is one schedule more than milestones, and all of them have this optimizer, this
    setting (`param_group_key`) and these tags.
    """

    def __init__(
        self,
        optimizer: Any,
        schedulers: Sequence[Scheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
        param_group_tags: Tags = None,
    ):
        if len(schedulers) != len(milestones) + 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of  milestones to "
                f"be equal to {len(milestones)}"
                "\n  Pass one milestone for each change of schedule."
            )
        for i, part in enumerate(schedulers):
            self._check_part(optimizer, i, part, tag_set(param_group_tags))
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        super().__init__(optimizer, None, last_epoch, param_group_tags)
        optimizer.remove_schedules(schedulers)

    def _check_part(self, optimizer: Any, i: int, part: Scheduler, tags: set[str | None] | None) -> None:
        """Raise ValueError if `part` has another optimizer, setting or set of tags than this schedule.

        `i` is its index, for the message. `tags` is the set of tags of this schedule, or None for all groups; `part`
        must have an equal one.
        """
        whole = "Sequential Schedulers expects all schedulers to"
        if part.optimizer is not optimizer:
            raise ValueError(
                f"{whole} belong to the same optimizer, but got schedulers at index {i} to be different than the "
                "optimizer passed in."
                "\n  Create all schedulers with the same optimizer."
            )
        if part.param_group_key != self.param_group_key:
            raise ValueError(
                f"{whole} have  the same `param_group_key`, but got schedulers `param_group_key` at index {i} to be "
                "different than the Sequential Scheduler's `param_group_key`."
                "\n  Create all schedulers with the same param_group_key."
            )
        if part.param_group_tags != tags:
            raise ValueError(
                f"{whole} have the same `param_group_tags`, but found `param_group_tags` at index {i} to be different "
                "than the Sequential Scheduler's `param_group_tags."
                "\n  Create all schedulers with the same param_group_tags."
            )

    def _get_closed_form(self) -> Tensor:
        # A traced step cannot branch, so every part is computed, and the last milestone that was passed selects one.
        # This costs a few scalar operations.
        value = self._schedulers[0].value()
        for milestone, part in zip(self._milestones, self._schedulers[1:], strict=True):
            value = pw.where(self.last_epoch < milestone, value, part.value())
        return value

    def increment_last_epoch(self) -> None:
        """Add one to the counters of this schedule, of the first part, and of all later parts that have begun.

        A later part has begun if the counter of this schedule, after it is incremented, exceeds the part's milestone.
        Earlier parts continue to count. The counters inside a compound part do not change, unless the part is a
        ChainedScheduler. This matches the original.
        """
        super().increment_last_epoch()
        self._schedulers[0].advance(1)
        for milestone, part in zip(self._milestones, self._schedulers[1:], strict=True):
            # Each part counts from its own milestone, so that it begins at its step 0.
            part.advance(pw.where(self.last_epoch <= milestone, 0, 1))


def _initial_value(part: Scheduler) -> float:
    """Return the initial value of a schedule. Raises AttributeError if the schedule has no attribute `initial_val`."""
    if not hasattr(part, "initial_val"):
        # The error type and the first line are those of the original.
        raise AttributeError(
            f"{type(part).__name__!r} object has no attribute 'initial_val'\n"
            "  Make this schedule the first of the chain, because the others are divided by their initial value."
        )
    value: float = part.initial_val
    return value


class ChainedScheduler(_Compound):
    """The product of several schedules, where all but the first are divided by their initial value.

    The product therefore begins with the initial value of the first schedule. Raises ValueError if the schedules have
    different optimizers.
    """

    def __init__(self, schedulers: Sequence[Scheduler], param_group_tags: Tags = None):
        self._schedulers = list(schedulers)
        optimizer = self._schedulers[0].optimizer
        for i, part in enumerate(self._schedulers):
            if part.optimizer is not optimizer:
                raise ValueError(
                    "ChainedScheduler expects all schedulers to belong to the same optimizer, but got schedulers at "
                    f"index 0 and {i} to be different"
                    "\n  Create all schedulers with the same optimizer."
                )
        super().__init__(optimizer, None, -1, param_group_tags)
        optimizer.remove_schedules(schedulers)

    def _get_closed_form(self) -> Tensor:
        value = self._schedulers[0].value()
        for part in self._schedulers[1:]:
            value = value * (part.value() / _initial_value(part))
        return value

    def increment_last_epoch(self) -> None:
        """Add one to the counters of this schedule and its parts. Counters inside a compound part do not change."""
        super().increment_last_epoch()
        for part in self._schedulers:
            Scheduler.advance(part, 1)

    def advance(self, by: Any) -> None:
        """Add `by` to the counters of this schedule and its parts. Counters inside a compound part do not change."""
        super().advance(by)
        for part in self._schedulers:
            Scheduler.advance(part, by)


class ScalePerParamScheduler(Scheduler):
    """A schedule multiplied by a factor of each parameter group.

    The factor is the group's entry `adjust_learning_rate`, else `adjust_val`, else 1. It is read when the schedule is
    created.
    """

    def __init__(self, optimizer: Any, scheduler: Scheduler, param_group_tags: Tags = None):
        self._scheduler = scheduler
        # `configure_param_groups` stores the factors in the groups before the schedule is created.
        self.adjustment_scalars = [
            float(group.get("adjust_learning_rate", group.get("adjust_val", 1.0))) for group in optimizer.param_groups
        ]
        super().__init__(optimizer, None, -1, param_group_tags)
        optimizer.remove_schedules([scheduler])

    def _get_closed_form(self) -> Tensor:
        return self._scheduler.value()

    def _values(self) -> list[Any]:
        scaled = zip(super()._values(), self.adjustment_scalars, strict=True)
        # The factors differ between groups, so they are not part of the closed form.
        return [None if value is None else value * factor for value, factor in scaled]

    def parts(self) -> list[tuple[str, Scheduler]]:
        return [("_scheduler", self._scheduler)]

    def increment_last_epoch(self) -> None:
        """Add one to the counters of this schedule and of the scaled schedule."""
        super().increment_last_epoch()
        self._scheduler.increment_last_epoch()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of `Scheduler.state_dict`, with the state dict of the scaled schedule as "_scheduler"."""
        scaled = self._scheduler.state_dict()
        # The original omits this entry.
        scaled.pop("_get_called_within_step")
        return {**super().state_dict(), "_scheduler": scaled}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._scheduler.load_state_dict(state_dict["_scheduler"])
        super().load_state_dict(state_dict)


show(ChainedScheduler, ScalePerParamScheduler, SequentialScheduler, kind=Scheduler)
