"""Stop a checked script after its step was traced, before it changes a file of the user or starts a process.

The file would get the weights of a model that is not trained.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from cstorch_compat.check.trace_counts import CheckComplete
from cstorch_compat.run.file_journal import FileJournal

PROCESS_EVENTS = frozenset("os.system os.exec os.posix_spawn os.spawn subprocess.Popen".split())
"""Audit events of starting a process, whose changes to files no journal sees."""


class WriteStopped(CheckComplete):
    """Raised by WriteGuard. The text is what the running line would do."""


class WriteGuard:
    """A context manager that raises WriteStopped once `has_seen()` is True, before one of two changes.

    These are the change of a file from before `journal` was entered, and the start of a process. New files do not stop
    the script, because the journal removes them.

    It uses an audit hook. Python cannot remove audit hooks, so the hook is inactive outside of the context.
    """

    def __init__(self, journal: FileJournal, has_seen: Callable[[], bool]):
        self.journal, self.has_seen = journal, has_seen
        self.is_on = False

    def __enter__(self) -> "WriteGuard":
        self.is_on = True
        self.journal.on_existing = self._on_existing
        sys.addaudithook(self._on_audit_event)
        return self

    def __exit__(self, *_: object) -> None:
        self.is_on = False

    def _on_existing(self, path: str) -> None:
        """Raise WriteStopped before a change of the file or folder `path`, which is not from this check."""
        if self.is_on and self.has_seen():
            raise WriteStopped(f"changes the existing file {os.path.basename(path)}")

    def _on_audit_event(self, event: str, args: tuple[Any, ...]) -> None:
        """Raise WriteStopped for an event that starts a process."""
        # An audit hook gets every event of the process, so the cheap tests come first.
        if self.is_on and event in PROCESS_EVENTS and self.has_seen():
            raise WriteStopped("starts a process")
