"""What a signal does to the command line before a script runs, and after: the sentence and the status, at once.

Loaded before everything else of the package: imports are most of what happens until a script begins, and an interrupt
in them would be a traceback through NumPy.
"""

import atexit
import contextlib
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that ask a process to end, besides that of the keyboard."""


def sentence(number: int) -> str:
    """What is said of a run that a signal ended."""
    return f"lazywafer: stopped by {signal.Signals(number).name}"


def leave(number: int, frame: object) -> None:
    """End now: nothing has been started yet, or everything is over."""
    with contextlib.suppress(OSError):
        os.write(2, f"{sentence(number)}\n".encode())
    os._exit(128 + number)


def is_command() -> bool:
    """Whether this process is a command of ours, and no program that imports the package."""
    # While `python -m` imports a package it has not yet put the module's path here.
    if sys.argv[:1] == ["-m"]:
        return "cstorch_compat" in sys.orig_argv
    return pathlib.PurePath(sys.argv[0] if sys.argv else "").stem == "lazywafer"


def rest() -> None:
    """Let no signal end the process any more: all is done, and Python takes itself down, which calls no handler."""
    for number in (*ENDING, signal.SIGINT):
        if signal.getsignal(number) is leave:
            signal.signal(number, signal.SIG_IGN)


def follow() -> None:
    """Let signals end the process so. Those that are ignored, as behind nohup, stay it."""
    # What is registered first runs last, behind whatever the script has registered.
    atexit.register(rest)
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, leave)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)


@contextlib.contextmanager
def postponed() -> Iterator[None]:
    """A block that no signal interrupts; one that comes meanwhile comes at its end.

    For libraries that call back from C: an exception in what they call is lost there, or becomes another.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    is_over = False
    before = {number: handler for number in (*ENDING, signal.SIGINT) if callable(handler := signal.getsignal(number))}

    def note(number: int, frame: Any) -> None:
        # One that comes between two of the last lines finds some handlers put back and others not yet.
        if is_over:
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
        if came:
            signal.raise_signal(came[0])


if is_command():
    follow()
