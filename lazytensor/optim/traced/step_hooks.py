"""Hooks of optimizers: around each step, and around state dicts on their way out and in."""

import functools
from collections.abc import Callable
from typing import Any

from lazytensor.autograd.hooks import RemovableHandle
from lazytensor.core import source
from lazytensor.errors import LazyError

Hook = Callable[..., Any]
Step = Callable[..., Any]
EVERYWHERE: dict[str, dict[int, Hook]] = {"step_pre": {}, "step_post": {}}
"""Hooks of all optimizers, around those of each; a run begins without any."""


class HookError(LazyError, RuntimeError):
    """What a hook answered cannot be used."""


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Call hook(optimizer, args, kwargs) before each step of every optimizer."""
    return RemovableHandle(EVERYWHERE["step_pre"], hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Call hook(optimizer, args, kwargs) after each step of every optimizer."""
    return RemovableHandle(EVERYWHERE["step_post"], hook)


def forget() -> None:
    """Take all hooks of all optimizers away."""
    for table in EVERYWHERE.values():
        table.clear()


class Hooked:
    """What has hooks around its steps: the base of optimizers."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A user's optimizer overrides `step` and seldom calls super, so hooks are put around whatever a class defines
        # itself. What it inherits is surrounded already.
        if "step" in cls.__dict__:
            cls.step = _surrounded(cls.__dict__["step"])  # type: ignore[attr-defined]

    def _surround(self, step: Step, *args: Any, **kwargs: Any) -> Any:
        """Run a step between its hooks; a step inside another one, by `super().step()`, is part of it."""
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
        """What comes before the hooks of a step: nothing, here."""

    def _before_hooks(self, step: Step, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments after the hooks that may replace them; the optimizer is the first of them."""
        for hook in [*EVERYWHERE["step_pre"].values(), *self._hooks_of("step_pre").values()]:
            answer = hook(self, args, kwargs)
            if answer is None:
                continue
            if not (isinstance(answer, tuple) and len(answer) == 2):
                raise HookError(
                    f"{step} must return None or a tuple of (new_args, new_kwargs), but got {answer}.",
                    where=source.where(),
                )
            args, kwargs = answer
        return args, kwargs

    # Made when first asked for: an optimizer that was pickled comes back without it.
    def _hooks_of(self, moment: str) -> dict[int, Hook]:
        tables: dict[str, dict[int, Hook]] = self.__dict__.setdefault("_hooks", {})
        return tables.setdefault(moment, {})

    def _call(self, table: dict[int, Hook], *args: Any) -> None:
        # A copy, since a hook may remove itself through its handle.
        for hook in list(table.values()):
            hook(self, *args)

    def _call_hooks(self, moment: str, *args: Any) -> None:
        self._call(self._hooks_of(moment), *args)

    def _through_hooks(self, moment: str, state_dict: dict[str, Any]) -> dict[str, Any]:
        """A state dict after the hooks of a moment; what one returns takes its place."""
        for hook in list(self._hooks_of(moment).values()):
            answer = hook(self, state_dict)
            state_dict = state_dict if answer is None else answer
        return state_dict

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) before each step; a pair that it returns takes the place of both."""
        return RemovableHandle(self._hooks_of("step_pre"), hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) after each step."""
        return RemovableHandle(self._hooks_of("step_post"), hook)

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer) before each state_dict."""
        return RemovableHandle(self._hooks_of("state_dict_pre"), hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, state_dict) after each state_dict; a dict that it returns takes the place."""
        return RemovableHandle(self._hooks_of("state_dict_post"), hook)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, state_dict) before each load_state_dict; a dict that it returns is loaded instead."""
        return RemovableHandle(self._hooks_of("load_state_dict_pre"), hook)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer) after each load_state_dict."""
        return RemovableHandle(self._hooks_of("load_state_dict_post"), hook)


def _surrounded(step: Step) -> Step:
    """A step with its hooks around it."""

    @functools.wraps(step)
    def surrounded(self: Hooked, *args: Any, **kwargs: Any) -> Any:
        return self._surround(step, *args, **kwargs)

    return surrounded
