"""Where a worker is that says nothing: the signal at which it writes its stack, and what the parent reads of that."""

import os
import re
import sysconfig
import time

from lazytensor.core import source

MAX_STACK_WAIT_SECONDS = 1.0
"""How long a worker may take to write its stack, which it does from inside any call."""
_FRAME_PATTERN = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)
_STDLIB_FOLDER = sysconfig.get_path("stdlib")


class WorkerStackFile:
    """A file without a name that all workers of a crew write to, one after the other; nowhere if there is none."""

    def __init__(self) -> None:
        try:
            # Inherited by forks with its position, so that each stack goes behind the one before.
            self.descriptor: int | None = os.memfd_create("stack")
        except (AttributeError, OSError):
            self.descriptor = None

    def told(self) -> tuple[str, str]:
        """What a worker that was asked has written, and the user's line in it, as a part of a sentence."""
        if self.descriptor is None:
            return "", ""
        began, text, before = time.monotonic(), "", -1
        while time.monotonic() < began + MAX_STACK_WAIT_SECONDS:
            size = os.fstat(self.descriptor).st_size
            # Written in many pieces: it is whole when no more has come for a while.
            if size and size == before:
                break
            before = size
            time.sleep(0.02)
        text = os.pread(self.descriptor, 1 << 20, 0).decode(errors="replace")
        # The next one begins anew.
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        os.ftruncate(self.descriptor, 0)
        return text, user_line_in_stack(text)

    def close(self) -> None:
        """Let go of the file."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def user_line_in_stack(stack: str) -> str:
    """The innermost line of a stack that is the user's, as a part of a sentence."""
    frames = list(_FRAME_PATTERN.finditer(stack))
    theirs = [f for f in frames if not source.is_internal_file(f["file"]) and not _is_stdlib_file(f["file"])]
    if not frames:
        return ""
    at = theirs[0] if theirs else frames[0]
    return f"; it is at {at['file']}:{at['line']} in {at['function']}"


def _is_stdlib_file(file: str) -> bool:
    return file.startswith((_STDLIB_FOLDER, "<frozen"))
