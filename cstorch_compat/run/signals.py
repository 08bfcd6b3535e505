"""Signals that end a run: the stack is unwound, and the run ends with one sentence and the exit status of a shell."""

import _thread
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ENDING_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that ask a process to end, besides SIGINT, for which Python raises KeyboardInterrupt."""
RETRY_INTERVAL_SECONDS = 0.02


class RunStopped(BaseException):
    """The run was asked to end by a signal."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.number = number


def find_signal_status(e: BaseException) -> int | None:
    """Return 128 and the number of the signal that `e`, or an exception in its chain, was raised for; None if none."""
    seen: set[int] = set()
    cause: BaseException | None = e
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, KeyboardInterrupt | RunStopped):
            return 128 + getattr(cause, "number", signal.SIGINT)
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None


def print_signal(status: int) -> None:
    """Print which signal ended a run, from its exit status."""
    print(f"lazywafer: stopped by {signal.Signals(status - 128).name}", file=sys.stderr)


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Raise Stopped in a block for the signals of ENDING that have Python's default handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in ENDING_SIGNALS if signal.getsignal(number) == signal.SIG_DFL]
    hook, owner = sys.unraisablehook, os.getpid()

    def stop(number: int, frame: Any) -> None:
        if os.getpid() != owner:  # a process that the script has forked
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        raise RunStopped(number)

    def retry(unraisable: Any) -> None:
        """Raise again what Python dropped in a finalizer or in the callback of a weak reference."""
        status = find_signal_status(unraisable.exc_value)
        if status is None:
            hook(unraisable)
        else:
            timer = threading.Timer(RETRY_INTERVAL_SECONDS, _thread.interrupt_main, (status - 128,))
            timer.daemon = True
            timer.start()

    for number in numbers:
        signal.signal(number, stop)
    sys.unraisablehook = retry
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number in numbers:
            if signal.getsignal(number) is stop:
                signal.signal(number, signal.SIG_DFL)
