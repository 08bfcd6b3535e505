"""Starts threads where the system has some left; without them the work is done by the thread that asks for it."""

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

_warned_reasons: set[str] = set()


def try_start(thread: threading.Thread) -> bool:
    """Start a thread. Returns False if the system starts no more threads, after a warning once in a process."""
    try:
        thread.start()
    except (RuntimeError, MemoryError) as e:
        warn_of_no_thread(e)
        return False
    return True


def warn_of_no_thread(error: BaseException) -> None:
    """Warn, once in a process, that the run goes on without a thread that the system did not start."""
    if not _warned_reasons:
        _warned_reasons.add(str(error))
        warnings.warn(
            f"The system starts no more threads ({error}): the run goes on with those that it has, and is slower. "
            "Raise the limit of processes (ulimit -u), or set LT_THREADS=1.",
            RuntimeWarning,
            stacklevel=4,
        )


def run_all(jobs: Sequence[Callable[[], T]], threads: int) -> list[T]:
    """Return what the jobs return, in their order; at most `threads` threads run them, one of which is the caller's.

    Raises the error of a job when all jobs are over.
    """
    results: dict[int, T] = {}
    errors: list[BaseException] = []
    # Calls of `next` are atomic: each number goes to one thread.
    numbers = iter(range(len(jobs)))

    def work() -> None:
        for number in numbers:
            try:
                results[number] = jobs[number]()
            except BaseException as e:
                errors.append(e)

    others = [threading.Thread(target=work, daemon=True) for _ in range(min(threads, len(jobs)) - 1)]
    started = [other for other in others if try_start(other)]
    work()
    for other in started:
        other.join()
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(jobs))]
