"""Hooks of optimizers: before and after steps, and for saving and loading of state dicts."""

import functools
from collections.abc import Callable
from typing import Any

from lazytensor.autograd.hooks import RemovableHandle
from lazytensor.core import source
from lazytensor.errors import LazyError

Hook = Callable[..., Any]
Step = Callable[..., Any]
EVERYWHERE: dict[str, dict[int, Hook]] = {"step_pre": {}, "step_post": {}}
"""Hooks for all optimizers, in addition to those of each optimizer. They are cleared when a run ends."""


class HookError(LazyError, RuntimeError):
    """A hook returned an invalid value."""


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Call hook(optimizer, args, kwargs) before each step of every optimizer. Return a handle that removes the hook.

    A pair (args, kwargs) that the hook returns replaces the arguments of the step.
    """
    return RemovableHandle(EVERYWHERE["step_pre"], hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Call hook(optimizer, args, kwargs) after each step of every optimizer. Return a handle that removes the hook."""
    return RemovableHandle(EVERYWHERE["step_post"], hook)


def forget() -> None:
    """Remove the hooks for all optimizers."""
    for table in EVERYWHERE.values():
        table.clear()


class Hooked:
    """Base class that calls hooks before and after `step`, and around `state_dict` and `load_state_dict`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A user's optimizer overrides `step` and rarely calls super, so wrap every `step` that a class defines. An
        # inherited one is already wrapped.
        if "step" in cls.__dict__:
            cls.step = _surrounded(cls.__dict__["step"])  # type: ignore[attr-defined]

    def _surround(self, step: Step, *args: Any, **kwargs: Any) -> Any:
        """Call a step with its hooks and return its result.

        A step that another step calls (`super().step()`) has no hooks. Hooks before the step may replace its arguments.
        Hooks after it are not called if it raises an error.
        """
        if self.__dict__.get("_is_stepping"):
            return step(self, *args, **kwargs)
        self._is_stepping = True
        try:
            self._before_step()
            given = self._before_hooks(step, (self, *args), kwargs)
            answer = step(*given[0], **given[1])
            self._call_hooks("step_post", *given)
            self._call(EVERYWHERE["step_post"], *given)
            return answer
        finally:
            self._is_stepping = False

    def _before_step(self) -> None:
        """Do nothing; a subclass may override it to act before the hooks of a step."""

    def _before_hooks(self, step: Step, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Call the hooks before a step and return (args, kwargs), which hooks may replace; args[0] is the optimizer.

        The hooks for all optimizers are called first. A hook that returns a pair replaces both for the following hooks.
        Raises HookError if a hook returns something other than None or a pair.
        """
        for hook in [*EVERYWHERE["step_pre"].values(), *self._hooks_of("step_pre").values()]:
            answer = hook(self, args, kwargs)
            if answer is None:
                continue
            if not (isinstance(answer, tuple) and len(answer) == 2):
                raise HookError(
                    f"{step} must return None or a tuple of (new_args, new_kwargs), but got {answer}.",
                    where=source.where(),
                    hint="Return None, or the pair (args, kwargs).",
                )
            args, kwargs = answer
        return args, kwargs

    # Created on demand, because an unpickled optimizer does not have it.
    def _hooks_of(self, moment: str) -> dict[int, Hook]:
        """Return the dict of hooks registered for `moment`, such as "step_pre", by id; it is created if necessary."""
        tables: dict[str, dict[int, Hook]] = self.__dict__.setdefault("_hooks", {})
        return tables.setdefault(moment, {})

    def _call(self, table: dict[int, Hook], *args: Any) -> None:
        # Iterate over a copy, because a hook may remove itself.
        for hook in list(table.values()):
            hook(self, *args)

    def _call_hooks(self, moment: str, *args: Any) -> None:
        self._call(self._hooks_of(moment), *args)

    def _through_hooks(self, moment: str, state_dict: dict[str, Any]) -> dict[str, Any]:
        """Call the hooks registered for `moment` with a state dict, in order, and return the state dict.

        Anything but None that a hook returns replaces the state dict for the following hooks.
        """
        for hook in list(self._hooks_of(moment).values()):
            answer = hook(self, state_dict)
            state_dict = state_dict if answer is None else answer
        return state_dict

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) before each step. Return a handle that removes the hook.

        A pair that the hook returns replaces args and kwargs.
        """
        return RemovableHandle(self._hooks_of("step_pre"), hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) after each step. Return a handle that removes the hook."""
        return RemovableHandle(self._hooks_of("step_post"), hook)

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer) before `state_dict`. Return a handle that removes the hook."""
        return RemovableHandle(self._hooks_of("state_dict_pre"), hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, state_dict) after `state_dict`. Return a handle that removes the hook.

        A dict that the hook returns replaces the result.
        """
        return RemovableHandle(self._hooks_of("state_dict_post"), hook)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, state_dict) before `load_state_dict`. Return a handle that removes the hook.

        A dict that the hook returns is loaded instead.
        """
        return RemovableHandle(self._hooks_of("load_state_dict_pre"), hook)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer) after `load_state_dict`. Return a handle that removes the hook."""
        return RemovableHandle(self._hooks_of("load_state_dict_post"), hook)


def _surrounded(step: Step) -> Step:
    """Return a function that calls `step` with its hooks."""

    @functools.wraps(step)
    def surrounded(self: Hooked, *args: Any, **kwargs: Any) -> Any:
        return self._surround(step, *args, **kwargs)

    return surrounded
