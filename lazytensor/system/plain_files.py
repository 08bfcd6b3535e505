"""Open data files, and refuse pipes and devices, which could block or never end."""

import os
import stat
from typing import BinaryIO

from lazytensor.errors import CheckpointError
from lazytensor.system.positioned_files import BINARY


def open_descriptor(path: str | os.PathLike[str]) -> int:
    """Return a descriptor for reading the file at `path`, which the caller closes.

    Raises OSError if it cannot be opened (IsADirectoryError for a directory), and CheckpointError for a pipe or a
    device.
    """
    # Without O_NONBLOCK, opening a pipe would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | BINARY | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{os.fspath(path)} is a directory")
    raise CheckpointError(
        f"{os.fspath(path)} is a pipe or a device, not a file", hint="Copy its data into a file first."
    )


def open_plain_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Return `open(path, "rb")`. Raises OSError, and CheckpointError for a pipe or a device."""
    return open(open_descriptor(path), "rb")
