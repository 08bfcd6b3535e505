"""A thread pool for data-parallel kernels.

The calling thread takes parts too and waits only for parts that another thread has begun, so work never waits for a
thread that has no core. Idle threads sleep. The parts depend only on shapes, so the bits of a result are the same for
any number of threads.
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
"""A function (part, thread) that runs one part. Thread 0 is the calling thread."""


class _Job:
    """The parts of one `share` call. Each free thread takes the next part."""

    def __init__(self, run: Part, parts: int):
        self.run, self.parts = run, parts
        # Calls of these counters are atomic, so no lock is needed to take a part.
        self._next = itertools.count().__next__
        self._finished = itertools.count(1).__next__
        self.end = threading.Lock()
        self.end.acquire()
        self.error: BaseException | None = None

    def work(self, thread: int) -> None:
        """Run parts until all are taken. The thread that finishes the last one releases the lock `end`.

        `thread` is the number of the calling thread. An error of a part is stored in `error`, and the other parts still
        run.
        """
        while (part := self._next()) < self.parts:
            try:
                self.run(part, thread)
            except BaseException as error:
                self.error = error
            # Exactly one thread gets this count.
            if self._finished() == self.parts:
                self.end.release()


class Team:
    """A pool of `threads` threads, including the calling one. The others start with the first work to share.

    If the system starts fewer threads, `threads` is reduced to that number.
    """

    def __init__(self, threads: int):
        self.threads = threads
        self._jobs: SimpleQueue[tuple[_Job, int]] | None = None
        self.lock = threading.RLock()

    def share(self, run: Part, parts: int) -> None:
        """Run `run(part, thread)` for every part in range(parts) and return when all are done.

        If parts raise, the others still run, and then one of the errors is raised.

        With one part or one thread, all parts run in the calling thread, and the first error ends them.
        """
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
    """Run jobs from the queue, as the loop of a worker thread."""
    while True:
        job, thread = jobs.get()
        job.work(thread)
        # Drop the reference: the job keeps arrays of a program alive, and this thread may sleep long.
        del job


def cores() -> int:
    """Return the number of cores this process may use: its CPU affinity, limited by the CPU quota of its
    control group.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(count, _group_quota() or count))


@functools.cache
def _group_quota() -> int:
    # Cached: it is called for every step that is bound, and to read the files takes longer than the binding.
    return _quota(pathlib.Path("/sys/fs/cgroup"))


def _quota(folder: pathlib.Path) -> int:
    """Return the CPU quota of the control group at `folder` in cores, rounded up; 0 if there is no limit."""
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
    """Set the number of threads for programs that are bound from now on. 0 restores the default."""
    _limit[0] = threads


def team() -> Team:
    """Return the thread pool of this process for the current number of threads.

    That is the number of `limit`, else LT_THREADS, else the number of cores.
    """
    threads = _limit[0] or config.current().threads or cores()
    if threads not in _teams:
        _teams[threads] = Team(threads)
    return _teams[threads]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_teams.clear)  # threads do not survive a fork
