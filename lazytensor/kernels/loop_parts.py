"""Cut loops into parts for threads. The cuts depend only on the extent and the work of a loop."""

PART_WORK = 1 << 16
"""The minimum work of a part, in additions (about 20 us); less is not worth waking a thread."""
SPECIAL = 8
"""The number of additions that one exponential, logarithm or similar function counts for."""
MOST_PARTS = 16
LINE = 16  # float32 elements in a cache line: two threads should not write to the same line

Bounds = tuple[tuple[int, int], ...]


def bounds(extent: int, work: int) -> Bounds:
    """Return (first, end) of each part of a loop over `extent` iterations.

    There are at most MOST_PARTS parts, and one for each PART_WORK of `work` (in additions). The length of a part of
    more than 4 * LINE iterations is a multiple of LINE. An empty loop has one empty part.
    """
    parts = max(1, min(MOST_PARTS, work // PART_WORK, extent))
    each = -(-extent // parts)
    if each > 4 * LINE:
        each = -(-each // LINE) * LINE
    return tuple((k, min(k + each, extent)) for k in range(0, max(extent, 1), max(each, 1)))
