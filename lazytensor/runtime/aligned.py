"""Arrays that begin where a line of the cache does: NumPy promises 16 bytes, and registers are as wide as a line.

A register that is read or written across two lines takes both of them.
"""

import threading
from math import prod

import numpy as np
from numpy.typing import DTypeLike

ALIGNMENT = 64  # bytes: one cache line, one AVX-512 register


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

    The system gives such a block in large pages, and is asked a quarter as often. A block stays as long as any array in
    it. Threads may share one of these.
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
                self._block, self._used = aligned((self.BLOCK_BYTES,), np.uint8), 0
            room = self._block[self._used : self._used + size]
            self._used += -(-size // ALIGNMENT) * ALIGNMENT
        return room.view(dtype).reshape(shape)
