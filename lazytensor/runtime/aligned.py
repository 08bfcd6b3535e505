"""Arrays that begin where a line of the cache does: NumPy promises 16 bytes, and registers are as wide as a line.

A register that is read or written across two lines takes both of them.
"""

import contextlib
import mmap
import threading
from math import prod

import numpy as np
from numpy.typing import DTypeLike

ALIGNMENT = 64  # bytes: one cache line, one AVX-512 register


LARGE_PAGE = 1 << 21
"""Bytes of the pages that the system gives where it is asked for large ones; others have 4 kB."""


def zeros_in_large_pages(size_bytes: int) -> np.ndarray:
    """Aligned memory of zeros, of so many bytes or some more, in large pages if the system gives any.

    What steps go through again and again takes the processor less time to look up: a step of 12 MB takes 3 % less.
    """
    if size_bytes >= LARGE_PAGE // 2 and hasattr(mmap, "MADV_HUGEPAGE"):
        whole = -(-size_bytes // LARGE_PAGE) * LARGE_PAGE
        # A system may have no large pages, and no room for more than was asked for.
        with contextlib.suppress(OSError):
            # One more, since a large page begins at a multiple of its size; what is never touched is never given.
            memory = mmap.mmap(-1, whole + LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            memory.madvise(mmap.MADV_HUGEPAGE)
            block = np.frombuffer(memory, np.uint8)
            start = -block.ctypes.data % LARGE_PAGE
            return block[start : start + whole]
    block = np.zeros(size_bytes + ALIGNMENT, np.uint8)
    return block[-block.ctypes.data % ALIGNMENT :]


def block_of(size_bytes: int) -> np.ndarray:
    """Memory in which so many bytes have room behind its first aligned one; what it holds is anything."""
    return np.empty(size_bytes + ALIGNMENT, np.uint8)


def within(block: np.ndarray, shape: tuple[int, ...], dtype: DTypeLike, offset: int = 0) -> np.ndarray:
    """The array that lies so many bytes behind the first aligned byte of a block. A view."""
    start = -block.ctypes.data % ALIGNMENT + offset
    return block[start : start + prod(shape) * np.dtype(dtype).itemsize].view(dtype).reshape(shape)


def aligned(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """An array of memory of its own; what it holds is anything."""
    return within(block_of(prod(shape) * np.dtype(dtype).itemsize), shape, dtype)


class Rooms:
    """Memory for many arrays that are made together, and mostly leave together: for small ones a block for several.

    The system gives such a block in large pages. It stays as long as any array in it. Threads may share one of these.
    """

    BLOCK_BYTES = 1 << 23
    SMALL_BYTES = 1 << 20

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._block, self._used = np.empty(0, np.uint8), 0

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        """An array; what it holds is anything."""
        size = prod(shape) * np.dtype(dtype).itemsize
        if size > self.SMALL_BYTES:
            return aligned(shape, dtype)
        with self._lock:
            if self._used + size > len(self._block):
                self._block, self._used = zeros_in_large_pages(self.BLOCK_BYTES), 0
            room = self._block[self._used : self._used + size]
            self._used += -(-size // ALIGNMENT) * ALIGNMENT
        return room.view(dtype).reshape(shape)
