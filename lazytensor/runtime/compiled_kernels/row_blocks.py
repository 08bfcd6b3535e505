"""Run several loops over the same rows block by block, while the rows of a block are in a cache."""

from typing import Any

from lazytensor.runtime.atomics import called, prefetch, words_at
from lazytensor.runtime.language import typed

LINE_BYTES = 64


@typed("void(int64[::1])")
def kernel(words: Any) -> None:
    """Call each function on a block of rows, then all of them on the next block.

    `words` holds, in order:

    - the number of rows, the rows of a block, the number of calls, of pointers and of streams;
    - for each call: the function, its argument table, and its iterations per row;
    - for each pointer: the address of its word in an argument table, its address for the first row, and the bytes per
      row;
    - for each stream to prefetch: its address for the first row, and the bytes per row.

    Before each call, a share of the streams' rows of the next block is prefetched.
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
                # Round up to whole cache lines, so that no line is prefetched twice.
                share = (size // steps + LINE_BYTES - 1) & -LINE_BYTES
                for at in range(share * j, min(share * (j + 1), size), LINE_BYTES):
                    prefetch(start + at)
            table = words_at(words[calls + 3 * j + 1])
            table[0] = 0
            table[1] = height * words[calls + 3 * j + 2]
            called(words[calls + 3 * j], words[calls + 3 * j + 1])
