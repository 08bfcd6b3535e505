"""Read and write files at an offset, and lock them, also on Windows, which has other functions for it than POSIX."""

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

fcntl: Any
msvcrt: Any
try:
    import fcntl
except ImportError:  # Windows
    import msvcrt

    fcntl = None

BINARY = getattr(os, "O_BINARY", 0)
"""The flag of `os.open` without which Windows changes line ends; 0 on other systems."""
HAS_POSITIONED_CALLS = all(hasattr(os, name) for name in ("pread", "preadv", "pwrite"))
"""Whether the system reads and writes at an offset in one call. If not, the position of the descriptor is moved."""
position_lock = threading.RLock()
"""The lock that is held while the position of a descriptor is moved."""
_LOCKED_BYTE = 1 << 30
"""Offset of the byte that stands for a whole file on Windows, where other handles cannot read locked bytes."""


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Return up to `size` bytes of an open file from `offset` on. The position of the descriptor does not change."""
    if HAS_POSITIONED_CALLS:
        return os.pread(descriptor, size, offset)
    with _position(descriptor, offset):
        return os.read(descriptor, size)


def read_into_at(descriptor: int, target: memoryview, offset: int) -> int:
    """Fill `target` from an open file from `offset` on, and return the number of bytes, which may be smaller.

    The position of the descriptor does not change.
    """
    if HAS_POSITIONED_CALLS:
        return os.preadv(descriptor, [target], offset)
    data = read_at(descriptor, len(target), offset)
    target[: len(data)] = data
    return len(data)


def write_at(descriptor: int, data: memoryview, offset: int) -> int:
    """Write `data` to an open file at `offset`, and return the number of bytes written, which may be smaller.

    The position of the descriptor does not change.
    """
    if HAS_POSITIONED_CALLS:
        return os.pwrite(descriptor, data, offset)
    with _position(descriptor, offset):
        return os.write(descriptor, data)


@contextlib.contextmanager
def _position(descriptor: int, offset: int) -> Iterator[None]:
    """Move the position of a descriptor to `offset` in the block, with the lock held, and then back."""
    with position_lock:
        before = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, offset, os.SEEK_SET)
        try:
            yield
        finally:
            os.lseek(descriptor, before, os.SEEK_SET)


def try_lock(descriptor: int) -> bool:
    """Lock an open file until it is closed, and return whether no other process has locked it."""
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            with _position(descriptor, _LOCKED_BYTE):
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):
        return False
    return True
