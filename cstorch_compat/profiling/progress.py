"""Progress of a run: a bar on a terminal, and a few lines if the output goes to a file."""

import sys
import time

from lazytensor.display.table import rate_text

try:
    from tqdm import tqdm
except ImportError:  # the optional package is not installed: print lines
    tqdm = None

MAX_PRINTED_PROGRESS_LINES = 5
"""Approximate number of lines printed in a run whose output is no terminal."""


class Progress:
    """The progress of one loop of `total` steps, shown on stderr if `enabled`."""

    def __init__(self, total: int, enabled: bool):
        self.total, self.enabled = total, enabled
        self._started = time.perf_counter()
        self._bar = tqdm(total=total, unit="step", leave=False) if enabled and tqdm and sys.stderr.isatty() else None

    def step(self, done: int) -> None:
        """Show that `done` steps have ended, in the bar.

        Without a bar, print the steps and their rate, about MAX_PRINTED_PROGRESS_LINES times per loop.
        """
        if self._bar is not None:
            self._bar.update(1)
        # Print a few lines only, to keep logs short.
        elif self.enabled and (done == self.total or done % max(1, self.total // MAX_PRINTED_PROGRESS_LINES) == 0):
            rate = rate_text(done / max(time.perf_counter() - self._started, 1e-9), digits=2)
            print(f"step {done}/{self.total}, {rate} steps/s", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Remove the bar at the end of the loop."""
        if self._bar is not None:
            self._bar.close()
