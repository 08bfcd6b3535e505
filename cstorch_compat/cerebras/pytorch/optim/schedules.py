"""The base class of schedules, which compute a setting of parameter groups from a traced step counter.

The counter is state of the run, so that a step that is traced once follows the schedule. `optimizer.step` computes the
values from the counter, and `step` of the schedule increments it.
"""

import itertools
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cstorch_compat.cerebras.pytorch.amp.skipped_steps import update_if_finite
from cstorch_compat.cerebras.pytorch.optim.optimizers import Optimizer
from cstorch_compat.cerebras.pytorch.optim.signatures import show
from cstorch_compat.run import process, steps
from lazytensor.core import dtype as dt
from lazytensor.core import storage
from lazytensor.core.tensor import CPU, Tensor, grad_mode, wrap
from lazytensor.functional.creation import as_tensor, tensor
from lazytensor.functional.in_place import write_values
from lazytensor.ir.types import Type
from lazytensor.ops.op import full
from lazytensor.optim.elementwise import is_constant

Tags = str | Sequence[str | None] | None
UNSAVED = ("optimizer", "_schedulers", "_scheduler", "_number", "_assigned", "_traced", "_fetched")
"""Attributes that are not part of the state dict."""

# The set is weak, so that the number of a discarded schedule is reused. A second model in one process then names its
# state like the first.
_numbered = process.RunLocal["weakref.WeakSet[Scheduler]"](weakref.WeakSet)
"""The schedules of the run that have a number."""


class Scheduler(ABC):
    """The base class of schedules. A subclass defines `param_group_key` and `_get_closed_form`.

    `_get_closed_form` computes the value from `self.last_epoch`. Releases before 2.5 name it `_get_closed_form_lr`. On
    the CPU the values are assigned to the groups when the schedule is created. On CSX the groups keep the optimizer's
    settings until `optimizer.step` is traced.

    - `optimizer`: a `cstorch.optim.Optimizer`; others raise TypeError.
    - `total_iters`: the length of the schedule in steps, if it has one.
    - `last_epoch`: the index of the last step taken; -1 for none.
    - `param_group_tags`: apply the schedule only to groups that share one of these tags; None means all groups. Tags
      that match no group, or are repeated, raise ValueError.
    """

    # Public names of attributes by generic name. The formulas use generic names for learning rates and weight decay.
    NAMES: dict[str, str] = {}

    @property
    @abstractmethod
    def param_group_key(self) -> str:
        """Return the name of the parameter group setting that is scheduled, such as "lr"."""

    @abstractmethod
    def _get_closed_form(self) -> Any:
        """Return the value as a function of `self.last_epoch`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        older = getattr(cls, "_get_closed_form_lr", None)
        if older is not None and getattr(cls._get_closed_form, "__isabstractmethod__", False):
            cls._get_closed_form = older  # type: ignore[method-assign]

    def __init__(self, optimizer: Any, total_iters: int | None, last_epoch: int = -1, param_group_tags: Tags = None):
        # The error types and messages, including a typing error, are those of the original.
        if not hasattr(optimizer, "param_groups"):
            raise AttributeError(f"{type(optimizer).__name__!r} object has no attribute 'param_groups'")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"{type(optimizer).__name__} is not an a cstorch.optim.Optimizer\n  Pass an optimizer of cstorch.optim."
            )
        self.optimizer = optimizer
        self.param_group_tags = tag_set(param_group_tags)
        self._check_tags()
        self._last_value: list[Any] = []
        self.total_iters = total_iters
        # The index of the next step; PyTorch counts the last step taken, where -1 means none.
        self.last_epoch = tensor(last_epoch + 1, dtype=dt.int64)
        self.last_epoch.device = process.state_device()
        # PyTorch's schedulers take a step when they are created. The value is part of state dicts.
        self._step_count = 1
        self._get_called_within_step = False
        self._number: int | None = None
        # The values last assigned to the groups by this schedule.
        self._assigned: list[Any] = []
        # The traced CSX step that computed the last values, and these values in it.
        self._traced: tuple[weakref.ref[storage.ActiveCapture], list[Any]] | None = None
        self._fetched: list[Any] | None = None  # those of them that a closure fetches
        if process.use_cs():
            self._last_value = [group.get(self.param_group_key) for group in optimizer.param_groups]
        else:
            with grad_mode(False):
                self.update_groups(self._values())
            self.update_last_value()
        optimizer.add_schedule(self)

    def _check_tags(self) -> None:
        """Raise ValueError if no parameter group has a tag of this schedule."""
        groups = self.optimizer.param_groups
        if not any(self._applies_to(group) for group in groups):
            available = {tag for group in groups for tag in group.get("tags") or ()}
            raise ValueError(
                f"Scheduler {type(self).__name__} was created with `param_group_tags` {self.param_group_tags} but none "
                "of them were applied to any params groups in the optimizer. Please check the correctness of the param "
                f"group tags. Available tags: {available}."
                "\n  Give a parameter group one of these tags."
            )

    def value(self) -> Tensor:
        """Return the value at the current counter, before factors of single groups, as a scalar tensor.

        It is that of the closed form of the subclass. Unless it is a constant, it is put on the device of the run.
        """
        form = self._get_closed_form()
        value = form if isinstance(form, Tensor) else tensor(float(form))
        # A tensor constant that the script creates in its closed form is on the client.
        if not is_constant(value):
            value.device = process.state_device()
        return value

    def _values(self) -> list[Any]:
        value = self.value()
        return [value if self._applies_to(group) else None for group in self.optimizer.param_groups]

    def _applies_to(self, group: dict[str, Any]) -> bool:
        tags = self.param_group_tags
        # A group without tags counts as tagged None, so that a schedule can select the untagged groups.
        return tags is None or not tags.isdisjoint(group.get("tags") or {None})

    def get(self) -> list[Any]:
        """Return the value for each group at `last_epoch`, or None for a group to which the schedule does not apply.

        Outside of `step` it issues a UserWarning, because the value may be one step ahead of the last one used.
        """
        if not self._get_called_within_step:
            text = "To get the last value computed by the scheduler, please use `get_last_value()`."
            warnings.warn(text, UserWarning, stacklevel=2)
        return self._values()

    def get_last_value(self) -> list[Any]:
        """Return the value for each group after the last `step`, as a list.

        Groups to which the schedule does not apply have None. On CSX the values are tensors of the traced step inside
        the traced function and the loop. In step closures and after the loop they are values on the client. Before the
        first `optimizer.step` they are the optimizer's settings.
        """
        epoch = storage.thread_state.current
        if self._traced is not None and epoch is not None and self._traced[0]() is epoch:
            return self._traced[1]
        return self._last_value

    def update_groups(self, values: Iterable[Any]) -> None:
        """Assign `values`, one for each group, to the scheduled setting. None leaves a group unchanged.

        The values are also recorded, so that a setting changed by the script can be recognized. Groups without a value,
        and values without a group, are ignored.
        """
        self._assigned = list(values)
        # Groups that were added later have no value yet.
        for group, value in zip(self.optimizer.param_groups, self._assigned, strict=False):
            if value is not None:
                group[self.param_group_key] = value

    def update_last_value(self) -> None:
        """Set the last values to those in the groups. On CSX the client receives them when the step has run."""
        self._note_last_value()
        if self._traced is not None:
            self._fetch_last_value()

    def _note_last_value(self) -> None:
        """Set the last values to those in the groups, with None for groups to which the schedule does not apply.

        On CSX inside a traced step, also record that the values belong to this step; otherwise forget such a record.
        """
        groups, key = self.optimizer.param_groups, self.param_group_key
        self._last_value = [group.get(key) if self._applies_to(group) else None for group in groups]
        epoch = storage.thread_state.current
        self._traced = None
        if epoch is not None and process.use_cs():
            self._traced = weakref.ref(epoch), self._last_value

    def _fetch_last_value(self) -> None:
        """Add a step closure that replaces the last values of the traced step by their values on the client.

        The replacement happens when the step has run and its results are available.
        """
        self._fetched = self._last_value

        # As in the original, the program's outputs are named after the closure's parameter.
        def keep_last_value(values: list[Any]) -> None:
            self._last_value = values

        steps.make_closure(keep_last_value, needs_checkpoint=False)(self._last_value)

    def _fetch_unfetched(self) -> None:
        """Fetch the last values of the traced step, unless a call of the schedule's `step` has done so."""
        if self._traced is not None and self._fetched is not self._traced[1]:
            self._fetch_last_value()

    def refresh(self) -> None:
        """Compute the values from the counter before an optimizer step, and assign them to the groups.

        On CSX the values are always assigned, and the last values are updated. On the CPU they are assigned only in a
        traced step. There a setting that the script has changed or loaded since the last `step` of the schedule is
        kept, as in PyTorch. A traced step also registers the counter as state of the run.
        """
        epoch = storage.thread_state.current
        if epoch is not None:
            self._name()
        if process.use_cs():
            with grad_mode(False):
                self.update_groups(self._values())
            self._note_last_value()
            if epoch is not None:
                epoch.run_at_end(self._fetch_unfetched)
        elif epoch is not None:
            # The values in the groups are correct, but as inputs of the step they would be new tensors in each step.
            with grad_mode(False):
                self._reassign(self._values())

    def _reassign(self, values: list[Any]) -> None:
        """Assign `values` to the groups whose setting is still the value that this schedule assigned; leave the others.

        Later, only the values assigned here count as those of the schedule.
        """
        kept = self._are_assigned()
        self._assigned = [value if is_kept else None for value, is_kept in zip(values, kept, strict=False)]
        for group, value in zip(self.optimizer.param_groups, self._assigned, strict=False):
            if value is not None:
                group[self.param_group_key] = value

    def _are_assigned(self) -> list[bool]:
        """Return for each group whether its setting is the value that this schedule assigned.

        Values are compared by identity, so an equal value that the script assigned gives False. A group without an
        assigned value gives False.
        """
        pairs = zip(self.optimizer.param_groups, self._assigned, strict=False)
        return [value is not None and group.get(self.param_group_key) is value for group, value in pairs]

    def put_client_values(self, groups: Sequence[dict[str, Any]]) -> None:
        """Replace, in `groups`, the values that this schedule assigned to its optimizer by those on the client.

        Settings that the script changed are kept. `groups` are the parameter groups or copies of them, and are changed
        in place.
        """
        for group, is_assigned, value in zip(groups, self._are_assigned(), self.get_last_value(), strict=False):
            if is_assigned:
                group[self.param_group_key] = value

    def begin_loop(self) -> None:
        """Convert the settings of the groups to scalar tensors whose values can be read.

        Values that this schedule assigned are replaced by those on the client. The last values are converted too. On
        CSX the settings have this form until the first step.
        """
        self.put_client_values(self.optimizer.param_groups)
        for group in self.optimizer.param_groups:
            group[self.param_group_key] = _setting(group.get(self.param_group_key))
        self._last_value = [_setting(v) if isinstance(v, Tensor) else v for v in self._last_value]

    def increment_last_epoch(self) -> None:
        """Add one to the counter, unless a gradient scaler undoes the optimizer's step."""
        Scheduler.advance(self, 1)

    def advance(self, by: Any) -> None:
        """Add `by`, a number or an integer tensor, to the counter in place.

        If a dynamic gradient scaler undoes the optimizer's step in a traced step, the counter is restored at its end.
        """
        # A step that overflowed does not count. Register the counter before it changes.
        update_if_finite(self.optimizer, self.last_epoch)
        self.last_epoch.add_(by)

    def step(self, *args: Any, **kwargs: Any) -> None:
        """Advance the counter by one step, and assign the new values to the parameter groups.

        The last values are updated too. Arguments are ignored.
        """
        self._step_count += 1
        # The schedule is numbered at its first use, so that discarded schedules take no number.
        if storage.thread_state.current is not None:
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
        """Return the schedules that this schedule contains, as pairs of attribute path and schedule."""
        return []

    def _name(self) -> None:
        """Register the counters as state of the run, under the smallest number that no other schedule has.

        A schedule is numbered when it is first used in a traced step. Later calls have no effect.
        """
        if self._number is None:
            others = {s._number for s in _numbered.value}
            self._number = next(n for n in itertools.count() if n not in others)
            _numbered.value.add(self)
            self._register(f"schedulers.{self._number}")

    def _register(self, prefix: str) -> None:
        # Names follow the tree of schedules. They appear in printed graphs and identify state in checkpoints.
        storage.register(self.last_epoch.cell, f"{prefix}.last_epoch")
        for place, part in self.parts():
            part._number = self._number
            part._register(f"{prefix}.{place}")

    def __getstate__(self) -> dict[str, Any]:
        # A copy belongs to no traced step.
        return {**self.__dict__, "_last_value": self.get_last_value(), "_traced": None, "_fetched": None}

    def state_dict(self) -> dict[str, Any]:
        """Return the settings, the counter and the last values by name. The optimizer is not included."""
        # As in PyTorch, all attributes except links to other objects are saved, including those of a user's subclass.
        saved = {self.NAMES.get(k, k): v for k, v in self.__dict__.items() if k not in UNSAVED}
        return {**saved, "_last_value": self.get_last_value()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state returned by `state_dict`, except for the count of `step` calls.

        The counter is overwritten in place; other entries become attributes, also unknown ones. The parameter groups do
        not change, because the optimizer's state dict holds their values.
        """
        generic = {name: k for k, name in self.NAMES.items()}
        for k, v in state_dict.items():
            # The traced graph refers to the counter, so its value is overwritten in place.
            if k == "last_epoch":
                write_values(self.last_epoch, as_tensor(v))
            elif k not in (*UNSAVED, "_step_count"):
                self.__dict__[generic.get(k, k)] = v
        self._assigned, self._traced = [], None


def constant(value: Any) -> Tensor:
    """Return a number, or the value of a scalar tensor, as a new scalar tensor on the device of the run.

    In a traced step on CSX its value cannot be read.
    """
    array, dtype = _on_client(value)
    if not process.use_cs():
        return tensor(array, dtype=dtype)
    number = wrap(full(array.item(), Type((), dtype)))
    number.device = process.state_device()
    return number


def _on_client(value: Any) -> tuple[np.ndarray, dt.DType]:
    """Return the array and the dtype of a number or of a tensor on the client, even inside a traced step."""
    arrays: list[np.ndarray] = []
    source = as_tensor(value)
    # Inside the step, a tensor created outside is state without a value.
    storage.run_outside_capture(lambda: arrays.append(source.array()))
    return arrays[0], source.dtype


def _setting(value: Any) -> Any:
    """Return a group setting as a scalar tensor whose value a traced step can read.

    Numbers become float32 or int32. Other objects and tensors that are not on the CPU are returned unchanged.
    """
    if isinstance(value, int | float):
        return tensor(value, dtype=dt.float32 if isinstance(value, float) else dt.int32)
    if not isinstance(value, Tensor) or value.device.type != CPU.type:
        return value
    array, dtype = _on_client(value)
    return tensor(array, dtype=dtype)


def tag_set(tags: Tags) -> set[str | None] | None:
    """Return tags as a set, or None for None. Text is a single tag.

    Raises ValueError if a sequence repeats a tag.
    """
    if tags is None or isinstance(tags, str):
        return None if tags is None else {tags}
    if len(set(tags)) != len(tags):
        raise ValueError(f"`param_group_tags` contains duplicate values. Tag list: {tags}.\n  List each tag once.")
    return set(tags)


class LRScheduler(Scheduler):
    """The base class of schedules of the learning rate, "lr".

    Its keyword arguments and attributes have the names in `NAMES`, such as `initial_learning_rate` for `initial_val`.
    """

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
        # Translate keyword arguments from the public to the generic names.
        super().__init__(*args, **{generic.get(k, k): v for k, v in kwargs.items()})

    def __getattr__(self, name: str) -> Any:
        # Called only for missing attributes. Scripts read public names such as `initial_learning_rate`.
        for k, mine in self.NAMES.items():
            if mine == name and k in self.__dict__:
                return self.__dict__[k]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def get_lr(self) -> list[Any]:
        """Return the learning rate for each group at `last_epoch`, as `get`."""
        return self.get()

    def get_last_lr(self) -> list[Any]:
        """Return the learning rate for each group after the last `step`, as `get_last_value`."""
        return self.get_last_value()


class WeightDecayScheduler(Scheduler):
    """The base class of schedules of the setting "weight_decay"."""

    param_group_key = "weight_decay"


for _family, _module in (
    (Scheduler, "scheduler"),
    (LRScheduler, "lr_scheduler"),
    (WeightDecayScheduler, "weight_decay_scheduler"),
):
    # Signatures of other schedules show these classes with their public module path.
    _family.__module__ = f"cerebras.pytorch.optim.{_module}"
show(Scheduler, LRScheduler, WeightDecayScheduler)
