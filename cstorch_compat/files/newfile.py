"""A file that appears under its name when it is complete, and not before."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lazytensor.errors import CheckpointError

NO_ROOM = "Nothing is left of it, and what was there before is untouched. Make room on the disk, or save elsewhere."


class CheckpointMissing(CheckpointError, FileNotFoundError):
    """There is no file, or no directory for it."""


class CheckpointExists(CheckpointError, FileExistsError):
    """A checkpoint would be overwritten."""


@contextmanager
def new_file(path: str, replace: bool = False) -> Iterator[str]:
    """A temporary name to write to; the file gets the name `path` when the block ends well, else it is removed.

    A process that is killed meanwhile leaves the temporary file and nothing else. With `replace` an older file of the
    name is exchanged for the new one in one moment. Raises CheckpointMissing, CheckpointExists, or CheckpointError when
    the disk does not take it.
    """
    _check_target(path, replace)
    temporary = f"{path}.{secrets.token_hex(4)}.tmp"
    try:
        yield temporary
        _flush(temporary)  # else a power failure could leave the new name without its bytes
        _check_target(path, replace)
        os.replace(temporary, path)
        _flush(os.path.dirname(path) or os.curdir)
    except CheckpointError:
        raise
    except OSError as e:
        raise CheckpointError(f"{path!r} cannot be written: {e.strerror or e}", hint=NO_ROOM) from e
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _check_target(path: str, replace: bool) -> None:
    if os.path.lexists(path) and not replace:
        raise CheckpointExists(
            f"Checkpoint at '{path}' already exists. A checkpoint never overwrites another one.",
            hint="Save under another name, or delete the old file first.",
        )
    directory = os.path.dirname(path)
    if not os.path.isdir(directory or os.curdir) or not path:
        raise CheckpointMissing(
            f"there is no directory {directory!r} for the checkpoint '{path}'",
            hint="Create it first, for example with os.makedirs.",
        )


def _flush(path: str) -> None:
    """Have the disk take what was written to a file, or to the list of names of a directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
