"""Defer signals in blocks where an exception from a signal handler would be lost."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

INTERRUPT_SIGNALS = tuple(getattr(signal, n) for n in ("SIGTERM", "SIGHUP", "SIGINT") if hasattr(signal, n))
"""Signals whose handlers may raise an exception."""


@contextlib.contextmanager
def defer_signals() -> Iterator[None]:
    """Delay signals that arrive in the block to its end; it has an effect only in the main thread.

    Use it for libraries that call Python from C, where exceptions are dropped or replaced, and for forks, whose hooks
    release a lock only if the hook before the fork acquired it. If several signals arrive, only the first is raised at
    the end. A process that is forked in the block handles signals immediately.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    owner = os.getpid()
    handlers = {number: handler for number in INTERRUPT_SIGNALS if callable(handler := signal.getsignal(number))}

    def note(number: int, frame: Any) -> None:
        if os.getpid() == owner:
            arrived.append(number)
        else:
            handlers[number](number, frame)

    for number in handlers:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if arrived and os.getpid() == owner:
            signal.raise_signal(arrived[0])
