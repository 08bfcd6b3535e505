"""Atomic writing of files: a file appears under its name only when it is complete."""

import os
import pathlib
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from lazytensor.errors import CheckpointError
from lazytensor.system import atomic_files
from lazytensor.system.positioned_files import BINARY

OPEN_FILE_HINT = (
    "Windows does not replace a file that is open: delete the tensors that were loaded from it, or use another name."
)
"""The hint for a write that an open file prevents."""
DISK_FULL_HINT = (
    "Free disk space, or save to another folder. No incomplete file is left, and an existing file is unchanged."
)
"""The hint for a failed write.

`new_file` ensures what it says: the temporary file is removed and the target not changed.
"""


class CheckpointMissing(CheckpointError, FileNotFoundError):
    """The file, or the directory for it, does not exist."""


class CheckpointExists(CheckpointError, FileExistsError):
    """A checkpoint would be overwritten."""


@contextmanager
def new_file(path: str, replace: bool = False) -> Iterator[str]:
    """Yield the name of a temporary file to write to, which is renamed to `path` if the block succeeds.

    Otherwise it is removed. If `replace`, an existing file is replaced atomically and its permissions are kept. The
    data is flushed to disk before the rename. If the process is killed, only the temporary file remains; the next save
    or load in the folder removes it.

    Raises CheckpointExists if `path` exists and `replace` is False, CheckpointMissing if its directory does not exist,
    and CheckpointError if writing fails.
    """
    # Check the target before the caller computes or fetches tensors.
    _check_target(path, replace)
    # Remove temporary files of processes that were killed. Their names identify the process.
    atomic_files.remove_leftovers(pathlib.Path(path).parent)
    # Use the same folder, because a rename is atomic only within one file system. The suffix is the original's.
    temporary = atomic_files.temporary_name(path)
    try:
        yield temporary
        _sync_to_disk(temporary)  # otherwise the new name could be without its data after a power failure
        # Check again, since another process may have written the file meanwhile. A race before the rename remains:
        # excluding it needs a hard link, which not every file system has.
        _check_target(path, replace)
        with suppress(FileNotFoundError):
            os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(temporary, path)
        # The rename changes the directory, which must be flushed too.
        _sync_to_disk(os.path.dirname(path) or os.curdir)
    # A CheckpointError already has a message. Some are OSErrors too, which the next clause would replace.
    except CheckpointError:
        raise
    except OSError as e:
        is_open = os.name == "nt" and isinstance(e, PermissionError)
        hint = OPEN_FILE_HINT if is_open else DISK_FULL_HINT
        raise CheckpointError(f"{path!r} cannot be written: {e.strerror or e}", hint=hint) from e
    finally:
        # The file does not exist after the rename, or if opening it failed.
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def replace_file(path: str, write: Callable[[str], object]) -> None:
    """Call `write` with a temporary name, and rename the file to `path` afterwards, replacing an existing one.

    A symbolic link is kept and its target replaced. `write` gets `path` itself if that is a device or pipe, or an
    existing file in a folder without write permission. Raises CheckpointMissing if the directory does not exist, and
    CheckpointError for an OSError of `write` or of the rename. With `path` itself, errors of `write` propagate.
    """
    target = os.path.realpath(path)
    is_special = os.path.exists(target) and not os.path.isfile(target)
    if is_special or (os.path.isfile(target) and not os.access(os.path.dirname(target), os.W_OK)):
        write(path)
        return
    with new_file(target, replace=True) as temporary:
        write(temporary)


def _check_target(path: str, replace: bool) -> None:
    """Raise CheckpointExists if `path` exists and `replace` is False.

    Raises CheckpointMissing if its directory does not exist.
    """
    # A broken symbolic link counts as existing: the rename would replace it.
    if os.path.lexists(path) and not replace:
        raise CheckpointExists(
            f"Checkpoint at '{path}' already exists. Please delete the checkpoint and run again.",
            hint="Save under another name, or delete the old file first. A checkpoint never overwrites another one.",
        )
    # The original raises FileNotFoundError for a missing folder.
    directory = os.path.dirname(path)
    if not os.path.isdir(directory or os.curdir) or not path:
        raise CheckpointMissing(
            f"the directory {directory!r} of the checkpoint '{path}' does not exist",
            hint="Create it first, for example with os.makedirs.",
        )


def _sync_to_disk(path: str) -> None:
    """Flush a file, or the entries of a directory, from the system's cache to the disk."""
    # On POSIX systems fsync works with any descriptor, and a directory can be opened for reading only. Windows flushes
    # only descriptors for writing, and no directories.
    is_windows = os.name == "nt"
    if is_windows and os.path.isdir(path):
        return
    descriptor = os.open(path, os.O_RDWR | BINARY if is_windows else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
