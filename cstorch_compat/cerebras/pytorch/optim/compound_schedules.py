"""Schedules that are made of other schedules: one after the other, multiplied, or scaled for each group."""

from collections.abc import Sequence
from typing import Any

from cstorch_compat.cerebras.pytorch.optim.schedules import Scheduler, Tags, tag_set
from cstorch_compat.cerebras.pytorch.optim.signatures import show
from lazytensor.core.tensor import Tensor
from lazytensor.functional import pointwise as pw


class _Compound(Scheduler):
    """A schedule made of a list of others."""

    _schedulers: list[Scheduler]

    def parts(self) -> list[tuple[str, Scheduler]]:
        return [(f"_schedulers.{i}", s) for i, s in enumerate(self._schedulers)]

    def state_dict(self) -> dict[str, Any]:
        """As of any schedule, with the state dicts of the parts in order."""
        return {**super().state_dict(), "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` gave. Raises ValueError for another number of parts."""
        for part, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            part.load_state_dict(saved)
        super().load_state_dict(state_dict)


class SequentialScheduler(_Compound):
    """One schedule after the other; `milestones` are the steps at which the next one takes over.

    Raises ValueError unless there is one schedule more than milestones, and unless all schedules are of this optimizer
    and of this setting, with these tags.
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
            )
        for i, part in enumerate(schedulers):
            self._check_part(optimizer, i, part, tag_set(param_group_tags))
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        super().__init__(optimizer, None, last_epoch, param_group_tags)
        optimizer.remove_schedules(schedulers)

    def _check_part(self, optimizer: Any, i: int, part: Scheduler, tags: set[str | None] | None) -> None:
        """Raise ValueError for a part that schedules something else than the whole does."""
        whole = "Sequential Schedulers expects all schedulers to"
        if part.optimizer is not optimizer:
            raise ValueError(
                f"{whole} belong to the same optimizer, but got schedulers at index {i} to be different than the "
                "optimizer passed in."
            )
        if part.param_group_key != self.param_group_key:
            raise ValueError(
                f"{whole} have  the same `param_group_key`, but got schedulers `param_group_key` at index {i} to be "
                "different than the Sequential Scheduler's `param_group_key`."
            )
        if part.param_group_tags != tags:
            raise ValueError(
                f"{whole} have the same `param_group_tags`, but found `param_group_tags` at index {i} to be different "
                "than the Sequential Scheduler's `param_group_tags."
            )

    def _get_closed_form(self) -> Tensor:
        # Every part is computed in each step, and the last milestone that was passed decides: a program without
        # branches. It costs some scalars.
        value = self._schedulers[0].value()
        for milestone, part in zip(self._milestones, self._schedulers[1:], strict=True):
            value = pw.where(self.last_epoch < milestone, value, part.value())
        return value

    def increment_last_epoch(self) -> None:
        """Add one to the counter, and to those of the first part and of all that have begun.

        The parts of a part stand still, unless that is a chain, as in the original.
        """
        super().increment_last_epoch()
        self._schedulers[0].advance(1)
        for milestone, part in zip(self._milestones, self._schedulers[1:], strict=True):
            # A part counts from its own milestone on, so that each one begins at its step 0.
            part.advance(pw.where(self.last_epoch <= milestone, 0, 1))


def _initial_value(part: Scheduler) -> float:
    """Return what a schedule begins with. Raises AttributeError for one that has no such setting."""
    if not hasattr(part, "initial_val"):
        # The kind of error and the first line are the original's.
        raise AttributeError(
            f"{type(part).__name__!r} object has no attribute 'initial_val'\n"
            "  Make this schedule the first of the chain: the others are divided by their initial value."
        )
    value: float = part.initial_val
    return value


class ChainedScheduler(_Compound):
    """The product of schedules; the first gives the scale, the others are taken relative to their initial value.

    Raises ValueError for schedules of several optimizers.
    """

    def __init__(self, schedulers: Sequence[Scheduler], param_group_tags: Tags = None):
        self._schedulers = list(schedulers)
        optimizer = self._schedulers[0].optimizer
        for i, part in enumerate(self._schedulers):
            if part.optimizer is not optimizer:
                raise ValueError(
                    "ChainedScheduler expects all schedulers to belong to the same optimizer, but got schedulers at "
                    f"index 0 and {i} to be different"
                )
        super().__init__(optimizer, None, -1, param_group_tags)
        optimizer.remove_schedules(schedulers)

    def _get_closed_form(self) -> Tensor:
        value = self._schedulers[0].value()
        for part in self._schedulers[1:]:
            # Relative to where it began, so that the chain begins where its first schedule does.
            value = value * (part.value() / _initial_value(part))
        return value

    def increment_last_epoch(self) -> None:
        """Add one to the counter and to those of the parts; the parts of a part stand still, as in the original."""
        super().increment_last_epoch()
        for part in self._schedulers:
            Scheduler.advance(part, 1)

    def advance(self, by: Any) -> None:
        """Add to the counter and to those of the parts."""
        super().advance(by)
        for part in self._schedulers:
            Scheduler.advance(part, by)


class ScalePerParamScheduler(Scheduler):
    """A schedule times a factor of each group: its entry `adjust_learning_rate` or `adjust_val`, else 1."""

    def __init__(self, optimizer: Any, scheduler: Scheduler, param_group_tags: Tags = None):
        self._scheduler = scheduler
        # Plain numbers, taken when the schedule is made: `configure_param_groups` puts the factors into the groups
        # first.
        self.adjustment_scalars = [
            float(group.get("adjust_learning_rate", group.get("adjust_val", 1.0))) for group in optimizer.param_groups
        ]
        super().__init__(optimizer, None, -1, param_group_tags)
        optimizer.remove_schedules([scheduler])

    def _get_closed_form(self) -> Tensor:
        return self._scheduler.value()

    def _values(self) -> list[Any]:
        scaled = zip(super()._values(), self.adjustment_scalars, strict=True)
        # The only schedule whose groups differ, hence factors here and not in the closed form.
        return [None if value is None else value * factor for value, factor in scaled]

    def parts(self) -> list[tuple[str, Scheduler]]:
        return [("_scheduler", self._scheduler)]

    def increment_last_epoch(self) -> None:
        """Add one to the counter and to that of the schedule."""
        super().increment_last_epoch()
        self._scheduler.increment_last_epoch()

    def state_dict(self) -> dict[str, Any]:
        """As of any schedule, with the state dict of the one that is scaled."""
        scaled = self._scheduler.state_dict()
        # Left out by the original.
        scaled.pop("_get_called_within_step")
        return {**super().state_dict(), "_scheduler": scaled}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._scheduler.load_state_dict(state_dict["_scheduler"])
        super().load_state_dict(state_dict)


show(ChainedScheduler, ScalePerParamScheduler, SequentialScheduler, kind=Scheduler)
