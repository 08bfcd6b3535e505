"""Files on their way: written beside their place, moved there whole, and cleared by others if their writer died.

The name of such a file says which process of which machine writes it. A process that was killed leaves it behind; the
next one that works in the folder removes what no living process owns.
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

# A name of a machine may hold anything; in a file name only these are safe everywhere.
_HOST = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:40]
_TEMPORARY_NAME_PATTERN = re.compile(r"\.(?P<host>[A-Za-z0-9-]*)\.(?P<process>\d+)\.[^.]*\.tmp$")


MAX_WRITE_PAUSE_SECONDS = 86400
"""After this time without a write nobody on another machine can still be at it."""


def create_temporary_file(path: pathlib.Path) -> tuple[int, str]:
    """A new file in the folder of `path` that only its writer may read, open for writing, and its name."""
    # Exclusive and without following links, whatever others put into the folder.
    return tempfile.mkstemp(dir=path.parent, prefix=f"{path.name[:60]}.{_owner_suffix()}.", suffix=".tmp")


def temporary_name(path: str) -> str:
    """A name beside `path` for who opens the file by itself, and has to do so exclusively."""
    return f"{path}.{_owner_suffix()}.{secrets.token_hex(4)}.tmp"


def _owner_suffix() -> str:
    return f"{_HOST}.{os.getpid()}"


@contextlib.contextmanager
def atomic_write(path: pathlib.Path) -> Iterator[int]:
    """A handle to write the file at `path` with: it takes its place at the end of the block, or goes if that fails."""
    handle, temporary = create_temporary_file(path)
    try:
        try:
            yield handle
        finally:
            os.close(handle)
        # In one move: a process that reads meanwhile sees the old file or the new one, never half of it.
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def remove_leftovers(folder: pathlib.Path) -> int:
    """Remove the unfinished files of processes that have died. Returns how many."""
    count = 0
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if _is_leftover(entry):
                # Another process may clear at the same time.
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
                    count += 1
    return count


def _is_leftover(entry: "os.DirEntry[str]") -> bool:
    match = _TEMPORARY_NAME_PATTERN.search(entry.name)
    if match is None:
        return False
    if match["host"] == _HOST:
        return not _is_alive(int(match["process"]))
    # Processes of other machines, which share the folder, cannot be asked for from here; nor those of a container that
    # is gone, whose name never comes back.
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > MAX_WRITE_PAUSE_SECONDS


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # it belongs to another user, or cannot be asked for
    return True
