"""An open file whose bytes stay readable after its path was deleted or replaced."""

import io
import os
import weakref

import h5py
import numpy as np

from lazytensor.errors import CheckpointError
from lazytensor.runtime.aligned_arrays import BlockAllocator
from lazytensor.system.plain_files import open_descriptor

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_MAX_READ_BYTES = 1 << 30  # below what one call of the system may be asked for


class _BorrowedStream(io.FileIO):
    """A stream over a descriptor that belongs to its owner, whom it keeps alive."""

    def __init__(self, owner: "RawFile"):
        # h5py and zipfile close what they are given. The descriptor is not theirs, and other arrays still read from
        # it.
        super().__init__(owner.descriptor, "rb", closefd=False)
        self._owner = owner


class RawFile:
    """An open file that outlives its HDF5 handle; it closes when the last array that needs it is gone.

    Read by position and not mapped: a mapped file that becomes shorter kills the process that looks at it.
    """

    def __init__(self, path: str):
        self.path = path
        # Opened once: a script may delete the checkpoint after loading it (the original allows that), or a later
        # save may replace it, and all tensors still have to come from the file that was looked at first.
        self.descriptor = open_descriptor(path)
        # A finalizer, not `__del__`: it runs at the end of the process too, and once only.
        self.close = weakref.finalize(self, os.close, self.descriptor)
        # What headers claim is measured against this size before anything is allocated for it.
        self.size = os.fstat(self.descriptor).st_size
        self.allocator = BlockAllocator()

    @property
    def is_hdf5(self) -> bool:
        """Whether it begins as an HDF5 file does."""
        return self.head(len(HDF5_MAGIC)) == HDF5_MAGIC

    def open_hdf5(self) -> h5py.File:
        """A handle for what is in the file. Raises ValueError when it is not HDF5, OSError when it is cut short."""
        # HDF5 would look for its signature at 512, 1024 and so on too, behind a block of the user's. No writer of
        # checkpoints leaves one, so a file that begins otherwise is something else.
        if not self.is_hdf5:
            raise ValueError(f"{self.path} is not an HDF5 file")
        return h5py.File(self.stream(), "r")

    def stream(self) -> io.BufferedReader:
        """The bytes for who wants to read them in turn; it keeps the file open, and closing it does not close that."""
        # The same descriptor, because the path may be replaced between two opens.
        return io.BufferedReader(_BorrowedStream(self))

    def head(self, size: int) -> bytes:
        """The first `size` bytes, or what there is."""
        return os.pread(self.descriptor, size, 0)

    def fetch(self, offset: int, target: np.ndarray) -> None:
        """Fill `target` (one axis of bytes) with the file's bytes from `offset` on."""
        room, done = target.data, 0
        while done < target.size:
            # By position: arrays of one file may be read from several threads, which would move a shared position.
            # Read straight into the array, since weights are too large to copy once more.
            count = os.preadv(self.descriptor, [room[done : done + _MAX_READ_BYTES]], offset + done)
            if not count:
                raise CheckpointError(
                    "damaged: the file has become shorter since it was opened", hint="Restore the file from a copy."
                )
            done += count
