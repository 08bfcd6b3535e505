"""The file that HDF5 writes to: it keeps a full disk from HDF5, which does not survive one.

When closing a file fails, HDF5 keeps it and tries again when the process ends, which then crashes.
"""

import collections
import contextlib
import io
import os
import zlib
from collections.abc import Iterator
from concurrent import futures
from typing import Any, Self

import h5py
import numpy as np

from cstorch_compat.files.newfile import NO_ROOM
from cstorch_compat.files.trailer import Trailer, rest_of, text_of
from lazytensor.interrupts import postponed
from lazytensor.lazyarray import reported

_PIECE_BYTES, _MOST_WAITING_BYTES = 1 << 19, 1 << 20


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
        view = memoryview(data).cast("B")
        self.put(view, self._at)
        self._at += len(view)
        return len(view)

    def put(self, view: memoryview, place: int) -> None:
        """Put all bytes at a place."""
        # After the first error all goes on as if it were well: a failure that HDF5 sees is one that it tries again
        # when the process ends. `check` tells the truth.
        done = 0
        while self._error is None and done < len(view):
            try:
                # At a position, not at the file's own: HDF5 seeks between every two writes, and a short write (a
                # disk that is nearly full takes what it can) has to be continued where it stopped.
                done += os.pwrite(self._descriptor, view[done:], place + done)
            except OSError as e:
                self._error = e

    def hurry(self, place: int, size: int) -> None:
        """Have the disk begin with some bytes, on which the file waits in the end."""
        with contextlib.suppress(OSError, AttributeError):  # not every system can be asked
            os.posix_fadvise(self._descriptor, place, size, os.POSIX_FADV_DONTNEED)

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


class Beside:
    """Writes arrays to their places in a thread while the caller makes the tables, and notes their checksums.

    `arrays` takes the checksum of each by its place and size. A few wait at most; one that is large is waited for.
    """

    def __init__(self, sink: Sink, arrays: dict[tuple[int, int], int], path: str):
        self._sink, self._arrays, self._path = sink, arrays, path
        self._waiting = collections.deque[tuple[str, int, futures.Future[None]]]()

    def __enter__(self) -> Self:
        self._writer = futures.ThreadPoolExecutor(1)
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        # Once the descriptor is closed another file may get it: nobody may write any more, whatever interrupts.
        with postponed():
            if kind is not None:
                self._sink.abandon()
            self._writer.shutdown()
        if kind is None:
            self._wait(0)

    def put(self, key: str, raw: np.ndarray, place: int) -> None:
        """Have bytes (a vector of uint8) written. Raises CheckpointError for an array that could not be."""
        self._waiting.append((key, raw.nbytes, self._writer.submit(self._put, raw.data, place)))
        self._wait(_MOST_WAITING_BYTES)

    def _wait(self, most: int) -> None:
        while sum(size for _, size, _ in self._waiting) > most:
            key, _, written = self._waiting.popleft()
            with reported(f"{key!r} cannot be written", self._path, hint=NO_ROOM):
                written.result()

    def _put(self, view: memoryview, place: int) -> None:
        crc = 0
        # Piece by piece, so that the second look at the bytes is one into a cache.
        for at in range(0, len(view), _PIECE_BYTES):
            piece = view[at : at + _PIECE_BYTES]
            # Of the bytes in memory: what the disk makes of them is what is to be found out.
            crc = zlib.crc32(piece, crc)
            self._sink.put(piece, place + at)
            self._sink.hurry(place + at, len(piece))
        self._sink.check()
        self._arrays[place, len(view)] = crc


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
