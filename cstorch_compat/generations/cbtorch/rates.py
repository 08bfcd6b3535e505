"""How many samples a second a loop takes in."""

import time


class RateTracker:
    """Counts samples; a rate is in samples a second of the wall clock."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start over."""
        self._started = self._last = time.perf_counter()
        self._all = self._recent = 0

    def add(self, count: int) -> None:
        """Take in samples."""
        self._all += count
        self._recent += count

    def rate(self) -> float:
        """The rate since it was asked for last."""
        now = time.perf_counter()
        rate = self._recent / max(now - self._last, 1e-9)
        self._last, self._recent = now, 0
        return rate

    def global_rate(self) -> float:
        """The rate since the beginning."""
        return self._all / max(time.perf_counter() - self._started, 1e-9)
