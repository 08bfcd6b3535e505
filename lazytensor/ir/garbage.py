"""Searching for cycles of garbage, left out while many records are made that all live.

Nodes, instructions and what is looked up of them go when nobody holds them. Python looks through all of them for cycles
again and again while they become more, which takes a third of the time to record or to plan a deep net.
"""

import atexit
import contextlib
import gc
import io


class no_search:
    """A block in which no cycles are searched for, in any thread."""

    __slots__ = ("_searches",)

    def __enter__(self) -> None:
        self._searches = gc.isenabled()
        gc.disable()

    def __exit__(self, *error: object) -> None:
        if self._searches:
            gc.enable()


def leave_to_the_end() -> None:
    """Search for no cycles any more, and not at the end of the process either: all that is left goes with it."""
    gc.disable()
    atexit.register(_end)


def _end() -> None:
    # What the search would have closed: files that a script has left open, and that only it holds.
    for file in [o for o in gc.get_objects() if o.__class__ in (io.TextIOWrapper, io.BufferedWriter)]:
        with contextlib.suppress(ValueError, OSError):
            file.flush()
    gc.freeze()
