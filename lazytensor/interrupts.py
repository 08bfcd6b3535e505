"""Blocks that no signal interrupts: where an exception in the middle would be lost, or become another."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

INTERRUPTING = tuple(getattr(signal, n) for n in ("SIGTERM", "SIGHUP", "SIGINT") if hasattr(signal, n))
"""Signals whose handlers may raise an exception."""


@contextlib.contextmanager
def postponed() -> Iterator[None]:
    """A block that no signal interrupts; one that comes meanwhile comes at its end.

    For libraries that call back from C, where an exception is lost or becomes another; and for forks: what is called
    before and behind one (locks that are taken and let go) loses it too, and then lets go of a lock that is not taken.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    is_over, owner = False, os.getpid()
    before = {number: handler for number in INTERRUPTING if callable(handler := signal.getsignal(number))}

    def note(number: int, frame: Any) -> None:
        # One that comes between two of the last lines finds some handlers put back and others not yet; a process that
        # was forked in the block may never leave it.
        if is_over or os.getpid() != owner:
            before[number](number, frame)
        else:
            came.append(number)

    for number in before:
        signal.signal(number, note)
    try:
        yield
    finally:
        is_over = True
        for number, handler in before.items():
            signal.signal(number, handler)
        if came and os.getpid() == owner:
            signal.raise_signal(came[0])
