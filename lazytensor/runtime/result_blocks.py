"""Memory of large results: the caller owns what a step wrote, and the next step writes to another block.

To copy a result of 40 MB takes as long as to compute it, and new memory takes longer still (a chain of operations on
10 million elements: 2.4 times the time with a copy). So a block comes back for a later step when the last array that
shows it is gone.
"""

from typing import Any

import numpy as np

from lazytensor.compiler.arena import find_buffer_views
from lazytensor.ir.program import Program
from lazytensor.ir.types import Type
from lazytensor.runtime.aligned_arrays import block_of, within

MIN_BYTES = 1 << 20
"""Smaller results are copied, which takes less than to bind the instructions that write them again."""


def owned_fetches(program: Program) -> dict[int, int]:
    """Return, by number of a fetch, the temporary buffer of its memory, if it is large and fetched once."""
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
    """Interchangeable blocks of memory for one large result of a step. The next step writes to the block `array`."""

    def __init__(self, type: Type):
        self._type = type
        self._free: list[np.ndarray] = []
        self.array = self._next()

    def hand_out(self, fetched: np.ndarray) -> np.ndarray:
        """Return an array with the memory of `fetched`, a view of `array`, for the caller to keep."""
        return np.asarray(_Loan(fetched, self.array, self._free))

    def move(self) -> None:
        """Let `array` be a block that no array of a caller shows."""
        self.array = self._next()

    def _next(self) -> np.ndarray:
        if self._free:
            return self._free.pop()
        block = block_of(self._type.size * self._type.dtype.host.itemsize)
        return within(block, self._type.shape, self._type.dtype.host)


class _Loan:
    """What arrays of a caller are views of: when the last one is gone, the block is free."""

    __slots__ = ("__array_interface__", "_block", "_free")

    def __init__(self, fetched: np.ndarray, block: np.ndarray, free: list[np.ndarray]):
        self.__array_interface__: dict[str, Any] = fetched.__array_interface__
        self._block, self._free = block, free

    def __del__(self) -> None:
        # One is enough for a loop that drops a result before the step after next; more would never be given back.
        if not self._free:
            self._free.append(self._block)
