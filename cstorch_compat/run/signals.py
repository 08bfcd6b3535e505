"""Signals that end a run.

They are raised as exceptions, and the run ends with one sentence and a shell's exit status.
"""

import _thread
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ENDING_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a process, other than SIGINT, for which Python raises KeyboardInterrupt."""
STATUS_BASE = 128
"""The exit status after a signal is this plus the number of the signal, as in a shell."""
RETRY_INTERVAL_SECONDS = 0.02
"""Delay before an exception that Python dropped in a finalizer is raised again."""


class RunStopped(BaseException):
    """Raised in the main thread when the signal `number` asks the run to end."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.number = number


def find_signal_status(e: BaseException) -> int | None:
    """Return 128 plus the number of the signal that `e` or an exception in its chain was raised for, or None."""
    seen: set[int] = set()
    cause: BaseException | None = e
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, KeyboardInterrupt | RunStopped):
            return STATUS_BASE + getattr(cause, "number", signal.SIGINT)
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None


def print_signal(status: int) -> None:
    """Print on stderr which signal ended the run. `status` is its exit status."""
    print(f"lazywafer: stopped by {signal.Signals(status - STATUS_BASE).name}", file=sys.stderr)


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Raise RunStopped in the block for each signal of ENDING_SIGNALS that has Python's default handler.

    Does nothing outside of the main thread. In a forked child process the signal has its default effect. If Python
    drops the exception because a finalizer was running, it is raised again after RETRY_INTERVAL_SECONDS.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in ENDING_SIGNALS if signal.getsignal(number) == signal.SIG_DFL]
    hook, owner = sys.unraisablehook, os.getpid()

    def stop(number: int, frame: Any) -> None:
        if os.getpid() != owner:  # a child process forked by the script
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        raise RunStopped(number)

    def retry(unraisable: Any) -> None:
        """Raise the signal again if Python has dropped its exception in a finalizer or weak reference callback."""
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
