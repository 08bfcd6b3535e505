"""Several loops over the same rows, run block by block, while the rows of a block are in a cache."""

from typing import Any

from lazytensor.runtime.atomics import called, prefetch, words_at
from lazytensor.runtime.language import typed

LINE_BYTES = 64


@typed("void(int64[::1])")
def kernel(words: Any) -> None:
    """Call each function on a block of rows, then all of them on the next block.

    `words` are: the number of rows, the rows of a block, and how many calls, pointers and streams there are; then for
    each call the function, its table of arguments and the elements of a row; for each pointer the address of its word,
    its address for the first row and the bytes of a row; for each stream its address and the bytes of a row. Before
    each call a share of what the streams bring for the next block is prefetched.
    """
    rows, block, steps, pointers, streams = words[0], words[1], words[2], words[3], words[4]
    calls = 5
    moved = calls + 3 * steps
    ahead = moved + 3 * pointers
    for row in range(0, rows, block):
        height = min(rows - row, block)
        for k in range(pointers):
            slot = words_at(words[moved + 3 * k])
            slot[0] = words[moved + 3 * k + 1] + row * words[moved + 3 * k + 2]
        for j in range(steps):
            for n in range(streams):
                row_bytes = words[ahead + 2 * n + 1]
                size = block * row_bytes
                start = words[ahead + 2 * n] + (row + block) * row_bytes
                # Whole cache lines, so that no two calls ask for parts of one.
                share = (size // steps + LINE_BYTES - 1) & -LINE_BYTES
                for at in range(share * j, min(share * (j + 1), size), LINE_BYTES):
                    prefetch(start + at)
            table = words_at(words[calls + 3 * j + 1])
            table[0] = 0
            table[1] = height * words[calls + 3 * j + 2]
            called(words[calls + 3 * j], words[calls + 3 * j + 1])
