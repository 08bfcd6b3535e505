"""An open file whose bytes stay readable after its path was deleted or replaced."""

import io
import os
import weakref
from typing import Any

import h5py
import numpy as np

from lazytensor.errors import CheckpointError
from lazytensor.runtime.aligned_arrays import BlockAllocator
from lazytensor.system.plain_files import open_descriptor
from lazytensor.system.positioned_files import position_lock, read_at, read_into_at

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
"""The first bytes of an HDF5 file."""
_MAX_READ_BYTES = 1 << 30  # less than the limit of one system call


class _BorrowedStream(io.FileIO):
    """A stream over the descriptor of a RawFile.

    It keeps the RawFile alive, and closing it does not close the descriptor.
    """

    def __init__(self, owner: "RawFile"):
        # h5py and zipfile close their stream. The descriptor must stay open, because other arrays read from it.
        super().__init__(owner.descriptor, "rb", closefd=False)
        self._owner = owner

    # Systems without positioned reads move the position of the descriptor for a moment, with this lock held.
    def readinto(self, target: Any) -> int | None:
        with position_lock:
            return super().readinto(target)

    def readall(self) -> bytes:
        with position_lock:
            return super().readall()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with position_lock:
            return super().seek(offset, whence)

    def tell(self) -> int:
        with position_lock:
            return super().tell()


class RawFile:
    """An open file that is independent of HDF5's handle. It is closed when the last array that reads it is freed.

    The file is read by position and not memory-mapped, because a process that accesses a shortened mapped file is
    killed.
    """

    def __init__(self, path: str):
        self.path = path
        # Open the file once: a script may delete the checkpoint after loading it, as with the original, or a later save
        # may replace it. All tensors must come from the same file.
        self.descriptor = open_descriptor(path)
        # A finalizer also runs at the end of the process, unlike `__del__`, and only once.
        self.close = weakref.finalize(self, os.close, self.descriptor)
        # Readers compare the sizes in headers with this size before they allocate memory.
        self.size = os.fstat(self.descriptor).st_size
        self.allocator = BlockAllocator()

    @property
    def is_hdf5(self) -> bool:
        """Whether the file begins with HDF5's magic bytes."""
        return self.head(len(HDF5_MAGIC)) == HDF5_MAGIC

    def open_hdf5(self) -> h5py.File:
        """Return an h5py file for reading. Raises ValueError if it is no HDF5 file, and OSError if it is cut short."""
        # HDF5 also accepts its signature at 512, 1024 and so on, after a user block. No writer of checkpoints writes
        # one.
        if not self.is_hdf5:
            raise ValueError(f"{self.path} is not an HDF5 file")
        return h5py.File(self.stream(), "r")

    def stream(self) -> io.BufferedReader:
        """Return a stream over the file. It keeps the file open, and closing it does not close the file."""
        # Use the same descriptor, because the path may have been replaced.
        return io.BufferedReader(_BorrowedStream(self))

    def head(self, size: int) -> bytes:
        """Return the first `size` bytes, or all bytes if the file is shorter."""
        return read_at(self.descriptor, size, 0)

    def fetch(self, offset: int, target: np.ndarray) -> None:
        """Fill `target`, a 1-D array of bytes, with the bytes from `offset` on.

        Raises CheckpointError if the file is too short.
        """
        room, done = target.data, 0
        while done < target.size:
            # Read by position, because several threads may read arrays of one file. Read directly into the array, to
            # avoid a copy.
            count = read_into_at(self.descriptor, room[done : done + _MAX_READ_BYTES], offset + done)
            if not count:
                raise CheckpointError(
                    "damaged: the file has become shorter since it was opened", hint="Restore the file from a copy."
                )
            done += count
