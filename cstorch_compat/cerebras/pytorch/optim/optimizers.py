"""The optimizers of `cerebras.pytorch.optim`: those of `lazytensor.optim`, with a backend, schedules and hooks."""

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
"""The annotation of `params` in the signatures of optimizers, which configuration tools compare by equality."""
Hook = Callable[..., Any]


class Optimizer(optim.Optimizer, ABC):
    """The base class of optimizers. The constructor raises RuntimeError if there is no backend.

    A subclass creates its state in `preinitialize` and updates the parameters in `step`. At the beginning of each
    `step`, the schedules of this optimizer compute their values. Hooks are called before and after `step`, `zero_grad`,
    `state_dict` and `load_state_dict`. With `enable_global_step`, each parameter has a state tensor "step", which
    `increment_global_step` increments.

    >>> import torch, cerebras.pytorch as cstorch
    >>> backend = cstorch.backend("CPU")
    >>> isinstance(cstorch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1), cstorch.optim.Optimizer)
    True
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any], enable_global_step: bool = False):
        # The state belongs to the device of the backend, so the original raises an error without one too.
        owner = process.current_backend()
        # Set before the base class is initialized, because it calls `preinitialize` of subclasses, which may read
        # these. The references are weak, as in the original: a schedule that the script discards has no effect any
        # more.
        self._schedules: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.followers: list[Any] = []  # sparsity algorithms, whose state changes with each step
        self.enable_global_step = enable_global_step
        super().__init__(params, defaults)
        if owner.is_csx:
            # The backend keeps its callbacks for the whole run, so the reference to this optimizer is weak.
            begin_loop = weakref.WeakMethod(self._begin_loop)
            owner.at_first_step.append(lambda: (begin_loop() or _do_nothing)())
        if enable_global_step:
            for p in self._parameters():
                # float32 as in the original, because bias corrections compute powers of it. It counts exactly up to
                # 2^24.
                self.new_state(p, "step", tensor(0.0))
            self._name_state()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_schedules": self.schedules}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._schedules = weakref.WeakValueDictionary(enumerate(state["_schedules"]))

    @property
    def schedules(self) -> list[Any]:
        """Return the schedules that set values in the parameter groups, in the order of creation."""
        return list(self._schedules.values())

    def add_schedule(self, schedule: Any) -> None:
        """Register a schedule to be updated before each step, after those registered before.

        The reference to it is weak.
        """
        self._schedules[max(self._schedules, default=0) + 1] = schedule

    def remove_schedules(self, schedules: Iterable[Any]) -> None:
        """Unregister schedules, so that they are not updated before steps any more.

        They are compared by identity. Schedules that are not registered are ignored.
        """
        removed = {id(schedule) for schedule in schedules}
        for key in [k for k, schedule in self._schedules.items() if id(schedule) in removed]:
            del self._schedules[key]

    @abstractmethod
    def preinitialize(self) -> None:
        """Create the state of every parameter."""
        super().preinitialize()

    @abstractmethod
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter once.

        If `closure` is given, call it first to compute the loss, and return its result.
        """
        return super().step(closure)

    def _take_group(self, group: dict[str, Any]) -> None:
        super()._take_group(group)
        own = self.param_groups[-1]
        # A set, because a schedule applies to each group that shares a tag with it.
        if own.get("tags"):
            own["tags"] = {own["tags"]} if isinstance(own["tags"], str) else set(own["tags"])

    def _begin_loop(self) -> None:
        for schedule in self.schedules:
            schedule.begin_loop()

    # Values of schedules are computed inside the traced step, from a counter that is state of the run. As Python
    # numbers they would be constants of the traced graph. Hooks run inside the step for the same reason.
    def _before_step(self) -> None:
        for schedule in self.schedules:
            schedule.refresh()

    def register_zero_grad_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Register `hook(optimizer, args, kwargs)` to be called before each `zero_grad`.

        Returns a handle with `remove()`.
        """
        return RemovableHandle(self._hooks_of("zero_grad_pre"), hook)

    def register_zero_grad_post_hook(self, hook: Hook) -> RemovableHandle:
        """Register `hook(optimizer, args, kwargs)` to be called after each `zero_grad`.

        Returns a handle with `remove()`.
        """
        return RemovableHandle(self._hooks_of("zero_grad_post"), hook)

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Set the gradients of all parameters to None, or to zero with `set_to_none=False`.

        The registered hooks run before and after.
        """
        self._call_hooks("zero_grad_pre", args, kwargs)
        super().zero_grad(*args, **kwargs)
        self._call_hooks("zero_grad_post", args, kwargs)

    def _saved_groups(self) -> list[dict[str, Any]]:
        groups = [{**group} for group in self.param_groups]
        for schedule in self.schedules:
            schedule.put_client_values(groups)
        return groups

    def increment_global_step(self, p: Tensor) -> Tensor:
        """Add one in place to the step counter of parameter `p`, and return the counter itself, a float32 scalar.

        Raises StateError if the optimizer was created without `enable_global_step`.
        """
        if "step" not in self.state[p]:
            raise StateError(
                "No global step in the state of this parameter.",
                where=source.where(),
                hint="Call super().__init__(params, defaults, enable_global_step=True) in the optimizer's __init__.",
            )
        return self.state[p]["step"].add_(1)

    def visit_state(self, fn: Callable[[Tensor], Tensor | None]) -> None:
        """Call `fn` with every state tensor. If it returns a tensor, copy that tensor's values into the state."""
        update_tensors((value for state in self.state.values() for value in state.values()), fn)

    def apply(self, f: Any) -> Any:
        """Apply a sparsity algorithm to this optimizer, or call `f(self)` and return its result.

        Raises TypeError if `f` is neither a sparsity algorithm nor callable.
        """
        # Detect the algorithm by its method, because this module must not import the `sparse` package.
        if hasattr(f, "sparsify_optimizer"):
            return f.apply(self)
        if not callable(f):
            raise TypeError(
                f"Expected a callable as the argument to apply. Got: {type(f)}\n  Pass a function of a tensor."
            )
        return f(self)


def _do_nothing() -> None:
    """Do nothing."""


class _RuleOptimizer(Optimizer):
    """The base class of optimizers whose update rule comes from `lazytensor.optim`."""

    def preinitialize(self) -> None:
        """Create the state of every parameter."""
        super().preinitialize()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter once.

        If `closure` is given, call it first to compute the loss, and return its result.
        """
        return super().step(closure)


# In each class below, the first base provides `update` and the second `step` with schedules and hooks. The defaults are
# those of the original and not PyTorch's: for example, eps of AdamW is 1e-6.
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
