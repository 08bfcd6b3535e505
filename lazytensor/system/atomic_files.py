"""Atomic writes: a file is written under a temporary name in the same folder and then renamed.

The temporary name contains the machine and the process that writes. If the process is killed, the file remains;
`remove_leftovers` removes files of dead processes.
"""

import contextlib
import os
import pathlib
import re
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator

# Keep only characters of the machine's name that are safe in file names.
_HOST = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:40]
_TEMPORARY_NAME_PATTERN = re.compile(r"\.(?P<host>[A-Za-z0-9-]*)\.(?P<process>\d+)\.[^.]*\.tmp$")


MAX_WRITE_PAUSE_SECONDS = 86400
"""Age of the last write after which a temporary file of another machine counts as abandoned."""


def create_temporary_file(path: pathlib.Path) -> tuple[int, str]:
    """Create a file in the folder of `path` that only this user can read; return its open descriptor and its name."""
    # `mkstemp` creates the file exclusively and follows no links.
    return tempfile.mkstemp(dir=path.parent, prefix=f"{path.name[:60]}.{_owner_suffix()}.", suffix=".tmp")


def temporary_name(path: str) -> str:
    """Return a temporary name next to `path`. The caller must create the file exclusively (O_EXCL)."""
    return f"{path}.{_owner_suffix()}.{secrets.token_hex(4)}.tmp"


def _owner_suffix() -> str:
    return f"{_HOST}.{os.getpid()}"


@contextlib.contextmanager
def atomic_write(path: pathlib.Path) -> Iterator[int]:
    """Yield a descriptor of a temporary file, which replaces the file at `path` at the end of the block.

    If the block raises an exception, the temporary file is removed and `path` is unchanged. Nothing is synced to
    the disk; a block that needs this must call `os.fsync`.
    """
    handle, temporary = create_temporary_file(path)
    try:
        try:
            yield handle
        finally:
            os.close(handle)
        # An atomic rename: another process sees either the old or the new file.
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def remove_leftovers(folder: pathlib.Path) -> int:
    """Remove temporary files of dead processes in a folder, and return how many were removed.

    Files of other machines are removed if they are older than MAX_WRITE_PAUSE_SECONDS. A folder that cannot be read
    gives 0.
    """
    count = 0
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if _is_leftover(entry):
                # Another process may remove it at the same time.
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
                    count += 1
    return count


def _is_leftover(entry: "os.DirEntry[str]") -> bool:
    """Return whether a file is a temporary file whose writer has died.

    For a writer on another machine, and on Windows, return whether it has not been written for MAX_WRITE_PAUSE_SECONDS.
    """
    match = _TEMPORARY_NAME_PATTERN.search(entry.name)
    if match is None:
        return False
    # On Windows `os.kill` cannot test whether a process exists.
    if match["host"] == _HOST and os.name == "posix":
        return not _is_alive(int(match["process"]))
    # Processes of other machines or of removed containers cannot be checked from here, so use the age of the file.
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > MAX_WRITE_PAUSE_SECONDS


def _is_alive(process: int) -> bool:
    """Return whether a process of this machine exists; True if that cannot be checked."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # it belongs to another user, or cannot be checked
    return True
