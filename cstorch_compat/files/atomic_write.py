"""A file that appears under its name when it is complete, and not before."""

import os
import pathlib
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from lazytensor.errors import CheckpointError
from lazytensor.system import atomic_files

# The claims of this text are what `new_file` holds: the temporary file is removed, the target never opened.
DISK_FULL_HINT = (
    "Nothing is left of it, and what was there before is untouched. Make room on the disk, or save elsewhere."
)


class CheckpointMissing(CheckpointError, FileNotFoundError):
    """There is no file, or no directory for it."""


class CheckpointExists(CheckpointError, FileExistsError):
    """A checkpoint would be overwritten."""


@contextmanager
def new_file(path: str, replace: bool = False) -> Iterator[str]:
    """A temporary name to write to; the file gets the name `path` when the block ends well, else it is removed.

    A process that is killed meanwhile leaves the temporary file and nothing else, and the next save or load in the
    folder removes that. With `replace` an older file of the name is exchanged for the new one in one moment, and its
    permissions are kept. Raises CheckpointMissing, CheckpointExists, or CheckpointError when the disk does not take it.
    """
    # Before the caller fetches or computes a single tensor.
    _check_target(path, replace)
    # What a process that was killed has left here; its own name is in it.
    atomic_files.remove_leftovers(pathlib.Path(path).parent)
    # In the same folder, since only a rename within one file system is atomic; the suffix is the original's.
    temporary = atomic_files.temporary_name(path)
    try:
        yield temporary
        _sync_to_disk(temporary)  # else a power failure could leave the new name without its bytes
        # Again, since another process may have saved under the name meanwhile. The gap between this look and the
        # rename remains; closing it would need a link that not every file system has.
        _check_target(path, replace)
        with suppress(FileNotFoundError):
            os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(temporary, path)
        # The rename is in the folder's list of names, and that is a file of its own to a disk that loses power.
        _sync_to_disk(os.path.dirname(path) or os.curdir)
    # These say already what is wrong, with the key; some are OSErrors too, which the next clause would rewrite.
    except CheckpointError:
        raise
    except OSError as e:
        raise CheckpointError(f"{path!r} cannot be written: {e.strerror or e}", hint=DISK_FULL_HINT) from e
    finally:
        # Absent after a rename, and where opening it failed. An interrupt and any other exception pass here too.
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def replace_file(path: str, write: Callable[[str], object]) -> None:
    """Call `write` with a temporary name, and give the file the name `path` when `write` has returned.

    The file that a symbolic link leads to is replaced, and not the link. `write` gets `path` itself if that is a device
    or a pipe, or an older file in a folder that takes no new files. Raises what `new_file` raises.
    """
    target = os.path.realpath(path)
    is_special = os.path.exists(target) and not os.path.isfile(target)
    if is_special or (os.path.isfile(target) and not os.access(os.path.dirname(target), os.W_OK)):
        write(path)
        return
    with new_file(target, replace=True) as temporary:
        write(temporary)


def _check_target(path: str, replace: bool) -> None:
    # A link that leads nowhere counts as well: the rename would replace it.
    if os.path.lexists(path) and not replace:
        raise CheckpointExists(
            f"Checkpoint at '{path}' already exists. Please delete the checkpoint and run again.",
            hint="A checkpoint never overwrites another one: save under another name, or delete the old file first.",
        )
    # FileNotFoundError is the type that the original raises for a missing folder.
    directory = os.path.dirname(path)
    if not os.path.isdir(directory or os.curdir) or not path:
        raise CheckpointMissing(
            f"there is no directory {directory!r} for the checkpoint '{path}'",
            hint="Create it first, for example with os.makedirs.",
        )


def _sync_to_disk(path: str) -> None:
    """Flush a file, or the entries of a directory, from the system's cache to the disk."""
    # A descriptor of its own: fsync is about the file and not about who wrote to it, and a folder cannot be opened
    # for writing.
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
