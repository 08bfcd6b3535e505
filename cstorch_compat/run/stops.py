"""Signals that end a run: each time the same exit status, one sentence, and what has to be tidied up is."""

import _thread
import ctypes
import functools
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cstorch_compat.beginning import ENDING, leave
from lazytensor.thread_start import try_start

AGAIN_SECONDS = 0.02
"""When a stop is tried again that came where Python lets no exception through."""


class Stopped(BaseException):
    """The run was asked to end by a signal."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.number = number


def status_of(e: BaseException) -> int | None:
    """The exit status of a run that a signal ended, as a shell says it; None for any other exception.

    Also of an error that was raised while the signal's own exception was on its way.
    """
    seen: set[int] = set()
    cause: BaseException | None = e
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, Stopped):
            return 128 + cause.number
        if isinstance(cause, KeyboardInterrupt):
            return 128 + signal.SIGINT
        cause = cause.__cause__ or cause.__context__
    return None


def end_with(status: int) -> None:
    """End Python with a status, as `sys.exit` does in a script; never returns.

    `python -m` takes back what `sys.exit` says once an interrupt has passed through a text that `exec` or `eval` ran,
    as making a dataclass does: it keeps a note of that, and ends itself by the signal though the exception was caught.
    """
    # What Python itself calls for SystemExit in a script: the whole taking down, and no look at that note behind it.
    ctypes.pythonapi.Py_Exit(status)


@contextmanager
def raising() -> Iterator[None]:
    """A block that a signal ends by an exception, wherever it comes. What the script sets for a signal counts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (*ENDING, signal.SIGINT)}
    hook = sys.unraisablehook
    owner = os.getpid()

    def stop(number: int, frame: Any) -> None:
        # A process that the script has forked ends as if nothing were set.
        if os.getpid() != owner:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        raise Stopped(number)

    # A script finds Python's own handler of the keyboard's signal, as in a process without us.
    during = dict.fromkeys(ENDING, stop) | {signal.SIGINT: signal.default_int_handler}
    for number, handler in before.items():
        if handler in (signal.SIG_DFL, leave):
            signal.signal(number, during[number])
    own = sys.unraisablehook = functools.partial(_again, hook=hook)
    try:
        yield
    finally:
        # Of a run that a signal has ended nothing more is said.
        if sys.unraisablehook is own:
            sys.unraisablehook = hook
        for number, handler in before.items():
            if signal.getsignal(number) is during[number]:
                signal.signal(number, handler)


def _again(unraisable: Any, hook: Any) -> None:
    """Stop a little later where the exception was lost: in the callback of a weak reference, or a finalizer."""
    e = unraisable.exc_value
    if not isinstance(e, KeyboardInterrupt | Stopped):
        hook(unraisable)
        return
    number = signal.Signals(e.number) if isinstance(e, Stopped) else signal.SIGINT
    # Not now: it would be lost in the same place.
    later = threading.Timer(AGAIN_SECONDS, _thread.interrupt_main, (number,))
    later.daemon = True
    if not try_start(later):
        _thread.interrupt_main(number)
