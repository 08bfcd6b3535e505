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

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that ask a process to end, besides that of the keyboard."""
_is_followed = False
"""Whether this process is one of the command, where signals mean something from the imports on."""


def sentence(number: int) -> str:
    """What is said of a run that a signal ended."""
    return f"lazywafer: stopped by {signal.Signals(number).name}"


def leave(number: int, frame: object) -> None:
    """End now: nothing has been started yet, or everything is over."""
    with contextlib.suppress(OSError):
        os.write(2, f"{sentence(number)}\n".encode())
    os._exit(128 + number)


def tell(number: int) -> None:
    """Say of a run that is over which signal ended it; nothing is said behind that in a process of the command."""
    print(sentence(number), file=sys.stderr)
    if _is_followed:
        # What the signal met half made or half closed, in whatever library, complains while it is taken down.
        sys.unraisablehook = lambda unraisable: None


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
    global _is_followed
    _is_followed = True
    # What is registered first runs last, behind whatever the script has registered.
    atexit.register(rest)
    for number in ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, leave)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)


if is_command():
    follow()
