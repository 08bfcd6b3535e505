"""Settings of the C library's heap."""

import ctypes
import functools
import os

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
"""Numbers of the parameters in `mallopt` of glibc."""
KEPT_BYTES = 64 << 20
"""Free memory at the end of the heap that is not returned to the operating system."""
LARGE_BYTES = 32 << 20
"""From this size on, a freed block is returned to the operating system; the most that glibc selects by itself."""


@functools.cache
def keep_freed_memory() -> bool:
    """Make the C library keep up to 64 MB of freed memory for new arrays, and return whether it does.

    Return False without glibc, and if the environment has settings of the heap.
    """
    # A loop frees and allocates results of the same size. If they are at the end of the heap, glibc returns them to the
    # operating system each time, and the page faults of the next iteration take longer than its computations.
    if any(name.startswith("MALLOC_") and name.endswith("_") for name in os.environ):
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    options = ((MMAP_THRESHOLD, LARGE_BYTES), (TRIM_THRESHOLD, KEPT_BYTES), (TOP_PAD, LARGE_BYTES // 8))
    return all(set_option(option, size) == 1 for option, size in options)
