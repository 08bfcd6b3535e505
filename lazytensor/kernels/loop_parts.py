"""How loops are cut for threads: as their extents and their work say, whoever runs them."""

PART_WORK = 1 << 16
"""Additions that are worth waking a thread for: some 20 us."""
SPECIAL = 8
"""How many additions one exponential or logarithm counts for."""
MOST_PARTS = 16
LINE = 16  # elements of float32 in a line of the cache: two threads should not write into one

Bounds = tuple[tuple[int, int], ...]


def bounds(extent: int, work: int) -> Bounds:
    """First and last of each part of a loop; one part where `work` is too little to share."""
    parts = max(1, min(MOST_PARTS, work // PART_WORK, extent))
    each = -(-extent // parts)
    if each > 4 * LINE:
        each = -(-each // LINE) * LINE
    return tuple((k, min(k + each, extent)) for k in range(0, max(extent, 1), max(each, 1)))
