"""The file that HDF5 writes to: it keeps a full disk from HDF5, which does not survive one.

When closing a file fails, HDF5 keeps it and tries again when the process ends, which then crashes.
"""

import io
import os
from typing import Any


class Sink(io.RawIOBase):
    """A new file whose first failure is remembered, and after which all else is accepted and forgotten."""

    _descriptor = -1

    def __init__(self, path: str):
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        self._at = 0
        self._error: OSError | None = None

    def check(self) -> None:
        """Raises the OSError that was met first, if there was one."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Give the file back to the system."""
        if not self.closed and self._descriptor >= 0:
            os.close(self._descriptor)
        super().close()

    def write(self, data: Any) -> int:
        """Put all bytes where the position is."""
        view = memoryview(data).cast("B")
        done = 0
        while self._error is None and done < len(view):
            try:
                done += os.pwrite(self._descriptor, view[done:], self._at + done)
            except OSError as e:
                self._error = e
        self._at += len(view)
        return len(view)

    def readinto(self, target: Any) -> int:
        """Fill `target` with the bytes at the position; what was never written is zero."""
        view = memoryview(target).cast("B")
        found = os.pread(self._descriptor, len(view), self._at)
        view[:] = found + bytes(len(view) - len(found))
        self._at += len(view)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Make the file as long as HDF5 says."""
        size = self._at if size is None else size
        if self._error is None:
            try:
                os.ftruncate(self._descriptor, size)
            except OSError as e:
                self._error = e
        return size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position."""
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: os.fstat(self._descriptor).st_size}
        self._at = starts[whence] + offset
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at
