"""The file object that HDF5 writes to. It hides write errors from HDF5, which cannot handle a full disk.

If closing a file fails, HDF5 keeps it and tries again at the end of the process, which then crashes.
"""

import contextlib
import ctypes
import io
import os
import sys
import zlib
from collections.abc import Iterator
from concurrent import futures
from typing import Any, Self

import h5py
import numpy as np

from cstorch_compat.files.atomic_write import DISK_FULL_HINT
from cstorch_compat.files.checksums import Trailer, compute_rest_checksum, encode_trailer
from lazytensor.core.file_array import report_file_errors
from lazytensor.system.positioned_files import BINARY, read_at, write_at
from lazytensor.system.signals import defer_signals
from lazytensor.system.threads import warn_of_no_thread

ArrayPiece = tuple[str, np.ndarray, int]
"""The key of an array, its bytes, and their offset in the file."""
Checksums = dict[tuple[int, int], int]
"""The CRC-32 of each array, by offset and size in bytes."""

_h5py: Any = h5py  # its stubs do not describe the low-level interface completely
_MAX_DIRECT_BYTES = 1 << 16  # the size of HDF5's buffer for a dataset
_MIN_BATCH_BYTES = 1 << 25
_SYNC_FILE_RANGE_WRITE = 2  # the value of SYNC_FILE_RANGE_WRITE in Linux


class H5Sink(io.RawIOBase):
    """A new file that stores its first write error and silently ignores everything written after it.

    `check` raises the stored error. Raises FileExistsError if `path` exists.
    """

    # A class attribute, because the garbage collector calls `close` even if opening the file failed.
    _descriptor = -1

    def __init__(self, path: str):
        # O_EXCL: the temporary name is random, so an existing file of that name must not be overwritten.
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | BINARY, 0o666)
        self._path, self._at = path, 0
        self._left_out: int | None = None
        self._error: OSError | None = None

    def check(self) -> None:
        """Raise the first OSError, if there was one."""
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        """Ignore all further writes, because the file is not needed."""
        self._error = self._error or OSError("the file is no longer needed")

    def append_checksums(self, arrays: Checksums) -> None:
        """Append the trailer with the checksums of arrays and of all other bytes. Does nothing after an error."""
        if self._error is None:
            size = self.seek(0, os.SEEK_END)
            self.write(encode_trailer(Trailer(size, arrays, compute_rest_checksum(self._descriptor, arrays, size))))

    def close(self) -> None:
        """Close the file descriptor."""
        if not self.closed and self._descriptor >= 0:
            os.close(self._descriptor)
        super().close()

    def write(self, data: Any) -> int:
        """Write all bytes at the current position, move it past them, and return their number.

        The bytes of the array of `skip_array`, recognised by its address, are passed over without being written.
        """
        view = memoryview(data).cast("B")
        if self._left_out is None or np.frombuffer(view, np.uint8).ctypes.data != self._left_out:
            self.put(view, self._at)
        self._at += len(view)
        return len(view)

    def put(self, view: memoryview, place: int) -> None:
        """Write all bytes at offset `place`. An error is stored instead of raised."""
        # After the first error, pretend that all writes succeed: HDF5 would repeat a failed write at the end of the
        # process. `check` raises the error.
        done = 0
        while self._error is None and done < len(view):
            try:
                # Write at an offset, because HDF5 moves the position between writes. Continue short writes, which occur
                # if the disk is nearly full.
                done += write_at(self._descriptor, view[done:], place + done)
            except OSError as e:
                self._error = e

    def put_pieces(self, pieces: list[ArrayPiece]) -> None:
        """Write pieces of arrays, each at its byte offset in the file.

        Raises CheckpointError with the key of a piece that cannot be written, for example because the disk is full.
        """
        for key, raw, place in pieces:
            with report_file_errors(f"{key!r} cannot be written", self._path, hint=DISK_FULL_HINT):
                self.put(raw.data, place)
                self.check()
        self._begin(min(place for *_, place in pieces), max(place + raw.nbytes for _, raw, place in pieces))

    def _begin(self, place: int, end: int) -> None:
        """Make the system start to write a range of bytes to the disk, so that the final flush takes less time.

        `place` and `end` are the begin and end of the range in the file. Does nothing on systems other than Linux.
        """
        # Not posix_fadvise(DONTNEED), which would evict nearby tables that are read again.
        if sys.platform == "linux" and (begin := getattr(ctypes.CDLL(None), "sync_file_range", None)) is not None:
            begin(self._descriptor, ctypes.c_int64(place), ctypes.c_int64(end - place), _SYNC_FILE_RANGE_WRITE)

    @contextlib.contextmanager
    def skip_array(self, array: np.ndarray) -> Iterator[None]:
        """Do not write this array while the context is active. It is recognized by the address of its memory.

        The array must have the dtype of the file and exceed HDF5's buffer; otherwise HDF5 writes a copy, which is not
        recognized. HDF5 still reserves the bytes in the file; the caller writes them.
        """
        # HDF5 passes the array's own memory to `write` if it has the dtype of the file and exceeds HDF5's buffer.
        self._left_out = array.ctypes.data
        try:
            yield
        finally:
            self._left_out = None

    def readinto(self, target: Any) -> int:
        """Fill `target` with the bytes at the current position. Bytes that were never written are zero."""
        view = memoryview(target).cast("B")
        # Return zeros for bytes that were not written, like a hole in a file. After a short read HDF5 raises an error
        # without a cause.
        data = read_at(self._descriptor, len(view), self._at)
        view[:] = data + bytes(len(view) - len(data))
        self._at += len(view)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Set the file's length to `size`, or to the current position, and return it.

        An error is stored instead of raised.
        """
        size = self._at if size is None else size
        # A limit on file sizes may apply here too.
        if self._error is None:
            try:
                os.ftruncate(self._descriptor, size)
            except OSError as e:
                self._error = e
        return size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the current position and return it.

        `offset` counts from the start, the current position or the end of the bytes written so far, as `whence` states.
        """
        # Use the real size, because HDF5 seeks to the end to determine it.
        starts = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: os.fstat(self._descriptor).st_size}
        self._at = starts[whence] + offset
        return self._at

    def tell(self) -> int:
        """Return the current position."""
        return self._at


class BackgroundWriter:
    """A context manager that writes arrays in a background thread while the caller writes the file's tables.

    `checksums` collects the checksums of the arrays. If the system cannot start a thread, the caller writes the arrays.
    Leaving the context waits for all writes; after an exception it abandons the file.
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
        # The thread must not write after the descriptor is closed, because another file may get its number. Signals are
        # deferred for that reason.
        with defer_signals():
            try:
                if kind is None:
                    self.wait()
                else:
                    self._sink.abandon()
            finally:
                self._writer.shutdown()

    def put(self, key: str, array: np.ndarray, dataset: Any) -> None:
        """Write `array` to `dataset`, an h5py low-level dataset without an offset in the file, and record its checksum.

        HDF5 writes small arrays and the thread larger ones, later: do not change these until then. An empty array is
        skipped. `key` names the array in errors. Raises CheckpointError if an earlier array could not be written.
        """
        if not array.size:
            return
        ordered = np.asarray(array, order="C")
        raw = ordered.reshape(-1).view(np.uint8)
        # HDF5 buffers small arrays and writes them with its tables, which is faster than using the thread.
        is_small = raw.nbytes <= _MAX_DIRECT_BYTES
        with contextlib.nullcontext() if is_small else self._sink.skip_array(raw):
            dataset.write(_h5py.h5s.ALL, _h5py.h5s.ALL, ordered)
        place = dataset.get_offset()
        # Compute the checksum from memory, so that it detects errors of the disk.
        self.checksums[place, raw.nbytes] = zlib.crc32(raw.data)
        if not is_small:
            self._pieces.append((key, raw, place))
            self._bytes += raw.nbytes
            if self._bytes >= _MIN_BATCH_BYTES:
                self._submit_pieces()

    def wait(self) -> None:
        """Wait until all arrays are written. Raises CheckpointError for one that could not be written."""
        self._submit_pieces()
        self._submit_pieces()

    def _submit_pieces(self) -> None:
        """Wait for the previous batch of pieces, then pass the collected pieces to the thread.

        If no thread can be started, warn once, and write them at once from then on. Raises CheckpointError for an array
        of the previous batch that could not be written.
        """
        if self._written is not None:
            self._written.result()
            self._written = None
        if self._pieces:
            pieces, self._pieces, self._bytes = self._pieces, [], 0
            # Submit many pieces at a time: at each call the thread waits for the interpreter lock.
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
    """If the block raises, abandon the file and close all of HDF5's handles to it."""
    try:
        yield
    except BaseException:
        # A signal may arrive after HDF5 has opened the file and before a variable holds it. Closing it at the end of
        # the process would then write to a closed stream and print an error.
        sink.abandon()
        name = repr(sink).encode("ascii", "replace")
        for file in h5py.h5f.get_obj_ids(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE):
            if h5py.h5f.get_name(file) == name:
                h5py.File(file).close()
        raise
