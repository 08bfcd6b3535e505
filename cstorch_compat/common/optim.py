"""The cstorch optimizers: those of lazytensor, bound to the backend of the run and to schedules."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from cstorch_compat import run
from cstorch_compat.common.tree import visit
from lazytensor import optim
from lazytensor.functions.creation import tensor
from lazytensor.gradients import Handle
from lazytensor.tensor import Tensor


class Optimizer(optim.Optimizer):
    """Base of optimizers. Needs a backend, since its state belongs to the run.

    Schedules that were made for it compute their values anew at the beginning of each `step`; hooks are called before
    and after it.
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any], enable_global_step: bool = False):
        run.current_backend()
        self.schedules: list[Any] = []
        self.followers: list[Any] = []  # sparsity algorithms: their state changes with each step
        self._step_pre_hooks: dict[int, Callable] = {}
        self._step_post_hooks: dict[int, Callable] = {}
        self._is_stepping = False
        self.enable_global_step = enable_global_step
        super().__init__(params, defaults)
        if enable_global_step:
            for p in self._parameters():
                self.new_state(p, "global_step", tensor(0.0))
            self._name_state()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _scheduled(cls.__dict__["step"])  # type: ignore[method-assign]

    def _take_group(self, group: dict[str, Any]) -> None:
        super()._take_group(group)
        taken = self.param_groups[-1]
        if taken.get("tags"):
            taken["tags"] = {taken["tags"]} if isinstance(taken["tags"], str) else set(taken["tags"])

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter once, with the values that the schedules have now."""
        return self._surround(super().step, closure)

    def _surround(self, step: Callable, *args: Any, **kwargs: Any) -> Any:
        """Run a step after its schedules and between its hooks; a step inside another one is part of it."""
        if self._is_stepping:
            return step(*args, **kwargs)
        self._is_stepping = True
        try:
            for schedule in self.schedules:
                schedule.refresh()
            for hook in list(self._step_pre_hooks.values()):
                hook(self, args, kwargs)
            answer = step(*args, **kwargs)
            for hook in list(self._step_post_hooks.values()):
                hook(self, args, kwargs)
            return answer
        finally:
            self._is_stepping = False

    def register_step_pre_hook(self, hook: Callable) -> Handle:
        """Call hook(optimizer, args, kwargs) before each step."""
        return Handle(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> Handle:
        """Call hook(optimizer, args, kwargs) after each step."""
        return Handle(self._step_post_hooks, hook)

    def state_dict(self) -> dict[str, Any]:
        """State by the number of the parameter, and the settings of the groups as the schedules have them now."""
        for schedule in self.schedules:
            schedule.recompute()
        return super().state_dict()

    def increment_global_step(self, p: Tensor) -> None:
        """Count a step of a parameter, if steps are counted."""
        if "global_step" in self.state[p]:
            self.state[p]["global_step"].add_(1)  # type: ignore[attr-defined]

    def visit_state(self, fn: Callable[[Tensor], Tensor | None]) -> None:
        """Call a function with every piece of state; what it returns takes the place of the values."""
        visit((value for state in self.state.values() for value in state.values()), fn)

    def apply(self, f: Any) -> Any:
        """Apply a sparsity algorithm, or call a function with the optimizer. Raises TypeError for anything else."""
        if hasattr(f, "sparsify_optimizer"):
            return f.apply(self)
        if not callable(f):
            raise TypeError(f"Expected a callable as the argument to apply. Got: {type(f)}")
        return f(self)


def _scheduled(step: Callable) -> Callable:
    """A step of a user's optimizer, with its schedules and hooks."""

    @functools.wraps(step)
    def scheduled(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        return self._surround(functools.partial(step, self), *args, **kwargs)

    return scheduled


class ASGD(optim.ASGD, Optimizer):
    __doc__ = optim.ASGD.__doc__


class SGD(optim.SGD, Optimizer):
    __doc__ = optim.SGD.__doc__


class Adadelta(optim.Adadelta, Optimizer):
    __doc__ = optim.Adadelta.__doc__


class Adafactor(optim.Adafactor, Optimizer):
    __doc__ = optim.Adafactor.__doc__


class Adagrad(optim.Adagrad, Optimizer):
    __doc__ = optim.Adagrad.__doc__


class Adam(optim.Adam, Optimizer):
    __doc__ = optim.Adam.__doc__


class AdamW(optim.AdamW, Optimizer):
    __doc__ = optim.AdamW.__doc__


class Adamax(optim.Adamax, Optimizer):
    __doc__ = optim.Adamax.__doc__


class Lamb(optim.Lamb, Optimizer):
    __doc__ = optim.Lamb.__doc__


class Lion(optim.Lion, Optimizer):
    __doc__ = optim.Lion.__doc__


class Muon(optim.Muon, Optimizer):
    __doc__ = optim.Muon.__doc__


class NAdam(optim.NAdam, Optimizer):
    __doc__ = optim.NAdam.__doc__


class RAdam(optim.RAdam, Optimizer):
    __doc__ = optim.RAdam.__doc__


class RMSprop(optim.RMSprop, Optimizer):
    __doc__ = optim.RMSprop.__doc__


class Rprop(optim.Rprop, Optimizer):
    __doc__ = optim.Rprop.__doc__
