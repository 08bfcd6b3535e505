"""Context managers and decorators that switch the recording of gradients on and off."""

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
    """Return a generator function whose body runs in a mode; `mode()` returns a context manager that enables it.

    Code that consumes the generator runs outside of the mode. Sent values, thrown exceptions and the return value are
    passed on.
    """

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
    """Enable or disable gradients in this thread, immediately; as a context manager, only in the block.

    As a decorator, it applies while the function runs.

    >>> import lazytensor as lt
    >>> with lt.set_grad_enabled(False):
    ...     print(lt.ones(2, requires_grad=True).sum().requires_grad)
    False
    """

    def __init__(self, mode: bool):
        self.mode = mode
        self._before = is_grad_enabled()
        switch(mode)

    # ContextDecorator calls this for each call of a decorated function; recursive calls need separate states.
    def _recreate_cm(self) -> "set_grad_enabled":
        return type(self)(self.mode)

    def __call__(self, function: F) -> F:
        """Decorate `function` so that the mode applies only while it runs.

        For a generator function, it applies while its body runs. The constructor has switched the mode; the mode from
        before it is restored at once.
        """
        # The constructor has switched the mode, for `torch.set_grad_enabled(False)` as a statement. A decorator
        # restores the previous mode until the function is called.
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
    """Base class of `enable_grad` and `no_grad`: a context manager and decorator."""

    enabled = True

    def _recreate_cm(self) -> "_GradModeDecorator":
        return _GradModeBlock(self.enabled)

    def __call__(self, function: F) -> F:
        """Return `function` running in this mode.

        For a generator function, the mode applies only while its body runs.
        """
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
    """A context manager that enables or disables gradients."""

    def __init__(self, enabled: bool):
        self.enabled = enabled


class enable_grad(_GradModeDecorator):
    """Enable gradients in the block or in the decorated function.

    >>> import lazytensor as lt
    >>> with lt.no_grad(), lt.enable_grad():
    ...     print(lt.ones(2, requires_grad=True).sum().requires_grad)
    True
    """


class no_grad(_GradModeDecorator):
    """Disable gradients in the block or in the decorated function: results do not require a gradient.

    >>> import lazytensor as lt
    >>> w = lt.ones(2, requires_grad=True)
    >>> with lt.no_grad():
    ...     y = w * 2
    >>> y.requires_grad
    False
    """

    enabled = False

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """Return the mode; for `@no_grad` without parentheses, return the decorated function."""
        mode = super().__new__(cls)
        return mode if function is None else mode(function)


class inference_mode(no_grad):
    """Disable gradients in the block; tensors created in it cannot be modified or saved for backward outside of it.

    With `mode=False`, it enables gradients and leaves inference mode in the block.

    >>> import lazytensor as lt
    >>> with lt.inference_mode():
    ...     print((lt.ones(2) * 2).requires_grad)
    False
    """

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        """Return the mode; for `@inference_mode` without parentheses, return the decorated function."""
        switched = super().__new__(cls)
        if callable(mode):
            return switched(mode)
        switched.enabled = not mode
        return switched

    def __init__(self, mode: bool | Callable[..., Any] = True):
        """Do nothing: `__new__` uses the argument."""

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
    """Return whether this thread is in inference mode.

    >>> import lazytensor as lt
    >>> with lt.inference_mode():
    ...     print(lt.is_inference_mode_enabled())
    True
    """
    return grad_recording.grad_recording_state.is_inference
