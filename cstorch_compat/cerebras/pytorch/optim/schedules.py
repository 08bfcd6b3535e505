"""Schedules: settings of an optimizer's groups as closed forms of a traced step counter.

The counter is state of the run, so that a step that is traced once follows the schedule: at the beginning of
`optimizer.step` the values are computed from it, and `step` adds one.
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
"""Attributes that are not entries of the state dict."""

# Weak: a schedule that is gone gives its number back, and a second model in one process names its state as the first.
_numbered = process.RunLocal["weakref.WeakSet[Scheduler]"](weakref.WeakSet)


class Scheduler(ABC):
    """Base of schedules. A subclass sets `param_group_key` and returns the value from `_get_closed_form`.

    `_get_closed_form` computes the value from `self.last_epoch`; releases before 2.5 call it `_get_closed_form_lr`.
    A schedule applies to the groups that share a tag with `param_group_tags`, or to all groups without it.

    On the CPU the groups have their first values when the schedule is made. On CSX they keep what the optimizer was
    given until `optimizer.step` is traced. Raises TypeError for an optimizer of another kind, and ValueError if the
    tags fit no group or are given twice.
    """

    # Names of attributes as this family of schedules shows them; the closed forms are written once, over generic
    # names, for learning rates and weight decay.
    NAMES: dict[str, str] = {}

    @property
    @abstractmethod
    def param_group_key(self) -> str:
        """The setting of the groups that is scheduled."""

    @abstractmethod
    def _get_closed_form(self) -> Any:
        """Return the value as a function of `self.last_epoch`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        older = getattr(cls, "_get_closed_form_lr", None)
        if older is not None and getattr(cls._get_closed_form, "__isabstractmethod__", False):
            cls._get_closed_form = older  # type: ignore[method-assign]

    def __init__(self, optimizer: Any, total_iters: int | None, last_epoch: int = -1, param_group_tags: Tags = None):
        # The kinds of errors and the words, with their slip, are the original's, which asks for the groups first.
        if not hasattr(optimizer, "param_groups"):
            raise AttributeError(f"{type(optimizer).__name__!r} object has no attribute 'param_groups'")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an a cstorch.optim.Optimizer")
        self.optimizer = optimizer
        self.param_group_tags = tag_set(param_group_tags)
        self._check_tags()
        self._last_value: list[Any] = []
        self.total_iters = total_iters
        # The next step to compute, as PyTorch's schedulers count: -1 means that none was.
        self.last_epoch = tensor(last_epoch + 1, dtype=dt.int64)
        self.last_epoch.device = process.state_device()
        # As PyTorch's, whose schedulers take a step when they are made; it stands in state dicts.
        self._step_count = 1
        self._get_called_within_step = False
        self._number: int | None = None
        # The values that this schedule assigned to the groups last.
        self._assigned: list[Any] = []
        # The traced step of CSX that computed the last values, and these values within it.
        self._traced: tuple[weakref.ref[storage.ActiveCapture], list[Any]] | None = None
        self._fetched: list[Any] | None = None  # those of them that a closure waits for
        if process.use_cs():
            self._last_value = [group.get(self.param_group_key) for group in optimizer.param_groups]
        else:
            with grad_mode(False):
                self.update_groups(self._values())
            self.update_last_value()
        optimizer.add_schedule(self)

    def _check_tags(self) -> None:
        """Raise ValueError if no group has a tag of this schedule."""
        groups = self.optimizer.param_groups
        if not any(self._applies_to(group) for group in groups):
            available = {tag for group in groups for tag in group.get("tags") or ()}
            raise ValueError(
                f"Scheduler {type(self).__name__} was created with `param_group_tags` {self.param_group_tags} but none "
                "of them were applied to any params groups in the optimizer. Please check the correctness of the param "
                f"group tags. Available tags: {available}."
            )

    def value(self) -> Tensor:
        """Return the value for groups without a factor of their own: 0-d, on the device of the run."""
        form = self._get_closed_form()
        value = form if isinstance(form, Tensor) else tensor(float(form))
        # A constant that the script makes in its closed form is on the client.
        if not is_constant(value):
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
        """Return the value of each group at `last_epoch`; None for groups that the schedule does not apply to.

        Warns outside of `step`: the value may be one step ahead of what was used.
        """
        if not self._get_called_within_step:
            text = "To get the last value computed by the scheduler, please use `get_last_value()`."
            warnings.warn(text, UserWarning, stacklevel=2)
        return self._values()

    def get_last_value(self) -> list[Any]:
        """Return the value of each group after the last `step`; None for groups that the schedule does not apply to.

        On CSX these are tensors of the traced step in the traced function and in the loop, and numbers that came to
        the client in closures and after the loop. Before the first `optimizer.step` they are the optimizer's settings.
        """
        epoch = storage.thread_state.current
        if self._traced is not None and epoch is not None and self._traced[0]() is epoch:
            return self._traced[1]
        return self._last_value

    def update_groups(self, values: Iterable[Any]) -> None:
        """Assign `values` to the groups; None leaves a group as it is."""
        self._assigned = list(values)
        # Not strict: groups that were added later have no value yet.
        for group, value in zip(self.optimizer.param_groups, self._assigned, strict=False):
            if value is not None:
                group[self.param_group_key] = value

    def update_last_value(self) -> None:
        """Make the values in the groups the last ones; on CSX the client has them when the step has run."""
        self._note_last_value()
        if self._traced is not None:
            self._fetch_last_value()

    def _note_last_value(self) -> None:
        """Make the values in the groups the last ones, as tensors of the step if one is traced on CSX."""
        groups, key = self.optimizer.param_groups, self.param_group_key
        self._last_value = [group.get(key) if self._applies_to(group) else None for group in groups]
        epoch = storage.thread_state.current
        self._traced = None
        if epoch is not None and process.use_cs():
            self._traced = weakref.ref(epoch), self._last_value

    def _fetch_last_value(self) -> None:
        """Have a closure make the last values of the traced step numbers, when the step has run."""
        self._fetched = self._last_value

        # The program's outputs are named after the parameter, as in the original.
        def keep_last_value(values: list[Any]) -> None:
            self._last_value = values

        steps.make_closure(keep_last_value, needs_checkpoint=False)(self._last_value)

    def _fetch_unfetched(self) -> None:
        """Fetch the last values of the step unless they are fetched: the script has not called `step` since."""
        if self._traced is not None and self._fetched is not self._traced[1]:
            self._fetch_last_value()

    def refresh(self) -> None:
        """Compute the values from the counter, before a step of the optimizer.

        On CSX they are assigned to the groups in any case. On the CPU a value that was assigned or loaded since the
        last `step` of the schedule stays, as in PyTorch.
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
            # The values in the groups are right. As inputs of the step they would be other ones in each step.
            with grad_mode(False):
                self._reassign(self._values())

    def _reassign(self, values: list[Any]) -> None:
        """Assign `values` to the groups that still have what this schedule assigned to them."""
        kept = self._are_assigned()
        self._assigned = [value if is_kept else None for value, is_kept in zip(values, kept, strict=False)]
        for group, value in zip(self.optimizer.param_groups, self._assigned, strict=False):
            if value is not None:
                group[self.param_group_key] = value

    def _are_assigned(self) -> list[bool]:
        """Return of each group whether it has the value that this schedule assigned to it."""
        pairs = zip(self.optimizer.param_groups, self._assigned, strict=False)
        return [value is not None and group.get(self.param_group_key) is value for group, value in pairs]

    def put_client_values(self, groups: Sequence[dict[str, Any]]) -> None:
        """Replace the values that this schedule assigned to its optimizer by those on the client, in `groups`."""
        for group, is_assigned, value in zip(groups, self._are_assigned(), self.get_last_value(), strict=False):
            if is_assigned:
                group[self.param_group_key] = value

    def begin_loop(self) -> None:
        """Make the settings of the groups 0-d tensors with a value, as on CSX they are until the first step."""
        self.put_client_values(self.optimizer.param_groups)
        for group in self.optimizer.param_groups:
            group[self.param_group_key] = _setting(group.get(self.param_group_key))
        self._last_value = [_setting(v) if isinstance(v, Tensor) else v for v in self._last_value]

    def increment_last_epoch(self) -> None:
        """Add one to the counter, unless the optimizer's step is taken back."""
        Scheduler.advance(self, 1)

    def advance(self, by: Any) -> None:
        """Add to the counter, unless the optimizer's step is taken back."""
        # A step that overflowed did not happen, for the schedule as for the weights. Noted before the counter moves.
        update_if_finite(self.optimizer, self.last_epoch)
        self.last_epoch.add_(by)

    def step(self, *args: Any, **kwargs: Any) -> None:
        """Go on by one step."""
        self._step_count += 1
        # Named when it is used and not when it is made, so that schedules that a script discards take no number.
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
        storage.register(self.last_epoch.cell, f"{prefix}.last_epoch")
        for place, part in self.parts():
            part._number = self._number
            part._register(f"{prefix}.{place}")

    def __getstate__(self) -> dict[str, Any]:
        # A copy is of no step.
        return {**self.__dict__, "_last_value": self.get_last_value(), "_traced": None, "_fetched": None}

    def state_dict(self) -> dict[str, Any]:
        """Return settings, counter and last values; the optimizer is not among them."""
        # Everything that is no private link, as PyTorch's schedulers do: what a user's subclass adds is saved too.
        saved = {self.NAMES.get(k, k): v for k, v in self.__dict__.items() if k not in UNSAVED}
        return {**saved, "_last_value": self.get_last_value()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore what `state_dict` returned, except for the count of steps.

        The groups stay as they are: the optimizer's state dict has their values.
        """
        generic = {name: k for k, name in self.NAMES.items()}
        for k, v in state_dict.items():
            # The counter is state that the graph knows, so it takes the value over and is not replaced.
            if k == "last_epoch":
                write_values(self.last_epoch, as_tensor(v))
            elif k not in (*UNSAVED, "_step_count"):
                self.__dict__[generic.get(k, k)] = v
        self._assigned, self._traced = [], None


def constant(value: Any) -> Tensor:
    """Return a number as a tensor on the device of the run: within a traced step of CSX it has no value to read."""
    array, dtype = _on_client(value)
    if not process.use_cs():
        return tensor(array, dtype=dtype)
    number = wrap(full(array.item(), Type((), dtype)))
    number.device = process.state_device()
    return number


def _on_client(value: Any) -> tuple[np.ndarray, dt.DType]:
    """Return the array and the type of a number or of a tensor that is on the client, also within a traced step."""
    arrays: list[np.ndarray] = []
    source = as_tensor(value)
    # Within the step a tensor from outside is state, which has no value.
    storage.run_outside_capture(lambda: arrays.append(source.array()))
    return arrays[0], source.dtype


def _setting(value: Any) -> Any:
    """Return a setting of a group as a 0-d tensor whose value a traced step can read; others as they are."""
    if isinstance(value, int | float):
        return tensor(value, dtype=dt.float32 if isinstance(value, float) else dt.int32)
    if not isinstance(value, Tensor) or value.device.type != CPU.type:
        return value
    array, dtype = _on_client(value)
    return tensor(array, dtype=dtype)


def tag_set(tags: Tags) -> set[str | None] | None:
    """Return tags as a set; None for none. Raises ValueError for a tag that is given twice."""
    if tags is None or isinstance(tags, str):
        return None if tags is None else {tags}
    if len(set(tags)) != len(tags):
        raise ValueError(f"`param_group_tags` contains duplicate values. Tag list: {tags}.")
    return set(tags)


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


for _family, _module in (
    (Scheduler, "scheduler"),
    (LRScheduler, "lr_scheduler"),
    (WeightDecayScheduler, "weight_decay_scheduler"),
):
    # Signatures of other schedules name these, by their public place.
    _family.__module__ = f"cerebras.pytorch.optim.{_module}"
show(Scheduler, LRScheduler, WeightDecayScheduler)
