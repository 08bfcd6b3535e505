"""Switches for the recording of gradients: context managers that are decorators too."""

import functools
import inspect
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, TypeVar, cast

from lazytensor.autograd import grad_recording
from lazytensor.autograd.saved_tensors import refuse_inference
from lazytensor.core import storage
from lazytensor.core.tensor import is_grad_enabled
from lazytensor.core.tensor import set_grad_enabled as switch
from lazytensor.ops import op

F = TypeVar("F", bound=Callable[..., Any])


def _decorate_generator(function: Callable[..., Any], mode: Callable[[], Any]) -> Callable[..., Any]:
    """A generator function whose body runs in a mode, and the code between its values outside."""

    @functools.wraps(function)
    def stepping(*args: Any, **kwargs: Any) -> Any:
        steps = function(*args, **kwargs)
        go_on = functools.partial(next, steps)
        while True:
            try:
                with mode():
                    value = go_on()
            except StopIteration as end:
                return end.value
            try:
                sent = yield value
                go_on = functools.partial(steps.send, sent)
            except GeneratorExit:
                with mode():
                    steps.close()
                raise
            except BaseException as error:
                go_on = functools.partial(steps.throw, error)

    return stepping


class set_grad_enabled(ContextDecorator):
    """Switch recording on or off, at once; as a context manager only in the block.

    >>> import lazytensor as lt
    >>> with lt.set_grad_enabled(False):
    ...     print(lt.ones(2, requires_grad=True).sum().requires_grad)
    False
    """

    def __init__(self, mode: bool):
        self.mode = mode
        self._before = is_grad_enabled()
        switch(mode)

    # Called by ContextDecorator for each call of a decorated function: a recursive one needs a state for each level.
    def _recreate_cm(self) -> "set_grad_enabled":
        return type(self)(self.mode)

    def __call__(self, function: F) -> F:
        """As a decorator: only while the function runs."""
        # The constructor has switched at once, for `torch.set_grad_enabled(False)` as a statement; a decorator takes
        # that back until the function is called.
        switch(self._before)
        if inspect.isgeneratorfunction(function):
            return cast(F, _decorate_generator(function, lambda: _GradModeBlock(self.mode)))
        decorated: F = super().__call__(function)
        return decorated

    def __enter__(self) -> None:
        switch(self.mode)

    def __exit__(self, *_: object) -> None:
        switch(self._before)


class _GradModeDecorator(ContextDecorator):
    enabled = True

    def _recreate_cm(self) -> "_GradModeDecorator":
        return _GradModeBlock(self.enabled)

    def __call__(self, function: F) -> F:
        """Return the function in this mode; a generator has the mode while it runs, not while it waits at a yield."""
        if inspect.isgeneratorfunction(function):
            return cast(F, _decorate_generator(function, self._recreate_cm))
        decorated: F = super().__call__(function)
        return decorated

    def __enter__(self) -> None:
        self._before = is_grad_enabled()
        switch(self.enabled)

    def __exit__(self, *_: object) -> None:
        switch(self._before)


class _GradModeBlock(_GradModeDecorator):
    """A block with recording on or off."""

    def __init__(self, enabled: bool):
        self.enabled = enabled


class enable_grad(_GradModeDecorator):
    """Record gradients in the block.

    >>> import lazytensor as lt
    >>> with lt.no_grad(), lt.enable_grad():
    ...     print(lt.ones(2, requires_grad=True).sum().requires_grad)
    True
    """


class no_grad(_GradModeDecorator):
    """Record no gradients in the block.

    >>> import lazytensor as lt
    >>> w = lt.ones(2, requires_grad=True)
    >>> with lt.no_grad():
    ...     y = w * 2
    >>> y.requires_grad
    False
    """

    enabled = False

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """`@no_grad` without brackets decorates as well."""
        mode = super().__new__(cls)
        return mode if function is None else mode(function)


class inference_mode(no_grad):
    """Record no gradients in the block, whose new tensors cannot be changed or saved for backward outside of it.

    >>> import lazytensor as lt
    >>> with lt.inference_mode():
    ...     print((lt.ones(2) * 2).requires_grad)
    False
    """

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        """With mode=False the block records as usual."""
        switched = super().__new__(cls)
        if callable(mode):
            return switched(mode)
        switched.enabled = not mode
        return switched

    def __init__(self, mode: bool | Callable[..., Any] = True):
        """Takes the mode; `__new__` has used it."""

    def _recreate_cm(self) -> "inference_mode":
        block: inference_mode = type(self)(not self.enabled)
        return block

    def __enter__(self) -> None:
        super().__enter__()
        self._was_inference, grad_recording.grad_recording_state.is_inference = (
            grad_recording.grad_recording_state.is_inference,
            not self.enabled,
        )
        if not self.enabled:
            storage.has_used_inference_mode, op.check_saved_operands = True, refuse_inference

    def __exit__(self, *error: object) -> None:
        grad_recording.grad_recording_state.is_inference = self._was_inference
        super().__exit__(*error)


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in a block of inference mode.

    >>> import lazytensor as lt
    >>> with lt.inference_mode():
    ...     print(lt.is_inference_mode_enabled())
    True
    """
    return grad_recording.grad_recording_state.is_inference
