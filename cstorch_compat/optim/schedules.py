"""Schedules: settings of an optimizer's groups as closed forms of a traced step counter.

The counter is state of the run, so that a step that is traced once follows the schedule: at the beginning of
`optimizer.step` the values are computed from it, and `step` adds one.
"""

import itertools
import warnings
import weakref
from abc import ABC
from collections.abc import Iterable, Sequence
from typing import Any

from cstorch_compat.optim.optimizers import Optimizer
from cstorch_compat.optim.signatures import show
from cstorch_compat.optim.skipped import update_if_finite
from cstorch_compat.run import process, steps
from lazytensor import cells
from lazytensor import dtype as dt
from lazytensor.functions import pointwise as pw
from lazytensor.functions.creation import as_tensor, tensor
from lazytensor.functions.writing import copy_
from lazytensor.tensor import Tensor, grad_mode

Tags = str | Sequence[str | None] | None
PARTS = ("optimizer", "_schedulers", "_scheduler", "_number", "_is_part")
"""Attributes that are no entries of the state dict as they are."""

# Weak: a schedule that is gone gives its number back, and a second model in one process names its state as the first.
_numbered = process.Slot["weakref.WeakSet[Scheduler]"](weakref.WeakSet)


class Scheduler(ABC):  # noqa: B024 - either of two methods is to be given by subclasses
    """Base of schedules. A subclass gives the value in `_get_closed_form`, from `self.last_epoch`.

    Groups whose tags meet `param_group_tags` take part; without it all do. Raises TypeError for an optimizer of
    another kind.
    """

    param_group_key = ""
    """The setting that is scheduled."""
    # Names of attributes as this family of schedules shows them; the closed forms are written once, over generic
    # names, for learning rates and weight decay.
    NAMES: dict[str, str] = {}

    def __init__(self, optimizer: Any, total_iters: int | None, last_epoch: int = -1, param_group_tags: Tags = None):
        # The kinds of errors and the words, with their slip, are the original's, which asks for the groups first.
        if not hasattr(optimizer, "param_groups"):
            raise AttributeError(f"{type(optimizer).__name__!r} object has no attribute 'param_groups'")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an a cstorch.optim.Optimizer")
        self.optimizer = optimizer
        self.param_group_tags = _tag_set(param_group_tags)
        self._last_value: list[Any] = []
        self.total_iters = total_iters
        # The next step to compute, as PyTorch's schedulers count: -1 means that none was.
        self.last_epoch = tensor(last_epoch + 1, dtype=dt.int64)
        self.last_epoch.device = process.state_device()
        # As PyTorch's, whose schedulers take a step when they are made; it stands in state dicts.
        self._step_count = 1
        self._get_called_within_step = False
        self._number: int | None = None
        self._is_part = False
        # The optimizer calls schedules back at each step, in the order in which they were made.
        optimizer.schedules.append(self)
        # On CSX a schedule is first computed in the step; until then readers see what the optimizer was given.
        self._keep([group.get(self.param_group_key) for group in optimizer.param_groups])
        with grad_mode(False):
            values = self._values()
        self.update_groups(values)
        if not process.use_cs():
            self._last_value = values

    def _get_closed_form(self) -> Any:
        """The value as a function of `self.last_epoch`; subclasses of older releases call it _get_closed_form_lr."""
        # Documentation from 1.8 to 2.4 tells users to override this one; release 2.10 does not know it any more.
        older = getattr(self, "_get_closed_form_lr", None)
        if older is None:
            raise NotImplementedError(f"{type(self).__name__} does not define _get_closed_form")
        return older()

    def value(self) -> Tensor:
        """The value for groups without a factor of their own: 0-d, on the device of the run."""
        form = self._get_closed_form()
        value = form if isinstance(form, Tensor) else tensor(float(form))
        if process.use_cs():
            value.device = process.state_device()
        return value

    def _values(self) -> list[Any]:
        value = self.value()
        return [value if self._applies_to(group) else None for group in self.optimizer.param_groups]

    def _applies_to(self, group: dict[str, Any]) -> bool:
        tags = self.param_group_tags
        # A group without tags counts as tagged None, so that a schedule can be made for the untagged ones.
        return tags is None or not tags.isdisjoint(group.get("tags") or {None})

    def get(self) -> list[Any]:
        """The value of each group, None for those that do not take part."""
        # As in PyTorch: outside of `step` a computed value may be one step ahead of what was used.
        if not self._get_called_within_step:
            text = "To get the last value computed by the scheduler, please use `get_last_value()`."
            warnings.warn(text, UserWarning, stacklevel=2)
        return self._values()

    def get_last_value(self) -> list[Any]:
        """The values that the last step computed."""
        return self._last_value

    def update_groups(self, values: Iterable[Any]) -> None:
        """Put values into the groups."""
        # Not strict: groups that were added later have no value yet.
        for group, value in zip(self.optimizer.param_groups, values, strict=False):
            if value is not None:
                group[self.param_group_key] = value

    def update_last_value(self) -> None:
        """Keep the values for readers; within a loop, when the step is over."""
        # A traced value can be read when its step is over, and only by a closure. No checkpoint is needed for it.
        steps.closure(lambda values: self._keep(values), False)(
            [group.get(self.param_group_key) for group in self.optimizer.param_groups]
        )

    def _keep(self, values: list[Any]) -> None:
        applies = [self._applies_to(group) for group in self.optimizer.param_groups]
        self._last_value = [v if does else None for v, does in zip(values, applies, strict=True)]

    def refresh(self) -> None:
        """Compute the values from the counter, within a traced step; outside they are those of the last `step`."""
        # The value of a part is an operand of the whole's; set into the groups it could stand in place of that.
        if cells.here.current is None or self._is_part:
            return
        self._name()
        with grad_mode(False):
            self.update_groups(self._values())

    def recompute(self) -> None:
        """Put the values of the counter as it is into the groups, where those of a step have no value any more."""
        # Within a step the groups hold its nodes, and these are right.
        if cells.here.current is None and not self._is_part:
            with grad_mode(False):
                self.update_groups(self._values())

    def increment_last_epoch(self) -> None:
        """Add one to the counter, unless the optimizer's step is taken back."""
        # A step that overflowed did not happen, for the schedule as for the weights. Noted before the counter moves.
        update_if_finite(self.optimizer, self.last_epoch)
        self.last_epoch.add_(1)

    def step(self, *args: Any, **kwargs: Any) -> None:
        """Go on by one step."""
        self._step_count += 1
        # Named when it is used and not when it is made, so that schedules that a script discards take no number.
        if cells.here.current is not None:
            self._name()
        with grad_mode(False):
            self.increment_last_epoch()
            self._get_called_within_step = True
            try:
                self.update_groups(self.get())
            finally:
                self._get_called_within_step = False
            self.update_last_value()

    def parts(self) -> list[tuple[str, "Scheduler"]]:
        """The schedules it is made of, by their place."""
        return []

    def _name(self) -> None:
        """Give the counters their identity: a schedule is numbered when it is first used in a traced step."""
        if self._number is None:
            others = {s._number for s in _numbered.value}
            self._number = next(n for n in itertools.count() if n not in others)
            _numbered.value.add(self)
            self._register(f"schedulers.{self._number}")

    def _register(self, prefix: str) -> None:
        # Names by place in the tree of schedules; they stand in printed graphs and tell state apart in checkpoints.
        cells.register(self.last_epoch.cell, f"{prefix}.last_epoch")
        for place, part in self.parts():
            part._register(f"{prefix}.{place}")

    def state_dict(self) -> dict[str, Any]:
        """Settings, counter and last values; the optimizer is not among them."""
        # Everything that is no private link, as PyTorch's schedulers do: what a user's subclass adds is saved too.
        return {self.NAMES.get(k, k): v for k, v in self.__dict__.items() if k not in PARTS}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` gave, and the values of the groups with it."""
        generic = {name: k for k, name in self.NAMES.items()}
        for k, v in state_dict.items():
            # The counter is state that the graph knows, so it takes the value over and is not replaced.
            if k == "last_epoch":
                copy_(self.last_epoch, as_tensor(v))
            elif k not in PARTS:
                self.__dict__[generic.get(k, k)] = v
        self.recompute()


def _tag_set(tags: Tags) -> set[str | None] | None:
    if tags is None:
        return None
    return {tags} if isinstance(tags, str) else set(tags)


class LRScheduler(Scheduler):
    """Base of schedules of the learning rate."""

    param_group_key = "lr"
    NAMES = {
        "initial_val": "initial_learning_rate",
        "end_val": "end_learning_rate",
        "val": "learning_rate",
        "vals": "learning_rates",
        "base_val": "base_lr",
        "max_val": "max_lr",
        "adjustment_scalars": "lr_adjustment_scalars",
    }

    def __init__(self, *args: Any, **kwargs: Any):
        generic = {name: k for k, name in self.NAMES.items()}
        # Learning rates are called otherwise by keyword, and alike by position.
        super().__init__(*args, **{generic.get(k, k): v for k, v in kwargs.items()})

    def __getattr__(self, name: str) -> Any:
        # Only for what is no attribute: scripts read `initial_learning_rate` of a schedule.
        for k, mine in self.NAMES.items():
            if mine == name and k in self.__dict__:
                return self.__dict__[k]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_lr(self) -> list[Any]:
        """The rate of each group."""
        return self.get()

    def get_last_lr(self) -> list[Any]:
        """The rates that the last step computed."""
        return self.get_last_value()


class WeightDecayScheduler(Scheduler):
    """Base of schedules of weight decay."""

    param_group_key = "weight_decay"


def _adopted(whole: Scheduler, parts: Iterable[Scheduler]) -> None:
    """Make schedules parts of another: it alone sets the groups, and its counter is first."""
    for part in parts:
        part._is_part = True
    schedules = whole.optimizer.schedules
    # In place, since the optimizer's list may be held elsewhere while it is walked through.
    schedules[:] = [s for s in schedules if not s._is_part]


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

    Raises ValueError unless there is one schedule more than milestones.
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
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        super().__init__(optimizer, None, last_epoch, param_group_tags)
        _adopted(self, schedulers)

    def _get_closed_form(self) -> Tensor:
        # Every part is computed in each step, and the last milestone that was passed decides: a program without
        # branches. It costs some scalars.
        value = self._schedulers[0].value()
        for milestone, part in zip(self._milestones, self._schedulers[1:], strict=True):
            value = pw.where(self.last_epoch < milestone, value, part.value())
        return value

    def increment_last_epoch(self, *args: Any, **kwargs: Any) -> None:
        """Add one to the counter, and to those of the first part and of all that have begun."""
        super().increment_last_epoch()
        self._schedulers[0].increment_last_epoch()
        for milestone, part in zip(self._milestones, self._schedulers[1:], strict=True):
            # A part counts from its own milestone on, so that each one begins at its step 0. Its counter is state
            # like any other and held back likewise.
            update_if_finite(self.optimizer, part.last_epoch)
            part.last_epoch.add_(pw.where(self.last_epoch <= milestone, 0, 1))


def _initial_value(part: Scheduler) -> float:
    """What a schedule starts from: `initial_val` of a curve, `val` of a constant."""
    for name in ("initial_val", "val"):
        if value := getattr(part, name, 0):
            return float(value)
    raise AttributeError(f"{type(part).__name__!r} has no initial value other than 0, which a chain divides by")


class ChainedScheduler(_Compound):
    """The product of schedules; the first gives the scale, the others are taken relative to their initial value."""

    def __init__(self, schedulers: Sequence[Scheduler], param_group_tags: Tags = None):
        self._schedulers = list(schedulers)
        super().__init__(schedulers[0].optimizer, None, -1, param_group_tags)
        _adopted(self, schedulers)

    def _get_closed_form(self) -> Tensor:
        value = self._schedulers[0].value()
        for part in self._schedulers[1:]:
            # Relative to where it began, so that a chain of constants is the first one. The division comes last, in
            # the original's order.
            value = value * part.value() / _initial_value(part)
        return value

    def increment_last_epoch(self, *args: Any, **kwargs: Any) -> None:
        """Add one to the counter and to those of all parts."""
        super().increment_last_epoch()
        for part in self._schedulers:
            part.increment_last_epoch()


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
        _adopted(self, [scheduler])

    def _get_closed_form(self) -> Tensor:
        return self._scheduler.value()

    def _values(self) -> list[Any]:
        scaled = zip(super()._values(), self.adjustment_scalars, strict=True)
        # The only schedule whose groups differ, hence factors here and not in the closed form.
        return [None if value is None else value * factor for value, factor in scaled]

    def parts(self) -> list[tuple[str, Scheduler]]:
        return [("_scheduler", self._scheduler)]

    def increment_last_epoch(self, *args: Any, **kwargs: Any) -> None:
        """Add one to the counter and to that of the schedule."""
        super().increment_last_epoch()
        self._scheduler.increment_last_epoch()

    def state_dict(self) -> dict[str, Any]:
        """As of any schedule, with the state dict of the one that is scaled."""
        return {**super().state_dict(), "_scheduler": self._scheduler.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._scheduler.load_state_dict(state_dict["_scheduler"])
        super().load_state_dict(state_dict)


for _family, _module in (
    (Scheduler, "scheduler"),
    (LRScheduler, "lr_scheduler"),
    (WeightDecayScheduler, "weight_decay_scheduler"),
):
    # Signatures of other schedules name these, by their public place.
    _family.__module__ = f"cerebras.pytorch.optim.{_module}"
show(Scheduler, LRScheduler, WeightDecayScheduler)
show(ChainedScheduler, ScalePerParamScheduler, SequentialScheduler, kind=Scheduler)
