"""How far a run is: a bar on a terminal, now and then a line where the output goes to a file."""

import sys
import time

from lazytensor.display.table import rate_text

try:
    from tqdm import tqdm
except ImportError:  # the extra "progress" is not installed: lines do as well
    tqdm = None

MAX_PRINTED_PROGRESS_LINES = 5
"""Lines printed in the course of a run whose output is piped."""


class Progress:
    """Counts the steps of one executor on standard error."""

    def __init__(self, total: int, enabled: bool):
        self.total, self.enabled = total, enabled
        self._started = time.perf_counter()
        self._bar = tqdm(total=total, unit="step", leave=False) if enabled and tqdm and sys.stderr.isatty() else None

    def step(self, done: int) -> None:
        """`done` steps are over."""
        if self._bar is not None:
            self._bar.update(1)
        # Five lines in all, so that the log of a long run stays readable.
        elif self.enabled and (done == self.total or done % max(1, self.total // MAX_PRINTED_PROGRESS_LINES) == 0):
            rate = rate_text(done / max(time.perf_counter() - self._started, 1e-9), digits=2)
            print(f"step {done}/{self.total}, {rate} steps/s", file=sys.stderr, flush=True)

    def close(self) -> None:
        """The run is over, or was left."""
        if self._bar is not None:
            self._bar.close()
