"""The file that HDF5 writes to: it keeps a full disk from HDF5, which does not survive one.

When closing a file fails, HDF5 keeps it and tries again when the process ends, which then crashes.
"""

import contextlib
import io
import os
from collections.abc import Iterator
from typing import Any

import h5py

from cstorch_compat.files.trailer import Trailer, rest_of, text_of


class Sink(io.RawIOBase):
    """A new file whose first failure is remembered, and after which all else is accepted and forgotten."""

    # Set on the class, so that `close` finds it when opening failed: the garbage collector closes every stream.
    _descriptor = -1

    def __init__(self, path: str):
        # Exclusive: the temporary name is random, and whatever bears it already is not ours to overwrite.
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        self._at = 0
        self._error: OSError | None = None

    def check(self) -> None:
        """Raises the OSError that was met first, if there was one."""
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        """Accept and forget whatever comes: nobody wants the file any more."""
        self._error = self._error or OSError("nobody wants the file any more")

    def seal(self, arrays: dict[tuple[int, int], int]) -> None:
        """Put the checksums behind the file: those of arrays by place and size, and that of all other bytes."""
        if self._error is None:
            size = self.seek(0, os.SEEK_END)
            self.write(text_of(Trailer(size, arrays, rest_of(self._descriptor, arrays, size))))

    def close(self) -> None:
        """Give the file back to the system."""
        if not self.closed and self._descriptor >= 0:
            os.close(self._descriptor)
        super().close()

    def write(self, data: Any) -> int:
        """Put all bytes where the position is."""
        # After the first error all goes on as if it were well: a failure that HDF5 sees is one that it tries again
        # when the process ends. `check` tells the truth.
        view = memoryview(data).cast("B")
        done = 0
        while self._error is None and done < len(view):
            try:
                # At a position, not at the file's own: HDF5 seeks between every two writes, and a short write (a
                # disk that is nearly full takes what it can) has to be continued where it stopped.
                done += os.pwrite(self._descriptor, view[done:], self._at + done)
            except OSError as e:
                self._error = e
        self._at += len(view)
        return len(view)

    def readinto(self, target: Any) -> int:
        """Fill `target` with the bytes at the position; what was never written is zero."""
        view = memoryview(target).cast("B")
        # Where nothing was written, or writing failed: zeros, as a hole in a file gives. A short read would be an
        # error within HDF5, whose text names no cause.
        data = os.pread(self._descriptor, len(view), self._at)
        view[:] = data + bytes(len(view) - len(data))
        self._at += len(view)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Make the file as long as HDF5 says."""
        size = self._at if size is None else size
        # A limit on the size of files strikes here as well as in a write.
        if self._error is None:
            try:
                os.ftruncate(self._descriptor, size)
            except OSError as e:
                self._error = e
        return size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position."""
        # The end is the real one, since HDF5 asks for it to learn how long the file is.
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: os.fstat(self._descriptor).st_size}
        self._at = starts[whence] + offset
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at


@contextlib.contextmanager
def let_go(sink: Sink) -> Iterator[None]:
    """A block behind whose failure HDF5 has nothing of the file any more."""
    try:
        yield
    except BaseException:
        # An interrupt may come when HDF5 has opened the file and no variable holds it: what the end of the process
        # then closes would write to a stream that is gone, and complain.
        sink.abandon()
        name = repr(sink).encode("ascii", "replace")
        for file in h5py.h5f.get_obj_ids(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE):
            if h5py.h5f.get_name(file) == name:
                h5py.File(file).close()
        raise
