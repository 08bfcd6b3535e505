"""The cstorch optimizers: those of lazytensor, bound to the backend of the run and to schedules."""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from cstorch_compat.cerebras.pytorch.optim.signatures import show, signature
from cstorch_compat.files.tree import update_tensors
from cstorch_compat.run import process
from lazytensor import optim
from lazytensor.autograd.hooks import RemovableHandle
from lazytensor.core import source
from lazytensor.core.tensor import Tensor
from lazytensor.errors import StateError
from lazytensor.functional.creation import tensor

ParamsT = signature("SGD").parameters["params"].annotation
"""What optimizers take, as their signatures say it: configuration tools look for this very annotation."""
Hook = Callable[..., Any]


class Optimizer(optim.Optimizer, ABC):
    """Base of optimizers. Needs a backend, since its state belongs to the run.

    A subclass makes the state in `preinitialize` and updates the parameters in `step`.

    Schedules that were made for it compute their values anew at the beginning of each `step`; hooks are called before
    and after it, and around `zero_grad`, `state_dict` and `load_state_dict`. With `enable_global_step` each parameter
    has a piece of state `step`, which `increment_global_step` counts up.

    >>> import torch, cerebras.pytorch as cstorch
    >>> backend = cstorch.backend("CPU")
    >>> isinstance(cstorch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1), cstorch.optim.Optimizer)
    True
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any], enable_global_step: bool = False):
        # The original refuses an optimizer without a backend too: where its state lives, the backend says.
        owner = process.current_backend()
        # Before the base is initialized: it calls `preinitialize` of a user's class, which may look for these.
        # Weakly as in the original: a schedule that the script has discarded sets no rate any more.
        self._schedules: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.followers: list[Any] = []  # sparsity algorithms: their state changes with each step
        self.enable_global_step = enable_global_step
        super().__init__(params, defaults)
        if owner.is_csx:
            # Weakly: the backend holds its callbacks for as long as the run lasts.
            begin_loop = weakref.WeakMethod(self._begin_loop)
            owner.at_first_step.append(lambda: (begin_loop() or _do_nothing)())
        if enable_global_step:
            for p in self._parameters():
                # float32 as in the original, since bias corrections take powers of it; it counts exactly up to 2^24.
                self.new_state(p, "step", tensor(0.0))
            self._name_state()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_schedules": self.schedules}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._schedules = weakref.WeakValueDictionary(enumerate(state["_schedules"]))

    @property
    def schedules(self) -> list[Any]:
        """The schedules that set values in the groups, in the order in which they were made."""
        return list(self._schedules.values())

    def add_schedule(self, schedule: Any) -> None:
        """Call a schedule back before each step, behind those that were added before."""
        self._schedules[max(self._schedules, default=0) + 1] = schedule

    def remove_schedules(self, schedules: Iterable[Any]) -> None:
        """Call schedules back no more."""
        removed = {id(schedule) for schedule in schedules}
        for key in [k for k, schedule in self._schedules.items() if id(schedule) in removed]:
            del self._schedules[key]

    @abstractmethod
    def preinitialize(self) -> None:
        """Make the state of every parameter."""
        super().preinitialize()

    @abstractmethod
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter once; a closure computes the loss first, and its answer is returned."""
        return super().step(closure)

    def _take_group(self, group: dict[str, Any]) -> None:
        super()._take_group(group)
        own = self.param_groups[-1]
        # Sets, because a schedule takes part in a group that shares any tag with it.
        if own.get("tags"):
            own["tags"] = {own["tags"]} if isinstance(own["tags"], str) else set(own["tags"])

    def _begin_loop(self) -> None:
        for schedule in self.schedules:
            schedule.begin_loop()

    # Rates are computed inside of the traced step, from a counter that is state: as plain numbers they would be
    # constants of a graph that is traced once. Hooks run inside for the same reason.
    def _before_step(self) -> None:
        for schedule in self.schedules:
            schedule.refresh()

    def register_zero_grad_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) before each zero_grad."""
        return RemovableHandle(self._hooks_of("zero_grad_pre"), hook)

    def register_zero_grad_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) after each zero_grad."""
        return RemovableHandle(self._hooks_of("zero_grad_post"), hook)

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Forget the gradients, or with set_to_none=False set them to zero."""
        self._call_hooks("zero_grad_pre", args, kwargs)
        super().zero_grad(*args, **kwargs)
        self._call_hooks("zero_grad_post", args, kwargs)

    def _saved_groups(self) -> list[dict[str, Any]]:
        groups = [{**group} for group in self.param_groups]
        for schedule in self.schedules:
            schedule.put_client_values(groups)
        return groups

    def increment_global_step(self, p: Tensor) -> Tensor:
        """Count a step of a parameter, and return how many there were, as float32[].

        Raises StateError if steps are not counted.
        """
        if "step" not in self.state[p]:
            raise StateError(
                "No global step in the state of this parameter.",
                where=source.where(),
                hint="Call super().__init__(params, defaults, enable_global_step=True) in the optimizer's __init__.",
            )
        return self.state[p]["step"].add_(1)

    def visit_state(self, fn: Callable[[Tensor], Tensor | None]) -> None:
        """Call a function with every piece of state; what it returns takes the place of the values."""
        update_tensors((value for state in self.state.values() for value in state.values()), fn)

    def apply(self, f: Any) -> Any:
        """Apply a sparsity algorithm, or call a function with the optimizer. Raises TypeError for anything else."""
        # Told by what it can do, since the room of sparsity stands above this one.
        if hasattr(f, "sparsify_optimizer"):
            return f.apply(self)
        if not callable(f):
            raise TypeError(f"Expected a callable as the argument to apply. Got: {type(f)}")
        return f(self)


def _do_nothing() -> None:
    """Do nothing."""


class _RuleOptimizer(Optimizer):
    """Base of the optimizers whose update is a rule for one parameter, which the steps of lazytensor apply to all."""

    def preinitialize(self) -> None:
        """Make the state of every parameter."""
        super().preinitialize()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter once; a closure computes the loss first, and its answer is returned."""
        return super().step(closure)


# In each of these the rule of lazytensor's optimizer comes first and the base above second, so that `update` is the
# rule's and `step` the one with schedules and hooks. Their defaults are the original's and not PyTorch's: eps of
# AdamW is 1e-6, for one.
class ASGD(optim.ASGD, _RuleOptimizer):
    __doc__ = optim.ASGD.__doc__


class SGD(optim.SGD, _RuleOptimizer):
    __doc__ = optim.SGD.__doc__


class Adadelta(optim.Adadelta, _RuleOptimizer):
    __doc__ = optim.Adadelta.__doc__


class Adafactor(optim.Adafactor, _RuleOptimizer):
    __doc__ = optim.Adafactor.__doc__


class Adagrad(optim.Adagrad, _RuleOptimizer):
    __doc__ = optim.Adagrad.__doc__


class Adam(optim.Adam, _RuleOptimizer):
    __doc__ = optim.Adam.__doc__


class AdamW(optim.AdamW, _RuleOptimizer):
    __doc__ = optim.AdamW.__doc__


class Adamax(optim.Adamax, _RuleOptimizer):
    __doc__ = optim.Adamax.__doc__


class Lamb(optim.Lamb, _RuleOptimizer):
    __doc__ = optim.Lamb.__doc__


class Lion(optim.Lion, _RuleOptimizer):
    __doc__ = optim.Lion.__doc__


class Muon(optim.Muon, _RuleOptimizer):
    __doc__ = optim.Muon.__doc__


class NAdam(optim.NAdam, _RuleOptimizer):
    __doc__ = optim.NAdam.__doc__


class RAdam(optim.RAdam, _RuleOptimizer):
    __doc__ = optim.RAdam.__doc__


class RMSprop(optim.RMSprop, _RuleOptimizer):
    __doc__ = optim.RMSprop.__doc__


class Rprop(optim.Rprop, _RuleOptimizer):
    __doc__ = optim.Rprop.__doc__


show(
    Optimizer,
    ASGD,
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    AdamW,
    Adamax,
    Lamb,
    Lion,
    Muon,
    NAdam,
    RAdam,
    RMSprop,
    Rprop,
)
