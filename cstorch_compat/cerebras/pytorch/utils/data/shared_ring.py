"""A worker's shares on their way to the client: a few slots in shared memory, each for the arrays of one share.

The client says into which slot a share goes, and says so of a slot only when it has emptied it. So a worker that is
ahead waits, and the memory is bounded.
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
"""Shares that a worker may be ahead."""
ALIGNMENT_BYTES = 64
SHARED_MEMORY_FOLDER = pathlib.Path("/dev/shm")
"""Where Linux keeps shared memory; what is written beyond its size kills the process."""


class AnonymousMemory:
    """Memory that forks share. It has no name that a process which is killed could leave behind."""

    def __init__(self, size: int):
        self._pages = mmap.mmap(-1, size)
        self.buf = memoryview(self._pages)

    def close(self) -> None:
        """Let go of it. Raises BufferError while an array looks into it."""
        self.buf.release()
        self._pages.close()

    def unlink(self) -> None:
        """There is no name to be taken away."""


Memory = SharedMemory | AnonymousMemory


@dataclass(frozen=True)
class SlotLayout:
    """Where the arrays of a share lie in a slot: their shapes and dtypes, in order."""

    arrays: tuple[tuple[tuple[int, ...], str], ...]

    @property
    def slot_bytes(self) -> int:
        """The size of a slot; at least one byte, since no memory has none."""
        return max(ALIGNMENT_BYTES, sum(map(self._padded_bytes, range(len(self.arrays)))))

    def _padded_bytes(self, i: int) -> int:
        # Each array begins at a cache line, so that copies are aligned for vector instructions.
        shape, dtype = self.arrays[i]
        # Rounded up, as everywhere: -(-a // b).
        return -(-math.prod(shape) * np.dtype(dtype).itemsize // ALIGNMENT_BYTES) * ALIGNMENT_BYTES

    def views(self, memory: Memory, slot: int) -> list[np.ndarray]:
        """The arrays of a slot. They must be gone before the memory is closed."""
        arrays, start = [], slot * self.slot_bytes
        for i, (shape, dtype) in enumerate(self.arrays):
            arrays.append(np.ndarray(shape, dtype, memory.buf, start))
            start += self._padded_bytes(i)
        return arrays

    def fill(self, memory: Memory, slot: int, arrays: Sequence[np.ndarray]) -> None:
        """Put arrays into a slot. Raises DataError if they are others than the layout is for."""
        forms = tuple((a.shape, a.dtype.str) for a in arrays)
        if forms != self.arrays:
            raise DataError(
                f"this worker gives {_format_arrays(forms)}, and the client's first batch calls for "
                f"{_format_arrays(self.arrays)}",
                hint="Let the input function give batches of the same shapes and dtypes in every process; the number "
                "of samples is cstorch.distributed.get_streaming_batch_size(batch_size).",
            )
        for view, array in zip(self.views(memory, slot), arrays, strict=True):
            view[...] = array


def _format_arrays(arrays: tuple[tuple[tuple[int, ...], str], ...]) -> str:
    return ", ".join(f"{np.dtype(dtype)}{list(shape)}" for shape, dtype in arrays)


def allocate_rings(layouts: Sequence[SlotLayout], has_forks: bool) -> list[Memory]:
    """New shared memory for a ring of each layout; processes that are no forks find it by a name.

    Raises DataError if the system has not enough of it."""
    needed = sum(SLOTS_PER_WORKER * layout.slot_bytes for layout in layouts)
    # Linux grants more than there is and kills the process when it is written to, so the room is asked for first.
    if SHARED_MEMORY_FOLDER.is_dir() and (free := shutil.disk_usage(SHARED_MEMORY_FOLDER).free) < needed:
        raise DataError(
            f"the workers need {needed / 1e6:.0f} MB of shared memory, and {SHARED_MEMORY_FOLDER} has "
            f"{free / 1e6:.0f} MB left",
            where=source.where(),
            hint="Use fewer num_workers_per_csx or smaller batches, or give the container more shared memory.",
        )
    sizes = [SLOTS_PER_WORKER * layout.slot_bytes for layout in layouts]
    return [AnonymousMemory(size) if has_forks else SharedMemory(create=True, size=size) for size in sizes]


def unlink_rings(rings: Sequence[Memory]) -> None:
    """Take the names from the system: the memory then ends with the processes that use it, however they end."""
    for memory in rings:
        with suppress(FileNotFoundError):  # it was done before
            memory.unlink()


def close_rings(rings: Sequence[Memory]) -> None:
    """Let go of the memory."""
    unlink_rings(rings)
    for memory in rings:
        with suppress(BufferError):  # an array of an exception's traceback looks into it: it goes with the array
            memory.close()
