"""The file that HDF5 writes to: it keeps a full disk from HDF5, which does not survive one.

When closing a file fails, HDF5 keeps it and tries again when the process ends, which then crashes.
"""

import contextlib
import ctypes
import io
import os
import zlib
from collections.abc import Iterator
from concurrent import futures
from typing import Any, Self

import h5py
import numpy as np

from cstorch_compat.files.atomic_write import DISK_FULL_HINT
from cstorch_compat.files.checksums import Trailer, compute_rest_checksum, encode_trailer
from lazytensor.core.file_array import report_file_errors
from lazytensor.system.signals import defer_signals
from lazytensor.system.threads import warn_of_no_thread

ArrayPiece = tuple[str, np.ndarray, int]
"""The key of an array, its bytes, and their place in the file."""
Checksums = dict[tuple[int, int], int]
"""Those of arrays by place and size."""

_h5py: Any = h5py  # its stubs do not know the lower interface in full
_MAX_DIRECT_BYTES = 1 << 16  # what HDF5 collects of a dataset before it writes
_MIN_BATCH_BYTES = 1 << 25
_SYNC_FILE_RANGE_WRITE = 2  # SYNC_FILE_RANGE_WRITE


class H5Sink(io.RawIOBase):
    """A new file whose first failure is remembered, and after which all else is accepted and forgotten."""

    # Set on the class, so that `close` finds it when opening failed: the garbage collector closes every stream.
    _descriptor = -1

    def __init__(self, path: str):
        # Exclusive: the temporary name is random, and whatever bears it already is not ours to overwrite.
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        self._path, self._at = path, 0
        self._left_out: int | None = None
        self._error: OSError | None = None

    def check(self) -> None:
        """Raises the OSError that was met first, if there was one."""
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        """Accept and forget whatever comes: nobody wants the file any more."""
        self._error = self._error or OSError("nobody wants the file any more")

    def append_checksums(self, arrays: Checksums) -> None:
        """Put the checksums behind the file: those of arrays by place and size, and that of all other bytes."""
        if self._error is None:
            size = self.seek(0, os.SEEK_END)
            self.write(encode_trailer(Trailer(size, arrays, compute_rest_checksum(self._descriptor, arrays, size))))

    def close(self) -> None:
        """Give the file back to the system."""
        if not self.closed and self._descriptor >= 0:
            os.close(self._descriptor)
        super().close()

    def write(self, data: Any) -> int:
        """Put all bytes where the position is."""
        view = memoryview(data).cast("B")
        if self._left_out is None or np.frombuffer(view, np.uint8).ctypes.data != self._left_out:
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

    def put_pieces(self, pieces: list[ArrayPiece]) -> None:
        """Write pieces at their places. Raises CheckpointError with the key of one that cannot be written."""
        for key, raw, place in pieces:
            with report_file_errors(f"{key!r} cannot be written", self._path, hint=DISK_FULL_HINT):
                self.put(raw.data, place)
                self.check()
        self._begin(min(place for *_, place in pieces), max(place + raw.nbytes for _, raw, place in pieces))

    def _begin(self, place: int, end: int) -> None:
        """Have the disk begin with some bytes, on which the file waits in the end."""
        # Not as advice that nobody will read them: the system would forget tables beside them that are read once more.
        begin = getattr(ctypes.CDLL(None), "sync_file_range", None)  # Linux alone has it
        if begin is not None:
            begin(self._descriptor, ctypes.c_int64(place), ctypes.c_int64(end - place), _SYNC_FILE_RANGE_WRITE)

    @contextlib.contextmanager
    def skip_array(self, array: np.ndarray) -> Iterator[None]:
        """Within the block, drop the write of exactly this array, recognised by the address of its memory.

        HDF5 still reserves the bytes in the file; the caller has them written there.
        """
        # HDF5 passes the array's own memory on, if it has the type of the file and is larger than HDF5's buffer.
        self._left_out = array.ctypes.data
        try:
            yield
        finally:
            self._left_out = None

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


class BackgroundWriter:
    """Writes arrays to their places in a thread while the caller makes the tables, and notes their checksums.

    If the system starts no thread, the caller writes them.
    """

    def __init__(self, sink: H5Sink):
        self.checksums: Checksums = {}
        self._sink = sink
        self._pieces: list[ArrayPiece] = []
        self._bytes = 0
        self._written: futures.Future[None] | None = None
        self._has_thread = True

    def __enter__(self) -> Self:
        self._writer = futures.ThreadPoolExecutor(1)
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        # Once the descriptor is closed another file may get it: nobody may write any more, whatever interrupts.
        with defer_signals():
            try:
                if kind is None:
                    self.wait()
                else:
                    self._sink.abandon()
            finally:
                self._writer.shutdown()

    def put(self, key: str, array: np.ndarray, dataset: Any) -> None:
        """Write an array to a dataset of h5py's lower interface that has no place in the file yet.

        Raises CheckpointError for an earlier array that could not be written.
        """
        if not array.size:
            return
        ordered = np.asarray(array, order="C")
        raw = ordered.reshape(-1).view(np.uint8)
        # HDF5 keeps what is small and writes it with its tables, in less time than handing it over takes.
        is_small = raw.nbytes <= _MAX_DIRECT_BYTES
        with contextlib.nullcontext() if is_small else self._sink.skip_array(raw):
            dataset.write(_h5py.h5s.ALL, _h5py.h5s.ALL, ordered)
        place = dataset.get_offset()
        # Of the bytes in memory: what the disk makes of them is what is to be found out.
        self.checksums[place, raw.nbytes] = zlib.crc32(raw.data)
        if not is_small:
            self._pieces.append((key, raw, place))
            self._bytes += raw.nbytes
            if self._bytes >= _MIN_BATCH_BYTES:
                self._submit_pieces()

    def wait(self) -> None:
        """Go on when all is written. Raises CheckpointError for an array that could not be."""
        self._submit_pieces()
        self._submit_pieces()

    def _submit_pieces(self) -> None:
        if self._written is not None:
            self._written.result()
            self._written = None
        if self._pieces:
            pieces, self._pieces, self._bytes = self._pieces, [], 0
            # Many at a time: for each call the thread would wait until the caller lets go of the interpreter's lock.
            if self._has_thread:
                try:
                    self._written = self._writer.submit(self._sink.put_pieces, pieces)
                except RuntimeError as e:
                    self._has_thread = False
                    warn_of_no_thread(e)
            if not self._has_thread:
                self._sink.put_pieces(pieces)


@contextlib.contextmanager
def close_on_failure(sink: H5Sink) -> Iterator[None]:
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
