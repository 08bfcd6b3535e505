"""Blocks that no signal interrupts: where an exception in the middle would be lost, or become another."""

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
    """Delay the signals that arrive in a block, in the main thread, to its end.

    For libraries that call Python from C, where an exception is dropped or becomes another one, and for forks, whose
    hooks release a lock only if the hook before the fork has taken it. A process that is forked in the block receives
    signals at once.
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
