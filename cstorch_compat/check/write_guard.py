"""Keeps a checked script from writing files once its step was seen: weights that were not trained must not be saved."""

import sys
from collections.abc import Callable
from typing import Any

from cstorch_compat.check.trace_counts import CheckComplete
from cstorch_compat.run import file_journal

CHANGE_EVENTS = frozenset(
    """os.rename os.remove os.rmdir os.mkdir os.truncate os.link os.symlink os.system shutil.rmtree shutil.move
    shutil.copyfile subprocess.Popen""".split()
)
"""Audit events after which something outside the process is not as it was."""


class WriteGuard:
    """Ends the script at the first change to the file system, from the moment that `has_seen` says it may.

    An audit hook cannot be taken away, so a guard that is no longer on does nothing.
    """

    def __init__(self, has_seen: Callable[[], bool]):
        self.has_seen = has_seen
        self.is_on = False

    def __enter__(self) -> "WriteGuard":
        self.is_on = True
        sys.addaudithook(self._on_audit_event)
        return self

    def __exit__(self, *_: object) -> None:
        self.is_on = False

    def _on_audit_event(self, event: str, args: tuple[Any, ...]) -> None:
        # Hooks hear every event of the process, so the cheap questions come first.
        if not self.is_on or not (event == "open" or event in CHANGE_EVENTS) or not self.has_seen():
            return
        if file_journal.is_journaling():
            return
        if event != "open" or _can_write(*args):
            raise CheckComplete(f"the first change to a file, by {event}({args[0]!r})")


def _can_write(path: Any, mode: str | None, flags: int | None) -> bool:
    """Whether opening a file may change it."""
    # By the flags of the system call, for the mode is None where os.open is called.
    return bool((flags or 0) & file_journal.WRITE_FLAGS) and not str(path).startswith("/dev/")
