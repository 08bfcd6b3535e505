"""Results that last: a caller keeps the memory that a step wrote, and the next step writes to another block of it.

To copy a large result takes as long as to compute it, and memory that the system gives anew takes longer still. So a
large result has blocks of its own outside of the arena, and a step writes to one that nobody looks at any more.
"""

import sys

import numpy as np

from lazytensor.compiler.arena import views_of
from lazytensor.ir.program import Program
from lazytensor.ir.types import Type
from lazytensor.runtime.aligned import block_of, within

LARGE = 1 << 20
"""From so many bytes on; a copy of fewer takes less than to bind the instructions that write them anew."""


def lasting_fetches(program: Program) -> dict[int, int]:
    """By number of a fetch the temporary buffer that owns its memory, where it is large and asked for once."""
    views = views_of(program)
    owners = [views.get(b, b) for b in program.fetches]
    return {
        k: owner
        for k, owner in enumerate(owners)
        if program.buffers[owner].kind == "temp"
        and program.buffers[owner].type.nbytes >= LARGE
        and owners.count(owner) == 1
    }


class Lasting:
    """The blocks of one buffer, of which the first is that of `array`, which the step writes.

    Every array that shares a block's memory refers to it, so that the number of references tells who still looks.
    """

    def __init__(self, type: Type):
        self._type = type
        self._blocks = [self._block()]
        self._alone = self._bound = self._references(0)
        self.array = self._array()

    def settle(self) -> None:
        """The instructions are bound to `array`: whoever else refers to its block from now on holds a result."""
        self._bound = self._references(0)

    def has_moved(self) -> bool:
        """Whether somebody holds what the last step wrote, so that `array` now lies elsewhere."""
        if self._references(0) <= self._bound:
            return False
        # A loop holds one result while it asks for the next: two blocks that change places serve it for ever.
        if len(self._blocks) == 2 and self._references(1) <= self._alone:
            self._blocks.reverse()
        else:
            self._blocks = [self._block(), self._blocks[0]]
        self.array = self._array()
        return True

    def _references(self, k: int) -> int:
        return sys.getrefcount(self._blocks[k])

    def _block(self) -> np.ndarray:
        return block_of(self._type.size * self._type.dtype.host.itemsize)

    def _array(self) -> np.ndarray:
        return within(self._blocks[0], self._type.shape, self._type.dtype.host)
