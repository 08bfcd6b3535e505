"""Stop a checked script before it writes files after its step was traced, because it would save untrained weights."""

import sys
from collections.abc import Callable
from typing import Any

from cstorch_compat.check.trace_counts import CheckComplete
from cstorch_compat.run import file_journal

CHANGE_EVENTS = frozenset(
    """os.rename os.remove os.rmdir os.mkdir os.truncate os.link os.symlink os.system shutil.rmtree shutil.move
    shutil.copyfile subprocess.Popen""".split()
)
"""Audit events that change something outside of the process."""


class WriteGuard:
    """A context manager that raises CheckComplete at the first change to the file system once `has_seen()` is True.

    It uses an audit hook. Python cannot remove audit hooks, so the hook is inactive outside of the context.
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
        """Raise CheckComplete for an event that changes a file, unless a file journal causes it."""
        # An audit hook gets every event of the process, so the cheap tests come first.
        if not self.is_on or not (event == "open" or event in CHANGE_EVENTS) or not self.has_seen():
            return
        if file_journal.is_journaling():
            return
        if event != "open" or _can_write(*args):
            raise CheckComplete(f"the first change to a file, {event}({args[0]!r})")


def _can_write(path: Any, mode: str | None, flags: int | None) -> bool:
    """Return whether opening a file with the system call's `flags` may change it. Paths under /dev/ do not count."""
    # Test the flags of the system call, because `mode` is None for os.open.
    return bool((flags or 0) & file_journal.WRITE_FLAGS) and not str(path).startswith("/dev/")
