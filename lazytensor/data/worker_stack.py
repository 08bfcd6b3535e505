"""Find out where a silent worker is: it writes its stack to a file on a signal, and the parent reads the file."""

import os
import re
import sysconfig
import time

from lazytensor.core import source

MAX_STACK_WAIT_SECONDS = 1.0
"""Maximum time to wait for a worker to write its stack."""
_FRAME_PATTERN = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)
_STDLIB_FOLDER = sysconfig.get_path("stdlib")


class WorkerStackFile:
    """An anonymous file to which all workers of a pool write their stacks, one at a time.

    `descriptor` is None if the system does not support anonymous files.
    """

    def __init__(self) -> None:
        try:
            # Forked processes inherit the file with its position, so stacks do not overwrite each other.
            self.descriptor: int | None = os.memfd_create("stack")
        except (AttributeError, OSError):
            self.descriptor = None

    def told(self) -> tuple[str, str]:
        """Return the stack that a signalled worker has written, and its user line as a text; then clear the file.

        Waits until the stack is complete, at most MAX_STACK_WAIT_SECONDS. Both texts are empty if there is no file or
        nothing was written.
        """
        if self.descriptor is None:
            return "", ""
        began, text, before = time.monotonic(), "", -1
        while time.monotonic() < began + MAX_STACK_WAIT_SECONDS:
            size = os.fstat(self.descriptor).st_size
            # The stack is written in pieces; it is complete if the size has not changed for a while.
            if size and size == before:
                break
            before = size
            time.sleep(0.02)
        text = os.pread(self.descriptor, 1 << 20, 0).decode(errors="replace")
        # Clear the file for the next stack.
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        os.ftruncate(self.descriptor, 0)
        return text, user_line_in_stack(text)

    def close(self) -> None:
        """Close the file."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def user_line_in_stack(stack: str) -> str:
    """Return the innermost line of user code in a stack as a text, "; it is at FILE:LINE in FUNCTION".

    Files of this package, NumPy and Python do not count as user code. Return the innermost line of all if none is the
    user's, and "" if the stack is empty.
    """
    frames = list(_FRAME_PATTERN.finditer(stack))
    theirs = [f for f in frames if not source.is_internal_file(f["file"]) and not _is_stdlib_file(f["file"])]
    if not frames:
        return ""
    at = theirs[0] if theirs else frames[0]
    return f"; it is at {at['file']}:{at['line']} in {at['function']}"


def _is_stdlib_file(file: str) -> bool:
    return file.startswith((_STDLIB_FOLDER, "<frozen"))
