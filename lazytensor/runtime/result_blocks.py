"""Memory blocks for large results: the caller owns the block that a step wrote, and the next step writes to another.

To copy a result of 40 MB takes as long as to compute it, and to allocate memory takes longer still (a chain of
operations on 10 million elements: 2.4 times the time with a copy). A block is reused for a later step when the last
array that views it is gone.
"""

from typing import Any

import numpy as np

from lazytensor.compiler.arena import find_buffer_views
from lazytensor.ir.program import Program
from lazytensor.ir.types import Type
from lazytensor.runtime.aligned_arrays import block_of, within

MIN_BYTES = 1 << 20
"""The minimum size of such a result, in bytes.

To copy a smaller one takes less time than to bind its instructions again.
"""


def owned_fetches(program: Program) -> dict[int, int]:
    """Return {index of a fetch: the temporary buffer of its memory} of the fetches that get result blocks.

    These are fetches of at least MIN_BYTES whose buffer is fetched only once.
    """
    views = find_buffer_views(program)
    owners = [views.get(b, b) for b in program.fetches]
    return {
        k: owner
        for k, owner in enumerate(owners)
        if program.buffers[owner].kind == "temp"
        and program.buffers[owner].type.nbytes >= MIN_BYTES
        and owners.count(owner) == 1
    }


class ResultBlocks:
    """Interchangeable memory blocks for one large result of a step.

    `array` is the block that the next step writes to.
    """

    def __init__(self, type: Type):
        self._type = type
        self._free: list[np.ndarray] = []
        self.array = self._next()

    def hand_out(self, fetched: np.ndarray) -> np.ndarray:
        """Return an array for the caller that shares the memory of `fetched`, a view of `array`.

        When the last view of the returned array is gone, the block becomes free for a later step.
        """
        return np.asarray(_Loan(fetched, self.array, self._free))

    def move(self) -> None:
        """Set `array` to a block that the caller does not hold: a free one, or else a new one."""
        self.array = self._next()

    def _next(self) -> np.ndarray:
        if self._free:
            return self._free.pop()
        block = block_of(self._type.size * self._type.dtype.host.itemsize)
        return within(block, self._type.shape, self._type.dtype.host)


class _Loan:
    """The base object of the arrays that the caller holds. Its finalizer marks the block as free."""

    __slots__ = ("__array_interface__", "_block", "_free")

    def __init__(self, fetched: np.ndarray, block: np.ndarray, free: list[np.ndarray]):
        self.__array_interface__: dict[str, Any] = fetched.__array_interface__
        self._block, self._free = block, free

    def __del__(self) -> None:
        # Keep at most one free block. That is enough for a loop that drops a result before the step after next.
        if not self._free:
            self._free.append(self._block)
