"""Transfer of batch parts from workers to the client through slots in shared memory.

Each worker has a ring of slots, and each slot holds the arrays of one part. The client requests a part for a slot only
after it has emptied the slot. A worker that is ahead therefore waits, and the memory is bounded.
"""

import math
import mmap
import pathlib
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory

import numpy as np

from lazytensor.core import source
from lazytensor.errors import DataError

SLOTS_PER_WORKER = 4
"""The number of parts that a worker may be ahead."""
ALIGNMENT_BYTES = 64
"""The alignment of arrays in a slot, which is the size of a cache line."""
SHARED_MEMORY_FOLDER = pathlib.Path("/dev/shm")
"""The file system in which Linux keeps shared memory. Writing beyond its capacity kills the process."""


class AnonymousMemory:
    """Memory that is shared with forked processes. It has no name that a killed process could leave behind."""

    def __init__(self, size: int):
        self._pages = mmap.mmap(-1, size)
        self.buf = memoryview(self._pages)

    def close(self) -> None:
        """Release the memory. Raises BufferError while an array refers to it."""
        self.buf.release()
        self._pages.close()

    def unlink(self) -> None:
        """Do nothing, because the memory has no name."""


Memory = SharedMemory | AnonymousMemory


@dataclass(frozen=True)
class SlotLayout:
    """The shapes and dtypes of the arrays in a slot, in order."""

    arrays: tuple[tuple[tuple[int, ...], str], ...]

    @property
    def slot_bytes(self) -> int:
        """Return the size of a slot in bytes, which is at least `ALIGNMENT_BYTES`."""
        return max(ALIGNMENT_BYTES, sum(map(self._padded_bytes, range(len(self.arrays)))))

    def _padded_bytes(self, i: int) -> int:
        # Each array begins at a cache line, so that copies are aligned for vector instructions.
        shape, dtype = self.arrays[i]
        return -(-math.prod(shape) * np.dtype(dtype).itemsize // ALIGNMENT_BYTES) * ALIGNMENT_BYTES

    def views(self, memory: Memory, slot: int) -> list[np.ndarray]:
        """Return the arrays of slot number `slot`, counted from 0, as views of the memory.

        They must be deleted before the memory is closed.
        """
        arrays, start = [], slot * self.slot_bytes
        for i, (shape, dtype) in enumerate(self.arrays):
            arrays.append(np.ndarray(shape, dtype, memory.buf, start))
            start += self._padded_bytes(i)
        return arrays

    def fill(self, memory: Memory, slot: int, arrays: Sequence[np.ndarray]) -> None:
        """Copy arrays into a slot. Raises DataError if their shapes or dtypes differ from the layout."""
        forms = tuple((a.shape, a.dtype.str) for a in arrays)
        if forms != self.arrays:
            raise DataError(
                f"the batch of this worker has {_format_arrays(forms)}, but the client's first batch has "
                f"{_format_arrays(self.arrays)}",
                hint="Return batches of the same shapes and dtypes from the input function in every process; the "
                "number of samples is cstorch.distributed.get_streaming_batch_size(batch_size).",
            )
        for view, array in zip(self.views(memory, slot), arrays, strict=True):
            view[...] = array


def _format_arrays(arrays: tuple[tuple[tuple[int, ...], str], ...]) -> str:
    return ", ".join(f"{np.dtype(dtype)}{list(shape)}" for shape, dtype in arrays)


def allocate_rings(layouts: Sequence[SlotLayout], has_forks: bool) -> list[Memory]:
    """Return new shared memory for the ring of each layout.

    With `has_forks` the memory is anonymous; otherwise it has a name by which other processes open it. Raises DataError
    if the system does not have enough shared memory.
    """
    needed = sum(SLOTS_PER_WORKER * layout.slot_bytes for layout in layouts)
    # Linux grants more shared memory than it has, and kills the process that writes to it. So check the free space
    # first.
    if SHARED_MEMORY_FOLDER.is_dir() and (free := shutil.disk_usage(SHARED_MEMORY_FOLDER).free) < needed:
        raise DataError(
            f"the workers need {needed / 1e6:.0f} MB of shared memory, but {SHARED_MEMORY_FOLDER} has "
            f"{free / 1e6:.0f} MB left",
            where=source.where(),
            hint="Use fewer num_workers_per_csx or smaller batches, or give the container more shared memory.",
        )
    sizes = [SLOTS_PER_WORKER * layout.slot_bytes for layout in layouts]
    return [AnonymousMemory(size) if has_forks else SharedMemory(create=True, size=size) for size in sizes]


def unlink_rings(rings: Sequence[Memory]) -> None:
    """Remove the names of the shared memory, so that it is freed when all processes that use it have ended."""
    for memory in rings:
        with suppress(FileNotFoundError):  # the name was removed before
            memory.unlink()


def close_rings(rings: Sequence[Memory]) -> None:
    """Remove the names of the shared memory and release it.

    Memory to which an array still refers is released with the array.
    """
    unlink_rings(rings)
    for memory in rings:
        with suppress(BufferError):  # an exception's traceback refers to an array, with which the memory is freed
            memory.close()
