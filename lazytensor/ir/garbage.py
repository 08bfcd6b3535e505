"""Searching for cycles of garbage, left out while many records are made that all live.

Nodes, instructions and what is looked up of them go when nobody holds them. Python looks through all of them for cycles
again and again while they become more, which takes a third of the time to record or to plan a deep net.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_search() -> Iterator[None]:
    """A block in which no cycles are searched for, in any thread."""
    searches = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searches:
            gc.enable()
