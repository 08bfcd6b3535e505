"""Switches for the recording of gradients: context managers that are decorators too."""

from contextlib import ContextDecorator

from lazytensor.tensor import is_grad_enabled
from lazytensor.tensor import set_grad_enabled as switch


class set_grad_enabled(ContextDecorator):
    """Switch recording on or off, at once; as a context manager only in the block."""

    def __init__(self, mode: bool):
        self.mode = mode
        self._before = is_grad_enabled()
        switch(mode)

    def _recreate_cm(self) -> "set_grad_enabled":
        return type(self)(self.mode)

    def __call__(self, function):  # type: ignore[no-untyped-def]
        """As a decorator: only while the function runs."""
        switch(self._before)
        return super().__call__(function)

    def __enter__(self) -> None:
        switch(self.mode)

    def __exit__(self, *_: object) -> None:
        switch(self._before)


class _Mode(ContextDecorator):
    enabled = True

    def _recreate_cm(self) -> "_Mode":
        return type(self)()

    def __enter__(self) -> None:
        self._before = is_grad_enabled()
        switch(self.enabled)

    def __exit__(self, *_: object) -> None:
        switch(self._before)


class enable_grad(_Mode):
    """Record gradients in the block."""


class no_grad(_Mode):
    """Record no gradients in the block."""

    enabled = False

    def __new__(cls, function=None):  # type: ignore[no-untyped-def]
        """`@no_grad` without brackets decorates as well."""
        made = super().__new__(cls)
        return made if function is None else made(function)


class inference_mode(no_grad):
    """Record no gradients in the block."""

    def __new__(cls, mode: bool = True):  # type: ignore[no-untyped-def]
        """With mode=False the block records as usual."""
        if callable(mode):
            return super().__new__(cls)(mode)
        made = super().__new__(cls)
        made.enabled = not mode
        return made

    def __init__(self, mode: bool = True):
        """Takes the mode; `__new__` has used it."""
