"""The team: one small pool of threads that share the parts of a kernel, and sleep while there is nothing to share.

Whoever runs a step takes parts itself, and waits only for parts that somebody else has begun: on a busy machine, where
another thread may not get a core for a while, no work waits for it. What the parts are depends on shapes alone, so the
bits of a result are the same for any number of threads.
"""

import functools
import itertools
import os
import pathlib
import threading
from collections.abc import Callable
from queue import SimpleQueue

from lazytensor import config
from lazytensor.system.threads import try_start

Part = Callable[[int, int], object]
"""Runs one part: its number, and the number of the thread, 0 for the one that runs the step."""


class _Job:
    """Parts that are given out one after the other, to whoever asks next."""

    def __init__(self, run: Part, parts: int):
        self.run, self.parts = run, parts
        # Calls of these two are atomic, so that no lock is held while parts are handed out.
        self._next = itertools.count().__next__
        self._finished = itertools.count(1).__next__
        self.end = threading.Lock()
        self.end.acquire()
        self.error: BaseException | None = None

    def work(self, thread: int) -> None:
        """Take parts until there are none."""
        while (part := self._next()) < self.parts:
            try:
                self.run(part, thread)
            except BaseException as error:
                self.error = error
            # Only one of all can be the last.
            if self._finished() == self.parts:
                self.end.release()


class Team:
    """`threads` threads in all, one of which is the caller's; the others start when there is something to share.

    If the system does not start that many threads, `threads` is reduced to those that it did start.
    """

    def __init__(self, threads: int):
        self.threads = threads
        self._jobs: SimpleQueue[tuple[_Job, int]] | None = None
        self.lock = threading.RLock()

    def share(self, run: Part, parts: int) -> None:
        """Run `run(part, thread)` for every part. Raises what a part raises."""
        if parts == 1 or self.threads == 1:
            for part in range(parts):
                run(part, 0)
            return
        with self.lock:
            job = _Job(run, parts)
            jobs = self._jobs or self._start()
            for k in range(1, min(self.threads, parts)):
                jobs.put((job, k))
            job.work(0)
            job.end.acquire()
        if job.error is not None:
            raise job.error

    def _start(self) -> "SimpleQueue[tuple[_Job, int]]":
        self._jobs = SimpleQueue()
        for started in range(1, self.threads):
            if not try_start(threading.Thread(target=_serve, args=(self._jobs,), name="lazywafer", daemon=True)):
                self.threads = started
                break
        return self._jobs


def _serve(jobs: "SimpleQueue[tuple[_Job, int]]") -> None:
    while True:
        job, thread = jobs.get()
        job.work(thread)
        # A job holds arrays of a program, which may be dropped while this thread sleeps.
        del job


def cores() -> int:
    """The cores that this process may use: those of its affinity, and no more than its group's quota pays for."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(count, _group_quota() or count))


@functools.cache
def _group_quota() -> int:
    # Read once: every step that is bound asks, and the files take longer than to bind it.
    return _quota(pathlib.Path("/sys/fs/cgroup"))


def _quota(folder: pathlib.Path) -> int:
    """How many whole cores the control group of this process may keep busy; 0 if there is no limit."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota = (folder / "cpu" / "cpu.cfs_quota_us").read_text(encoding="ascii")
            period = (folder / "cpu" / "cpu.cfs_period_us").read_text(encoding="ascii")
        return 0 if quota == "max" or int(quota) <= 0 else -(-int(quota) // int(period))
    except (OSError, ValueError):
        return 0


_teams: dict[int, Team] = {}
_limit = [0]


def limit(threads: int) -> None:
    """Have programs that are bound from now on run in a team of so many threads, or as before for 0."""
    _limit[0] = threads


def team() -> Team:
    """The team of this process, of as many threads as a script or `LT_THREADS` says, or as there are cores."""
    threads = _limit[0] or config.current().threads or cores()
    if threads not in _teams:
        _teams[threads] = Team(threads)
    return _teams[threads]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_teams.clear)  # threads do not survive a fork
